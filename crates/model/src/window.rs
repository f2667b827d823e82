//! Consecutive Snapshots and the differences between them.
//!
//! Counter wrap, counter reset, hot-plug and clock steps are handled here, once. A counter's first reading is never a rate:
//! rates come from two readings of the same entity.

mod part;

use crate::catalogue::{EachFamily, Family};
use crate::histogram::Histogram;
use crate::origin::Origins;
use crate::plausible::{self, ImpossibleValue};
use crate::rename::{RenamedKeys, Renamer, rename_all};
use crate::since_boot::SinceBoot;
use crate::snapshot::{Snapshot, SourceReport};
use crate::value::{Counter, Gauge, Name};
use std::collections::BTreeMap;

/// Snapshots of one machine and one boot, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Window {
    snapshots: Vec<Snapshot>,
    origins: Origins,
    /// Counters that were read once, for captures.
    totals: SinceBoot,
    /// True if it covers the time since boot.
    is_since_boot: bool,
    /// True if the time between its readings is assumed, for captures.
    has_assumed_times: bool,
    /// Usual values of the machine's signals.
    usual: UsualValues,
    /// Families that the first snapshot took over from dropped ones, with the time since boot at which they were read.
    carried: BTreeMap<&'static str, u64>,
    /// Sources whose reports the first snapshot took over, with the time since boot at which they were read.
    carried_reports: BTreeMap<Name, u64>,
}

/// Validity of rows that are read rarely, nanoseconds: they are read once a minute.
const VALID_NS: u64 = 75 * 1_000_000_000;

/// Passes valid rows of a dropped snapshot on to the next one.
struct CarryValid<'w> {
    oldest: &'w mut Snapshot,
    newest: u64,
    /// Time of the dropped snapshot; `read` has the times of the rows that it had taken over itself.
    at: u64,
    read: BTreeMap<&'static str, u64>,
    carried: &'w mut BTreeMap<&'static str, u64>,
}

impl EachFamily for CarryValid<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let read = self.read.get(F::INFO.name).copied().unwrap_or(self.at);
        let is_valid = !F::INFO.events && self.newest - read <= VALID_NS;
        if is_valid && !rows.is_empty() && F::rows(self.oldest).is_empty() {
            *F::rows_mut(self.oldest) = std::mem::take(rows);
            self.carried.insert(F::INFO.name, read);
        }
    }
}

/// Passes reports of a dropped snapshot on to the next one if that did not read their sources: what these sources could
/// not show still applies. Drops reports of sources that were read on request: they are no longer active.
fn carry_reports(old: &mut Snapshot, oldest: &mut Snapshot, newest: u64, carried: &mut BTreeMap<Name, u64>) {
    let read = std::mem::take(carried);
    for report in old.sources.drain(..).filter(|report| !report.asked) {
        let at = read.get(&report.source).copied().unwrap_or(old.boot_ns);
        let is_newer = oldest.sources.iter().any(|other| other.source == report.source);
        if newest - at <= VALID_NS && !is_newer {
            carried.insert(report.source.clone(), at);
            oldest.sources.push(report);
        }
    }
}

/// Median of each signal over a baseline, by kind and name of the subject, and name of the signal.
pub type UsualValues = BTreeMap<(String, String, String), f64>;

impl Window {
    /// Creates a window from snapshots. Drops snapshots whose time since boot does not advance: a reboot starts a new
    /// window.
    pub fn new(snapshots: Vec<Snapshot>) -> Self {
        let mut window = Self::default();
        for s in snapshots {
            window.push(s);
        }
        window
    }

    /// Adds the locations that its rows were read from, for captures.
    pub fn with_origins(self, origins: Origins) -> Self {
        Self { origins, ..self }
    }

    /// Adds counters that were read once, for captures.
    pub fn with_totals(self, totals: SinceBoot) -> Self {
        Self { totals, ..self }
    }

