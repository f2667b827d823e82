//! Finds the parts of a long recording that are worth judging.
//!
//! No rule about lost time can fire while nothing stalls, no CPU and no task is busy, nothing waits for a lock or sleeps
//! uninterruptibly, nothing is dropped, killed, throttled or retransmitted, and the kernel logs nothing. The triggers check that
//! in a hundredth of the time a diagnosis takes. Each threshold is below those of the rules that depend on it, so that a cause
//! that fills only part of a window still triggers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use whyslow_model::time_series::ColumnSelector::{self, Is, Number};
use whyslow_model::time_series::TimeSeries;

/// Nanoseconds of a second.
const S: f64 = 1e9;
/// Recordings are checked in buckets as long as a diagnosis' window, nanoseconds.
const BUCKET_NS: i64 = 10 * 1_000_000_000;
/// A growth over a shorter time is treated as if it had taken this long, seconds.
const SHORTEST: f64 = 5.0;
/// Readings this many intervals apart belong to different entities or recorders, unless they are within the length of a bucket: a
/// machine too busy to sample regularly is just what the prefilter looks for.
const GAP: f64 = 3.5;

/// Some columns of a family, and what about them makes a bucket worth judging.
#[derive(Debug)]
pub struct Trigger {
    /// The family.
    pub family: &'static str,
    /// Its columns. Unless the condition compares the first with the second, their sum counts.
    pub columns: &'static [ColumnSelector],
    condition: Condition,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    /// The sum grows by at least this much a second.
    GrowsBy(f64),
    /// The sum grows by at most this much a second.
    GrowsAtMost(f64),
    /// The mean is at least this.
    MeanAtLeast(f64),
    /// The mean of all entities together is at least this.
    TotalAtLeast(f64),
    /// The first column is at most this fraction of the second.
    RatioAtMost(f64),
    /// The first column is at least this fraction of the second.
    RatioAtLeast(f64),
    /// There is any row.
    Any,
}

const fn trigger(family: &'static str, columns: &'static [ColumnSelector], condition: Condition) -> Trigger {
    Trigger { family, columns, condition }
}

/// Rules about lost time need at least 10 % of it.
pub const TRIGGERS: &[Trigger] = &[
    trigger("pressure", &[Number("cpu_some")], Condition::GrowsBy(0.02 * S)),
    trigger("pressure", &[Number("memory_some")], Condition::GrowsBy(0.02 * S)),
    trigger("pressure", &[Number("io_some")], Condition::GrowsBy(0.02 * S)),
    // A CPU that is nearly saturated.
    trigger("cpu", &[Number("idle"), Number("iowait")], Condition::GrowsAtMost(0.2 * S)),
    trigger("cpu", &[Number("steal")], Condition::GrowsBy(0.05 * S)),
    trigger("process", &[Number("user"), Number("system")], Condition::GrowsBy(0.25 * S)),
    trigger("process", &[Is("state", "D")], Condition::MeanAtLeast(0.3)),
    trigger("process", &[Number("open_files"), Number("open_files_limit")], Condition::RatioAtLeast(0.95)),
    trigger("thread", &[Is("state", "D")], Condition::MeanAtLeast(0.3)),
    // Rule lock.contention needs half a waiter.
    trigger("thread", &[Number("lock_wait")], Condition::TotalAtLeast(0.4)),
    trigger("group", &[Number("throttled_time")], Condition::GrowsBy(0.01 * S)),
    trigger("group", &[Number("limit_events"), Number("high_events")], Condition::GrowsBy(2.0)),
    trigger("group", &[Number("oom_kills")], Condition::GrowsBy(0.01)),
    trigger("vmstat", &[Number("oom_kill")], Condition::GrowsBy(0.01)),
    trigger("log", &[], Condition::Any),
    trigger("protocol", &[Number("tcp_retrans_segs")], Condition::GrowsBy(0.2)),
    trigger("listener", &[Number("drops")], Condition::GrowsBy(0.01)),
    trigger("datagram", &[Number("drops")], Condition::GrowsBy(0.2)),
    trigger("connection", &[Number("rwnd_limited"), Number("sndbuf_limited")], Condition::GrowsBy(0.1 * S)),
    trigger("interface", &[Number("rx_packets"), Number("tx_packets")], Condition::GrowsBy(5000.0)),
    trigger("qdisc", &[Number("overlimits")], Condition::GrowsBy(1.0)),
    trigger("mount", &[Number("available"), Number("size")], Condition::RatioAtMost(0.01)),
    trigger("mount", &[Number("inodes_free"), Number("inodes")], Condition::RatioAtMost(0.01)),
    trigger("meminfo", &[Number("mem_available"), Number("mem_total")], Condition::RatioAtMost(0.15)),
    trigger("limits", &[Number("files"), Number("files_max")], Condition::RatioAtLeast(0.9)),
    trigger("ipc", &[Number("shm_segments"), Number("shm_segments_max")], Condition::RatioAtLeast(0.9)),
    trigger("ipc", &[Number("shm_bytes"), Number("shm_bytes_max")], Condition::RatioAtLeast(0.9)),
    trigger("ipc", &[Number("sem_arrays"), Number("sem_arrays_max")], Condition::RatioAtLeast(0.9)),
    trigger("ipc", &[Number("semaphores"), Number("semaphores_max")], Condition::RatioAtLeast(0.9)),
    trigger("array", &[Number("degraded")], Condition::MeanAtLeast(0.5)),
    trigger(
        "array",
        &[Is("action", "resync"), Is("action", "recover"), Is("action", "check")],
        Condition::MeanAtLeast(0.5),
    ),
];

