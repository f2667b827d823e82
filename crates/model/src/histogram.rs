//! Distributions that can be added and subtracted: log-linear buckets, 32 to an octave.
//!
//! Values below 64 are counted exactly; above, a bucket is at most 1/32 as wide as its values, so that its middle is off by
//! less than 1.6 %. Values are whole numbers: times in nanoseconds, sizes in bytes or sectors. BPF programs use the same
//! arithmetic (`bucket_of` in crates/sense/bpf/kernel.h).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Values below this are counted exactly, before buckets widen: two octaves' worth of buckets.
const EXACT: u64 = 64;
/// Buckets per octave.
const SUB: u32 = 32;

/// A histogram: cumulative in a Snapshot, like a counter; a difference in a Window.
///
/// Absent until set: a histogram that was not read is different from an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Option<Vec<(u32, u64)>>")]
pub struct Histogram(Option<Vec<(u32, u64)>>);

/// Reads counts from a document, in any order; fails if their sum overflows.
impl TryFrom<Option<Vec<(u32, u64)>>> for Histogram {
    type Error = &'static str;

    fn try_from(counts: Option<Vec<(u32, u64)>>) -> Result<Self, Self::Error> {
        let Some(counts) = counts else { return Ok(Self(None)) };
        let total = counts.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
        total.map(|_| Self::from_counts(counts)).ok_or("a histogram of more values than can be counted")
    }
}

/// Returns the bucket that counts a value.
pub fn bucket_of(value: u64) -> u32 {
    if value < EXACT {
        return value as u32;
    }
    let shift = value.ilog2() - SUB.ilog2();
    shift * SUB + (value >> shift) as u32
}

/// Returns the smallest value of a bucket and the number of values it spans; 0 values beyond the last bucket.
pub fn span(bucket: u32) -> (u64, u64) {
    match (bucket / SUB).checked_sub(1) {
        None | Some(0) => (u64::from(bucket), 1),
        Some(shift) => {
            let shift = shift.min(u64::BITS - SUB.ilog2() - 1);
            (u64::from(bucket % SUB + SUB) << shift, 1 << shift)
        }
    }
}

impl Histogram {
    /// Creates a histogram from counts by bucket, in any order; empty buckets may be omitted.
    pub fn from_counts(counts: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let mut buckets: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        buckets.sort_unstable();
        // No value is in a bucket beyond the last: the data is damaged.
        buckets.retain(|(bucket, _)| *bucket <= bucket_of(u64::MAX));
        buckets.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        Self(Some(buckets))
    }

    /// Creates a histogram of these values.
    pub fn from_values(values: impl IntoIterator<Item = u64>) -> Self {
        Self::from_counts(values.into_iter().map(|value| (bucket_of(value), 1)))
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        let buckets = self.0.get_or_insert_default();
        let bucket = bucket_of(value);
        match buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => buckets[at].1 = buckets[at].1.saturating_add(1),
            Err(at) => buckets.insert(at, (bucket, 1)),
        }
    }

    /// Returns the non-empty buckets, in order; `None` if the histogram was not read.
    pub fn buckets(&self) -> Option<&[(u32, u64)]> {
        self.0.as_deref()
    }

    /// Returns the number of values; `None` if the histogram was not read.
    pub fn count(&self) -> Option<u64> {
        Some(self.0.as_ref()?.iter().map(|(_, count)| count).sum())
    }

    /// Returns the quantile `q` (0..1): the middle of its bucket. `None` without values.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let buckets = self.0.as_ref()?;
        let rank = (q.clamp(0.0, 1.0) * self.count()? as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        buckets.iter().find_map(|(bucket, count)| {
            below += count;
            (below >= rank).then(|| middle(*bucket))
        })
    }

    /// Returns the mean, with each value taken as the middle of its bucket. `None` without values.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count().filter(|count| *count > 0)?;
        let sum: f64 = self.0.as_ref()?.iter().map(|(bucket, n)| middle(*bucket) * *n as f64).sum();
        Some(sum / count as f64)
    }

    /// Returns the sum of both. A histogram that was not read adds nothing.
    pub fn merged(&self, other: &Self) -> Self {
        match (self.buckets(), other.buckets()) {
            (Some(a), Some(b)) => Self::from_counts(a.iter().chain(b).copied()),
            (None, _) => other.clone(),
            (_, None) => self.clone(),
        }
    }

    /// Returns the buckets whose counts differ from those of `earlier`, in order: bucket, count then, count now. Treats
    /// a histogram that was not read as empty.
    pub fn changes(&self, earlier: &Self) -> Vec<(u32, u64, u64)> {
        let (mut now, mut then) = (self.iter().peekable(), earlier.iter().peekable());
        let mut changes = Vec::new();
        loop {
            let next = match (then.peek(), now.peek()) {
                (None, None) => return changes,
                (Some((then, _)), Some((now, _))) => *then.min(now),
                (Some((bucket, _)), None) | (None, Some((bucket, _))) => *bucket,
            };
            let before = then.next_if(|(bucket, _)| *bucket == next).map_or(0, |(_, count)| count);
            let after = now.next_if(|(bucket, _)| *bucket == next).map_or(0, |(_, count)| count);
            if before != after {
                changes.push((next, before, after));
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.0.iter().flatten().copied()
    }

    /// Returns the growth since `earlier`; `None` if either was not read, or a count fell, as after a reset.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let (now, mut then) = (self.buckets()?, earlier.buckets()?.iter().peekable());
        let mut grown = Vec::new();
        for (bucket, count) in now {
            let before = then.next_if(|(b, _)| b == bucket).map_or(0, |(_, count)| *count);
            grown.push((*bucket, count.checked_sub(before)?));
        }
        // A bucket has disappeared.
        then.next().is_none().then(|| Self::from_counts(grown))
    }
}