    /// Adds the usual values of the machine's signals, from a baseline.
    pub fn with_usual(self, usual: UsualValues) -> Self {
        Self { usual, ..self }
    }

    /// Returns the usual values of the machine's signals; empty without a baseline.
    pub fn usual(&self) -> &UsualValues {
        &self.usual
    }

    /// Sets whether the times between readings are assumed.
    pub fn with_assumed_times(self, has_assumed_times: bool) -> Self {
        Self { has_assumed_times, ..self }
    }

    /// Replaces the names in its rows, and the names of the files that they were read from.
    pub fn renamed(mut self, renamer: &dyn Renamer) -> Self {
        let mut keys = RenamedKeys::new();
        rename_all(&mut self.snapshots, renamer, Some(&mut keys));
        self.totals.rename(renamer, &mut keys);
        let origins = self.origins.renamed(renamer, &keys);
        Self { origins, ..self }
    }

    /// Removes impossible values, and returns them.
    pub fn without_impossible_values(mut self) -> (Self, Vec<ImpossibleValue>) {
        let mut found = plausible::take_out_levels(&mut self.snapshots, &self.origins);
        let columns = plausible::impossible_counters(&self, &mut found);
        plausible::take_out_counters(&mut self.snapshots, &columns);
        (self, found.into_iter().collect())
    }

    /// Adds reports to those of its last reading.
    pub fn with_reports(mut self, reports: impl Iterator<Item = SourceReport>) -> Self {
        if let Some(last) = self.snapshots.last_mut() {
            last.sources.extend(reports);
        }
        self
    }

    /// Returns whether the time between its readings is assumed. Rates were printed and do not depend on it; the speed
    /// at which a level changes does.
    pub fn has_assumed_times(&self) -> bool {
        self.has_assumed_times
    }

    /// Returns the counters that were read once; empty for the live kernel.
    pub fn totals(&self) -> &SinceBoot {
        &self.totals
    }

    /// Marks the window as the time since counting began: one step, but not a sample, so that its peaks and pauses are
    /// unknown.
    pub(crate) fn counted_since_boot(self) -> Self {
        Self { is_since_boot: true, ..self }
    }

    /// Returns the window as one step, whose peaks and pauses are unknown.
    pub fn as_one_step(&self) -> Self {
        self.clone().counted_since_boot()
    }

    /// Returns whether it covers the time since boot, in one step.
    pub fn is_since_boot(&self) -> bool {
        self.is_since_boot
    }

    /// Returns the locations that the rows of captures were read from; empty for the live kernel.
    pub fn origins(&self) -> &Origins {
        &self.origins
    }

    /// Adds the next snapshot; drops it unless it is later than the last one.
    pub fn push(&mut self, snapshot: Snapshot) {
        if self.snapshots.last().is_none_or(|last| snapshot.boot_ns > last.boot_ns) {
            self.snapshots.push(snapshot);
        }
    }

    /// Drops the snapshots that are older than `seconds` before the newest, for a sliding window. The oldest one left
    /// takes over the rows of families that it lacks, as long as they are valid: settings and inventory are read less
    /// often than counters. It also takes over the reports of their sources.
    pub fn keep_last(&mut self, seconds: f64) {
        let Some(newest) = self.last().map(|last| last.boot_ns) else { return };
        let is_old = |snapshot: &&Snapshot| (newest - snapshot.boot_ns) as f64 / 1e9 > seconds;
        for _ in 0..self.snapshots.iter().take_while(is_old).count() {
            let mut old = self.snapshots.remove(0);
            let read = std::mem::take(&mut self.carried);
            let Some(oldest) = self.snapshots.first_mut() else { return };
            // Its events happened before it.
            oldest.clear_events();
            let at = old.boot_ns;
            carry_reports(&mut old, oldest, newest, &mut self.carried_reports);
            old.each_family(&mut CarryValid { oldest, newest, at, read, carried: &mut self.carried });
        }
    }

