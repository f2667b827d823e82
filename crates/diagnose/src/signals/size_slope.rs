//! Growth of a read's latency with its size: its transfer time, without the fixed cost of each read.
//!
//! Reads are compared with others that had as many requests in flight beside them, and that were as adjacent: a seek, or another
//! request, takes its time whatever the size. The slope is that of the least squares within these groups; its standard error
//! follows from the spread of the latencies of single reads (Draper and Smith, Applied Regression Analysis, 1.4).

use crate::signal::ratio;
use std::collections::BTreeMap;
use whyslow_model::catalogue::Response;
use whyslow_model::histogram::Histogram;
use whyslow_model::window::Change;

/// Minimum number of reads of a size.
const READS: f64 = 5.0;
/// Interquartile range of a normal distribution, in standard deviations.
const QUARTILES: f64 = 1.349;
/// Minimum standard deviation, as a share of the median: the differences between sizes beyond chance.
const LEAST_DEVIATION: f64 = 0.05;

/// Reads of a size, as means.
#[derive(Clone, Copy, Debug)]
struct Reads {
    count: f64,
    bytes: f64,
    seconds: f64,
}

impl Reads {
    fn from_class(class: &Change<'_, Response>) -> Option<Self> {
        let count = class.grown(|r| r.requests).filter(|count| *count >= READS)?;
        let (bytes, seconds) = (class.grown(|r| r.bytes)?, ratio(class.grown(|r| r.device_time))?);
        Some(Self { count, bytes: bytes / count, seconds: seconds / count })
    }
}

/// Time that each further byte of a read takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SizeSlope {
    /// Seconds per byte.
    pub(super) per_byte: f64,
    /// Standard error of `per_byte`.
    pub(super) error: f64,
}

impl SizeSlope {
    /// Computes the slope from the reads of a device. `times` are their latencies in the device.
    pub(super) fn from_classes<'c, 'w: 'c>(
        classes: impl Iterator<Item = &'c Change<'w, Response>>,
        times: &Histogram,
    ) -> Option<Self> {
        let mut groups: BTreeMap<(&str, u32), Vec<Reads>> = BTreeMap::new();
        for class in classes.filter(|class| &*class.key().on.operation == "read") {
            groups.entry((&class.key().access, class.key().depth)).or_default().extend(Reads::from_class(class));
        }
        Self::within(groups.values(), deviation(times)?)
    }

    fn within<'g>(groups: impl Iterator<Item = &'g Vec<Reads>>, deviation: f64) -> Option<Self> {
        let (mut squares, mut products) = (0.0, 0.0);
        for group in groups.filter(|group| group.len() > 1) {
            let count: f64 = group.iter().map(|reads| reads.count).sum();
            let mean = |of: fn(&Reads) -> f64| group.iter().map(|reads| reads.count * of(reads)).sum::<f64>() / count;
            let (bytes, seconds) = (mean(|reads| reads.bytes), mean(|reads| reads.seconds));
            squares += group.iter().map(|reads| reads.count * (reads.bytes - bytes).powi(2)).sum::<f64>();
            let product = |reads: &Reads| reads.count * (reads.bytes - bytes) * (reads.seconds - seconds);
            products += group.iter().map(product).sum::<f64>();
        }
        (squares > 0.0).then(|| Self { per_byte: products / squares, error: deviation / squares.sqrt() })
    }

    /// Returns the bytes per second in reads of `size` bytes, with as many in flight as `now`, and the slope larger by this many
    /// standard errors. A read takes no less time than a smaller one, and no more than in proportion to its bytes. Assumes that
    /// the transfers of several reads share one path: together they take no less time than their bytes.
    pub(super) fn rate(&self, size: f64, now: Stream, errors: f64) -> f64 {
        let per_byte = (self.per_byte + errors * self.error).clamp(0.0, now.seconds / now.size);
        let seconds = now.seconds + per_byte * (size - now.size).max(0.0);
        let side_by_side = now.in_flight() * size / seconds;
        side_by_side.min(1.0 / per_byte)
    }
}

/// Reads of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Mean size, in bytes.
    pub(super) size: f64,
    /// Mean time in the device, in seconds.
    pub(super) seconds: f64,
    /// Bytes per second.
    pub(super) rate: f64,
}

impl Stream {
    /// Returns the mean number in flight (Little's law).
    fn in_flight(self) -> f64 {
        self.rate / self.size * self.seconds
    }
}

/// Returns the standard deviation of times, estimated robustly against outliers.
fn deviation(times: &Histogram) -> Option<f64> {
    let [first, median, third] = [0.25, 0.5, 0.75].map(|share| ratio(times.quantile(share)));
    Some(((third? - first?) / QUARTILES).max(LEAST_DEVIATION * median?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: f64 = 1024.0;

    fn reads(count: f64, kib: f64, seconds: f64) -> Reads {
        Reads { count, bytes: kib * KIB, seconds }
    }

    #[test]
    fn the_slope_is_what_further_bytes_take() {
        // 4 ms, and 1 ms for each 100 KiB.
        let group = vec![reads(900.0, 50.0, 0.0045), reads(100.0, 250.0, 0.0065)];
        let slope = SizeSlope::within([&group].into_iter(), 0.0005).unwrap();
        assert!((slope.per_byte * 100.0 * KIB - 0.001).abs() < 1e-9);
        // The mean size is 70 KiB: √(900 x 20² + 100 x 180²) = 1897 KiB, and 0.5 ms / 1897 KiB = 0.2635 us per KiB.
        assert!((slope.error * KIB * 1e6 - 0.2635).abs() < 1e-3, "{}", slope.error * KIB * 1e6);
        let of = |in_flight: f64, errors: f64| {
            let now = Stream { size: 50.0 * KIB, seconds: 0.0045, rate: in_flight * 50.0 * KIB / 0.0045 };
            slope.rate(1050.0 * KIB, now, errors) / KIB
        };
        // One takes 14.5 ms, and with the slope two errors larger 0.527 ms more.
        assert!((of(1.0, 0.0) - 72_414.0).abs() < 1.0, "{}", of(1.0, 0.0));
        assert!((of(1.0, 2.0) - 69_874.0).abs() < 10.0, "{}", of(1.0, 2.0));
        // Two would bring 145 MiB/s, but 100 KiB take 1 ms.
        assert!((of(2.0, 0.0) - 100_000.0).abs() < 1.0, "{}", of(2.0, 0.0));
    }

    #[test]
    fn only_reads_of_a_group_are_compared() {
        // Those at random places take 5 ms longer, and happen to be larger.
        let adjacent = vec![reads(100.0, 64.0, 0.001)];
        let random = vec![reads(100.0, 128.0, 0.006)];
        assert_eq!(SizeSlope::within([&adjacent, &random].into_iter(), 0.0001), None);
    }

    #[test]
    fn a_read_takes_no_less_than_a_smaller_one_and_no_more_than_its_share() {
        let slope = SizeSlope { per_byte: -1e-9, error: 1e-9 };
        let rate = |errors| slope.rate(1000.0 * KIB, Stream { size: 100.0 * KIB, seconds: 0.001, rate: 1e8 }, errors);
        let in_flight = 1e8 / (100.0 * KIB) * 0.001;
        assert!((rate(0.0) / (in_flight * 1000.0 * KIB / 0.001) - 1.0).abs() < 1e-9);
        assert!((rate(100.0) / (100.0 * KIB / 0.001) - 1.0).abs() < 0.03, "the rate of now: {}", rate(100.0));
    }
}
