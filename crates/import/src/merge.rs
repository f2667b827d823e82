//! Many runs of tools become one Window, or several side by side.

use crate::clock::Moment;
use crate::run::{EntityKey, Note, Run, SECOND};
use crate::series::AnySeries;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use whyslow_model::catalogue::{Family, MachineInfo};
use whyslow_model::origin::Origins;
use whyslow_model::snapshot::{Outcome, Snapshot, SourceReport};
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// Runs that began further apart than this, by their printed times, are laid side by side all the same: a log of a year
/// and a minute of vmstat.
const FAR: f64 = 86_400.0;
/// A Window's clock must not begin at zero seconds, which a Snapshot without a time would have.
const BEGIN: u64 = 1_000_000_000;

/// The tool a run is of that tells only what machine it is.
pub const MACHINE: &str = "machine";

/// A Window over captures that belong together.
pub struct Capture {
    /// The files it was read from.
    pub files: Vec<String>,
    /// What they tell.
    pub window: Window,
}

/// The most files that a capture is called by.
const MOST_NAMED: usize = 3;

impl Capture {
    /// What it is called beside others: its files, where they are few.
    pub fn label(&self) -> String {
        match self.files.len().checked_sub(MOST_NAMED) {
            Some(more @ 1..) => format!("{} and {more} more", self.files[..MOST_NAMED].join(" ")),
            _ => self.files.join(" "),
        }
    }
}

/// The most captures that are laid side by side.
pub const MOST_CAPTURES: usize = 256;

/// Runs by the capture they belong to. Different tools tell of one machine at one time, and become one Window; where one
/// tool tells of the same thing twice, before and after or from two machines, each becomes a Window of its own.
#[derive(Default)]
pub struct Groups {
    all: Vec<Group>,
    /// Where runs of the same things, without times, were put last: those before it have no room for them.
    last: HashMap<u64, usize>,
}

/// The most kinds of runs whose last place is remembered.
const MOST_KINDS: usize = 10_000;

/// What runs have in common that stand in each other's way, as a hash.
fn kind(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    (run.tool, &*run.file).hash(&mut hasher);
    run.series.keys().for_each(|entity| entity.hash(&mut hasher));
    hasher.finish()
}

/// The runs of one capture.
#[derive(Default)]
struct Group {
    runs: Vec<Run>,
    /// Where the runs of each tool stand.
    of_tool: HashMap<&'static str, Vec<usize>>,
}

impl Groups {
    /// Takes a run, and says whether its things can be held; `None` where it would be a capture more than can be laid side
    /// by side.
    pub fn take(&mut self, mut run: Run) -> Option<bool> {
        let kind = (run.start.time.is_none() && !run.series.is_empty()).then(|| kind(&run));
        let from = kind.and_then(|kind| self.last.get(&kind).copied()).unwrap_or(0);
        let room = |group: &Group| !group.of(run.tool).any(|other| repeats(other, &run));
        let place = self.all[from..].iter().position(room).map(|at| from + at);
        let before = &self.all[from..place.unwrap_or(self.all.len())];
        if before.iter().any(|group| group.of(run.tool).any(|other| other.file == run.file && repeats(other, &run))) {
            run.note(
                &format!("{} a second time", run.tool),
                "read at a time that is not known, so that no rate can be had of the two",
                "print the time before each: date",
            );
        }
        if let Some(kind) = kind {
            if self.last.len() >= MOST_KINDS {
                self.last.clear();
            }
            self.last.insert(kind, place.unwrap_or(self.all.len()));
        }
        let place = match place {
            Some(place) => place,
            None if self.all.len() < MOST_CAPTURES => {
                self.all.push(Group::default());
                self.all.len() - 1
            }
            None => return None,
        };
        Some(!self.all[place].take(run).is_over_full())
    }

