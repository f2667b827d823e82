//! Statistics of completed requests.

use crate::engine::IoOp;
use whyslow_documents::bench::{DiskSeries, Latency, Percentile, RequestStats, Workload};
use whyslow_model::histogram::{Histogram, bucket_of};

/// Nanoseconds per second.
const NS: f64 = 1e9;
/// Length of an interval of the time series, in nanoseconds.
const INTERVAL: u64 = 100_000_000;
/// Maximum number of intervals; longer time series get longer intervals.
const MOST_INTERVALS: usize = 1200;

/// Measured time span, in nanoseconds of the jobs' common clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MeasuredSpan {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestTimes {
    pub(crate) due: u64,
    pub(crate) issued: u64,
    pub(crate) done: u64,
}

/// Statistics of one job or of several merged jobs.
#[derive(Clone, Debug)]
pub(crate) struct RunStats {
    span: MeasuredSpan,
    read: DirectionStats,
    write: DirectionStats,
    sync: DirectionStats,
    intervals: Vec<Interval>,
    /// Time of the last counted completion.
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

impl RunStats {
    pub(crate) fn new(span: MeasuredSpan) -> Self {
        let counts = DirectionStats::default;
        Self { span, read: counts(), write: counts(), sync: counts(), intervals: Vec::new(), last: span.begin }
    }

