//! Sample times, and the intervals of a chart's time axis.

use whyslow_model::row::SampleTime;

const SECOND: i64 = 1_000_000_000;
/// A step between samples is a gap if it is longer than this many times the median of the steps around it: samples are missing.
const GAP: f64 = 2.5;
/// Number of steps before it, and after it, that count.
const AROUND: usize = 8;
/// With fewer steps around it, the usual length is unknown.
const FEWEST: usize = 2;
/// Lengths of intervals, in seconds. Longer intervals are whole days.
const WIDTHS: [i64; 20] =
    [1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200];
const DAY: i64 = 86_400;

/// Samples, ordered by boot and time since boot.
pub struct Samples {
    times: Vec<SampleTime>,
    /// For each sample, the number of gaps and reboots before it.
    stretches: Vec<usize>,
}

impl Samples {
    /// Divides samples into stretches, at reboots and, with `finds_gaps`, at gaps. Captures have readings at irregular times, so
    /// that gaps cannot be found in them.
    pub fn new(times: Vec<SampleTime>, finds_gaps: bool) -> Self {
        let step = |pair: &[SampleTime]| {
            let step = pair[1].clock.checked_sub(pair[0].clock).filter(|step| *step > 0);
            step.filter(|_| pair[0].boot == pair[1].boot)
        };
        let steps: Vec<Option<u64>> = times.windows(2).map(step).collect();
        let is_gap = |at: usize| steps[at].is_none_or(|step| finds_gaps && is_long(step, &steps, at));
        let mut stretch = 0;
        let stretches = (0..times.len()).map(|at| {
            stretch += usize::from(at > 0 && is_gap(at - 1));
            stretch
        });
        Self { stretches: stretches.collect(), times }
    }

    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    /// Times of the samples.
    pub fn times(&self) -> &[SampleTime] {
        &self.times
    }

    /// Returns the nanoseconds from one sample to a later one; `None` across a gap or a reboot.
    pub fn step(&self, from: usize, to: usize) -> Option<u64> {
        let (a, b) = (self.times.get(from)?, self.times.get(to)?);
        (self.stretches[from] == self.stretches[to]).then_some(())?;
        b.clock.checked_sub(a.clock).filter(|step| *step > 0)
    }

    /// Returns the last sample of `from..=until` before a gap or a reboot.
    pub(crate) fn last_without_gap(&self, from: usize, until: usize) -> usize {
        let own = self.stretches[from];
        from + self.stretches[from..=until].partition_point(|stretch| *stretch == own) - 1
    }

    fn at(&self, sample: usize) -> i64 {
        self.times[sample].at
    }
}

/// Returns true if a step is much longer than those around it, up to a reboot. The median of those is the usual interval, even if
/// the interval changes here or there are other gaps among them.
fn is_long(step: u64, steps: &[Option<u64>], at: usize) -> bool {
    let known = |step: &Option<u64>| *step;
    let before = steps[..at].iter().rev().map_while(known).take(AROUND);
    let after = steps[at + 1..].iter().map_while(known).take(AROUND);
    let mut around: Vec<u64> = before.chain(after).collect();
    if around.len() < FEWEST {
        return false;
    }
    let middle = around.len() / 2;
    let (_, median, _) = around.select_nth_unstable(middle);
    step as f64 > GAP * *median as f64
}

/// Consecutive intervals. Each begins at the end of the previous one.
pub(crate) struct Axis {
    /// Nanoseconds since 1970, in ascending order.
    ends: Vec<i64>,
    /// Index of the interval of each sample.
    of_sample: Vec<usize>,
    /// True if each sample has its own interval.
    pub(crate) is_exact: bool,
}

impl Axis {
    /// Creates one interval per sample if there are at most `most`; otherwise about `most` intervals of equal length.
    pub(crate) fn new(samples: &Samples, most: usize) -> Self {
        let mut ends: Vec<i64> = samples.times.iter().map(|time| time.at).collect();
        let gaps: Vec<i64> = (1..samples.len())
            .filter(|&at| samples.stretches[at] != samples.stretches[at - 1])
            .filter_map(|at| empty_end(samples.at(at - 1), samples.at(at)))
            .collect();
        ends.extend(gaps);
        ends.sort_unstable();
        ends.dedup();
        let is_exact = ends.len() <= most.max(1);
        if !is_exact {
            ends = regular(ends[0], ends[ends.len() - 1], most.max(1));
        }
        Self::with_ends(samples, ends, is_exact)
    }

