//! Rows of one entity from one tool over time.

use crate::clock::{ReportInterval, nanoseconds};
use std::any::Any;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Disk, Family, MetricKind};
use whyslow_model::origin::{Origins, SourceLocation};
use whyslow_model::since_boot::without_counters;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Name, Value};

/// Maximum number of locations of an entity in one file.
const MOST_LOCATIONS: usize = 16;
/// Factor by which a less exact tool must cover more time than the other one to be preferred.
const MUCH_LONGER: u64 = 2;

/// Rows by time in nanoseconds.
pub struct EntitySeries<F> {
    rows: BTreeMap<u64, F>,
    /// Totals of the counters whose rates the tool prints.
    totals: Vec<GrownCounter>,
    locations: Vec<SourceLocation>,
}

/// Running total of a counter.
struct GrownCounter {
    column: usize,
    total: f64,
    until: u64,
    /// Whether a later interval has a row without this counter: it is unknown there, rather than unchanged.
    is_lost: bool,
}

/// An [`EntitySeries`] of any family.
pub trait AnySeries: Any {
    fn first(&self) -> Option<u64>;
    fn last(&self) -> Option<u64>;
    fn length(&self) -> usize;
    /// Keeps the first row, and the last row of each `grid` nanoseconds. Counters lose nothing by it.
    fn thin(&mut self, grid: u64);
    /// Returns true if the series has counters, so that the time of a reading matters.
    fn has_counters(&self) -> bool;
    /// Returns true if both have values of the same metric.
    fn overlaps(&self, other: &dyn AnySeries) -> bool;
    /// Moves all rows by this many nanoseconds.
    fn shift(&mut self, by: u64);
    /// Adds the rows of a later reading by the same tool, whose counters continue from these.
    fn append(&mut self, later: Box<dyn AnySeries>);
    /// Adds the rows of another tool's series of the same entity.
    fn merge_tool(&mut self, other: Box<dyn AnySeries>);
    /// Adds the row to `totals` if it is the only one: its counts are counts since boot.
    fn copy_total(&self, totals: &mut Snapshot);
    /// Moves the totals of averages since boot into `averages`. Levels of that instant remain.
    fn move_averages(&mut self, averages: &mut Snapshot, origins: &mut Origins);
    /// Moves the rows into the Snapshots of their times.
    fn into_snapshots(self: Box<Self>, snapshots: &mut BTreeMap<u64, Snapshot>, origins: &mut Origins);
}

impl<F: Family> EntitySeries<F> {
    pub fn new() -> Self {
        Self { rows: BTreeMap::new(), totals: Vec::new(), locations: Vec::new() }
    }

    /// Returns the row at a time, created if needed, and whether it was created.
    pub fn row(&mut self, at: u64, key: &F::Key) -> (&mut F, bool) {
        let mut new = false;
        let row = self.rows.entry(at).or_insert_with(|| {
            new = true;
            F::keyed(key.clone())
        });
        (row, new)
    }

    /// Changes every row.
    pub fn change_rows(&mut self, change: impl FnMut(&mut F)) {
        self.rows.values_mut().for_each(change);
    }

    /// Records the line of a row.
    pub fn located(&mut self, file: &Name, line: u32) {
        match self.locations.last_mut() {
            Some(location) => location.last = location.last.max(line),
            None => self.locations.push(SourceLocation { file: file.clone(), first: line, last: line }),
        }
    }

    /// Grows counters over an interval by their rates per second. Returns the number of new rows. Between the previous interval
    /// and this one, counters are unchanged, unless `is_unknown` reports that time as unknown: then they restart, as after a
    /// reset.
    pub fn grow(
        &mut self,
        interval: ReportInterval,
        key: &F::Key,
        rates: &[(usize, f64)],
        is_unknown: impl Fn(u64, u64) -> bool,
    ) -> usize {
        let (from, to) = (nanoseconds(interval.from), nanoseconds(interval.to));
        let totals: Vec<(usize, f64, f64)> = rates
            .iter()
            .map(|(column, rate)| {
                let at = self.totals.iter().position(|known| known.column == *column).unwrap_or_else(|| {
                    self.totals.push(GrownCounter { column: *column, total: 0.0, until: from, is_lost: false });
                    self.totals.len() - 1
                });
                let counter = &mut self.totals[at];
                let is_unknown = from > counter.until && (counter.is_lost || is_unknown(counter.until, from));
                let before = if is_unknown { 0.0 } else { counter.total };
                let after = before + rate * interval.seconds();
                *counter = GrownCounter { column: *column, total: after, until: to, is_lost: false };
                (*column, before, after)
            })
            .collect();
        let (row, first_is_new) = self.row(nanoseconds(interval.from), key);
        totals.iter().for_each(|(column, before, _)| put_counter(row, *column, before.round() as u64));
        let (row, second_is_new) = self.row(nanoseconds(interval.to), key);
        totals.iter().for_each(|(column, _, after)| put_counter(row, *column, after.round() as u64));
        usize::from(first_is_new) + usize::from(second_is_new)
    }