    /// Returns the snapshots, oldest first.
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    /// Returns the newest snapshot.
    pub fn last(&self) -> Option<&Snapshot> {
        self.snapshots.last()
    }

    /// Returns the seconds from the first snapshot to the last; 0 for fewer than two.
    pub fn seconds(&self) -> f64 {
        match (self.snapshots.first(), self.snapshots.last()) {
            (Some(a), Some(b)) => (b.boot_ns - a.boot_ns) as f64 / 1e9,
            _ => 0.0,
        }
    }

    /// Returns the newest row of each entity of a family, including entities that have disappeared. Slow sources are
    /// not read in every snapshot, so it may be older than the newest snapshot.
    pub fn newest<F: Family>(&self) -> BTreeMap<F::Key, &F> {
        let mut rows = BTreeMap::new();
        for s in &self.snapshots {
            for row in F::rows(s) {
                rows.insert(row.key().clone(), row);
            }
        }
        rows
    }

    /// Returns the newest row of a family that has only one.
    pub fn the<F: Family>(&self) -> Option<&F> {
        self.snapshots.iter().rev().find_map(|s| s.the::<F>())
    }

    /// Returns the readings of each entity.
    pub fn changes<F: Family>(&self) -> Vec<Change<'_, F>> {
        let mut by_key: BTreeMap<&F::Key, Change<'_, F>> = BTreeMap::new();
        for s in &self.snapshots {
            for row in F::rows(s) {
                by_key
                    .entry(row.key())
                    .or_insert_with(|| Change {
                        rows: Vec::new(),
                        window_seconds: self.seconds(),
                        is_since_boot: self.is_since_boot,
                    })
                    .rows
                    .push((s.boot_ns, row));
            }
        }
        by_key.into_values().collect()
    }

    /// Returns the readings of a family that has only one row.
    pub fn change<F: Family>(&self) -> Option<Change<'_, F>> {
        self.changes().into_iter().next()
    }
}