/// Checks the triggers, and collects the buckets that are worth judging.
#[derive(Debug)]
pub struct Prefilter {
    /// Seconds between samples.
    interval: f64,
    buckets: BTreeSet<i64>,
    /// Sums over all entities, by trigger and bucket.
    totals: BTreeMap<(usize, i64), f64>,
}

impl Prefilter {
    /// For samples that are this many seconds apart.
    pub fn new(interval: f64) -> Self {
        Self { interval: interval.max(1e-3), buckets: BTreeSet::new(), totals: BTreeMap::new() }
    }

    /// Checks rows against a trigger, given by its position in [`TRIGGERS`].
    pub fn check(&mut self, number: usize, series: &TimeSeries) {
        let Some(trigger) = TRIGGERS.get(number) else { return };
        match trigger.condition {
            Condition::Any => self.buckets.extend(series.at.iter().map(|at| bucket(*at))),
            Condition::RatioAtMost(most) => self.check_ratio(series, |ratio| ratio <= most),
            Condition::RatioAtLeast(least) => self.check_ratio(series, |ratio| ratio >= least),
            condition => self.check_entities(number, condition, series),
        }
    }

    /// The times worth judging, in order, nanoseconds since 1970.
    pub fn finish(mut self) -> Vec<RangeInclusive<i64>> {
        for ((number, bucket), sum) in std::mem::take(&mut self.totals) {
            let mean = sum * self.interval / (BUCKET_NS as f64 / S);
            if matches!(TRIGGERS[number].condition, Condition::TotalAtLeast(least) if mean >= least) {
                self.buckets.insert(bucket);
            }
        }
        let mut spans: Vec<RangeInclusive<i64>> = Vec::new();
        for bucket in self.buckets {
            let (start, end) = (bucket * BUCKET_NS, (bucket + 1) * BUCKET_NS);
            match spans.last_mut() {
                Some(last) if *last.end() == start => *last = *last.start()..=end,
                _ => spans.push(start..=end),
            }
        }
        spans
    }

    fn check_ratio(&mut self, series: &TimeSeries, triggers: impl Fn(f64) -> bool) {
        let [part, whole] = &series.columns[..] else { return };
        let ratios = part.iter().zip(whole).map(|(part, whole)| part / whole);
        let found = series.at.iter().zip(ratios).filter(|(_, ratio)| triggers(*ratio));
        self.buckets.extend(found.map(|(at, _)| bucket(*at)));
    }