    /// Every run.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.all.iter().flat_map(|group| &group.runs)
    }

    /// Every run, to be thinned out.
    pub fn runs_mut(&mut self) -> impl Iterator<Item = &mut Run> {
        self.all.iter_mut().flat_map(|group| &mut group.runs)
    }

    /// The captures.
    pub fn captures(self) -> Vec<Capture> {
        self.all.into_iter().map(|group| capture(group.runs)).collect()
    }
}

impl Group {
    fn of(&self, tool: &str) -> impl Iterator<Item = &Run> {
        self.of_tool.get(tool).into_iter().flatten().map(|at| &self.runs[*at])
    }

    /// A run that goes on with the one before it becomes part of it, so that the same output printed again and again is held
    /// as one series.
    fn take(&mut self, run: Run) -> &Run {
        let places = self.of_tool.entry(run.tool).or_default();
        if let Some(at) = places.last().copied().filter(|at| self.runs[*at].file == run.file) {
            let last = &mut self.runs[at];
            let instants = (last.is_of_one_instant(), run.is_of_one_instant());
            if instants == (true, true) && goes_on(last, &run) {
                last.append(run);
                return &self.runs[at];
            } else if instants == (false, false) && last.start == run.start && !last.shares(&run) {
                last.join(run);
                return &self.runs[at];
            }
        }
        places.push(self.runs.len());
        self.runs.push(run);
        &self.runs[self.runs.len() - 1]
    }
}

/// Whether a run of one instant can be held as a later one of the other, at the time it would have beside it.
fn goes_on(last: &Run, run: &Run) -> bool {
    let (before, start) = (last.newest(), run.start);
    let untimed = before.time.is_none() && start.time.is_none();
    let later = match (start.since_1970(), before.since_1970()) {
        (Some(later), Some(before)) => later >= before,
        _ => start.date == before.date && start.time.zip(before.time).is_some_and(|(later, before)| later >= before),
    };
    untimed || later
}

/// Whether both tell of the same, and it is not known that one did later.
fn repeats(a: &Run, b: &Run) -> bool {
    let machine = MachineInfo::INFO.name;
    let mut told_twice = b.series.iter().filter(|(entity, _)| entity.0 != machine && a.series.contains_key(*entity));
    a.tool == b.tool && told_twice.next().is_some() && !follows(a, b)
}

/// Whether one run tells of an instant after the other's: both in one file, and for what is counted at times that are
/// known, since of counters only a rate tells anything.
fn follows(a: &Run, b: &Run) -> bool {
    let (before, start) = (a.newest(), b.start);
    let timed = before.time.is_some() && start.time.is_some() && before != start;
    let counted = || b.series.iter().any(|(entity, series)| series.has_counters() && a.series.contains_key(entity));
    a.file == b.file && a.is_of_one_instant() && b.is_of_one_instant() && (timed || !counted())
}

