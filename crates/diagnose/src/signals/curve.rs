//! Response curve of a device: its throughput and latency by the number of requests in flight.
//!
//! More requests in flight add throughput until the device is fully parallel; beyond that they only wait. The test compares the
//! deepest level of the curve with the deepest one that is clearly shallower. Throughput grows as depth to the power of e: 1
//! where all requests are served side by side, 0 where the curve is flat. With N completions at a level, the relative standard
//! error of its throughput is √(1/N + 0.05²): counting, and the requests that slices cut off. The curve is flat where e is below
//! 0.3 by two standard errors, and still grows where e is above 0.7 by two.

use crate::signal::{over, ratio};
use whyslow_model::catalogue::{Response, Throughput};
use whyslow_model::window::Change;

/// Minimum number of requests at a level, and minimum share of the busy time, for its throughput to be known.
const REQUESTS: f64 = 50.0;
const BUSY_SHARE: f64 = 0.02;
/// Relative error that slices add to a count.
const SLICE_ERROR: f64 = 0.05;
/// Minimum ratio of depths for two levels to be compared, and maximum ratio of their request sizes.
const DEEPER: f64 = 1.8;
const SAME_SIZE: f64 = 1.25;
/// Growth below which a curve is flat, and above which it still rises.
const FLAT: f64 = 0.3;
const RISING: f64 = 0.7;
/// Minimum number of requests that were alone on the device.
const ALONE: f64 = 20.0;

/// A device at a level of requests in flight.
#[derive(Clone, Copy, Debug)]
struct Level {
    busy: f64,
    depth: f64,
    requests: f64,
    bytes: f64,
}

impl Level {
    fn from_change(change: &Change<'_, Throughput>) -> Option<Self> {
        let busy = ratio(change.grown(|t| t.busy_time)).filter(|busy| *busy > 0.0)?;
        Some(Self {
            busy,
            depth: ratio(change.grown(|t| t.in_flight_time))? / busy,
            requests: change.grown(|t| t.requests)?,
            bytes: change.grown(|t| t.bytes)?,
        })
    }

    fn rate(&self) -> f64 {
        self.requests / self.busy
    }

    fn size(&self) -> f64 {
        self.bytes / self.requests
    }

    /// Returns the relative standard error of its throughput.
    fn error(&self) -> f64 {
        (1.0 / self.requests + SLICE_ERROR.powi(2)).sqrt()
    }
}

/// Levels at which a device's throughput is known, shallowest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve(Vec<Level>);

/// The throughput that more requests in flight do not raise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ceiling {
    /// Requests per second.
    pub(super) requests: f64,
    /// Bytes per second.
    pub(super) bytes: f64,
    /// Minimum number of requests in flight that reaches it.
    pub(super) depth: f64,
}

impl Curve {
    pub(super) fn from_levels<'c, 'w: 'c>(levels: impl Iterator<Item = &'c Change<'w, Throughput>>) -> Self {
        Self::of_levels(levels.filter_map(Level::from_change).collect())
    }

    fn of_levels(mut levels: Vec<Level>) -> Self {
        let busy: f64 = levels.iter().map(|level| level.busy).sum();
        levels.retain(|level| level.requests >= REQUESTS && level.busy >= BUSY_SHARE * busy);
        levels.sort_by(|a, b| a.depth.total_cmp(&b.depth));
        Self(levels)
    }

    /// Returns the deepest of the clearly shallower levels, and the deepest level, if they had requests of the same size.
    fn compared(&self) -> Option<(&Level, &Level)> {
        let deepest = self.0.last()?;
        let shallower = self.0.iter().rfind(|level| level.depth * DEEPER <= deepest.depth)?;
        let sizes = shallower.size() / deepest.size();
        (1.0 / SAME_SIZE..=SAME_SIZE).contains(&sizes).then_some((shallower, deepest))
    }

    /// Returns the exponent by which throughput grows with depth, and its standard error.
    fn exponent(&self) -> Option<(f64, f64)> {
        let (shallower, deepest) = self.compared()?;
        let deeper = (deepest.depth / shallower.depth).ln();
        let error = shallower.error().hypot(deepest.error()) / deeper;
        Some(((deepest.rate() / shallower.rate()).ln() / deeper, error))
    }

    pub(super) fn growth(&self) -> Option<f64> {
        self.exponent().map(|(growth, _)| growth)
    }

    /// Returns true if more requests in flight add no throughput; `None` between flat and rising.
    pub(super) fn is_flat(&self) -> Option<bool> {
        let (growth, error) = self.exponent()?;
        if growth + 2.0 * error < FLAT {
            return Some(true);
        }
        (growth - 2.0 * error > RISING).then_some(false)
    }

    /// Returns the throughput of the flat end of the curve.
    pub(super) fn ceiling(&self) -> Option<Ceiling> {
        let (first, _) = self.is_flat()?.then(|| self.compared())??;
        let flat = || self.0.iter().filter(|level| level.depth >= first.depth);
        let total = |of: fn(&Level) -> f64| flat().map(of).sum::<f64>();
        let busy = total(|level| level.busy);
        let requests = total(|level| level.requests) / busy;
        Some(Ceiling { requests, bytes: total(|level| level.bytes) / busy, depth: first.depth })
    }
}