    fn check_entities(&mut self, number: usize, condition: Condition, series: &TimeSeries) {
        let value = |row: usize| series.columns.iter().map(|column| column[row]).sum::<f64>();
        let mut current = EntityBucket::default();
        let mut last: Option<(i64, f64)> = None;
        for (row, at) in series.at.iter().enumerate() {
            let now = value(row);
            let step = last.map(|(before, value)| ((at - before) as f64 / S, now - value));
            let longest = (GAP * self.interval).max(BUCKET_NS as f64 / S);
            let step = step.filter(|(seconds, _)| *seconds > 0.0 && *seconds < longest);
            if current.bucket != bucket(*at) || step.is_none() {
                self.check_bucket(number, condition, &current);
                current = EntityBucket { bucket: bucket(*at), ..EntityBucket::default() };
            }
            current.add(step, now);
            last = Some((*at, now));
        }
        self.check_bucket(number, condition, &current);
    }

    fn check_bucket(&mut self, number: usize, condition: Condition, entity: &EntityBucket) {
        let rate = || entity.grown / entity.seconds.max(SHORTEST);
        let triggers = match condition {
            Condition::GrowsBy(least) => entity.seconds > 0.0 && rate() >= least,
            // A short observation says nothing about what does not grow.
            Condition::GrowsAtMost(most) => entity.seconds >= SHORTEST && rate() <= most,
            Condition::MeanAtLeast(least) => entity.count > 0 && entity.sum / entity.count as f64 >= least,
            Condition::TotalAtLeast(_) => {
                if entity.sum > 0.0 {
                    *self.totals.entry((number, entity.bucket)).or_default() += entity.sum;
                }
                false
            }
            Condition::RatioAtMost(_) | Condition::RatioAtLeast(_) | Condition::Any => false,
        };
        if triggers {
            self.buckets.insert(entity.bucket);
        }
    }
}

fn bucket(at: i64) -> i64 {
    at.div_euclid(BUCKET_NS)
}

/// One entity in one bucket.
#[derive(Default)]
struct EntityBucket {
    bucket: i64,
    grown: f64,
    seconds: f64,
    sum: f64,
    count: usize,
}

