//! What one run of a tool printed, integrated into cumulative counters.
//!
//! Tools print rates and averages; the judgement works on counters of instants. So each interval's row becomes a reading
//! in which every counter has grown by its rate times the interval, and a rate taken from two readings is the rate that
//! was printed.

use crate::clock::Moment;
use crate::series::{AnySeries, Series};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use whyslow_model::catalogue::Family;
use whyslow_model::value::Name;

/// A series of so few readings is not thinned out.
const FEWEST: usize = 3;

/// Nanoseconds in a second.
pub const SECOND: f64 = 1e9;

/// The time over which something grew, in seconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

impl Step {
    /// Its length in seconds.
    pub fn seconds(self) -> f64 {
        self.to - self.from
    }
}

/// Something the reader should know about how a capture was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What is not certain, or was left out.
    pub what: String,
    /// Why.
    pub why: String,
    /// What would make it certain.
    pub remedy: String,
}

/// A family's name, and the key of one of its entities.
pub type EntityKey = (&'static str, String);

/// One run of a tool.
pub struct Run {
    /// The format it was read as.
    pub tool: &'static str,
    /// The file it stands in.
    pub file: Name,
    /// When it began.
    pub start: Moment,
    /// What the reader should know.
    pub notes: Vec<Note>,
    pub(crate) series: BTreeMap<EntityKey, Box<dyn AnySeries>>,
    totals: BTreeMap<EntityKey, BTreeMap<&'static str, f64>>,
    /// How many rows there are in all.
    rows: usize,
    /// How many rows are looked at before they are thinned out.
    most_rows: usize,
    /// Whether an entity has too many readings.
    long: bool,
    /// Nanoseconds of which one row each is kept; 0 while every row is.
    grid: u64,
    /// The row of what was one too many, which nobody reads.
    surplus: Option<Box<dyn AnySeries>>,
    /// The time of the newest instant, of a run into which several of one instant each were put together.
    instants: Option<Moment>,
    /// Whether it was put together of several that are not of one instant.
    joined: bool,
    /// Seconds between the first and the newest of these, where no times are known.
    again: u64,
}

/// The most readings of an entity: when there are twice as many, readings close to each other are thinned out to so many.
const MOST_READINGS: usize = 3600;
/// The most rows of a run, after thinning.
pub(crate) const MOST_ROWS: usize = 200_000;
/// The most entities of a run: processes, sockets, lines of a log.
const MOST_ENTITIES: usize = 100_000;
/// The most notes of a run.
const MOST_NOTES: usize = 100;

impl Run {
    /// A run of which nothing is known yet.
    pub fn new(tool: &'static str, file: &Name) -> Self {
        Self {
            tool,
            file: file.clone(),
            start: Moment::default(),
            notes: Vec::new(),
            series: BTreeMap::new(),
            totals: BTreeMap::new(),
            rows: 0,
            most_rows: 2 * MOST_ROWS,
            long: false,
            grid: 0,
            surplus: None,
            instants: None,
            joined: false,
            again: 0,
        }
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.notes.is_empty()
    }

    /// Whether it tells of one instant only: a state, no rate.
    pub fn is_of_one_instant(&self) -> bool {
        self.instants.is_some() || (!self.joined && self.series.values().all(|series| series.length() == 1))
    }

    /// Takes over a run of the same file and time that tells of other things.
    pub(crate) fn join(&mut self, other: Self) {
        for (entity, series) in other.series {
            match self.series.len() < MOST_ENTITIES {
                true => drop(self.series.insert(entity, series)),
                false => self.surplus = Some(series),
            }
        }
        self.joined = true;
        self.rows += other.rows;
        for note in other.notes {
            self.note(&note.what, note.why, &note.remedy);
        }
        self.keep_in_bounds();
    }

    /// Whether both tell of the same thing.
    pub(crate) fn shares(&self, other: &Self) -> bool {
        other.series.keys().any(|entity| self.series.contains_key(entity))
    }

    /// How many rows it holds.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether it tells of more things than can be held.
    pub(crate) fn is_over_full(&self) -> bool {
        self.surplus.is_some()
    }

    /// The time of the newest instant, where it is of instants.
    pub(crate) fn newest(&self) -> Moment {
        self.instants.unwrap_or(self.start)
    }

    /// Takes over a later run of one instant.
    pub(crate) fn append(&mut self, later: Self) {
        let again =
            later.series.iter().any(|(key, series)| self.series.get(key).is_some_and(|own| own.repeats(&**series)));
        self.again += u64::from(again && later.start.time.is_none());
        let after = match (later.start.since_1970(), self.start.since_1970()) {
            (Some(later), Some(first)) => later - first,
            _ => later.start.time.zip(self.start.time).map_or(0.0, |(later, first)| later - first),
        };
        let shift = nanoseconds(after.max(0.0)) + self.again * SECOND as u64;
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
        self.rows += later.rows;
        self.instants = Some(later.start);
        for note in later.notes {
            self.note(&note.what, note.why, &note.remedy);
        }
        self.keep_in_bounds();
    }

    /// Thins the readings out where there are too many.
    fn keep_in_bounds(&mut self) {
        if self.rows > self.most_rows || self.long {
            self.thin(MOST_ROWS, MOST_READINGS);
            self.long = false;
            // Where there are too many entities there is nothing to thin out, and no use in looking again soon.
            self.most_rows = 2 * self.rows.max(MOST_ROWS);
        }
    }

    fn longest(&self) -> usize {
        self.series.values().map(|series| series.length()).max().unwrap_or(0)
    }

    /// Thins the readings out until there are no more than these, of all entities together and of each; whether that was
    /// possible.
    pub(crate) fn thin(&mut self, rows: usize, readings: usize) -> bool {
        // What came since the last time first, at the resolution of what came before it.
        let mut grid = self.grid;
        loop {
            if grid > 0 {
                self.grid = grid;
                self.series.values_mut().for_each(|series| series.thin(grid));
            }
            self.rows = self.series.values().map(|series| series.length()).sum();
            let longest = self.longest();
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

    /// Says what was thinned out.
    pub(crate) fn end(&mut self) {
        if self.grid > 0 {
            self.note(
                "every single reading",
                format!(
                    "there are more than can be held: of each {:.0} s one is kept, and rates are means over them",
                    (self.grid as f64 / SECOND).max(1.0)
                ),
                "give the part around the incident",
            );
        }
    }

    /// Notes what the reader should know.
    pub fn note(&mut self, what: &str, why: impl Into<String>, remedy: &str) {
        let note = Note { what: what.into(), why: why.into(), remedy: remedy.into() };
        if self.notes.len() < MOST_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The row of an entity, so many seconds after the start, to be filled in; it stands on this line.
    pub fn row<F: Family>(&mut self, at: f64, line: u32, key: F::Key) -> &mut F {
        self.keep_in_bounds();
        self.slot(at, line, key)
    }

    fn slot<F: Family>(&mut self, at: f64, line: u32, key: F::Key) -> &mut F {
        let new = self.series.len() < MOST_ENTITIES;
        let series = match self.series.entry((F::INFO.name, key.to_string())) {
            Entry::Occupied(own) => own.into_mut(),
            Entry::Vacant(place) if new => place.insert(Box::new(Series::<F>::new())),
            Entry::Vacant(_) => self.surplus.insert(Box::new(Series::<F>::new())),
        };
        self.long |= series.length() > 2 * MOST_READINGS;
        let series: &mut dyn std::any::Any = &mut **series;
        let series = series.downcast_mut::<Series<F>>().expect("a family has one type of row");
        let rows = &mut self.rows;
        series.row(nanoseconds(at), &self.file, line, || {
            *rows += 1;
            let mut row = F::default();
            row.set_key(key);
            row
        })
    }

    /// Puts down the row of an entity as it was read whole; what is known of the entity besides stays.
    pub fn put<F: Family>(&mut self, at: f64, line: u32, row: F) {
        let slot = self.row::<F>(at, line, row.key().clone());
        let known = std::mem::replace(slot, row);
        slot.fill(&known);
    }

    /// Lets an entity's counters grow over a step, each by its rate per second; those that are not known stay absent.
    /// The row at the end of the step is given back for its levels and states.
    pub fn grow<F: Family>(
        &mut self,
        step: Step,
        line: u32,
        key: F::Key,
        rates: &[(&'static str, Option<f64>)],
    ) -> &mut F {
        self.keep_in_bounds();
        let entity = (F::INFO.name, key.to_string());
        if self.totals.len() >= MOST_ENTITIES && !self.totals.contains_key(&entity) {
            return self.slot(step.to, line, key);
        }
        let totals = self.totals.entry(entity).or_default();
        let mut before = Vec::new();
        let mut after = Vec::new();
        for (name, rate) in rates {
            // Checked where the rate is absent too, so that a wrong name fails with any capture of the format.
            let total = totals.entry(name).or_insert_with(|| initial_total::<F>(name));
            if let Some(rate) = rate {
                before.push((*name, *total));
                *total += rate * step.seconds();
                after.push((*name, *total));
            }
        }
        set(self.slot::<F>(step.from, 0, key.clone()), &before);
        let row = self.slot::<F>(step.to, line, key);
        set(row, &after);
        row
    }
}

/// The total at which a counter starts.
///
/// # Panics
/// Where the family has no such counter, in every build: the names come from the formats' own tables, and dropping the
/// figures of a misspelled one would pass for "not measured".
fn initial_total<F: Family>(name: &str) -> f64 {
    assert!(F::default().set(name, 0), "{} has no counter {name}", F::INFO.name);
    0.0
}

fn set<F: Family>(row: &mut F, counters: &[(&str, f64)]) {
    for (name, total) in counters {
        row.set(name, total.round() as u64);
    }
}

/// Seconds as whole nanoseconds; what no clock shows is brought into range.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND).round() as u64
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
        let mut run = Run::new("test", &"x".into());
        let mut most = 0;
        for t in 0..100_000 {
            let step = Step { from: f64::from(t), to: f64::from(t + 1) };
            for disk in ["sda", "sdb"] {
                run.grow::<Disk>(step, t, disk.into(), &[("reads", Some(f64::from(t % 7)))]).in_flight = 1_u64.into();
            }
            most = most.max(run.rows());
        }
        run.end();
        assert!(most <= 2 * (2 * MOST_READINGS + 2) && run.rows() > MOST_READINGS, "{most} {}", run.rows());
        assert!(run.notes.iter().any(|note| note.why.contains("of each")), "{:?}", run.notes);
        let mut snapshots = BTreeMap::new();
        run.series.into_values().for_each(|s| s.place(&mut snapshots, &mut Origins::default()));
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
        let mut run = Run::new("test", &"x".into());
        run.grow::<Disk>(Step { from: 0.0, to: 1.0 }, 1, "sda".into(), &[("raeds", None)]);
    }

    #[test]
    fn rates_come_back_as_they_were_printed() {
        let mut run = Run::new("test", &"x".into());
        for t in 0..50 {
            let step = Step { from: f64::from(t), to: f64::from(t + 1) };
            run.grow::<Disk>(step, 3 + t, "sda".into(), &[("reads", Some(0.3)), ("writes", None)]);
        }
        let mut snapshots = BTreeMap::new();
        let mut origins = Origins::default();
        run.series.into_values().for_each(|s| s.place(&mut snapshots, &mut origins));
        let window = Window::new(snapshots.into_iter().map(|(at, s)| Snapshot { boot_ns: at + 1, ..s }).collect());
        let change = window.change::<Disk>().unwrap();
        assert_eq!(change.grown(|d| d.reads), Some(15.0));
        assert_eq!(change.grown(|d| d.writes), None);
        assert_eq!(origins.of("disk", "sda").first().unwrap().to_string(), "x:3-52");
    }
}
