//! Merges the runs of several tools into one Window, or into several side by side.

use crate::clock::{PrintedTime, SECOND};
use crate::series::AnySeries;
use crate::shell_session::is_change;
use crate::tool_run::{EntityKey, Note, ToolRun};
use crate::zone::Zone;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use whyslow_documents::diagnosis::Host;
use whyslow_model::catalogue::{Family, MachineInfo, Transfer};
use whyslow_model::key::MachineKey;
use whyslow_model::origin::Origins;
use whyslow_model::since_boot::SinceBoot;
use whyslow_model::snapshot::{ReadOutcome, Snapshot, SourceReport};
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// Span in seconds beyond which runs are placed at the same time despite their printed times: a log of a year and a minute of
/// vmstat.
const FAR: f64 = 86_400.0;
/// Start of a Window's clock. Not zero, which is the time of a Snapshot without one.
pub const BEGIN: u64 = 1_000_000_000;
/// Tool name of a run that only identifies the machine.
pub const MACHINE: &str = "machine";
/// Maximum number of files in a capture's label.
const MOST_NAMED: usize = 3;
/// Maximum number of captures kept side by side.
pub const MOST_CAPTURES: usize = 256;
/// Maximum number of kinds of runs whose last group is remembered.
const MOST_KINDS: usize = 10_000;

/// A Window over files that belong together.
pub struct Capture {
    /// Files it was read from, with the line if one file holds several captures.
    pub files: Vec<String>,
    /// Machine that the files name, if they do.
    pub host: Option<String>,
    /// Settings that the text states above its first output, by name.
    pub settings: BTreeMap<String, String>,
    /// Readings from the files.
    pub window: Window,
}

impl Capture {
    /// Returns true if both name their machine and the names differ.
    pub fn is_of_another_host(&self, other: &Self) -> bool {
        Host::names_differ(self.host.as_deref(), other.host.as_deref())
    }

    /// Returns a label to distinguish it from other captures: its files, if there are few.
    pub fn label(&self) -> String {
        match self.files.len().checked_sub(MOST_NAMED) {
            Some(more @ 1..) => format!("{} and {more} more", self.files[..MOST_NAMED].join(" ")),
            _ => self.files.join(" "),
        }
    }
}

/// Runs grouped by capture. Different tools describe one machine at one time and become one Window; if one tool describes
/// the same entities twice (before and after, or two machines), each becomes a Window of its own.
#[derive(Default)]
pub struct RunGroups {
    all: Vec<RunGroup>,
    /// Group of the last run of each kind of untimed run: earlier groups have no room for another.
    last: HashMap<u64, usize>,
}

/// Hashes what makes two untimed runs conflict: tool, file and entities.
fn kind_of(run: &ToolRun) -> u64 {
    let mut hasher = DefaultHasher::new();
    (run.tool, &*run.file).hash(&mut hasher);
    run.series.keys().for_each(|entity| entity.hash(&mut hasher));
    hasher.finish()
}

#[derive(Default)]
struct RunGroup {
    /// Machine of the first run that names one.
    host: Option<Name>,
    runs: Vec<ToolRun>,
    /// Position of the last run of each tool.
    of_tool: HashMap<&'static str, usize>,
    /// Positions of the runs of a tool that describe an entity, by a hash of both.
    describing: HashMap<u64, Vec<usize>>,
}

/// Hashes a tool and an entity that it describes.
fn mark(tool: &str, entity: &EntityKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tool, entity).hash(&mut hasher);
    hasher.finish()
}

impl RunGroups {
    /// Adds a run. Returns whether its entities fit, or `None` if it would start one capture too many.
    pub fn add(&mut self, mut run: ToolRun) -> Option<bool> {
        let kind = (run.start.time.is_none() && !run.series.is_empty()).then(|| kind_of(&run));
        let from = kind.and_then(|kind| self.last.get(&kind).copied()).unwrap_or(0);
        let has_room = |group: &RunGroup| {
            !Host::names_differ(group.host.as_deref(), run.host.as_deref())
                && !group.numbers_otherwise(&run)
                && !group.sharing(&run).any(|other| conflicts(other, &run))
        };
        let place = self.all[from..].iter().position(has_room).map(|at| from + at);
        let before = &self.all[from..place.unwrap_or(self.all.len())];
        let is_again = |other: &ToolRun| other.file == run.file && conflicts(other, &run);
        let has_counters = run.series.values().any(|series| series.has_counters());
        if has_counters && before.iter().any(|group| group.sharing(&run).any(is_again)) {
            run.note(
                &format!("{} a second time", run.tool),
                "the time between the two is unknown, so there are no rates",
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
                self.all.push(RunGroup::default());
                self.all.len() - 1
            }
            None => return None,
        };
        Some(!self.all[place].add(run).is_over_full())
    }