/// Returns the number of seconds over which a counter was read, for the entity that was read longest. A capture may
/// show processes for only a part of its time. `None` if no entity was read twice.
pub fn counted_seconds<F: Family>(changes: &[Change<'_, F>], f: impl Fn(&F) -> Counter) -> Option<f64> {
    changes.iter().map(|change| change.counted_seconds(&f)).reduce(f64::max).filter(|seconds| *seconds > 0.0)
}

/// The readings of one entity over a window, oldest first; there is at least one.
#[derive(Clone, Debug)]
pub struct Change<'w, F> {
    rows: Vec<(u64, &'w F)>,
    window_seconds: f64,
    is_since_boot: bool,
}

impl<'w, F: Family> Change<'w, F> {
    /// Returns the entity's key.
    pub fn key(&self) -> &'w F::Key {
        self.last().key()
    }

    /// Returns the newest reading.
    pub fn last(&self) -> &'w F {
        self.rows.last().expect("a change has at least one reading").1
    }

    /// Returns the oldest reading.
    pub fn first(&self) -> &'w F {
        self.rows.first().expect("a change has at least one reading").1
    }

    /// Returns the seconds between the entity's first and last readings.
    pub fn seconds(&self) -> f64 {
        (self.rows[self.rows.len() - 1].0 - self.rows[0].0) as f64 / 1e9
    }

    /// Returns the seconds of the whole window; the entity may have existed during only a part of it.
    pub fn window_seconds(&self) -> f64 {
        self.window_seconds
    }

    /// Returns whether it covers the time since boot, in one step that is not a sample.
    pub fn is_since_boot(&self) -> bool {
        self.is_since_boot
    }

    /// Returns the growth of a counter over the window. `None` if it was never read twice.
    ///
    /// A counter that falls has wrapped if the catalogue gives a limit and the counter was near it. Otherwise the
    /// entity was reset, and its count since then cannot be assigned to this step; neither can that of another entity
    /// of the same name.
    pub fn grown(&self, f: impl Fn(&F) -> Counter) -> Option<f64> {
        let mut sum = None;
        for (_, step) in self.growths(&f) {
            if let Some(step) = step {
                sum = Some(sum.unwrap_or(0.0) + step);
            }
        }
        sum
    }

    /// Returns a counter's rate per second over the time in which it was read.
    pub fn rate(&self, f: impl Fn(&F) -> Counter) -> Option<f64> {
        let (mut sum, mut seconds) = (0.0, 0.0);
        for (dt, step) in self.growths(&f) {
            if let Some(step) = step {
                sum += step;
                seconds += dt;
            }
        }
        (seconds > 0.0).then(|| sum / seconds)
    }

    /// Returns the number of seconds over which a counter was read.
    pub fn counted_seconds(&self, f: impl Fn(&F) -> Counter) -> f64 {
        self.growths(f).filter_map(|(dt, step)| step.map(|_| dt)).sum()
    }

    /// Returns each step of a counter: its length in seconds, and the growth (`None` if unknown). The time since boot
    /// has no steps: the distribution of the growth over it is unknown.
    pub fn steps(&self, f: impl Fn(&F) -> Counter) -> impl Iterator<Item = (f64, Option<f64>)> {
        self.growths(f).filter(|_| !self.is_since_boot)
    }

    /// Returns the steps like [`steps`](Self::steps), with the time since boot as one step.
    pub fn growths(&self, f: impl Fn(&F) -> Counter) -> impl Iterator<Item = (f64, Option<f64>)> {
        self.rows.windows(2).map(move |pair| {
            let dt = (pair[1].0 - pair[0].0) as f64 / 1e9;
            let step = match (f(pair[0].1).get(), f(pair[1].1).get()) {
                _ if !pair[0].1.is_same_entity(pair[1].1) => None,
                (Some(a), Some(b)) if b < a => growth(a, b, f(&F::limits()).get()),
                (Some(a), Some(b)) => growth(a, b, None),
                _ => None,
            };
            (dt, step)
        })
    }

    /// Returns the values added to a histogram over the window. `None` if it was never read twice; steps in which it
    /// was reset are omitted.
    pub fn histogram(&self, f: impl Fn(&F) -> &Histogram) -> Option<Histogram> {
        let same = self.rows.windows(2).filter(|pair| pair[0].1.is_same_entity(pair[1].1));
        let steps = same.filter_map(|pair| f(pair[1].1).since(f(pair[0].1)));
        steps.reduce(|all, step| all.merged(&step))
    }

    /// Returns the mean of a gauge over its readings.
    pub fn mean(&self, f: impl Fn(&F) -> Gauge) -> Option<f64> {
        let readings: Vec<f64> = self.readings(f).collect();
        (!readings.is_empty()).then(|| readings.iter().sum::<f64>() / readings.len() as f64)
    }

    /// Returns the largest reading of a gauge.
    pub fn max(&self, f: impl Fn(&F) -> Gauge) -> Option<f64> {
        self.readings(f).reduce(f64::max)
    }

    /// Returns the last known reading; a capture may lack a file at some times. Not for gauges whose absence has a
    /// meaning, such as a limit.
    pub fn latest(&self, f: impl Fn(&F) -> Gauge) -> Option<f64> {
        self.readings(f).last()
    }

    /// Returns all readings of a gauge that are not absent.
    pub fn readings(&self, f: impl Fn(&F) -> Gauge) -> impl Iterator<Item = f64> {
        self.rows.iter().filter_map(move |(_, row)| f(row).get())
    }

    /// Returns `f` of each row for which it is known, with the row's time in seconds.
    pub fn course(&self, f: impl Fn(&F) -> Option<f64>) -> impl Iterator<Item = (f64, f64)> {
        self.rows.iter().filter_map(move |(at, row)| Some((*at as f64 / 1e9, f(row)?)))
    }

    /// Returns the rows themselves, oldest first.
    pub fn rows(&self) -> impl Iterator<Item = &'w F> {
        self.rows.iter().map(|(_, row)| *row)
    }
}

