//! How the latency of a request depends on the number in flight.

use crate::signal::ratio;
use whyslow_model::catalogue::{Disk, Request};
use whyslow_model::value::Counter;
use whyslow_model::window::Change;

/// Minimum number of requests and of steps for a conclusive result.
const REQUESTS: f64 = 50.0;
const STEPS: usize = 4;
/// Minimum spread of the depths, as standard deviation over mean: a steady number of requests in flight says nothing about
/// another number. Requests that are completed and replaced several at a time vary it by less than this, and wait equally long.
const VARIES: f64 = 0.2;

/// Sums over requests, or over steps weighted by their number of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: f64,
    depth: f64,
    depth_squared: f64,
    time: f64,
    depth_x_time: f64,
}

impl Sums {
    fn with(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            depth: self.depth + other.depth,
            depth_squared: self.depth_squared + other.depth_squared,
            time: self.time + other.time,
            depth_x_time: self.depth_x_time + other.depth_x_time,
        }
    }

    /// Returns the relative growth of the latency per relative growth of the depth, from the regression line through all points:
    /// 0 where the device serves requests in parallel, 1 where each waits for all that came before it.
    fn scaling(&self) -> Option<f64> {
        let (depth, time) = (self.depth / self.count, self.time / self.count);
        let variance = self.depth_squared / self.count - depth * depth;
        if variance <= (VARIES * depth).powi(2) {
            return None;
        }
        let slope = (self.depth_x_time / self.count - depth * time) / variance;
        let scaling = slope * depth / time;
        scaling.is_finite().then_some(scaling.clamp(0.0, 1.0))
    }
}

/// Returns the scaling of reads and writes that BPF saw one by one.
pub(super) fn scaling(requests: &[&Change<'_, Request>]) -> Option<f64> {
    let of = |r: &&Change<'_, Request>| {
        let grown = |of: fn(&Request) -> Counter| r.grown(of);
        Some(Sums {
            count: grown(|r| r.depth_requests)?,
            depth: grown(|r| r.depth)?,
            depth_squared: grown(|r| r.depth_squared)?,
            time: ratio(grown(|r| r.depth_device_time))?,
            depth_x_time: grown(|r| r.depth_x_device_time)? / 1e6,
        })
    };
    let transfers = requests.iter().filter(|r| matches!(&*r.key().operation, "read" | "write"));
    let sums = transfers.filter_map(of).reduce(Sums::with)?;
    if sums.count < REQUESTS { None } else { sums.scaling() }
}

/// Returns the scaling of the means of the window's steps. Under a steady load it is 1 whatever makes requests take longer
/// (Little's law), so that only a low value is evidence.
pub(super) fn scaling_by_steps(disk: &Change<'_, Disk>) -> Option<f64> {
    let both = |d: &Disk, a: fn(&Disk) -> Counter, b: fn(&Disk) -> Counter| -> Counter {
        a(d).get().zip(b(d).get()).map_or_else(Counter::default, |(a, b)| (a + b).into())
    };
    let or = |a: Counter, b: Counter| if a.get().is_some() { a } else { b };
    let transfers = disk.steps(|d| or(both(d, |d| d.reads, |d| d.writes), d.transfers));
    let times = disk.steps(|d| or(both(d, |d| d.read_time, |d| d.write_time), d.transfer_time));
    let queued = disk.steps(|d| d.weighted_time);
    let busy = disk.steps(|d| d.busy_time);
    let steps: Vec<Sums> = transfers
        .zip(times)
        .zip(queued.zip(busy))
        .filter_map(|(((_, count), (_, time)), ((_, queued), (_, busy)))| {
            let (count, depth) = (count.filter(|n| *n >= 1.0)?, queued? / busy.filter(|b| *b > 0.0)?);
            let time = time? / 1e9;
            Some(Sums {
                count,
                depth: depth * count,
                depth_squared: depth * depth * count,
                time,
                depth_x_time: depth * time,
            })
        })
        .collect();
    let sums = steps.iter().copied().reduce(Sums::with)?;
    if steps.len() < STEPS || sums.count < REQUESTS { None } else { sums.scaling() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling_of(requests: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
        let one =
            |(depth, time)| Sums { count: 1.0, depth, depth_squared: depth * depth, time, depth_x_time: depth * time };
        requests.into_iter().map(one).reduce(Sums::with)?.scaling()
    }

    #[test]
    fn requests_side_by_side_take_as_long_as_one_alone() {
        let scaling = scaling_of((1..=8).map(|depth| (f64::from(depth), 0.005))).unwrap();
        assert!(scaling < 1e-9, "{scaling}");
    }

    #[test]
    fn requests_one_behind_the_other_take_as_long_as_all_before_them() {
        let scaling = scaling_of((1..=8).map(|depth| (f64::from(depth), 0.005 * f64::from(depth)))).unwrap();
        assert!((scaling - 1.0).abs() < 1e-9, "{scaling}");
    }

    #[test]
    fn a_steady_number_in_flight_tells_nothing() {
        assert_eq!(scaling_of((0..100).map(|n| (f64::from(15 + n % 2), 0.08))), None);
    }
}
