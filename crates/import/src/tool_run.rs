//! One run of a tool, integrated into cumulative counters.
//!
//! Tools print rates and averages; the diagnosis works on counters read at instants. So the row of each interval becomes a
//! reading in which every counter has grown by its rate times the interval. The rate between two readings is then the printed
//! one.

use crate::clock::{PrintedTime, ReportInterval, SECOND, nanoseconds, spelled_seconds};
use crate::kernel_file::KernelFile;
use crate::series::{AnySeries, EntitySeries};
use crate::table::{MetricColumns, TableRow};
use crate::timeline::ClockReading;
use std::any::{Any, TypeId};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};
use whyslow_model::catalogue::{Family, MetricKind, Process, Thread, Transfer};
use whyslow_model::human;
use whyslow_model::key::MachineKey;
use whyslow_model::plausible;
use whyslow_model::settings::Settings;
use whyslow_model::value::{Name, Value};

/// Series up to this length are not thinned.
const FEWEST: usize = 3;
/// Maximum number of readings per entity: at twice as many, neighbouring readings are thinned out.
const MOST_READINGS: usize = 3600;
/// Maximum number of rows of a run after thinning.
pub(crate) const MOST_ROWS: usize = 200_000;
/// Maximum number of entities of a run: processes, sockets, lines of a log.
const MOST_ENTITIES: usize = 100_000;
const MOST_NOTES: usize = 100;
const HOUR: f64 = 3600.0;
/// Part of an hour by which a step of whole hours may be off, because rows are late.
const DST_SLACK: f64 = 0.02;
/// Maximum number of intervals with a lost row to remember.
const MOST_LOST: usize = 1000;

/// Returns the remedy for a clock that was set by this many seconds: daylight saving time sets it by whole hours.
pub(crate) fn clock_remedy(by: f64) -> &'static str {
    let hours = by.abs() / HOUR;
    if hours > 0.5 && (hours - hours.round()).abs() < DST_SLACK {
        "print times in UTC, which has no daylight saving time: TZ=UTC"
    } else {
        "see who sets the clock: chronyc tracking; journalctl -u chrony -u chronyd -u ntpd -u systemd-timesyncd"
    }
}

/// Describes by how many seconds a clock was set.
pub(crate) fn clock_was_set(by: f64, line: u32) -> String {
    let direction = if by < 0.0 { "back" } else { "forward" };
    let how_far = spelled_seconds(by.abs());
    format!(
        "the clock was set {direction} by {how_far} at line {line}; the interval there is that of the rows around it"
    )
}

/// Something uncertain or skipped that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub what: String,
    pub why: String,
    pub remedy: String,
}

