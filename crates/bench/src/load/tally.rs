//! What is counted of the requests that come back.

use super::stream::Action;
use whyslow_model::bench::{Flow, Latency, Percentile, Series, Workload};
use whyslow_model::histogram::{Histogram, bucket_of};

/// Nanoseconds of a second.
const NS: f64 = 1e9;
/// The length of an interval of the course, as it is first counted.
const INTERVAL: u64 = 100_000_000;
/// How many intervals a report has at most; longer courses are coarsened.
const MOST_INTERVALS: usize = 1200;

/// The time that is measured: nanoseconds on the clock all jobs share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// When a request was due, made and done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) due: u64,
    pub(crate) made: u64,
    pub(crate) done: u64,
}

/// The counts of one job, or of several together.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    span: Span,
    read: Counts,
    write: Counts,
    sync: Counts,
    intervals: Vec<Interval>,
    /// When the last request that counts was done.
    last: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
    longest: u64,
}

impl Tally {
    /// Of requests within a span.
    pub(crate) fn new(span: Span) -> Self {
        let counts = Counts::default;
        Self { span, read: counts(), write: counts(), sync: counts(), intervals: Vec::new(), last: span.begin }
    }

    /// A request has come back. Throughput is of what comes back in the time measured, latency of what was made in it: were
    /// only requests counted that do both, long ones would be missed the more often the longer they take.
    pub(crate) fn add(&mut self, action: Action, bytes: u32, times: Times) {
        let Span { begin, end } = self.span;
        let counts = match action {
            Action::Read => &mut self.read,
            Action::Write => &mut self.write,
            Action::Sync => &mut self.sync,
        };
        if (begin..end).contains(&times.made) {
            counts.latency.add(times.done.saturating_sub(times.due));
            counts.service.add(times.done.saturating_sub(times.made));
        }
        if (begin..end).contains(&times.done) {
            counts.operations += 1;
            counts.bytes += u64::from(bytes);
            self.last = self.last.max(times.done);
            self.interval(times.done - begin).add(action, bytes, times.done.saturating_sub(times.due));
        }
    }

    fn interval(&mut self, after_begin: u64) -> &mut Interval {
        let at = (after_begin / INTERVAL) as usize;
        if at >= self.intervals.len() {
            self.intervals.resize(at + 1, Interval::default());
        }
        &mut self.intervals[at]
    }

    /// Takes over the counts of another job.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.sync.merge(&other.sync);
        self.last = self.last.max(other.last);
        self.intervals.resize(self.intervals.len().max(other.intervals.len()), Interval::default());
        for (own, more) in self.intervals.iter_mut().zip(&other.intervals) {
            own.merge(more);
        }
    }

    /// When the last request that counts came back.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The time measured, seconds: the span, or as much of it as had passed when all had `ended`.
    pub(crate) fn seconds(&self, ended: u64) -> f64 {
        self.span.end.min(ended).saturating_sub(self.span.begin) as f64 / NS
    }

    /// Reads, writes and syncs over so many seconds, as this workload wants them told.
    pub(crate) fn flows(&self, seconds: f64, load: &Workload) -> [Flow; 3] {
        [&self.read, &self.write, &self.sync].map(|counts| counts.flow(seconds, load))
    }

    /// The course over so many seconds, an interval in which nothing came back included.
    pub(crate) fn series(&self, seconds: f64) -> Series {
        let whole = (seconds / (INTERVAL as f64 / NS) - 1e-6).ceil().max(0.0) as usize;
        let mut intervals = self.intervals.clone();
        intervals.resize(whole, Interval::default());
        let mut length = INTERVAL;
        while intervals.len() > MOST_INTERVALS {
            intervals = intervals.chunks(10).map(Interval::sum).collect();
            length *= 10;
        }
        Series {
            interval: length as f64 / NS,
            reads: intervals.iter().map(|i| i.reads).collect(),
            read_bytes: intervals.iter().map(|i| i.read_bytes).collect(),
            writes: intervals.iter().map(|i| i.writes).collect(),
            write_bytes: intervals.iter().map(|i| i.write_bytes).collect(),
            longest: intervals.iter().map(|i| i.longest as f64 / NS).collect(),
        }
    }
}

impl Interval {
    fn add(&mut self, action: Action, bytes: u32, latency: u64) {
        match action {
            Action::Read => (self.reads, self.read_bytes) = (self.reads + 1, self.read_bytes + u64::from(bytes)),
            Action::Write => (self.writes, self.write_bytes) = (self.writes + 1, self.write_bytes + u64::from(bytes)),
            Action::Sync => {}
        }
        self.longest = self.longest.max(latency);
    }

    fn merge(&mut self, other: &Self) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.write_bytes += other.write_bytes;
        self.longest = self.longest.max(other.longest);
    }

    fn sum(several: &[Self]) -> Self {
        several.iter().fold(Self::default(), |mut sum, one| {
            sum.merge(one);
            sum
        })
    }
}

/// The requests of one direction.
#[derive(Clone, Debug, Default)]
struct Counts {
    operations: u64,
    bytes: u64,
    latency: Spread,
    service: Spread,
}

impl Counts {
    fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
    }

    fn flow(&self, seconds: f64, load: &Workload) -> Flow {
        let each_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        Flow {
            operations: self.operations,
            bytes: self.bytes,
            rate: each_second(self.operations),
            bandwidth: each_second(self.bytes),
            latency: self.latency.latency(&load.percentiles),
            service: load.rate.map(|_| self.service.latency(&load.percentiles)),
        }
    }
}

