//! Counts since boot: what a single capture shows about the time before it.
//!
//! Showing the present takes two readings of a counter. One reading is the growth since the kernel started counting, so
//! it becomes a Window of its own: from zero to that reading. The length of that time is often unknown; then only
//! ratios that do not depend on it are meaningful, such as the share of segments that were retransmitted.

use crate::catalogue::{CountedSince, Cpu, EachFamily, Family, MetricKind, System};
use crate::rename::{RenamedKeys, Renamer, rename_all};
use crate::snapshot::Snapshot;
use crate::value::{Counter, Value};
use crate::window::Window;
use std::collections::BTreeMap;

/// Assumed time over which the counters of averages grew at the rates that a tool printed, in seconds. It affects no
/// rate. It is long, so that rounding to whole counts does not matter.
pub const AVERAGED: f64 = 10_000.0;
/// End of a Window since boot, in nanoseconds: later than any assumed age.
const END: u64 = 4_000_000_000_000_000_000;

/// Counters that were read once.
#[derive(Clone, Debug, Default)]
pub struct SinceBoot {
    /// Their values, sorted.
    counts: Snapshot,
    /// Growth of the counters over [`AVERAGED`] for averages since boot that a tool printed, sorted.
    averages: Snapshot,
}

impl SinceBoot {
    /// Adds the counts of a reading that have a known start of counting, unless they are known already.
    pub fn add_counts(&mut self, mut reading: Snapshot) {
        reading.each_family(&mut AddTo(&mut self.counts));
    }

    /// Adds averages, as growth over [`AVERAGED`].
    pub fn add_averages(&mut self, mut grown: Snapshot) {
        grown.each_family(&mut AddTo(&mut self.averages));
    }

    /// Replaces the names in all rows.
    pub(crate) fn rename(&mut self, renamer: &dyn Renamer, keys: &mut RenamedKeys) {
        for snapshot in [&mut self.counts, &mut self.averages] {
            rename_all(std::slice::from_mut(snapshot), renamer, Some(&mut *keys));
        }
    }

    /// Returns whether there are no counts and no averages.
    pub fn is_empty(&self) -> bool {
        self.counts == Snapshot::default() && self.averages == Snapshot::default()
    }

    /// Returns the Window from the start of counting. Counts since boot took as long as the machine has been up,
    /// according to `now` or to the CPU times; if that is unknown, `unknown.seconds`, as do the counts of entities
    /// created at an unknown time. Levels and settings are those of `now`.
    pub fn window(&self, now: &Window, unknown: UnknownTime) -> Window {
        let mut end = Snapshot { boot_ns: END, ..Snapshot::default() };
        end.each_family(&mut LevelsOf(now));
        let mut begins = BTreeMap::new();
        let boot = uptime(now).or_else(|| accounted(&self.counts)).unwrap_or(unknown.seconds);
        let ages = Ages { boot, creation: unknown.seconds, times: 1 };
        let mut counts = self.counts.clone();
        counts.each_family(&mut Grow { end: &mut end, begins: &mut begins, ages, averages: Some(&self.averages) });
        let seconds = AVERAGED * unknown.times as f64;
        let ages = Ages { boot: seconds, creation: seconds, times: unknown.times };
        let mut averages = self.averages.clone();
        averages.each_family(&mut Grow { end: &mut end, begins: &mut begins, ages, averages: None });
        begins.values_mut().for_each(Snapshot::sort);
        end.sort();
        let snapshots = begins.into_values().chain([end]).collect();
        Window::new(snapshots).with_origins(now.origins().clone()).counted_since_boot()
    }
}

/// Assumed lengths of unknown times.
#[derive(Clone, Copy, Debug)]
pub struct UnknownTime {
    /// For counters: the number of seconds over which they grew.
    pub seconds: f64,
    /// For averages: the number of times [`AVERAGED`].
    pub times: u64,
}

/// Returns the seconds since boot, if a capture shows them.
fn uptime(window: &Window) -> Option<f64> {
    let rows = window.snapshots().iter().rev().filter_map(|s| s.the::<System>());
    rows.filter_map(|system| system.uptime.get()).map(|ns| ns as f64 / 1e9).find(|seconds| *seconds > 0.0)
}