/// A family's name, and the key of one of its entities.
pub type EntityKey = (&'static str, String);

#[derive(Default)]
pub struct ToolRun {
    pub tool: &'static str,
    pub file: Name,
    /// Line on which it begins; 0 if irrelevant.
    pub line: u32,
    /// Machine that the output names, if it does.
    pub host: Option<Name>,
    /// Container in which it was printed; its PID namespace numbers the processes.
    pub container: Option<Name>,
    pub start: PrintedTime,
    pub notes: Vec<Note>,
    /// Settings that the text states above it.
    pub(crate) settings: Settings,
    /// Whether its rates are averages since boot; its counters then grew at these rates over
    /// [`AVERAGED`](whyslow_model::since_boot::AVERAGED).
    pub is_average: bool,
    /// Whether the time between its reports is assumed.
    pub has_assumed_times: bool,
    /// Whether its time is only relative to the first output of its command line.
    pub is_relative: bool,
    /// Whether each report has a row for every entity, even an idle one: a missing row was lost.
    pub lists_all: bool,
    /// Ends of the newest intervals with an unreadable row, in nanoseconds.
    lost: BTreeSet<u64>,
    /// Settings of the clock: seconds after the start, and seconds by which it was set.
    pub(crate) clock_steps: Vec<(f64, f64)>,
    /// Runs of other machines from the same output.
    pub(crate) of_others: Vec<ToolRun>,
    /// Files of /proc and /sys that are not readings yet.
    pub(crate) kernel_files: Vec<KernelFile>,
    pub(crate) series: BTreeMap<EntityKey, Box<dyn AnySeries>>,
    rows: usize,
    /// Number of rows at which the next thinning is due.
    thin_at: usize,
    /// Whether an entity has too many readings.
    long: bool,
    /// One row is kept per this many nanoseconds; 0 if every row is kept.
    grid: u64,
    /// Takes the rows of entities above the limit; never read.
    surplus: Option<Box<dyn AnySeries>>,
    /// Time of the newest reading, if several readings of one instant each were appended.
    newest: Option<PrintedTime>,
    /// Whether it was joined from several runs that are not of one instant.
    joined: bool,
    /// Seconds after the first reading at which untimed readings were placed.
    untimed: u64,
}

impl ToolRun {
    pub fn new(tool: &'static str, file: &Name) -> Self {
        Self { tool, file: file.clone(), thin_at: 2 * MOST_ROWS, ..Self::default() }
    }

    /// Creates an empty run of the same tool, file and time that begins on another line.
    pub(crate) fn beside(&self, line: u32) -> Self {
        Self {
            line,
            host: self.host.clone(),
            container: self.container.clone(),
            start: self.start,
            is_relative: self.is_relative,
            ..Self::new(self.tool, &self.file)
        }
    }

    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.notes.is_empty()
    }

    /// Adds the settings that the text states to the transfers that were timed under them.
    pub(crate) fn set_settings(&mut self, settings: Settings) {
        let timed = self.series.iter_mut().filter(|((family, _), _)| *family == Transfer::INFO.name);
        for (_, series) in timed {
            let series: &mut dyn Any = &mut **series;
            let series = series.downcast_mut::<EntitySeries<Transfer>>().expect("a family has one row type");
            series.change_rows(|row| row.settings = settings.to_state());
        }
        self.settings = settings;
    }

    /// Returns true if the run is of one instant: levels and counts, but no rates.
    pub fn is_instant(&self) -> bool {
        self.newest.is_some() || (!self.joined && self.series.values().all(|series| series.length() == 1))
    }

    /// Adds a run of the same file and time with other entities.
    pub(crate) fn join(&mut self, other: Self) {
        for (entity, series) in other.series {
            match self.series.len() < MOST_ENTITIES {
                true => drop(self.series.insert(entity, series)),
                false => self.surplus = Some(series),
            }
        }
        self.joined = true;
        self.has_assumed_times |= other.has_assumed_times;
        self.added(other.rows, other.notes);
    }

    /// Appends a later reading of one instant.
    pub(crate) fn append(&mut self, later: Self) {
        let again =
            later.series.iter().any(|(key, series)| self.series.get(key).is_some_and(|own| own.overlaps(&**series)));
        self.untimed += u64::from(again && later.start.time.is_none());
        self.has_assumed_times |= self.untimed > 0;
        let after = later.start.since(self.start).unwrap_or(0.0);
        let shift = nanoseconds(after.max(0.0)) + self.untimed * SECOND as u64;
        for (entity, mut series) in later.series {
            series.shift(shift);
            let new = self.series.len() < MOST_ENTITIES;
            match self.series.entry(entity) {
                Entry::Occupied(own) => {
                    let own = own.into_mut();
                    own.append(series);
                    self.long |= own.length() > 2 * MOST_READINGS;
                }
                Entry::Vacant(place) if new => drop(place.insert(series)),
                Entry::Vacant(_) => self.surplus = Some(series),
            }
        }
        self.newest = Some(later.start);
        self.added(later.rows, later.notes);
    }

    fn added(&mut self, rows: usize, notes: Vec<Note>) {
        self.rows += rows;
        for note in notes {
            self.note(&note.what, note.why, &note.remedy);
        }
        self.keep_in_bounds();
    }

    /// Returns true if the run lists processes or threads.
    pub(crate) fn has_tasks(&self) -> bool {
        self.series.keys().any(|(family, _)| [Process::INFO.name, Thread::INFO.name].contains(family))
    }

    /// Returns true if both have an entity in common.
    pub(crate) fn shares_entities(&self, other: &Self) -> bool {
        other.series.keys().any(|entity| self.series.contains_key(entity))
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns true if the run has more entities than can be held.
    pub(crate) fn is_over_full(&self) -> bool {
        self.surplus.is_some()
    }

    /// Returns the time of the newest reading.
    pub(crate) fn newest(&self) -> PrintedTime {
        self.newest.unwrap_or(self.start)
    }

    fn keep_in_bounds(&mut self) {
        if self.rows > self.thin_at || self.long {
            self.thin(MOST_ROWS, MOST_READINGS);
            self.long = false;
            // With too many entities, thinning does not help and is not tried again soon.
            self.thin_at = 2 * self.rows.max(MOST_ROWS);
        }
    }

    /// Thins the readings to these limits, in total and per entity. Returns true if that was possible.
    pub(crate) fn thin(&mut self, rows: usize, readings: usize) -> bool {
        // New rows are first thinned to the resolution of the earlier ones.
        let mut grid = self.grid;
        loop {
            if grid > 0 {
                self.grid = grid;
                self.series.values_mut().for_each(|series| series.thin(grid));
            }
            self.rows = self.series.values().map(|series| series.length()).sum();
            let longest = self.series.values().map(|series| series.length()).max().unwrap_or(0);
            if self.rows <= rows && longest <= readings {
                return true;
            }
            if longest <= FEWEST {
                return false;
            }
            let first = self.series.values().filter_map(|series| series.first()).min().unwrap_or(0);
            let last = self.series.values().filter_map(|series| series.last()).max().unwrap_or(0);
            grid = grid.saturating_mul(2).max((last - first) / readings.max(1) as u64).max(1);
        }
    }

    /// Notes how far the readings were thinned.
    pub(crate) fn note_thinning(&mut self) {
        if self.grid > 0 {
            let seconds = (self.grid as f64 / SECOND).max(1.0);
            self.note(
                "every single reading",
                format!("too many to hold: one of each {seconds:.0} s is kept, and rates are means over that time"),
                "give the part around the incident",
            );
        }
    }

    /// Returns true if no more is in use than exists, in this unit; otherwise adds a note.
    pub(crate) fn is_within(&mut self, what: &str, used: f64, whole: f64, unit: &str) -> bool {
        let is_possible = !plausible::exceeds(used, whole);
        if !is_possible {
            let [used, whole] = [used, whole].map(|amount| human::quantity(amount, unit));
            self.note(
                what,
                format!("{used} in use of {whole}, which is impossible"),
                "compare it with the original: it was damaged, or misread",
            );
        }
        is_possible
    }

    /// Notes something the user should know.
    pub fn note(&mut self, what: &str, why: impl Into<String>, remedy: &str) {
        let note = Note { what: what.into(), why: why.into(), remedy: remedy.into() };
        if self.notes.len() < MOST_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes that the clock was set before a line, if a reading shows it. Returns the seconds elapsed at that reading.
    pub fn note_clock(&mut self, reading: ClockReading, line: u32) -> f64 {
        self.note_clock_after(0.0, reading, line)
    }

    /// Like [`note_clock`](Self::note_clock), for a clock that was first read this many seconds after the start.
    pub fn note_clock_after(&mut self, before: f64, reading: ClockReading, line: u32) -> f64 {
        let elapsed = before + reading.elapsed;
        if let Some(by) = reading.set_by {
            self.clock_steps.push((elapsed, by));
            self.note(&format!("the printed times from line {line} on"), clock_was_set(by, line), clock_remedy(by));
        }
        elapsed
    }

    /// Returns the row of an entity this many seconds after the start, to be filled in. `line` is its line in the file (0:
    /// none).
    pub fn row<F: Family>(&mut self, at: f64, line: u32, key: F::Key) -> &mut F {
        let GrowingSeries { series, rows, .. } = self.series::<F>(&key, line);
        let (row, new) = series.row(nanoseconds(at), &key);
        *rows += usize::from(new);
        row
    }

    /// Records a complete row. Earlier values of the entity fill its gaps.
    pub fn put<F: Family>(&mut self, at: f64, line: u32, row: F) {
        let slot = self.row::<F>(at, line, row.key().clone());
        let known = std::mem::replace(slot, row);
        slot.fill(&known);
    }

    /// Grows an entity's counters over an interval by their rates per second; unknown ones stay absent. Returns the row at the
    /// end of the interval, for its gauges and states.
    ///
    /// # Panics
    /// Panics if the family has no counter of a name. The names come from the formats' own code: silently dropping a misspelled
    /// counter would look like "not measured".
    pub fn grow<F: Family>(
        &mut self,
        interval: ReportInterval,
        line: u32,
        key: F::Key,
        rates: &[(&'static str, Option<f64>)],
    ) -> &mut F {
        // Looked up even if the rate is absent, so that a wrong name fails with any capture of the format.
        let column = |name: &str| {
            let column = F::INFO.metrics.iter().position(|m| m.name == name);
            column.unwrap_or_else(|| panic!("{} has no counter {name}", F::INFO.name))
        };
        let (known, lost): (Vec<_>, Vec<_>) =
            rates.iter().map(|(name, rate)| (column(name), *rate)).partition(|(_, rate)| rate.is_some());
        if !lost.is_empty() {
            let lost: Vec<usize> = lost.into_iter().map(|(column, _)| column).collect();
            self.series::<F>(&key, line).series.lose(&lost);
        }
        let rates: Vec<(usize, f64)> = known.into_iter().filter_map(|(column, rate)| Some((column, rate?))).collect();
        self.grow_columns(interval, line, key, &rates)
    }

    /// Notes that a row was unreadable in the interval that ends at this time: an entity without a row there is unknown, not
    /// idle.
    pub fn lose_row(&mut self, at: f64) {
        self.lost.insert(nanoseconds(at));
        if self.lost.len() > MOST_LOST {
            self.lost.pop_first();
        }
    }

    fn grow_columns<F: Family>(
        &mut self,
        interval: ReportInterval,
        line: u32,
        key: F::Key,
        rates: &[(usize, f64)],
    ) -> &mut F {
        // No tool leaves out the machine as a whole.
        let is_whole = self.lists_all || TypeId::of::<F::Key>() == TypeId::of::<MachineKey>();
        let GrowingSeries { series, rows, long, lost } = self.series::<F>(&key, line);
        let is_unknown = |from, to| is_whole || lost.range((Excluded(from), Included(to))).next().is_some();
        *rows += series.grow(interval, &key, rates, is_unknown);
        *long |= series.length() > 2 * MOST_READINGS;
        series.row(nanoseconds(interval.to), &key).0
    }

    /// Records a row of rates and levels, as declared by its columns.
    pub fn rates<F: Family>(
        &mut self,
        interval: ReportInterval,
        key: F::Key,
        row: &TableRow,
        columns: &MetricColumns<F>,
    ) -> &mut F {
        let is_counter = |(column, _): &(usize, f64)| F::INFO.metrics[*column].kind == MetricKind::Counter;
        let (counters, gauges): (Vec<_>, Vec<_>) = columns.values(row).into_iter().partition(is_counter);
        let to = match counters.is_empty() {
            true => self.row::<F>(interval.to, row.line, key),
            false => self.grow_columns::<F>(interval, row.line, key, &counters),
        };
        for (column, value) in gauges {
            to.put(column, Value::Gauge(value.into()));
        }
        to
    }

    /// Records a row of levels and of counts since boot, as declared by its columns.
    pub fn counts<F: Family>(&mut self, at: f64, key: F::Key, row: &TableRow, columns: &MetricColumns<F>) -> &mut F {
        self.row::<F>(at, row.line, key.clone());
        let to = self.row::<F>(at, row.last_line, key);
        for (column, value) in columns.values(row) {
            let value = match F::INFO.metrics[column].kind {
                MetricKind::Counter => Value::Counter((value as u64).into()),
                _ => Value::Gauge(value.into()),
            };
            to.put(column, value);
        }
        to
    }

    /// Returns the series of an entity, and records that a row stands on this line.
    fn series<F: Family>(&mut self, key: &F::Key, line: u32) -> GrowingSeries<'_, F> {
        self.keep_in_bounds();
        let new = self.series.len() < MOST_ENTITIES;
        let series = match self.series.entry((F::INFO.name, key.to_string())) {
            Entry::Occupied(own) => own.into_mut(),
            Entry::Vacant(place) if new => place.insert(Box::new(EntitySeries::<F>::new())),
            Entry::Vacant(_) => self.surplus.insert(Box::new(EntitySeries::<F>::new())),
        };
        self.long |= series.length() > 2 * MOST_READINGS;
        let series: &mut dyn Any = &mut **series;
        let series = series.downcast_mut::<EntitySeries<F>>().expect("a family has one row type");
        if line > 0 {
            series.located(&self.file, line);
        }
        GrowingSeries { series, rows: &mut self.rows, long: &mut self.long, lost: &self.lost }
    }
}

/// Series of an entity, and the state to update when it grows.
struct GrowingSeries<'r, F> {
    series: &'r mut EntitySeries<F>,
    rows: &'r mut usize,
    long: &'r mut bool,
    lost: &'r BTreeSet<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window_of;
    use whyslow_model::catalogue::Disk;
    use whyslow_model::origin::Origins;
    use whyslow_model::snapshot::Snapshot;
    use whyslow_model::window::Window;

    #[test]
    fn a_long_run_is_thinned_out_and_its_totals_stay() {
        let mut run = ToolRun::new("test", &"x".into());
        let mut most = 0;
        for t in 0..100_000 {
            let step = ReportInterval { from: f64::from(t), to: f64::from(t + 1) };
            for disk in ["sda", "sdb"] {
                run.grow::<Disk>(step, t, disk.into(), &[("reads", Some(f64::from(t % 7)))]).in_flight = 1_u64.into();
            }
            most = most.max(run.rows());
        }
        run.note_thinning();
        assert!(most <= 2 * (2 * MOST_READINGS + 2) && run.rows() > MOST_READINGS, "{most} {}", run.rows());
        assert!(run.notes.iter().any(|note| note.why.contains("of each")), "{:?}", run.notes);
        let mut snapshots = BTreeMap::new();
        run.series.into_values().for_each(|s| s.into_snapshots(&mut snapshots, &mut Origins::default()));
        assert!(snapshots.values().all(|s| s.block.disk.len() == 2), "both are kept at the same times");
        let window = Window::new(snapshots.into_iter().map(|(at, s)| Snapshot { boot_ns: at + 1, ..s }).collect());
        let total: u32 = (0..100_000).map(|t| t % 7).sum();
        for change in window.changes::<Disk>() {
            assert_eq!(change.grown(|d| d.reads), Some(f64::from(total)));
        }
    }

    #[test]
    fn the_same_report_again_and_again_is_one_run() {
        let one = "             total       used       free     shared    buffers     cached
Mem:        507280     483332      23948          0       4312     181132
";
        let instants = |text: &str| window_of(&text.repeat(20_000)).snapshots().len();
        assert!((2..=2 * MOST_READINGS).contains(&instants(one)));
        let stamped: String = (0..20_000)
            .map(|n| format!("Sat Nov 21 {:02}:{:02}:{:02} UTC 2026\n{one}", n / 3600, n / 60 % 60, n % 60))
            .collect();
        let window = window_of(&stamped);
        assert!((2..=2 * MOST_READINGS).contains(&window.snapshots().len()));
        assert_eq!(window.seconds(), 19_999.0);
    }

    #[test]
    #[should_panic(expected = "disk has no counter raeds")]
    fn a_misspelled_counter_fails_even_where_the_capture_does_not_report_it() {
        let mut run = ToolRun::new("test", &"x".into());
        run.grow::<Disk>(ReportInterval { from: 0.0, to: 1.0 }, 1, "sda".into(), &[("raeds", None)]);
    }

    #[test]
    fn a_row_that_was_lost_is_no_idle_interval() {
        let steps = |is_lost: bool| {
            let mut run = ToolRun::new("test", &"x".into());
            for t in [0, 1, 3] {
                let step = ReportInterval { from: f64::from(t), to: f64::from(t + 1) };
                run.grow::<Disk>(step, 1, "sda".into(), &[("reads", Some(10.0))]);
                if is_lost && t == 1 {
                    run.lose_row(3.0);
                }
            }
            let mut snapshots = BTreeMap::new();
            run.series.into_values().for_each(|s| s.into_snapshots(&mut snapshots, &mut Origins::default()));
            let window = Window::new(snapshots.into_iter().map(|(at, s)| Snapshot { boot_ns: at + 1, ..s }).collect());
            window.change::<Disk>().unwrap().steps(|d| d.reads).map(|(_, grown)| grown).collect::<Vec<_>>()
        };
        assert_eq!(steps(false), [Some(10.0), Some(10.0), Some(0.0), Some(10.0)], "tools leave out what is idle");
        assert_eq!(steps(true), [Some(10.0), Some(10.0), None, Some(10.0)]);
    }

    #[test]
    fn an_entity_may_come_twice_in_an_interval_of_which_a_row_was_lost() {
        let mut run = ToolRun::new("test", &"x".into());
        run.lose_row(2.0);
        for to in [1.0, 2.0, 2.0] {
            let step = ReportInterval { from: to - 1.0, to };
            run.grow::<Disk>(step, 1, "sda".into(), &[("reads", Some(10.0))]);
        }
        assert_eq!(run.rows(), 3);
    }

    #[test]
    fn rates_come_back_as_they_were_printed() {
        let mut run = ToolRun::new("test", &"x".into());
        for t in 0..50 {
            let step = ReportInterval { from: f64::from(t), to: f64::from(t + 1) };
            run.grow::<Disk>(step, 3 + t, "sda".into(), &[("reads", Some(0.3)), ("writes", None)]);
        }
        let mut snapshots = BTreeMap::new();
        let mut origins = Origins::default();
        run.series.into_values().for_each(|s| s.into_snapshots(&mut snapshots, &mut origins));
        let window = Window::new(snapshots.into_iter().map(|(at, s)| Snapshot { boot_ns: at + 1, ..s }).collect());
        let change = window.change::<Disk>().unwrap();
        assert_eq!(change.grown(|d| d.reads), Some(15.0));
        assert_eq!(change.grown(|d| d.writes), None);
        assert_eq!(origins.locations("disk", "sda").first().unwrap().to_string(), "x:3-52");
    }
}