    /// Reassigns the runs of a file from one machine to another.
    pub fn rename_host(&mut self, file: &Name, from: &Name, to: &Name) {
        let mut moved = Vec::new();
        for group in self.all.iter_mut().filter(|group| !Host::names_differ(group.host.as_deref(), Some(from))) {
            let RunGroup { host, runs, .. } = std::mem::take(group);
            let is_own = |run: &ToolRun| run.file == *file && run.host.as_ref() == Some(from);
            let (own, others): (Vec<_>, Vec<_>) = runs.into_iter().partition(is_own);
            moved.extend(own);
            group.host = host.filter(|_| !others.is_empty());
            for run in others {
                group.add(run);
            }
        }
        self.last.clear();
        for mut run in moved {
            run.host = Some(to.clone());
            self.add(run);
        }
    }

    pub fn runs(&self) -> impl Iterator<Item = &ToolRun> {
        self.all.iter().flat_map(|group| &group.runs)
    }

    pub fn runs_mut(&mut self) -> impl Iterator<Item = &mut ToolRun> {
        self.all.iter_mut().flat_map(|group| &mut group.runs)
    }

    /// Merges each group. `rank` orders the tools: if two have the same counter, that of the tool with the lower rank is used.
    pub fn captures(mut self, rank: fn(&str) -> usize) -> Vec<Capture> {
        self.keep_files_together();
        let lines: Vec<u32> = self.all.iter().map(RunGroup::first_line).collect();
        let mut captures: Vec<Capture> = self.all.into_iter().map(|group| capture(group, rank)).collect();
        let mut of_file: HashMap<Vec<String>, usize> = HashMap::new();
        captures.iter().for_each(|c| *of_file.entry(c.files.clone()).or_default() += 1);
        for (capture, line) in captures.iter_mut().zip(lines) {
            if of_file[&capture.files] > 1
                && let [file] = &mut capture.files[..]
            {
                *file = format!("{file}:{line}");
            }
        }
        captures
    }

    /// Moves outputs that do not name their machine to the one that the rest of their file names, instead of whichever capture
    /// had room for them.
    fn keep_files_together(&mut self) {
        let mut hosts: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for run in self.runs() {
            hosts.entry(run.file.clone()).or_default().extend(run.host.clone());
        }
        let host_of = |run: &ToolRun| match &run.host {
            Some(_) => None,
            None => hosts.get(&run.file).filter(|hosts| hosts.len() == 1)?.first().cloned(),
        };
        let mut misplaced: Vec<(usize, Name, ToolRun)> = Vec::new();
        for (at, group) in self.all.iter_mut().enumerate() {
            let RunGroup { host, runs, .. } = std::mem::take(group);
            group.host = host;
            for run in runs {
                match host_of(&run).filter(|own| Host::names_differ(Some(own), group.host.as_deref())) {
                    Some(own) => misplaced.push((at, own, run)),
                    None => {
                        group.add(run);
                    }
                }
            }
        }
        for (at, own, run) in misplaced {
            let has_room = |group: &RunGroup| {
                group.host.is_some()
                    && !Host::names_differ(group.host.as_deref(), Some(&own))
                    && !group.numbers_otherwise(&run)
                    && !group.sharing(&run).any(|other| conflicts(other, &run))
            };
            let place = self.all.iter().position(has_room).unwrap_or(at);
            self.all[place].add(run);
        }
        self.all.retain(|group| !group.runs.is_empty());
    }
}

impl RunGroup {
    /// Returns true if its process numbers differ from those of a run: they belong to another container's PID namespace, or to
    /// the host's.
    fn numbers_otherwise(&self, run: &ToolRun) -> bool {
        run.has_tasks()
            && self.runs.iter().find(|own| own.has_tasks()).is_some_and(|own| own.container != run.container)
    }

    /// Returns the line on which the first run with figures begins.
    fn first_line(&self) -> u32 {
        self.runs.iter().map(|run| run.line).filter(|line| *line > 0).min().unwrap_or(1)
    }

    /// Returns the runs of the same tool that describe an entity of this run.
    fn sharing(&self, run: &ToolRun) -> impl Iterator<Item = &ToolRun> {
        let of_entity = |entity| self.describing.get(&mark(run.tool, entity)).into_iter().flatten().copied();
        let positions: BTreeSet<usize> = run.series.keys().flat_map(of_entity).collect();
        positions.into_iter().map(|at| &self.runs[at])
    }