/// How times are spread, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

impl Default for Spread {
    fn default() -> Self {
        let buckets = vec![0; bucket_of(u64::MAX) as usize + 1];
        Self { buckets, count: 0, sum: 0.0, squares: 0.0, min: u64::MAX, max: 0 }
    }
}

impl Spread {
    pub(crate) fn add(&mut self, ns: u64) {
        self.buckets[bucket_of(ns) as usize] += 1;
        self.count += 1;
        self.sum += ns as f64;
        self.squares += ns as f64 * ns as f64;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, more)| *own += more);
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub(crate) fn latency(&self, shares: &[f64]) -> Latency {
        if self.count == 0 {
            return Latency::default();
        }
        let count = self.count as f64;
        let mean = self.sum / count;
        let histogram = Histogram::from_counts((0..).zip(self.buckets.iter().copied()));
        Latency {
            count: self.count,
            min: self.min as f64 / NS,
            mean: mean / NS,
            deviation: (self.squares / count - mean * mean).max(0.0).sqrt() / NS,
            max: self.max as f64 / NS,
            percentiles: shares.iter().filter_map(|&share| self.percentile(&histogram, share)).collect(),
            histogram,
        }
    }

    /// A percentile is told where there are enough requests for one to lie beyond it.
    fn percentile(&self, histogram: &Histogram, share: f64) -> Option<Percentile> {
        let beyond = self.count as f64 * (1.0 - share);
        if beyond < 1.0 {
            return None;
        }
        // A bucket's middle can lie beyond the extremes, which are known exactly.
        let ns = histogram.quantile(share)?.clamp(self.min as f64, self.max as f64);
        Some(Percentile { share, seconds: ns / NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::sample;

    const MS: u64 = 1_000_000;

    fn times(due: u64, made: u64, done: u64) -> Times {
        Times { due: due * MS, made: made * MS, done: done * MS }
    }

    fn tally(requests: &[(Action, Times)]) -> Tally {
        let mut tally = Tally::new(Span { begin: 1000 * MS, end: 2000 * MS });
        requests.iter().for_each(|&(action, times)| tally.add(action, 4096, times));
        tally
    }

    #[test]
    fn throughput_is_of_what_comes_back_and_latency_of_what_is_made_in_the_span() {
        let tally = tally(&[
            (Action::Read, times(900, 900, 1100)),
            (Action::Read, times(1100, 1100, 1110)),
            (Action::Write, times(1200, 1200, 1250)),
            (Action::Read, times(1900, 1900, 5000)),
        ]);
        let [read, write, sync] = tally.flows(tally.seconds(9000 * MS), &sample());
        assert_eq!((read.operations, write.operations, sync.operations), (2, 1, 0));
        assert_eq!((read.rate, read.bandwidth), (2.0, 8192.0));
        assert_eq!((read.latency.count, read.latency.min, read.latency.max), (2, 0.01, 3.1));
        assert_eq!(read.service, None);
    }

    #[test]
    fn waiting_for_its_turn_is_part_of_a_paced_requests_latency() {
        let [read, ..] =
            tally(&[(Action::Read, times(1100, 1400, 1450))]).flows(1.0, &Workload { rate: Some(1.0), ..sample() });
        assert_eq!(read.latency.max, 0.35);
        assert_eq!(read.service.unwrap().max, 0.05);
    }

    #[test]
    fn an_interval_in_which_nothing_came_back_is_a_zero() {
        let tally = tally(&[(Action::Read, times(1000, 1000, 1010)), (Action::Write, times(1000, 1000, 1350))]);
        let series = tally.series(1.0);
        assert_eq!(series.reads, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(series.writes, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(series.longest[3], 0.35);
        assert_eq!(series.stalls(), [(1, 2), (4, 6)]);
    }

    #[test]
    fn long_courses_are_coarsened_and_nothing_is_lost() {
        let mut tally = Tally::new(Span { begin: 0, end: u64::MAX });
        (0..3000)
            .for_each(|second| tally.add(Action::Read, 512, times(second * 1000, second * 1000, second * 1000 + 1)));
        let series = tally.series(3000.0);
        assert_eq!((series.interval, series.reads.len()), (10.0, 300));
        assert_eq!(series.reads.iter().sum::<u64>(), 3000);
    }

    #[test]
    fn a_percentile_needs_a_request_beyond_it() {
        let requests: Vec<_> = (0..200).map(|i| (Action::Read, times(1000, 1000, 1000 + i))).collect();
        let [read, ..] = tally(&requests).flows(1.0, &sample());
        let latency = read.latency;
        assert_eq!(latency.percentile(0.999), None);
        let p99 = latency.percentile(0.99).unwrap();
        assert!((0.194..=0.201).contains(&p99), "{p99}");
        assert!((latency.deviation - 0.0577).abs() < 0.001, "{}", latency.deviation);
    }

    #[test]
    fn jobs_add_up() {
        let mut one = tally(&[(Action::Read, times(1000, 1000, 1010))]);
        one.merge(&tally(&[(Action::Read, times(1000, 1000, 1930))]));
        let [read, ..] = one.flows(1.0, &sample());
        assert_eq!((read.operations, read.latency.min, read.latency.max), (2, 0.01, 0.93));
        assert_eq!(one.series(1.0).reads.iter().sum::<u64>(), 2);
    }
}