    /// Adds a completion. Throughput counts requests completed within the span, latency those issued within it.
    /// Counting only requests that are both would miss long ones; the longer, the more often.
    pub(crate) fn add(&mut self, action: IoOp, bytes: u32, times: RequestTimes) {
        let MeasuredSpan { begin, end } = self.span;
        let counts = match action {
            IoOp::Read => &mut self.read,
            IoOp::Write => &mut self.write,
            IoOp::Sync => &mut self.sync,
        };
        if (begin..end).contains(&times.issued) {
            counts.latency.add(times.done.saturating_sub(times.due));
            counts.service.add(times.done.saturating_sub(times.issued));
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

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the measured time in seconds: the span, cut short if all jobs `ended` earlier.
    pub(crate) fn seconds(&self, ended: u64) -> f64 {
        self.span.end.min(ended).saturating_sub(self.span.begin) as f64 / NS
    }

    /// Returns the statistics of reads, writes and syncs.
    pub(crate) fn flows(&self, seconds: f64, load: &Workload) -> [RequestStats; 3] {
        [&self.read, &self.write, &self.sync].map(|counts| counts.flow(seconds, load))
    }

    /// Returns the time series; intervals without completions are zero.
    pub(crate) fn series(&self, seconds: f64) -> DiskSeries {
        let whole = (seconds / (INTERVAL as f64 / NS) - 1e-6).ceil().max(0.0) as usize;
        let mut intervals = self.intervals.clone();
        intervals.resize(whole, Interval::default());
        let mut length = INTERVAL;
        while intervals.len() > MOST_INTERVALS {
            intervals = intervals.chunks(10).map(Interval::sum).collect();
            length *= 10;
        }
        DiskSeries {
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
    fn add(&mut self, action: IoOp, bytes: u32, latency: u64) {
        match action {
            IoOp::Read => (self.reads, self.read_bytes) = (self.reads + 1, self.read_bytes + u64::from(bytes)),
            IoOp::Write => (self.writes, self.write_bytes) = (self.writes + 1, self.write_bytes + u64::from(bytes)),
            IoOp::Sync => {}
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

#[derive(Clone, Debug, Default)]
struct DirectionStats {
    operations: u64,
    bytes: u64,
    latency: LatencyHistogram,
    service: LatencyHistogram,
}

impl DirectionStats {
    fn merge(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
    }

    fn flow(&self, seconds: f64, load: &Workload) -> RequestStats {
        let each_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        RequestStats {
            operations: self.operations,
            bytes: self.bytes,
            rate: each_second(self.operations),
            bandwidth: each_second(self.bytes),
            latency: self.latency.latency(&load.percentiles),
            service: load.rate.map(|_| self.service.latency(&load.percentiles)),
        }
    }
}

/// A histogram of nanoseconds with exact extremes and moments.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram {
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
    squares: f64,
    min: u64,
    max: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let buckets = vec![0; bucket_of(u64::MAX) as usize + 1];
        Self { buckets, count: 0, sum: 0.0, squares: 0.0, min: u64::MAX, max: 0 }
    }
}

impl LatencyHistogram {
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

    /// Returns a percentile; `None` unless at least one request exceeds it.
    fn percentile(&self, histogram: &Histogram, share: f64) -> Option<Percentile> {
        let beyond = self.count as f64 * (1.0 - share);
        if beyond < 1.0 {
            return None;
        }
        // The middle of a bucket may lie beyond the extremes.
        let ns = histogram.quantile(share)?.clamp(self.min as f64, self.max as f64);
        Some(Percentile { share, seconds: ns / NS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::sample;

    const MS: u64 = 1_000_000;

    fn times(due: u64, issued: u64, done: u64) -> RequestTimes {
        RequestTimes { due: due * MS, issued: issued * MS, done: done * MS }
    }

    fn stats(requests: &[(IoOp, RequestTimes)]) -> RunStats {
        let mut stats = RunStats::new(MeasuredSpan { begin: 1000 * MS, end: 2000 * MS });
        requests.iter().for_each(|&(action, times)| stats.add(action, 4096, times));
        stats
    }

    #[test]
    fn throughput_counts_completions_and_latency_counts_requests_issued_in_the_span() {
        let stats = stats(&[
            (IoOp::Read, times(900, 900, 1100)),
            (IoOp::Read, times(1100, 1100, 1110)),
            (IoOp::Write, times(1200, 1200, 1250)),
            (IoOp::Read, times(1900, 1900, 5000)),
        ]);
        let [read, write, sync] = stats.flows(stats.seconds(9000 * MS), &sample());
        assert_eq!((read.operations, write.operations, sync.operations), (2, 1, 0));
        assert_eq!((read.rate, read.bandwidth), (2.0, 8192.0));
        assert_eq!((read.latency.count, read.latency.min, read.latency.max), (2, 0.01, 3.1));
        assert_eq!(read.service, None);
    }

    #[test]
    fn the_latency_of_a_paced_request_includes_its_wait() {
        let [read, ..] =
            stats(&[(IoOp::Read, times(1100, 1400, 1450))]).flows(1.0, &Workload { rate: Some(1.0), ..sample() });
        assert_eq!(read.latency.max, 0.35);
        assert_eq!(read.service.unwrap().max, 0.05);
    }

    #[test]
    fn intervals_without_completions_are_zeros() {
        let stats = stats(&[(IoOp::Read, times(1000, 1000, 1010)), (IoOp::Write, times(1000, 1000, 1350))]);
        let series = stats.series(1.0);
        assert_eq!(series.reads, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(series.writes, [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(series.longest[3], 0.35);
        assert_eq!(series.stalls(), [(1, 2), (4, 6)]);
    }

    #[test]
    fn long_time_series_get_longer_intervals_and_lose_nothing() {
        let mut stats = RunStats::new(MeasuredSpan { begin: 0, end: u64::MAX });
        (0..3000).for_each(|second| stats.add(IoOp::Read, 512, times(second * 1000, second * 1000, second * 1000 + 1)));
        let series = stats.series(3000.0);
        assert_eq!((series.interval, series.reads.len()), (10.0, 300));
        assert_eq!(series.reads.iter().sum::<u64>(), 3000);
    }

    #[test]
    fn a_percentile_needs_a_request_beyond_it() {
        let requests: Vec<_> = (0..200).map(|i| (IoOp::Read, times(1000, 1000, 1000 + i))).collect();
        let [read, ..] = stats(&requests).flows(1.0, &sample());
        let latency = read.latency;
        assert_eq!(latency.percentile(0.999), None);
        let p99 = latency.percentile(0.99).unwrap();
        assert!((0.194..=0.201).contains(&p99), "{p99}");
        assert!((latency.deviation - 0.0577).abs() < 0.001, "{}", latency.deviation);
    }

    #[test]
    fn jobs_are_merged() {
        let mut one = stats(&[(IoOp::Read, times(1000, 1000, 1010))]);
        one.merge(&stats(&[(IoOp::Read, times(1000, 1000, 1930))]));
        let [read, ..] = one.flows(1.0, &sample());
        assert_eq!((read.operations, read.latency.min, read.latency.max), (2, 0.01, 0.93));
        assert_eq!(one.series(1.0).reads.iter().sum::<u64>(), 2);
    }
}