    /// Notes that the row of an interval lacks these counters.
    pub fn lose(&mut self, columns: &[usize]) {
        self.totals.iter_mut().filter(|known| columns.contains(&known.column)).for_each(|known| known.is_lost = true);
    }
}

pub fn put_counter<F: Family>(row: &mut F, column: usize, value: u64) {
    row.put(column, Value::Counter(value.into()));
}

impl<F: Family + Any> AnySeries for EntitySeries<F> {
    fn first(&self) -> Option<u64> {
        self.rows.keys().next().copied()
    }

    fn last(&self) -> Option<u64> {
        self.rows.keys().next_back().copied()
    }

    fn length(&self) -> usize {
        self.rows.len()
    }

    fn thin(&mut self, grid: u64) {
        let times: Vec<u64> = self.rows.keys().copied().collect();
        let mut at = 0;
        self.rows.retain(|time, _| {
            at += 1;
            at == 1 || times.get(at).is_none_or(|next| next / grid != time / grid)
        });
    }

    fn has_counters(&self) -> bool {
        self.rows.values().any(|row| (0..F::INFO.metrics.len()).any(|column| count(row, column).is_some()))
    }

    fn overlaps(&self, other: &dyn AnySeries) -> bool {
        let other: &dyn Any = other;
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        let has = |rows: &BTreeMap<u64, F>, column| rows.values().rev().any(|row| is_known(row, column));
        (0..F::INFO.metrics.len()).any(|column| has(&other.rows, column) && has(&self.rows, column))
    }

    fn shift(&mut self, by: u64) {
        self.rows = std::mem::take(&mut self.rows).into_iter().map(|(at, row)| (at.saturating_add(by), row)).collect();
    }

    fn append(&mut self, later: Box<dyn AnySeries>) {
        let Ok(later) = (later as Box<dyn Any>).downcast::<Self>() else { return };
        self.add_rows(later.rows);
        for location in later.locations {
            // If there are very many, the last one extends to the end.
            let full = self.locations.len() >= MOST_LOCATIONS;
            match self.locations.last_mut().filter(|last| full && last.file == location.file) {
                Some(last) => last.last = last.last.max(location.last),
                None => self.locations.push(location),
            }
        }
    }

    /// Merges another tool's series. Each tool's counters start from its own zero, so each counter is taken from one series
    /// only: from this one if it has it. Between two readings of one tool, its counters are interpolated at the other's times,
    /// which leaves the rates of both unchanged. Parts of a whole are all taken from one tool: from this one, unless the other
    /// covers much more time.
    fn merge_tool(&mut self, other: Box<dyn AnySeries>) {
        let Ok(mut other) = (other as Box<dyn Any>).downcast::<Self>() else { return };
        if F::INFO.parts {
            if other.covered() / MUCH_LONGER > self.covered() {
                *self = *other;
            }
            return;
        }
        let counters: Vec<usize> =
            (0..F::INFO.metrics.len()).filter(|c| F::INFO.metrics[*c].kind == MetricKind::Counter).collect();
        for column in &counters {
            if self.rows.values().any(|row| count(row, *column).is_some()) {
                for row in other.rows.values_mut() {
                    Family::put(row, *column, Value::Counter(Counter::default()));
                }
            }
        }
        self.add_rows(other.rows);
        self.locations.extend(other.locations);
        for column in counters {
            interpolate(&mut self.rows, column);
        }
    }

    fn copy_total(&self, totals: &mut Snapshot) {
        if let (1, Some(row)) = (self.rows.len(), self.rows.values().next()) {
            F::rows_mut(totals).push(row.clone());
        }
    }

    fn move_averages(&mut self, averages: &mut Snapshot, origins: &mut Origins) {
        let Some((_, last)) = std::mem::take(&mut self.rows).pop_last() else { return };
        for location in &self.locations {
            origins.note::<F>(last.key(), location.clone());
        }
        let levels = without_counters(&last);
        // iostat's service time is also an average.
        if levels != F::keyed(last.key().clone()) && F::INFO.name != Disk::INFO.name {
            self.rows.insert(0, levels);
        }
        F::rows_mut(averages).push(last);
    }

    fn into_snapshots(self: Box<Self>, snapshots: &mut BTreeMap<u64, Snapshot>, origins: &mut Origins) {
        if let Some(row) = self.rows.values().next() {
            for location in self.locations {
                origins.note::<F>(row.key(), location);
            }
        }
        for (at, row) in self.rows {
            F::rows_mut(snapshots.entry(at).or_default()).push(row);
        }
    }
}