impl EntityBucket {
    fn add(&mut self, step: Option<(f64, f64)>, now: f64) {
        if let Some((seconds, grown)) = step.filter(|(_, grown)| *grown >= 0.0) {
            self.seconds += seconds;
            self.grown += grown;
        }
        if now.is_finite() {
            self.sum += now;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{MetricKind, families};

    const SECOND: i64 = 1_000_000_000;

    /// The number of a trigger by family and first column.
    fn number(family: &str, column: ColumnSelector) -> usize {
        TRIGGERS.iter().position(|l| l.family == family && l.columns.first() == Some(&column)).unwrap()
    }

    /// Rows of one entity, a second apart from `from` on.
    fn series(from: i64, column: &[f64]) -> TimeSeries {
        TimeSeries {
            at: (0..column.len() as i64).map(|t| (from + t) * SECOND).collect(),
            columns: vec![column.to_vec()],
        }
    }

    /// The seconds that are worth judging.
    fn found(number: usize, all: &[TimeSeries]) -> Vec<(i64, i64)> {
        let mut prefilter = Prefilter::new(1.0);
        all.iter().for_each(|series| prefilter.check(number, series));
        prefilter.finish().into_iter().map(|s| (s.start() / SECOND, s.end() / SECOND)).collect()
    }

    #[test]
    fn triggers_use_metrics_of_the_catalogue() {
        for trigger in TRIGGERS {
            let family = families().into_iter().find(|family| family.name == trigger.family).expect(trigger.family);
            for column in trigger.columns {
                let name = column.name();
                let metric = family.metrics.iter().find(|metric| metric.name == name).expect(name);
                assert_eq!(metric.kind == MetricKind::State, matches!(column, Is(..)), "{name}");
            }
        }
    }

    #[test]
    fn a_growing_counter_triggers() {
        let stall = |from: usize, to: usize| {
            let grown = |t: usize| (t.clamp(from, to) - from) as f64 * 0.1 * S;
            series(0, &(0..60).map(grown).collect::<Vec<f64>>())
        };
        let pressure = number("pressure", Number("io_some"));
        assert_eq!(found(pressure, &[stall(23, 41)]), [(20, 50)]);
        assert_eq!(found(pressure, &[stall(0, 0)]), []);
        // Three seconds of a tenth are still 3 % of a window.
        assert_eq!(found(pressure, &[stall(31, 34)]), [(30, 40)]);
    }

    #[test]
    fn consecutive_entities_and_recorders_are_not_mixed_up() {
        let pressure = number("pressure", Number("io_some"));
        let mut two = series(0, &[0.0; 20]);
        two.at.extend((0..20).map(|t| t * SECOND));
        two.columns[0].extend([1e12; 20]);
        assert_eq!(found(pressure, &[two]), []);
        let mut gap = series(0, &[0.0; 5]);
        gap.at.extend((300..305).map(|t| t * SECOND));
        gap.columns[0].extend([1e12; 5]);
        assert_eq!(found(pressure, &[gap]), []);
        assert_eq!(found(pressure, &[series(0, &[f64::NAN; 20])]), [], "absent is not zero");
    }

    #[test]
    fn a_stall_during_which_the_recorder_hardly_samples_triggers() {
        let pressure = number("pressure", Number("cpu_some"));
        let at: Vec<i64> = (0..31).chain([36, 41, 46, 51, 56]).chain(57..80).collect();
        let stalled = |t: i64| (t.clamp(31, 56) - 31) as f64 * S;
        let starved = TimeSeries {
            columns: vec![at.iter().map(|t| stalled(*t)).collect()],
            at: at.iter().map(|t| t * SECOND).collect(),
        };
        assert_eq!(found(pressure, &[starved]), [(30, 60)]);
    }

    #[test]
    fn a_cpu_that_is_hardly_idle_triggers() {
        let idle = number("cpu", Number("idle"));
        let rests = |busy_from: i64| {
            let mut rows = series(0, &(0..40).map(|t: i64| t.min(busy_from) as f64 * S).collect::<Vec<f64>>());
            rows.columns.push(vec![0.0; 40]);
            rows
        };
        assert_eq!(found(idle, &[rests(100), rests(20)]), [(20, 40)]);
    }

    #[test]
    fn short_waits_of_many_threads_add_up() {
        let waits = number("thread", Number("lock_wait"));
        let one =
            |waiting: bool| series(0, &(0..10).map(|t| f64::from(u8::from(waiting && t == 3))).collect::<Vec<f64>>());
        assert_eq!(found(waits, &[one(true), one(false)]), []);
        assert_eq!(found(waits, &vec![one(true); 5]), [(0, 10)]);
    }

    #[test]
    fn ratios_trigger_at_both_ends() {
        let share = |a: f64, b: f64| TimeSeries { at: vec![5 * SECOND], columns: vec![vec![a], vec![b]] };
        let space = number("mount", Number("available"));
        assert_eq!(found(space, &[share(1.0, 1000.0)]), [(0, 10)]);
        assert_eq!(found(space, &[share(20.0, 1000.0), share(f64::NAN, 7.0), share(0.0, 0.0)]), []);
        let files = number("process", Number("open_files"));
        assert_eq!(found(files, &[share(1000.0, 1024.0)]), [(0, 10)]);
        assert_eq!(found(files, &[share(10.0, 1024.0)]), []);
    }

    #[test]
    fn a_log_line_triggers() {
        let log = TRIGGERS.iter().position(|l| l.family == "log").unwrap();
        assert_eq!(found(log, &[TimeSeries { at: vec![12 * SECOND], columns: vec![] }]), [(10, 20)]);
    }
}
