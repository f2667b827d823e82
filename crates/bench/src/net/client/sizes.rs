//! The way up through sizes of something until larger ones bring no more, then back to where that began.

use whyslow_model::bench::{NetRun, Size, Sizes};

/// A doubling that brings less than this is none.
const GAIN: f64 = 0.05;
/// Doublings in a row that bring nothing, after which it is known what is enough: one alone may have been bad luck.
const PLATEAU: usize = 2;
/// The share of the most there is that is enough.
const ENOUGH: f64 = 0.95;
/// How many times the noise is clearly more than it.
const CLEARLY: f64 = 2.0;
/// Sizes between the one that is enough and the one before it that are looked at.
const CLOSER: usize = 2;

/// What was found so far.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    points: Vec<Size>,
    /// The largest size that there is.
    most: u32,
    first: u32,
    closer: usize,
}

impl Ladder {
    pub(super) fn new(first: u32, most: u32) -> Self {
        Self { points: Vec::new(), most: most.max(first), first, closer: CLOSER }
    }

    /// The size to look at next; none where all is known that is to be.
    pub(super) fn next(&mut self) -> Option<u32> {
        let Some(last) = self.points.last() else { return Some(self.first) };
        if self.closer == CLOSER && self.is_climbing() && last.bytes < self.most {
            return Some(last.bytes.saturating_mul(2).min(self.most));
        }
        let between = self.between().filter(|_| self.closer > 0)?;
        self.closer -= 1;
        Some(between)
    }

    pub(super) fn add(&mut self, point: Size) {
        let at = self.points.partition_point(|other| other.bytes < point.bytes);
        self.points.insert(at, point);
    }

    /// The kernel grants no larger ones than the last.
    pub(super) fn cap(&mut self) {
        self.most = self.points.last().map_or(self.most, |last| last.bytes);
    }

    /// Whether the last doublings brought anything.
    fn is_climbing(&self) -> bool {
        if self.points.len() <= PLATEAU {
            return true;
        }
        let (before, last) = self.points.split_at(self.points.len() - PLATEAU);
        let most = best(before);
        last.iter().any(|point| point.bandwidth > most * (1.0 + GAIN))
    }

    /// A size halfway, by ratio, between the one that is enough and the one before.
    fn between(&self) -> Option<u32> {
        let enough = self.points.iter().position(|point| self.is_enough(point))?;
        let below = f64::from(self.points[enough.checked_sub(1)?].bytes);
        Some((below * f64::from(self.points[enough].bytes)).sqrt() as u32)
    }

    fn is_enough(&self, point: &Size) -> bool {
        point.bandwidth >= ENOUGH * best(&self.points)
    }

    /// Whether size makes a difference beyond noise. A larger one should bring no less: where it did, that was noise, and what
    /// the largest bring over the smallest has to be clearly more.
    fn matters(&self) -> bool {
        let (Some(first), most) = (self.points.first(), best(&self.points)) else { return false };
        let drop = |(at, point): (usize, &Size)| {
            let larger = self.points[at..].iter().map(|larger| larger.bandwidth).fold(f64::INFINITY, f64::min);
            1.0 - larger / point.bandwidth
        };
        let noise =
            self.points.iter().enumerate().filter(|(_, point)| point.bandwidth > 0.0).map(drop).fold(0.0, f64::max);
        most > 0.0 && 1.0 - first.bandwidth / most > GAIN.max(CLEARLY * noise)
    }

    /// What was found. `automatic` is what the kernel's own choice brought.
    pub(super) fn sizes(self, automatic: Option<f64>) -> Sizes {
        let enough = self.points.iter().find(|point| self.is_enough(point)).filter(|_| self.matters());
        let needed = enough.map(|point| point.bytes);
        // The largest of all is the first that is enough: the next might bring more.
        let open = needed.is_some() && needed == self.points.last().map(|last| last.bytes);
        Sizes { automatic, needed, product: None, open, points: self.points }
    }
}

fn best(points: &[Size]) -> f64 {
    points.iter().map(|point| point.bandwidth).fold(0.0, f64::max)
}

/// A size, of a run; none where it told nothing.
pub(super) fn point(bytes: u32, run: &NetRun) -> Option<Size> {
    let cost = |end: Option<&whyslow_model::bench::NetEnd>| end.and_then(|end| end.cost_per_byte());
    let (send_cost, receive_cost) = (cost(run.sender()), cost(run.receiver()));
    Some(Size { bytes, bandwidth: run.bandwidth?, send_cost, receive_cost })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path on which a buffer brings its size each round trip, up to what the link carries.
    fn climb(product: u32, most: u32) -> (Sizes, Vec<u32>) {
        let (mut ladder, mut tried) = (Ladder::new(16 << 10, most), Vec::new());
        while let Some(bytes) = ladder.next() {
            tried.push(bytes);
            let bandwidth = f64::from(bytes.min(product)) * 50.0;
            ladder.add(Size { bytes, bandwidth, ..Size::default() });
        }
        (ladder.sizes(None), tried)
    }

    #[test]
    fn the_buffer_needed_is_the_bandwidth_delay_product() {
        for product in [20_000, 100_000, 250_000, 1_000_000, 5_000_000] {
            let (sizes, tried) = climb(product, 64 << 20);
            let needed = f64::from(sizes.needed.unwrap());
            let ratio = needed / f64::from(product);
            assert!((0.95..1.2).contains(&ratio), "{product}: {needed}, tried {tried:?}");
            assert!(!sizes.open);
        }
    }

    #[test]
    fn no_more_is_tried_than_tells_something() {
        assert_eq!(climb(1, 64 << 20).1, [16384, 32768, 65536]);
        assert_eq!(climb(65536, 64 << 20).1, [16384, 32768, 65536, 131072, 262144, 46340, 55108]);
    }

    #[test]
    fn where_larger_ones_are_not_to_be_had_it_is_open() {
        let (sizes, tried) = climb(1 << 30, 100_000);
        assert_eq!(tried[..4], [16384, 32768, 65536, 100_000]);
        assert!(sizes.open);
        assert_eq!(sizes.needed, Some(100_000));
    }

    #[test]
    fn noise_is_no_reason_for_a_size() {
        let sizes = |bandwidths: &[f64]| {
            let points = bandwidths.iter().zip(1..).map(|(&bandwidth, n)| Size {
                bytes: 268 << n,
                bandwidth,
                ..Size::default()
            });
            Ladder { points: points.collect(), ..Ladder::new(536, 9000) }.sizes(None)
        };
        // All the same, noise, more noise than effect.
        for flat in [&[100.0, 100.0, 100.0][..], &[104.0, 96.0, 105.0, 99.0], &[80.0, 110.0, 85.0, 112.0]] {
            assert_eq!(sizes(flat).needed, None, "{flat:?}");
            assert!(!sizes(flat).open);
        }
        assert_eq!(sizes(&[50.0, 100.0, 98.0, 101.0]).needed, Some(1072));
    }
}