/// Returns the middle of a bucket's values.
pub fn middle(bucket: u32) -> f64 {
    let (first, width) = span(bucket);
    first as f64 + (width - 1) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_values_are_exact() {
        let h = Histogram::from_values(0..64);
        assert_eq!((h.quantile(0.5), h.quantile(1.0), h.count()), (Some(31.0), Some(63.0), Some(64)));
    }

    #[test]
    fn buckets_follow_one_another() {
        for bucket in 0..bucket_of(u64::MAX) {
            let (first, width) = span(bucket);
            assert_eq!((bucket_of(first), bucket_of(first + width - 1)), (bucket, bucket));
            assert_eq!(span(bucket + 1).0, first + width);
        }
    }

    #[test]
    fn changes_are_told_in_both_directions() {
        let before = Histogram::from_counts([(1, 5), (2, 5), (9, 1)]);
        let after = Histogram::from_counts([(0, 1), (1, 5), (2, 7)]);
        assert_eq!(after.changes(&before), [(0, 0, 1), (2, 5, 7), (9, 1, 0)]);
        assert_eq!(after.changes(&Histogram::default()), [(0, 0, 1), (1, 0, 5), (2, 0, 7)]);
        assert_eq!(before.changes(&before), []);
    }

    #[test]
    fn a_window_holds_what_came_in_it() {
        let before = Histogram::from_values([5, 1000]);
        let after = Histogram::from_values([5, 1000, 1000, 70_000]);
        assert_eq!(after.since(&before), Some(Histogram::from_values([1000, 70_000])));
        assert_eq!(before.since(&after), None, "began anew");
        assert_eq!(after.since(&Histogram::default()), None, "not read");
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn values_are_counted_one_by_one() {
        let mut h = Histogram::default();
        [1000, 5, 1000].into_iter().for_each(|value| h.add(value));
        assert_eq!(h, Histogram::from_values([5, 1000, 1000]));
    }

    proptest! {
        #[test]
        fn the_middle_is_off_by_less_than_two_percent(value: u64) {
            let error = (middle(bucket_of(value)) - value as f64).abs();
            prop_assert!(error <= value as f64 / 63.0);
        }

        #[test]
        fn parts_add_up(a in prop::collection::vec(any::<u64>(), 0..50), b in prop::collection::vec(any::<u64>(), 0..50)) {
            let (x, y) = (Histogram::from_values(a.clone()), Histogram::from_values(b.clone()));
            let both = Histogram::from_values(a.into_iter().chain(b));
            prop_assert_eq!(&x.merged(&y), &both);
            prop_assert_eq!(both.since(&x), Some(y));
        }

        #[test]
        fn no_counts_make_it_panic(counts in prop::collection::vec(any::<(u32, u64)>(), 0..50), q: f64) {
            let h = Histogram::from_counts(counts.into_iter().map(|(b, n)| (b, n >> 8)));
            let _ = (h.quantile(q), h.mean(), h.count());
        }
    }
}