/// Returns the mean time in the device of reads and writes that were alone on it.
pub(super) fn alone_time<'c, 'w: 'c>(responses: impl Iterator<Item = &'c Change<'w, Response>>) -> Option<f64> {
    let alone = responses.filter(|r| r.key().depth == 1 && matches!(&*r.key().on.operation, "read" | "write"));
    let (requests, time) = alone
        .filter_map(|r| Some((r.grown(|r| r.requests)?, ratio(r.grown(|r| r.device_time))?)))
        .fold((0.0, 0.0), |(requests, time), (more, longer)| (requests + more, time + longer));
    over(Some(time), Some(requests).filter(|requests| *requests >= ALONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the curve of a device with this many channels of 5 ms each, ten seconds at each of these depths.
    fn curve(channels: f64, depths: &[f64]) -> Curve {
        let level = |depth: &f64| {
            let requests = depth.min(channels) / 0.005 * 10.0;
            Level { busy: 10.0, depth: *depth, requests, bytes: requests * 4096.0 }
        };
        Curve::of_levels(depths.iter().map(level).collect())
    }

    #[test]
    fn a_device_whose_channels_are_all_in_use_has_a_ceiling() {
        // Four channels of 5 ms: 800 requests per second, reached with four in flight.
        let ceiling = curve(4.0, &[1.0, 4.0, 8.0, 16.0]).ceiling().unwrap();
        assert!((ceiling.requests - 800.0).abs() < 1e-9 && (ceiling.bytes - 800.0 * 4096.0).abs() < 1e-6);
        assert_eq!(ceiling.depth, 8.0);
        assert_eq!(curve(4.0, &[1.0, 4.0]).is_flat(), Some(false));
    }

    #[test]
    fn a_device_that_serves_all_of_them_at_once_has_none() {
        let parallel = curve(64.0, &[1.0, 4.0, 16.0]);
        assert!((parallel.growth().unwrap() - 1.0).abs() < 1e-9);
        assert_eq!((parallel.is_flat(), parallel.ceiling()), (Some(false), None));
    }

    #[test]
    fn one_depth_and_few_requests_tell_nothing() {
        assert_eq!(curve(4.0, &[16.0]).growth(), None);
        assert_eq!(curve(4.0, &[12.0, 16.0]).growth(), None);
        let few = |requests| Level { busy: 0.1, depth: requests, requests: 20.0, bytes: 20.0 };
        assert_eq!(Curve::of_levels(vec![few(1.0), few(4.0)]).growth(), None);
    }

    #[test]
    fn levels_with_requests_of_other_sizes_are_not_compared() {
        let level = |depth, bytes| Level { busy: 10.0, depth, requests: 1000.0, bytes };
        assert_eq!(Curve::of_levels(vec![level(1.0, 4e6), level(8.0, 4e8)]).is_flat(), None);
        assert_eq!(Curve::of_levels(vec![level(1.0, 4e6), level(8.0, 4e6)]).is_flat(), Some(true));
    }

    #[test]
    fn what_can_be_chance_is_not_known() {
        // √(1/60 + 0.0025) = 0.138 each, 0.196 together, over ln 2: e = 0 ± 0.28, and 0 + 2 x 0.28 is not below 0.3.
        let level = |depth| Level { busy: 1.0, depth, requests: 60.0, bytes: 60.0 };
        assert_eq!(Curve::of_levels(vec![level(1.0), level(2.0)]).is_flat(), None);
    }
}