/// Returns the seconds since boot, from the CPU time that the kernel accounted for on each CPU, including idle time.
/// Uses the largest, since a CPU that was offline has less.
fn accounted(counts: &Snapshot) -> Option<f64> {
    let of_cpu = |cpu: &Cpu| {
        let needed = [cpu.user, cpu.nice, cpu.system, cpu.idle, cpu.iowait];
        let needed: Option<Vec<u64>> = needed.iter().map(|mode| mode.get()).collect();
        let others = [cpu.irq, cpu.softirq, cpu.steal].iter().filter_map(|mode| mode.get()).sum::<u64>();
        Some(needed?.iter().sum::<u64>() + others)
    };
    counts.processor.cpu.iter().filter_map(of_cpu).max().map(|ns| ns as f64 / 1e9).filter(|seconds| *seconds > 0.0)
}

/// Adds the rows of families with a known start of counting. If two sources report an entity, the second completes the
/// first, unless they are parts of a whole.
struct AddTo<'s>(&'s mut Snapshot);

impl EachFamily for AddTo<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if F::INFO.counted_since.is_none() || rows.is_empty() {
            return;
        }
        let own = F::rows_mut(self.0);
        for row in rows.drain(..).filter(|row| !counters(row).is_empty()) {
            match own.binary_search_by(|other| other.key().cmp(row.key())) {
                Ok(_) if F::INFO.parts => {}
                Ok(at) => own[at].fill(&row),
                Err(at) => own.insert(at, row),
            }
        }
    }
}

/// Adds the newest rows of a Window, without counters.
struct LevelsOf<'w>(&'w Window);

impl EachFamily for LevelsOf<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if !F::INFO.events {
            *rows = self.0.newest::<F>().into_values().map(without_counters).collect();
        }
    }
}

#[derive(Clone, Copy)]
struct Ages {
    boot: f64,
    creation: f64,
    /// Factor by which the growth of each counter is multiplied.
    times: u64,
}

/// Makes counters grow from zero to the values in their rows.
struct Grow<'s> {
    end: &'s mut Snapshot,
    /// Snapshots at which counting starts, by time.
    begins: &'s mut BTreeMap<u64, Snapshot>,
    ages: Ages,
    /// Entities with known averages are skipped here.
    averages: Option<&'s Snapshot>,
}

impl EachFamily for Grow<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let age = match F::INFO.counted_since {
            Some(CountedSince::Boot) => self.ages.boot,
            Some(CountedSince::Creation) => self.ages.creation,
            None => return,
        };
        let is_averaged = |row: &F| self.averages.is_some_and(|averages| averages.row::<F>(row.key()).is_some());
        for mut row in rows.drain(..).filter(|row| !is_averaged(row)) {
            let age = self.averages.and_then(|_| own_age(&row)).unwrap_or(age);
            let begin = END - ((age * 1e9) as u64).clamp(1, END - 1);
            let mut zero = F::keyed(row.key().clone());
            for (column, count) in counters(&row) {
                zero.put(column, Value::Counter(0.into()));
                row.put(column, Value::Counter(count.saturating_mul(self.ages.times).into()));
            }
            let snapshot =
                self.begins.entry(begin).or_insert_with(|| Snapshot { boot_ns: begin, ..Snapshot::default() });
            F::rows_mut(snapshot).push(zero);
            let ends = F::rows_mut(self.end);
            match ends.binary_search_by(|level| level.key().cmp(row.key())) {
                Ok(at) => {
                    let levels = std::mem::replace(&mut ends[at], row);
                    ends[at].fill(&levels);
                }
                Err(at) => ends.insert(at, row),
            }
        }
    }
}

/// Returns the age of an entity in seconds, if it has a metric for it.
fn own_age<F: Family>(row: &F) -> Option<f64> {
    let column = F::INFO.metrics.iter().position(|metric| metric.name == "age")?;
    match row.value(column)? {
        Value::Gauge(age) => age.get().map(|ns| ns / 1e9).filter(|seconds| *seconds > 0.0),
        _ => None,
    }
}