/// Returns the growth of a counter from `a` to `b`; `None` if it was reset. A counter that wraps at `wraps_at` did so
/// if it was in the upper half before, is in the lower half now, and grew by less than half; otherwise it was reset.
pub fn growth(a: u64, b: u64, wraps_at: Option<u64>) -> Option<f64> {
    if b >= a {
        return Some((b - a) as f64);
    }
    let limit = wraps_at.filter(|limit| (limit / 2..*limit).contains(&a) && b < limit / 2)?;
    Some(limit - a + b).filter(|growth| *growth < limit / 2).map(|growth| growth as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Disk, Softnet};
    use crate::value::State;

    fn snapshot(second: u64, disks: &[(&str, u64)]) -> Snapshot {
        let mut s = Snapshot { boot_ns: second * 1_000_000_000, ..Snapshot::default() };
        for (name, reads) in disks {
            s.block.disk.push(Disk { reads: (*reads).into(), ..Disk::new((*name).into()) });
        }
        s.sort();
        s
    }

    fn window(counts: &[(u64, u64)]) -> Window {
        Window::new(counts.iter().map(|&(t, n)| snapshot(t, &[("sda", n)])).collect())
    }

    #[test]
    fn the_first_reading_is_never_a_rate() {
        let w = window(&[(10, 1_000_000)]);
        let change = w.change::<Disk>().unwrap();
        assert_eq!(change.rate(|d| d.reads), None);
        assert_eq!(change.grown(|d| d.reads), None);
    }

    #[test]
    fn uneven_steps_weigh_by_their_length() {
        let w = window(&[(10, 0), (11, 100), (14, 100)]);
        assert_eq!(w.change::<Disk>().unwrap().rate(|d| d.reads), Some(25.0));
    }

    #[test]
    fn a_counter_counts_as_long_as_it_was_read_of_any_entity() {
        let mut all =
            vec![snapshot(10, &[("sda", 0)]), snapshot(12, &[("sda", 5), ("sdb", 1)]), snapshot(13, &[("sdb", 2)])];
        let mut unread = snapshot(30, &[]);
        unread.block.disk.push(Disk::new("sda".into()));
        all.push(unread);
        let window = Window::new(all);
        assert_eq!(counted_seconds(&window.changes::<Disk>(), |d| d.reads), Some(2.0));
        assert_eq!(counted_seconds(&window.changes::<Disk>(), |d| d.writes), None);
    }

    fn softnet(counts: &[u64]) -> Window {
        let snapshot = |(second, processed): (usize, &u64)| {
            let mut s = Snapshot { boot_ns: (second as u64 + 1) * 1_000_000_000, ..Snapshot::default() };
            s.processor.softnet.push(Softnet { processed: (*processed).into(), ..Softnet::new(0) });
            s
        };
        Window::new(counts.iter().enumerate().map(snapshot).collect())
    }

    #[test]
    fn a_32_bit_counter_wraps() {
        let w = softnet(&[u64::from(u32::MAX) - 9, 90]);
        assert_eq!(w.change::<Softnet>().unwrap().rate(|s| s.processed), Some(100.0));
        // Falling from just above the half to zero is a reset: no counter grows that far in a step.
        let w = softnet(&[(1 << 31) + 5, 7]);
        assert_eq!(w.change::<Softnet>().unwrap().rate(|s| s.processed), None);
    }

    #[test]
    fn a_counter_of_64_bits_that_falls_was_reset_wherever_it_stood() {
        for before in [5000, (1 << 31) + 5, u64::from(u32::MAX) - 9, 1 << 32, u64::MAX - 1] {
            let w = window(&[(1, before), (2, 90)]);
            assert_eq!(w.change::<Disk>().unwrap().grown(|d| d.reads), None, "{before}");
        }
    }

    #[test]
    fn times_that_the_kernel_counts_in_32_bits_of_milliseconds_wrap_there() {
        let ms = |ms: u64| ms * 1_000_000;
        let at = |second: u64, busy: u64| {
            let mut s = snapshot(second, &[("sda", 0)]);
            s.block.disk[0].busy_time = busy.into();
            s
        };
        let w = Window::new(vec![at(1, ms((1 << 32) - 300)), at(2, ms(400))]);
        assert_eq!(w.change::<Disk>().unwrap().rate(|d| d.busy_time), Some(ms(700) as f64));
    }

    #[test]
    fn another_entity_of_the_same_name_is_no_growth_of_the_first() {
        let at = |second: u64, identity: Option<&str>, reads: u64| {
            let mut s = snapshot(second, &[("sda", reads)]);
            s.block.disk[0].identity = identity.map_or_else(State::default, State::from);
            s
        };
        let grown = |samples: Vec<Snapshot>| Window::new(samples).change::<Disk>().unwrap().grown(|d| d.reads);
        // Unplugged and plugged in again as sda: the new disk's count is not the growth of one second.
        let two = vec![at(1, Some("3"), 10), at(2, Some("3"), 12), at(3, Some("4"), 9000), at(4, Some("4"), 9001)];
        assert_eq!(grown(two), Some(3.0));
        assert_eq!(grown(vec![at(1, None, 10), at(2, Some("4"), 12)]), Some(2.0), "an old recording does not know");
    }

    #[test]
    fn a_reset_step_is_left_out_not_guessed() {
        let w = window(&[(1, 5000), (2, 5100), (3, 7), (4, 107)]);
        assert_eq!(w.change::<Disk>().unwrap().grown(|d| d.reads), Some(200.0));
        assert_eq!(w.change::<Disk>().unwrap().rate(|d| d.reads), Some(100.0));
    }

    #[test]
    fn a_disk_plugged_in_later_is_measured_from_then() {
        let w = Window::new(vec![
            snapshot(1, &[("sda", 0)]),
            snapshot(2, &[("sda", 10), ("sdb", 500)]),
            snapshot(3, &[("sda", 20), ("sdb", 540)]),
        ]);
        let rates: Vec<_> = w.changes::<Disk>().iter().map(|c| c.rate(|d| d.reads)).collect();
        assert_eq!(rates, [Some(10.0), Some(40.0)]);
    }

    #[test]
    fn a_window_that_slides_keeps_what_is_read_rarely() {
        let at = |second: u64, has_disk: bool| {
            let mut s = snapshot(second, if has_disk { &[("sda", 7)] } else { &[] });
            s.processor.softnet.push(Softnet { processed: (second * 10).into(), ..Softnet::new(0) });
            s
        };
        let mut w = Window::new((1..=9).map(|second| at(second, second == 2)).collect());
        w.keep_last(3.0);
        assert_eq!(w.snapshots().iter().map(|s| s.boot_ns / 1_000_000_000).collect::<Vec<_>>(), [6, 7, 8, 9]);
        assert_eq!(w.the::<Disk>().and_then(|d| d.reads.get()), Some(7));
        assert_eq!(w.change::<Softnet>().unwrap().rate(|s| s.processed), Some(10.0));
        for second in [60, 78] {
            w.push(at(second, false));
            w.keep_last(3.0);
            assert_eq!(w.the::<Disk>().is_some(), second == 60, "valid for 75 s");
        }
    }

    #[test]
    fn a_clock_that_stands_still_adds_nothing() {
        let w = window(&[(5, 0), (5, 100), (6, 100)]);
        assert_eq!(w.snapshots().len(), 2);
        assert_eq!(w.change::<Disk>().unwrap().rate(|d| d.reads), Some(100.0));
    }
}