fn capture(mut runs: Vec<Run>) -> Capture {
    runs.sort_by_key(|run| crate::formats::rank(run.tool));
    let begin = Begin::of(&runs);
    let mut files: Vec<String> = runs.iter().map(|run| run.file.to_string()).collect();
    files.sort();
    files.dedup();
    let mut entities = Entities::default();
    let mut notes = Vec::new();
    let mut told: BTreeMap<(&'static str, Name), u64> = BTreeMap::new();
    for run in runs {
        notes.extend(run.notes.iter().map(|note| report(&run.file, note)));
        // What one file tells again without its time came later; what it tells besides is of the same instant.
        let before = told.entry((run.tool, run.file.clone())).or_insert(0_u64);
        let again = run.series.iter().any(|(entity, series)| entities.repeats(entity, run.tool, &**series));
        *before += u64::from(again && run.is_of_one_instant() && run.start.time.is_none());
        let shift = BEGIN + (begin.offset(run.start) * SECOND) as u64 + *before * BEGIN;
        // A machine's name has no time of its own, and must not make the Window begin before the first reading.
        let machine = run.tool == MACHINE;
        let first = entities.first();
        for (entity, mut series) in run.series {
            series.shift(first.filter(|_| machine).unwrap_or(shift));
            entities.take(entity, run.tool, series);
        }
    }
    Capture { files, window: window(entities.joined(), notes, begin) }
}

/// What tools tell of an entity, each by itself, in the order in which they are believed.
type Told = Vec<(&'static str, Box<dyn AnySeries>)>;

/// What is told of each entity.
#[derive(Default)]
struct Entities(BTreeMap<EntityKey, Told>);

impl Entities {
    /// Whether this tool has told of the same already.
    fn repeats(&self, entity: &EntityKey, tool: &str, series: &dyn AnySeries) -> bool {
        let told = self.0.get(entity).into_iter().flatten();
        told.filter(|(by, _)| *by == tool).any(|(_, own)| own.repeats(series))
    }

    /// The time of the first row of all.
    fn first(&self) -> Option<u64> {
        self.0.values().flatten().filter_map(|(_, series)| series.first()).min()
    }

    fn take(&mut self, entity: EntityKey, tool: &'static str, series: Box<dyn AnySeries>) {
        let told = self.0.entry(entity).or_default();
        match told.iter_mut().find(|(by, _)| *by == tool) {
            Some((_, own)) => own.append(series),
            None => told.push((tool, series)),
        }
    }

    /// One series of each: a tool's readings are all together before another's are set against them.
    fn joined(self) -> impl Iterator<Item = Box<dyn AnySeries>> {
        self.0.into_values().filter_map(|told| {
            told.into_iter().map(|(_, series)| series).reduce(|mut all, series| {
                all.absorb(series);
                all
            })
        })
    }
}

fn report(file: &Name, note: &Note) -> SourceReport {
    let what: Name = format!("{file}: {}", note.what).into();
    let outcome = Outcome::Partly { why: note.why.clone(), remedy: note.remedy.clone() };
    SourceReport { source: what.clone(), tells: what, outcome, ..SourceReport::default() }
}

fn window(entities: impl Iterator<Item = Box<dyn AnySeries>>, notes: Vec<SourceReport>, begin: Begin) -> Window {
    let mut snapshots = BTreeMap::new();
    let mut origins = Origins::default();
    for series in entities {
        series.place(&mut snapshots, &mut origins);
    }
    let first = *snapshots.keys().next().unwrap_or(&BEGIN);
    snapshots.entry(first).or_default().sources = notes;
    let finish = |(at, mut snapshot): (u64, Snapshot)| {
        snapshot.boot_ns = at;
        snapshot.wall_ns = begin.wall_ns(at - BEGIN);
        snapshot.sort();
        snapshot
    };
    Window::new(snapshots.into_iter().map(finish).collect()).with_origins(origins)
}

/// The earliest time that was printed.
#[derive(Clone, Copy, Default)]
struct Begin(Moment);

impl Begin {
    fn of(runs: &[Run]) -> Self {
        let date = runs.iter().find_map(|run| run.start.date);
        let time = runs.iter().filter_map(|run| run.start.time).reduce(f64::min);
        let earliest = runs.iter().filter(|run| run.start.since_1970().is_some()).map(|run| run.start);
        let earliest = earliest.min_by(|a, b| a.since_1970().partial_cmp(&b.since_1970()).expect("times are numbers"));
        Self(earliest.unwrap_or(Moment { date, time }))
    }

    /// Seconds from here to the start of a run; 0 where that is not known.
    fn offset(self, start: Moment) -> f64 {
        let seconds = match (start.since_1970(), self.0.since_1970()) {
            (Some(a), Some(b)) => a - b,
            _ => start.time.zip(self.0.time).map_or(0.0, |(a, b)| a - b),
        };
        if (0.0..FAR).contains(&seconds) { seconds } else { 0.0 }
    }

    /// The wall clock so many nanoseconds later; 0 where it is not known.
    fn wall_ns(self, after: u64) -> i64 {
        self.0.since_1970().map_or(0, |seconds| (seconds * SECOND) as i64 + i64::try_from(after).unwrap_or(0))
    }
}