/// Returns the known counters of a row, by column. Omits the time since boot: it is the time over which they are
/// counted.
fn counters<F: Family>(row: &F) -> Vec<(usize, u64)> {
    let counter = |column: usize| match row.value(column)? {
        Value::Counter(counter) => Some((column, counter.get()?)),
        _ => None,
    };
    (0..F::INFO.metrics.len()).filter(|column| F::INFO.metrics[*column].name != "uptime").filter_map(counter).collect()
}

/// Returns a row with only its levels and text.
pub fn without_counters<F: Family>(row: &F) -> F {
    let mut row = row.clone();
    for (column, metric) in F::INFO.metrics.iter().enumerate() {
        if metric.kind == MetricKind::Counter {
            row.put(column, Value::Counter(Counter::default()));
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Disk, Process};
    use crate::key::{MachineKey, TaskKey};

    const UNKNOWN: UnknownTime = UnknownTime { seconds: 50.0, times: 3 };

    fn totals(fill: impl Fn(&mut Snapshot)) -> SinceBoot {
        let mut since_boot = SinceBoot::default();
        let mut reading = Snapshot::default();
        fill(&mut reading);
        since_boot.add_counts(reading);
        since_boot
    }

    fn disk(reads: u64) -> Disk {
        Disk { reads: reads.into(), in_flight: 7.0.into(), ..Disk::new("sda".into()) }
    }

    #[test]
    fn one_reading_is_the_growth_since_boot() {
        let totals = totals(|s| s.block.disk.push(disk(600)));
        let rate = |now: &Window| totals.window(now, UNKNOWN).change::<Disk>().unwrap().rate(|d| d.reads);
        assert_eq!(rate(&Window::default()), Some(12.0));
        let up = System { uptime: 300_000_000_000.into(), ..System::new(MachineKey) };
        let mut reading = Snapshot { boot_ns: 1, ..Snapshot::default() };
        reading.processor.system.push(up);
        assert_eq!(rate(&Window::new(vec![reading])), Some(2.0));
    }

    #[test]
    fn the_time_that_cpus_accounted_for_is_that_since_boot() {
        let totals = totals(|s| {
            s.block.disk.push(disk(600));
            let [user, nice, system, idle, iowait] =
                [1, 2, 3, 90, 4].map(|seconds| Counter::from(seconds * 1_000_000_000));
            s.processor.cpu.push(Cpu { user, nice, system, idle, iowait, ..Cpu::new(0) });
        });
        let window = totals.window(&Window::default(), UNKNOWN);
        assert_eq!(window.change::<Disk>().unwrap().rate(|d| d.reads), Some(6.0));
    }

    #[test]
    fn averages_keep_their_rates_and_have_no_counts() {
        let mut totals = SinceBoot::default();
        let mut grown = Snapshot::default();
        grown.block.disk.push(disk(10_000));
        totals.add_averages(grown);
        let window = |times| totals.window(&Window::default(), UnknownTime { times, ..UNKNOWN });
        let of = |window: &Window| {
            let change = window.change::<Disk>().unwrap();
            (change.rate(|d| d.reads), change.grown(|d| d.reads))
        };
        assert_eq!(of(&window(1)), (Some(1.0), Some(10_000.0)));
        assert_eq!(of(&window(3)), (Some(1.0), Some(30_000.0)));
    }

    #[test]
    fn how_the_growth_was_spread_is_unknown() {
        let totals = totals(|s| s.block.disk.push(disk(600)));
        let window = totals.window(&Window::default(), UNKNOWN);
        let change = window.change::<Disk>().unwrap();
        assert_eq!(change.steps(|d| d.reads).count(), 0);
        assert_eq!(change.mean(|d| d.in_flight), Some(7.0));
    }

    #[test]
    fn what_is_not_counted_since_boot_and_the_time_itself_are_no_counts() {
        let mut process = Process::new(TaskKey { pid: 1, tid: 1, start: 0 });
        assert!(process.set("cpu_time", 5));
        let up = System { uptime: 9.into(), ..System::new(MachineKey) };
        let totals = totals(|s| {
            s.task.process.push(process.clone());
            s.processor.system.push(up.clone());
        });
        assert!(totals.is_empty());
    }
}