    /// Adds a run. A run that continues the previous one of its tool becomes part of it, so that a repeated output is held as
    /// one series.
    fn add(&mut self, run: ToolRun) -> &ToolRun {
        self.host = self.host.take().or_else(|| run.host.clone());
        let last = self.of_tool.get(run.tool).copied().filter(|at| self.runs[*at].file == run.file);
        let joins = |last: &ToolRun| match (last.is_instant(), run.is_instant()) {
            (true, true) => continues(last, &run),
            (false, false) => last.start == run.start && !last.shares_entities(&run),
            _ => false,
        };
        let joined = last.filter(|at| joins(&self.runs[*at]));
        let at = joined.unwrap_or(self.runs.len());
        for entity in run.series.keys() {
            let positions = self.describing.entry(mark(run.tool, entity)).or_default();
            if positions.last() != Some(&at) {
                positions.push(at);
            }
        }
        self.of_tool.insert(run.tool, at);
        match joined {
            Some(at) if run.is_instant() => self.runs[at].append(run),
            Some(at) => self.runs[at].join(run),
            None => self.runs.push(run),
        }
        &self.runs[at]
    }
}

/// Returns true if a run of one instant can be held as a later reading of the other.
fn continues(last: &ToolRun, run: &ToolRun) -> bool {
    let (before, start) = (last.newest(), run.start);
    let untimed = before.time.is_none() && start.time.is_none();
    let is_comparable = start.date.is_some() == before.date.is_some() && start.zone.is_comparable(before.zone);
    untimed || is_comparable && start.since(before).is_some_and(|seconds| seconds >= 0.0)
}

/// Returns true if both describe the same entities with the same metrics, and `b` is not known to be later.
fn conflicts(a: &ToolRun, b: &ToolRun) -> bool {
    let machine = MachineInfo::INFO.name;
    let has_values = |series: &dyn AnySeries| series.overlaps(series);
    let is_complement = |own: &dyn AnySeries, series: &dyn AnySeries| {
        a.file == b.file && has_values(own) && has_values(series) && !own.overlaps(series)
    };
    let is_shared = |entity: &EntityKey, series: &dyn AnySeries| {
        entity.0 != machine && a.series.get(entity).is_some_and(|own| !is_complement(&**own, series))
    };
    a.tool == b.tool && b.series.iter().any(|(entity, series)| is_shared(entity, &**series)) && !follows(a, b)
}

/// Returns true if `b` is of a later instant than `a`: both are in one file and, if there are counters, at known times, since
/// only the rate of a counter means anything. A transfer that was timed again is another experiment, and so is what was printed
/// after a setting was changed.
fn follows(a: &ToolRun, b: &ToolRun) -> bool {
    let is_timed = |run: &ToolRun| run.series.keys().any(|entity| entity.0 == Transfer::INFO.name);
    if is_timed(b) && is_timed(a) || b.start.time.is_none() && is_change(&a.settings, &b.settings) {
        return false;
    }
    let (before, start) = (a.newest(), b.start);
    let timed = before.time.is_some() && start.time.is_some() && before != start;
    let counted = || b.series.iter().any(|(entity, series)| series.has_counters() && a.series.contains_key(entity));
    a.file == b.file && a.is_instant() && b.is_instant() && (timed || !counted())
}