    /// Creates one interval per sample, in the order of the samples.
    pub(crate) fn of_each(samples: &Samples) -> Self {
        let ends = samples.times.iter().map(|time| time.at).collect();
        Self { ends, of_sample: (0..samples.len()).collect(), is_exact: true }
    }

    fn with_ends(samples: &Samples, ends: Vec<i64>, is_exact: bool) -> Self {
        let last = ends.len().saturating_sub(1);
        let interval = |time: &SampleTime| ends.partition_point(|end| *end < time.at).min(last);
        let of_sample = samples.times.iter().map(interval).collect();
        Self { ends, of_sample, is_exact }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the index of a sample's interval.
    pub(crate) fn interval(&self, sample: usize) -> usize {
        self.of_sample[sample]
    }

    /// Returns the intervals between two samples, each with its share of the time between them.
    pub(crate) fn parts(&self, samples: &Samples, from: usize, to: usize) -> impl Iterator<Item = (usize, f64)> {
        let (first, last) = (self.of_sample[from], self.of_sample[to]);
        let (start, end) = (samples.at(from), samples.at(to));
        // The wall clock may have been set back.
        let is_whole = first >= last || start >= end;
        let range = if is_whole { last..=last } else { first..=last };
        range.filter_map(move |interval| {
            if is_whole {
                return Some((interval, 1.0));
            }
            let after = interval.checked_sub(1).map_or(i64::MIN, |before| self.ends[before]).max(start);
            let until = self.ends[interval].min(end);
            (until > after).then(|| (interval, (until - after) as f64 / (end - start) as f64))
        })
    }

    /// Returns the ends of the intervals, in seconds since 1970.
    pub(crate) fn seconds(&self) -> Vec<f64> {
        // To the millisecond: more precision has no use and takes space.
        self.ends.iter().map(|end| (*end as f64 / 1e6).round() / 1e3).collect()
    }

    /// Marks the samples whose histogram counts are needed: the first of each stretch, and the last of each interval.
    pub(crate) fn samples_for_counts(&self, samples: &Samples) -> Vec<bool> {
        let last = samples.len().saturating_sub(1);
        let is_wanted = |at: usize| {
            let is_first = at == 0 || samples.stretches[at] != samples.stretches[at - 1];
            let is_last = at == last
                || samples.stretches[at] != samples.stretches[at + 1]
                || self.of_sample[at] != self.of_sample[at + 1];
            is_first || is_last
        };
        (0..samples.len()).map(is_wanted).collect()
    }
}

/// Returns the end of an empty interval in the middle of a gap, so that no line is drawn across the gap.
fn empty_end(before: i64, after: i64) -> Option<i64> {
    let middle = before + after.checked_sub(before)? / 2;
    (before < middle && middle < after).then_some(middle)
}

/// Returns the ends of regular intervals, from before the first time to the last. There are about `most` at most.
fn regular(first: i64, last: i64, most: usize) -> Vec<i64> {
    let seconds = (last - first) / SECOND;
    let least = seconds / i64::try_from(most).unwrap_or(i64::MAX) + 1;
    let width = WIDTHS.into_iter().find(|width| *width >= least).unwrap_or((least / DAY + 1) * DAY) * SECOND;
    let end = |time: i64| (time.div_euclid(width) + i64::from(time.rem_euclid(width) > 0)) * width;
    let count = (end(last) - end(first)) / width;
    (0..=count).map(|at| end(first) + at * width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second, in nanoseconds.
    const NS: u64 = SECOND as u64;

    fn samples(seconds: &[i64]) -> Samples {
        let time = |second: &i64| SampleTime { at: second * SECOND, clock: (second * SECOND) as u64, boot: 0 };
        Samples::new(seconds.iter().map(time).collect(), true)
    }

    #[test]
    fn few_samples_have_an_interval_each_and_a_gap_an_empty_one() {
        let samples = samples(&[10, 11, 12, 20, 21]);
        let axis = Axis::new(&samples, 10);
        assert_eq!(axis.seconds(), [10.0, 11.0, 12.0, 16.0, 20.0, 21.0]);
        assert_eq!((0..5).map(|sample| axis.interval(sample)).collect::<Vec<_>>(), [0, 1, 2, 4, 5]);
        assert_eq!([(1, 2), (2, 3), (3, 4)].map(|(from, to)| samples.step(from, to)), [Some(NS), None, Some(NS)]);
    }

    #[test]
    fn missed_samples_are_a_gap_wherever_they_are_and_however_often() {
        let gaps = |seconds: &[i64]| {
            let samples = samples(seconds);
            (1..samples.len())
                .filter(|&at| samples.step(at - 1, at).is_none())
                .map(|at| seconds[at])
                .collect::<Vec<_>>()
        };
        assert_eq!(gaps(&[0, 5, 6, 7, 8]), [5], "the first step");
        assert_eq!(gaps(&[0, 1, 2, 7]), [7], "the last one");
        assert_eq!(gaps(&[0, 1, 2, 5, 6, 9, 10, 11]), [5, 9], "one soon after another");
        assert_eq!(gaps(&[0, 1, 3, 4, 5]), [0; 0], "a single sample that came late, or not at all");
        assert_eq!(gaps(&[0, 5]), [0; 0], "that may be the interval");
        assert_eq!(gaps(&[0, 1, 6]), [0; 0], "either may be");
    }

    #[test]
    fn consecutive_samples_end_at_a_gap() {
        let samples = samples(&[0, 1, 2, 3, 60, 61, 62]);
        let last = |from, until| samples.last_without_gap(from, until);
        assert_eq!([last(0, 2), last(1, 6), last(4, 6), last(3, 3)], [2, 3, 6, 3]);
    }

    #[test]
    fn another_interval_between_samples_is_no_gap() {
        let seconds: Vec<i64> = (0..10).chain((10..100).step_by(10)).chain(100..110).collect();
        let samples = samples(&seconds);
        assert!((1..samples.len()).all(|at| samples.step(at - 1, at).is_some()));
    }

    #[test]
    fn many_samples_share_intervals_of_round_length() {
        let all: Vec<i64> = (7..=87).collect();
        let samples = samples(&all);
        let axis = Axis::new(&samples, 10);
        // 80 s in about ten intervals at most: ten seconds each, the first from 0 to 10.
        assert_eq!(axis.seconds(), [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]);
        assert_eq!((axis.interval(0), axis.interval(3), axis.interval(4), axis.interval(80)), (0, 0, 1, 8));
    }

    #[test]
    fn a_long_step_is_divided_among_its_intervals() {
        let mut all: Vec<i64> = (0..=30).collect();
        all.retain(|second| *second != 10 && *second != 20);
        let samples = samples(&all);
        let axis = Axis::new(&samples, 3);
        assert_eq!(axis.seconds(), [0.0, 15.0, 30.0]);
        let at = |second: i64| all.iter().position(|at| *at == second).unwrap();
        let parts = |from, to| axis.parts(&samples, at(from), at(to)).collect::<Vec<_>>();
        assert_eq!(parts(3, 4), [(1, 1.0)]);
        assert_eq!(parts(5, 25), [(1, 0.5), (2, 0.5)]);
        assert_eq!(parts(14, 16), [(1, 0.5), (2, 0.5)]);
    }

    #[test]
    fn a_reboot_is_a_gap() {
        let time = |at: i64, clock: u64, boot| SampleTime { at: at * SECOND, clock: clock * SECOND as u64, boot };
        let samples = Samples::new(vec![time(1, 100, 0), time(2, 101, 0), time(60, 5, 1), time(61, 6, 1)], true);
        assert_eq!([(0, 1), (1, 2), (2, 3)].map(|(from, to)| samples.step(from, to)), [Some(NS), None, Some(NS)]);
    }

    #[test]
    fn missing_readings_of_captures_do_not_show() {
        let time = |at: i64| SampleTime { at: at * SECOND, clock: (at * SECOND) as u64, boot: 0 };
        let samples = Samples::new([1, 2, 3, 600].map(time).to_vec(), false);
        assert_eq!(samples.step(2, 3), Some(597_000_000_000));
    }

    #[test]
    fn counts_are_needed_at_both_ends_of_each_interval() {
        let samples = samples(&[0, 1, 2, 3, 4, 5, 60, 61]);
        let axis = Axis::new(&samples, 2);
        // 61 s in two intervals: sixty seconds each.
        assert_eq!(axis.seconds(), [0.0, 60.0, 120.0]);
        assert_eq!(axis.samples_for_counts(&samples), [true, false, false, false, false, true, true, true]);
    }
}
