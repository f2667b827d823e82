//! Parts of a window over captures, diagnosed one by one.

use super::Window;
use crate::catalogue::{EachFamily, Family, MetricKind, Snapshot};
use crate::value::{Counter, Gauge, Value};
use std::collections::BTreeMap;

impl Window {
    /// Returns the part from one snapshot to another, by position, as if a capture had only this part. Takes over the
    /// rows of families that the part lacks entirely: settings and inventory hold throughout, and the output of another
    /// tool shortly before or after (`top -b -n 2` before a minute of `vmstat`) is the best that is known about the rest.
    /// Omits counts since boot.
    pub fn part(&self, from: usize, to: usize) -> Self {
        let mut snapshots = self.snapshots[from..=to].to_vec();
        let [first, later @ ..] = &mut snapshots[..] else { return Self::default() };
        first.clear_events();
        first.each_family(&mut ClearLevels { later });
        Snapshot::default().each_family(&mut TakeOver { all: &self.snapshots, from, part: &mut snapshots });
        Self {
            snapshots,
            origins: self.origins.clone(),
            usual: self.usual.clone(),
            has_assumed_times: self.has_assumed_times,
            ..Self::default()
        }
    }
}

/// Clears the levels of the first snapshot that later ones have as well: in a capture they belong to the interval that
/// ends there.
struct ClearLevels<'w> {
    later: &'w [Snapshot],
}

impl EachFamily for ClearLevels<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let levels: Vec<usize> =
            (0..F::INFO.metrics.len()).filter(|column| F::INFO.metrics[*column].kind == MetricKind::Gauge).collect();
        for row in rows {
            let later: Vec<&F> = self.later.iter().filter_map(|snapshot| snapshot.row::<F>(row.key())).collect();
            for &column in &levels {
                if later.iter().any(|later| is_level(*later, column)) {
                    row.put(column, Value::Gauge(Gauge::ABSENT));
                }
            }
        }
    }
}

fn is_level<F: Family>(row: &F, column: usize) -> bool {
    matches!(row.value(column), Some(Value::Gauge(level)) if level.get().is_some())
}

/// Maximum time between a part and a reading of activity that is taken over. Run queues and processes change within minutes; what
/// ran at noon says nothing of the night. Longer than the interval of most recorders (10 minutes).
const SHORTLY_NS: u64 = 15 * 60 * 1_000_000_000;

/// Adds the rows of families that a part lacks.
struct TakeOver<'w> {
    all: &'w [Snapshot],
    /// The position of the part's first snapshot.
    from: usize,
    part: &'w mut [Snapshot],
}

impl EachFamily for TakeOver<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        let to = self.from + self.part.len() - 1;
        let with_rows: Vec<usize> = (0..self.all.len()).filter(|at| !F::rows(&self.all[*at]).is_empty()).collect();
        let is_within = with_rows.iter().any(|at| (self.from + 1..=to).contains(at));
        let is_activity = F::INFO.metrics.iter().any(|metric| metric.kind == MetricKind::Counter);
        if F::INFO.events || with_rows.is_empty() || is_within || (is_activity && !self.is_near(&with_rows)) {
            return;
        }
        // Uses the last known rows before the part; for entities without any, the first known rows after it.
        let before = with_rows.iter().filter(|at| **at <= self.from);
        let after = with_rows.iter().rev().filter(|at| **at > to);
        let rows = after.chain(before).flat_map(|at| F::rows(&self.all[*at]));
        let mut known: BTreeMap<&F::Key, &F> = rows.map(|row| (row.key(), row)).collect();
        let mut grown: Vec<F> = Vec::new();
        if let Some([begin, end]) = self.interval(&with_rows) {
            let seconds = (end.boot_ns - begin.boot_ns) as f64;
            let scale = (self.all[to].boot_ns - self.all[self.from].boot_ns) as f64 / seconds;
            for row in F::rows(end) {
                if let Some(earlier) = begin.row::<F>(row.key()) {
                    known.insert(row.key(), earlier);
                    grown.push(scaled(earlier, row, scale));
                }
            }
        }
        let known: Vec<F> = known.into_values().cloned().collect();
        if let [first, .., last] = &mut *self.part {
            *F::rows_mut(first) = known;
            *F::rows_mut(last) = grown;
        }
    }
}

