//! Finds where the intervals of a window begin and end: by the reports of tools, or by the stalls of tasks.

use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{EachFamily, Family, MetricKind, Pressure};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Value};
use whyslow_model::window::Window;

/// Maximum number of tools with their own intervals.
const MOST_GRIDS: usize = 3;
/// Stalled share of a step from which the step differs from a calm one.
const STALLED: f64 = 0.5;
/// Share of a run's longest stall from which a step counts as fully stalled.
const WHOLE: f64 = 0.85;

/// Returns the ends of the parts of a window in which tasks stalled for at least half of each step, and of the others; `None` if
/// all of it is of one kind. A calm or steady window is judged only once, as observing must not become the load.
pub(super) fn stalls(window: &Window) -> Option<Vec<usize>> {
    let all = window.snapshots();
    let stalled = |pair: &[Snapshot]| {
        let (a, b) = (pair[0].the::<Pressure>()?, pair[1].the::<Pressure>()?);
        let seconds = (pair[1].boot_ns - pair[0].boot_ns) as f64;
        let share = |f: fn(&Pressure) -> Counter| Some(f(b).get()?.checked_sub(f(a).get()?)? as f64 / seconds);
        let most = [share(|p| p.cpu_some), share(|p| p.memory_some), share(|p| p.io_some)].into_iter().flatten();
        most.reduce(f64::max)
    };
    let shares: Vec<Option<f64>> = all.windows(2).map(stalled).collect();
    let is_stalled = |share: &Option<f64>| share.map(|share| share >= STALLED);
    let runs: Vec<&[Option<f64>]> = shares.chunk_by(|a, b| is_stalled(a) == is_stalled(b)).collect();
    if runs.len() < 2 {
        return None;
    }
    let mut ends = BTreeSet::from([0]);
    let mut from = 0;
    for run in runs {
        if is_stalled(&run[0]) == Some(true) {
            let (begin, end) = whole_steps(run);
            ends.extend([from + begin, from + end]);
        }
        from += run.len();
        ends.insert(from);
    }
    Some(ends.into_iter().collect())
}

/// Returns the first of the stalled steps and the one after the last, without those at either end in which the stall began or
/// ended: half a calm step would dilute what holds throughout.
fn whole_steps(run: &[Option<f64>]) -> (usize, usize) {
    let worst = run.iter().flatten().copied().fold(0.0, f64::max);
    let is_whole = |share: &Option<f64>| share.is_some_and(|share| share >= WHOLE * worst);
    let begin = usize::from(!run.first().is_some_and(is_whole));
    let end = run.len() - usize::from(!run.last().is_some_and(is_whole));
    if begin < end { (begin, end) } else { (0, run.len()) }
}

/// Returns the positions of the snapshots at which the intervals of each tool begin and end, the tool with the most intervals
/// first.
pub(super) fn cadences(window: &Window) -> Vec<Vec<usize>> {
    let mut all = Cadences { snapshots: window.snapshots(), found: Vec::new() };
    Snapshot::default().each_family(&mut all);
    let mut found = all.found;
    found.sort_by_key(|times| std::cmp::Reverse(times.len()));
    let mut chosen: Vec<Vec<usize>> = Vec::new();
    for times in found {
        // Gauges have no reading at the beginning of the first interval.
        let is_contained = |other: &Vec<usize>| times.iter().filter(|at| !other.contains(at)).count() <= 1;
        let is_as_long = |other: &Vec<usize>| times.len() + 1 >= other.len();
        if !chosen.iter().any(|other| is_contained(other) && is_as_long(other)) && chosen.len() < MOST_GRIDS {
            chosen.push(times);
        }
    }
    chosen
}

/// Returns true if all data in the window that was read more than once was read at these times: what the means of two tools'
/// runs suggest together is not refuted by the intervals of one.
pub(super) fn has_no_other_times(window: &Window, times: &[usize]) -> bool {
    struct OtherTimes<'w>(&'w [Snapshot], &'w [usize], bool);
    impl EachFamily for OtherTimes<'_> {
        fn family<F: Family>(&mut self, _: &mut Vec<F>) {
            let read: Vec<usize> = (0..self.0.len()).filter(|at| !F::rows(&self.0[*at]).is_empty()).collect();
            self.2 |= !F::INFO.events && read.len() > 1 && read.iter().any(|at| !self.1.contains(at));
        }
    }
    let mut others = OtherTimes(window.snapshots(), times, false);
    Snapshot::default().each_family(&mut others);
    !others.2
}

/// Returns true if the machine was restarted between two snapshots: counters were reset, and none grew.
pub(super) fn is_gap(window: &Window, from: usize, to: usize) -> bool {
    struct Counted<'w> {
        before: &'w Snapshot,
        now: &'w Snapshot,
        fell: bool,
        grew: bool,
    }
    impl EachFamily for Counted<'_> {
        fn family<F: Family>(&mut self, _: &mut Vec<F>) {
            if self.grew {
                return;
            }
            let before: BTreeMap<&F::Key, &F> = F::rows(self.before).iter().map(|row| (row.key(), row)).collect();
            for later in F::rows(self.now) {
                let Some(row) = before.get(later.key()).copied() else { continue };
                for column in 0..F::INFO.metrics.len() {
                    let [before, now] = [row, later].map(|row| match row.value(column) {
                        Some(Value::Counter(counter)) => counter.get(),
                        _ => None,
                    });
                    let Some((before, now)) = before.zip(now) else { continue };
                    self.fell |= now < before;
                    self.grew |= now > before;
                }
            }
        }
    }
    let all = window.snapshots();
    let mut counted = Counted { before: &all[from], now: &all[to], fell: false, grew: false };
    Snapshot::default().each_family(&mut counted);
    counted.fell && !counted.grew
}

/// Collects the snapshots at which the families have rows.
struct Cadences<'w> {
    snapshots: &'w [Snapshot],
    found: Vec<Vec<usize>>,
}

impl EachFamily for Cadences<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        if F::INFO.events {
            return;
        }
        // Two tools may fill one family: the load average of uptime, and its time since boot, end no interval of the counters
        // that mpstat prints.
        let counters = (0..F::INFO.metrics.len()).filter(|column| F::INFO.metrics[*column].kind == MetricKind::Counter);
        let mut has_counters = false;
        for column in counters {
            has_counters |= self.find::<F>(|row| has_counter(row, column));
        }
        if !has_counters {
            self.find::<F>(|_| true);
        }
    }
}

impl Cadences<'_> {
    /// Adds the snapshots in which a row of a family fulfils a condition, if an entity's does three times: at least two
    /// intervals of one. Returns true if any row does.
    fn find<F: Family>(&mut self, is_read: impl Fn(&F) -> bool) -> bool {
        let mut times = Vec::new();
        let mut readings: BTreeMap<&F::Key, usize> = BTreeMap::new();
        for (at, snapshot) in self.snapshots.iter().enumerate() {
            for row in F::rows(snapshot).iter().filter(|row| is_read(row)) {
                *readings.entry(row.key()).or_default() += 1;
                if times.last() != Some(&at) {
                    times.push(at);
                }
            }
        }
        let is_found = !times.is_empty();
        if readings.values().any(|count| *count >= 3) && !self.found.contains(&times) {
            self.found.push(times);
        }
        is_found
    }
}

/// Returns true if a row has a reading of the counter in a column.
fn has_counter<F: Family>(row: &F, column: usize) -> bool {
    matches!(row.value(column), Some(Value::Counter(counter)) if counter.get().is_some())
}