impl<F: Family> EntitySeries<F> {
    /// Returns the nanoseconds from the first row to the last.
    fn covered(&self) -> u64 {
        let mut times = self.rows.keys();
        let first = times.next().copied().unwrap_or(0);
        times.next_back().map_or(0, |last| last - first)
    }

    /// Adds rows. A row at a time that already has one only fills its gaps.
    fn add_rows(&mut self, rows: BTreeMap<u64, F>) {
        for (at, row) in rows {
            match self.rows.get_mut(&at) {
                Some(own) => own.fill(&row),
                None => drop(self.rows.insert(at, row)),
            }
        }
    }
}

fn count<F: Family>(row: &F, column: usize) -> Option<u64> {
    match row.value(column)? {
        Value::Counter(counter) => counter.get(),
        _ => None,
    }
}

fn is_known<F: Family>(row: &F, column: usize) -> bool {
    match row.value(column) {
        Some(Value::Counter(counter)) => counter.get().is_some(),
        Some(Value::Gauge(gauge)) => gauge.get().is_some(),
        Some(Value::State(state)) => state.get().is_some(),
        Some(Value::Histogram(_)) | None => false,
    }
}

/// Interpolates a counter in the rows that lack it between two readings.
fn interpolate<F: Family>(rows: &mut BTreeMap<u64, F>, column: usize) {
    let known: Vec<(u64, u64)> = rows.iter().filter_map(|(at, row)| Some((*at, count(row, column)?))).collect();
    for pair in known.windows(2) {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        for (at, row) in rows.range_mut(from + 1..to) {
            let part = (at - from) as f64 / (to - from) as f64;
            let value = low as f64 + (high as f64 - low as f64) * part;
            put_counter(row, column, value.round() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{CpuMean, System};
    use whyslow_model::key::MachineKey;
    use whyslow_model::window::Window;

    fn series<F: Family<Key = MachineKey>>(rows: &[(u64, F)]) -> EntitySeries<F> {
        let mut series = EntitySeries::new();
        for (at, row) in rows {
            *series.row(at * 1_000_000_000, &MachineKey).0 = row.clone();
        }
        series
    }

    #[test]
    fn two_tools_keep_their_own_rates() {
        let new = || System::new(MachineKey);
        let vmstat = [(0, 0, 0), (4, 40, 400)].map(|(t, switches, interrupts)| {
            (t, System { context_switches: switches.into(), interrupts: interrupts.into(), ..new() })
        });
        let other =
            [(1, 7), (3, 107)].map(|(t, forks)| (t, System { forks: forks.into(), interrupts: 9.into(), ..new() }));
        let mut all = series(&vmstat);
        all.merge_tool(Box::new(series(&other)));
        let mut snapshots = BTreeMap::new();
        Box::new(all).into_snapshots(&mut snapshots, &mut Origins::default());
        let window = Window::new(snapshots.into_iter().map(|(at, s)| Snapshot { boot_ns: at + 1, ..s }).collect());
        let change = window.change::<System>().unwrap();
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 0.01, "{a:?} {b}");
        close(change.rate(|s| s.context_switches), 10.0);
        close(change.rate(|s| s.interrupts), 100.0);
        close(change.rate(|s| s.forks), 50.0);
    }

    #[test]
    fn parts_of_a_whole_come_from_one_tool() {
        let new = || CpuMean::new(MachineKey);
        // One tool does not count I/O wait, but includes it in idle time; the other counts niced work as user time.
        let iostat = |until: u64| {
            let rows = (0..=until)
                .map(|t| (t, CpuMean { user: (3 * t).into(), nice: (2 * t).into(), idle: (5 * t).into(), ..new() }));
            rows.collect::<Vec<_>>()
        };
        let vmstat: Vec<_> = (0..=9_u64)
            .map(|t| (t, CpuMean { user: (4 * t).into(), iowait: (6 * t).into(), idle: 0.into(), ..new() }))
            .collect();
        let merged = |until: u64| {
            let mut all = series(&iostat(until));
            all.merge_tool(Box::new(series(&vmstat)));
            let last = all.rows.last_key_value().map(|(_, row)| row.clone()).unwrap();
            (all.rows.len(), [last.user, last.nice, last.iowait, last.idle].map(Counter::get))
        };
        assert_eq!(
            merged(5),
            (6, [Some(15), Some(10), None, Some(25)]),
            "more than half of the time: the more exact one"
        );
        assert_eq!(merged(4), (10, [Some(36), None, Some(54), Some(0)]));
    }
}