impl<'w> TakeOver<'w> {
    /// Returns true if one of the snapshots was taken shortly before or after the part, or if two of them span it.
    fn is_near(&self, with_rows: &[usize]) -> bool {
        let to = self.from + self.part.len() - 1;
        let gap = |from: usize, to: usize| self.all[to].boot_ns.saturating_sub(self.all[from].boot_ns);
        let before = with_rows.iter().rfind(|at| **at <= self.from);
        let after = with_rows.iter().find(|at| **at >= to);
        (before.is_some() && after.is_some())
            || before.is_some_and(|before| gap(*before, self.from) <= SHORTLY_NS)
            || after.is_some_and(|after| gap(to, *after) <= SHORTLY_NS)
    }

    /// Returns the interval that spans the part, for a tool with longer intervals; for a tool that ran at another time,
    /// all of its time.
    fn interval(&self, with_rows: &[usize]) -> Option<[&'w Snapshot; 2]> {
        let to = self.from + self.part.len() - 1;
        let begin = with_rows.iter().rfind(|at| **at <= self.from);
        let end = with_rows.iter().find(|at| **at >= to);
        match (begin, end, with_rows) {
            (Some(begin), Some(end), _) if begin < end => Some([&self.all[*begin], &self.all[*end]]),
            (_, _, [begin, .., end]) => Some([&self.all[*begin], &self.all[*end]]),
            _ => None,
        }
    }
}

/// Returns the later row of an entity, with the growth of its counters multiplied by `scale`.
fn scaled<F: Family>(earlier: &F, later: &F, scale: f64) -> F {
    let mut row = later.clone();
    for column in 0..F::INFO.metrics.len() {
        if let (Some(Value::Counter(a)), Some(Value::Counter(b))) = (earlier.value(column), later.value(column))
            && let (Some(a), Some(b)) = (a.get(), b.get())
        {
            let grown = b.checked_sub(a).map(|grown| a + (grown as f64 * scale).round() as u64);
            row.put(column, Value::Counter(Counter::from(grown)));
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Disk, LogLine, MachineInfo, Process, System};
    use crate::key::{MachineKey, TaskKey};

    const SECOND: u64 = 1_000_000_000;

    fn snapshot(second: u64) -> Snapshot {
        Snapshot { boot_ns: second * SECOND, ..Snapshot::default() }
    }

    fn disk(reads: u64, queue: f64) -> Disk {
        Disk { reads: reads.into(), in_flight: queue.into(), ..Disk::new("sda".into()) }
    }

    #[test]
    fn a_part_has_the_levels_of_its_own_intervals_and_no_earlier_events() {
        let mut all: Vec<Snapshot> = (1..=4).map(snapshot).collect();
        for (at, queue) in [1.0, 2.0, 30.0, 40.0].into_iter().enumerate() {
            all[at].block.disk = vec![disk(100 * at as u64, queue)];
        }
        all[0].kernel.machine = vec![MachineInfo { processors: 4.0.into(), ..MachineInfo::new(MachineKey) }];
        all[2].kernel.log = vec![LogLine::new(7)];
        let part = Window::new(all).part(2, 3);
        let disks = part.changes::<Disk>();
        assert_eq!(disks[0].mean(|d| d.in_flight), Some(40.0));
        assert_eq!(disks[0].rate(|d| d.reads), Some(100.0));
        assert!(part.changes::<LogLine>().is_empty());
        assert_eq!(part.the::<MachineInfo>().and_then(|machine| machine.processors.get()), Some(4.0));
    }

    #[test]
    fn the_rates_of_a_single_interval_hold_for_every_part() {
        let mut all: Vec<Snapshot> = (1..=6).map(snapshot).collect();
        let process = |ns: u64| {
            let mut row = Process::new(TaskKey { pid: 7, tid: 7, start: 0 });
            row.user = ns.into();
            row
        };
        all[0].task.process = vec![process(0)];
        all[2].task.process = vec![process(SECOND)];
        let part = Window::new(all).part(4, 5);
        assert_eq!(part.changes::<Process>()[0].rate(|p| p.user), Some(0.5 * SECOND as f64));
    }

    #[test]
    fn activity_of_another_hour_is_not_that_of_a_part() {
        let queue = |running: f64| System { running: running.into(), ..System::new(MachineKey) };
        let mut all: Vec<Snapshot> = [0, 600, 1200, 36_000].map(snapshot).into();
        all[3].processor.system = vec![queue(4.0)];
        all[3].kernel.machine = vec![MachineInfo { processors: 4.0.into(), ..MachineInfo::new(MachineKey) }];
        let part = Window::new(all.clone()).part(0, 2);
        assert!(part.the::<System>().is_none(), "the queue of ten hours later");
        assert!(part.the::<MachineInfo>().is_some());
        all[3].boot_ns = 1500 * SECOND;
        assert!(Window::new(all).part(0, 2).the::<System>().is_some(), "five minutes later");
    }
}