fn capture(group: RunGroup, rank: fn(&str) -> usize) -> Capture {
    let line = group.first_line();
    let RunGroup { host, mut runs, .. } = group;
    if let (Some(host), Some(first)) = (&host, runs.first())
        && runs.iter().all(|run| run.tool != MACHINE)
    {
        let mut machine = ToolRun::new(MACHINE, &first.file);
        machine.row::<MachineInfo>(0.0, line, MachineKey).name = (**host).into();
        runs.push(machine);
    }
    runs.sort_by_key(|run| rank(run.tool));
    let first = runs.iter().filter(|run| run.line > 0).min_by_key(|run| run.line);
    let settings = first.map(|run| run.settings.by_name().clone()).unwrap_or_default();
    let mut has_assumed_times = runs.iter().any(|run| run.has_assumed_times);
    let zones = align_zones(&mut runs);
    let epoch = Epoch::from_runs(&runs);
    let mut files: Vec<String> = runs.iter().map(|run| run.file.to_string()).collect();
    files.sort();
    files.dedup();
    let mut entities = Entities::default();
    let mut notes = Vec::from_iter(zones);
    let mut averages = Snapshot::default();
    // Taken from the tool that shows most of them.
    let mut clock_steps: Vec<(u64, i64)> = Vec::new();
    let mut origins = Origins::default();
    let mut repetitions: BTreeMap<(&'static str, Name), u64> = BTreeMap::new();
    for mut run in runs {
        if run.is_average {
            run.series.values_mut().for_each(|series| series.move_averages(&mut averages, &mut origins));
            run.series.retain(|_, series| series.length() > 0);
        }
        notes.extend(run.notes.iter().map(|note| report(&run.file, note)));
        // A second untimed reading in one file is later; one of other entities is of the same instant.
        let before = repetitions.entry((run.tool, run.file.clone())).or_insert(0_u64);
        let again = run.series.iter().any(|(entity, series)| entities.has(entity, run.tool, &**series));
        *before += u64::from(again && run.is_instant() && run.start.time.is_none());
        has_assumed_times |= *before > 0;
        let offset = if run.is_relative { run.start.time.unwrap_or(0.0) } else { epoch.offset(run.start) };
        let shift = BEGIN + (offset * SECOND) as u64 + *before * BEGIN;
        // The machine's name has no time of its own, and must not make the Window begin before the first reading.
        let machine = run.tool == MACHINE;
        let shift = if machine { entities.first().unwrap_or(shift) } else { shift };
        if run.clock_steps.len() > clock_steps.len() {
            let absolute = |(at, by): &(f64, f64)| (shift + (at * SECOND) as u64, (by * SECOND) as i64);
            clock_steps = run.clock_steps.iter().map(absolute).collect();
        }
        for (entity, mut series) in run.series {
            series.shift(shift);
            entities.add(entity, run.tool, series);
        }
    }
    let mut totals = SinceBoot::default();
    totals.add_counts(entities.totals());
    totals.add_averages(averages);
    let window =
        window(entities.merged(), notes, PrintedClock { epoch, steps: clock_steps }, origins).with_totals(totals);
    let window = window.with_assumed_times(has_assumed_times);
    Capture { files, host: host.map(|host| host.to_string()), settings, window }
}

/// Converts the times of runs to UTC where their zone is known. A time without a zone is in the zone that the rest of its file
/// shows, or else in the only zone that is known. Returns a note if that leaves times of several zones.
fn align_zones(runs: &mut [ToolRun]) -> Option<SourceReport> {
    let offset = |run: &ToolRun| run.start.zone.offset();
    let known = |file: Option<&Name>| {
        let of_file = runs.iter().filter(|run| file.is_none_or(|file| run.file == *file));
        let mut offsets: Vec<f64> = of_file.filter_map(offset).collect();
        offsets.sort_by(f64::total_cmp);
        offsets.dedup();
        offsets
    };
    let all = known(None);
    let files: BTreeSet<&Name> = runs.iter().map(|run| &run.file).collect();
    let only = |offsets: &[f64]| if let [offset] = offsets { Some(*offset) } else { None };
    let of_file: BTreeMap<Name, Option<f64>> =
        files.into_iter().map(|file| (file.clone(), only(&known(Some(file))).or(only(&all)))).collect();
    let zones: Vec<Zone> = runs.iter().filter(|run| run.start.time.is_some()).map(|run| run.start.zone).collect();
    let mut unknown: Option<(Name, String)> = None;
    for run in runs.iter_mut().filter(|run| run.start.time.is_some() && !run.is_relative) {
        let offset = match run.start.zone {
            Zone::Offset(_) => run.start.zone.offset(),
            Zone::Local => of_file.get(&run.file).copied().flatten(),
            Zone::Ambiguous(_) => None,
        };
        match (offset, run.start.zone) {
            (Some(offset), _) => run.start = run.start.in_utc(offset),
            (None, zone)
                if zone == Zone::Local && all.len() > 1 || !zones.iter().all(|other| other.is_comparable(zone)) =>
            {
                let what = match zone {
                    Zone::Ambiguous(name) => format!("{name}, a name that several zones have,"),
                    _ => "no zone".to_owned(),
                };
                unknown.get_or_insert((run.file.clone(), what));
            }
            _ => {}
        }
    }
    let (file, what) = unknown?;
    let why = format!("some have {what} and others another one: those of the first are used as they were printed");
    Some(report(
        &file,
        &Note { what: "times of one zone".into(), why, remedy: "print all of them in UTC: TZ=UTC".into() },
    ))
}

/// Series of an entity by tool, the preferred tool first.
type ToolSeries = Vec<(&'static str, Box<dyn AnySeries>)>;

#[derive(Default)]
struct Entities(BTreeMap<EntityKey, ToolSeries>);

impl Entities {
    /// Returns true if this tool already has values of the same metrics.
    fn has(&self, entity: &EntityKey, tool: &str, series: &dyn AnySeries) -> bool {
        let all = self.0.get(entity).into_iter().flatten();
        all.filter(|(by, _)| *by == tool).any(|(_, own)| own.overlaps(series))
    }

    fn first(&self) -> Option<u64> {
        self.0.values().flatten().filter_map(|(_, series)| series.first()).min()
    }

    fn add(&mut self, entity: EntityKey, tool: &'static str, series: Box<dyn AnySeries>) {
        let all = self.0.entry(entity).or_default();
        match all.iter_mut().find(|(by, _)| *by == tool) {
            Some((_, own)) => own.append(series),
            None => all.push((tool, series)),
        }
    }

    /// Returns the values that were read once, those of the preferred tool first.
    fn totals(&self) -> Snapshot {
        let mut totals = Snapshot::default();
        self.0.values().flatten().for_each(|(_, series)| series.copy_total(&mut totals));
        totals
    }

    /// Returns one series per entity. A tool's readings are appended to each other before they are merged with another tool's.
    fn merged(self) -> impl Iterator<Item = Box<dyn AnySeries>> {
        self.0.into_values().filter_map(|all| {
            all.into_iter().map(|(_, series)| series).reduce(|mut first, series| {
                first.merge_tool(series);
                first
            })
        })
    }
}

fn report(file: &Name, note: &Note) -> SourceReport {
    let what: Name = format!("{file}: {}", note.what).into();
    let outcome = ReadOutcome::Partly { why: note.why.clone(), remedy: note.remedy.clone() };
    SourceReport { source: what.clone(), tells: what, outcome, ..SourceReport::default() }
}

fn window(
    entities: impl Iterator<Item = Box<dyn AnySeries>>,
    notes: Vec<SourceReport>,
    clock: PrintedClock,
    mut origins: Origins,
) -> Window {
    let mut snapshots = BTreeMap::new();
    for series in entities {
        series.into_snapshots(&mut snapshots, &mut origins);
    }
    let first = *snapshots.keys().next().unwrap_or(&BEGIN);
    snapshots.entry(first).or_default().sources = notes;
    let finish = |(at, mut snapshot): (u64, Snapshot)| {
        snapshot.boot_ns = at;
        snapshot.wall_ns = clock.wall_ns(at);
        snapshot.sort();
        snapshot
    };
    Window::new(snapshots.into_iter().map(finish).collect()).with_origins(origins)
}

/// Clock of the printed times.
struct PrintedClock {
    epoch: Epoch,
    /// Times at which it was set, and by how many nanoseconds.
    steps: Vec<(u64, i64)>,
}

impl PrintedClock {
    /// Returns the printed time at this time of the capture, in nanoseconds since 1970; 0 if unknown.
    fn wall_ns(&self, at: u64) -> i64 {
        let set = self.steps.iter().filter(|(step, _)| *step <= at).map(|(_, by)| by);
        match self.epoch.wall_ns(at - BEGIN) {
            0 => 0,
            wall_ns => set.fold(wall_ns, |wall_ns, by| wall_ns.saturating_add(*by)),
        }
    }
}

/// Earliest printed time.
#[derive(Clone, Copy, Default)]
struct Epoch(PrintedTime);

impl Epoch {
    fn from_runs(runs: &[ToolRun]) -> Self {
        let date = runs.iter().find_map(|run| run.start.date);
        let absolute = || runs.iter().filter(|run| !run.is_relative);
        let time = absolute().filter_map(|run| run.start.time).reduce(f64::min);
        let dated = absolute().filter_map(|run| Some((run.start.since_1970()?, run.start)));
        let earliest = dated.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, start)| start);
        Self(earliest.unwrap_or(PrintedTime { date, time, ..PrintedTime::default() }))
    }

    /// Returns the seconds from here to the start of a run; 0 if unknown.
    fn offset(self, start: PrintedTime) -> f64 {
        start.since(self.0).filter(|seconds| (0.0..FAR).contains(seconds)).unwrap_or(0.0)
    }

    /// Returns the wall clock this many nanoseconds later; 0 if unknown.
    fn wall_ns(self, after: u64) -> i64 {
        self.0.since_1970().map_or(0, |seconds| (seconds * SECOND) as i64 + i64::try_from(after).unwrap_or(0))
    }
}
