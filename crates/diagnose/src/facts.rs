//! Everything that rules judge, computed once from a Window.

use crate::scope::{EntitySources, Scope};
use crate::signal::{Entity, Signal};
use crate::signals::blocked::Blocked;
use crate::signals::group::BlockedMembers;
use crate::signals::host::HostUse;
use crate::signals::shortage::Rooms;
use crate::signals::task::TaskUse;
use crate::signals::{io, task};
use crate::since::History;
use crate::sources::{Sources, is_bpf};
use crate::{impossible, own};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use whyslow_documents::diagnosis::{BlindSpot, Reading, Subject};
use whyslow_model::catalogue::{self, FamilyInfo, Group, Link, Observer, Process, Setting};
use whyslow_model::origin::{Origins, SourceLocation};
use whyslow_model::topology::Topology;
use whyslow_model::window::{Change, UsualValues, Window};

/// Persistence of a disk's blocked users from which they do not pause between requests.
const WITHOUT_PAUSE: f64 = 0.8;
/// Maximum number of locations named for one number.
const MOST_PLACES: usize = 3;

/// Entities of a window, with their signals.
#[derive(Debug)]
pub struct Facts {
    /// The machine.
    pub host: Entity,
    /// How devices are stacked.
    pub topology: Topology,
    /// What was read, and what was refused.
    pub(crate) sources: Sources,
    /// The observing process: its own activity is its cost, and not a cause.
    pub(crate) observer: Option<u32>,
    /// The observer and its descendants: never culprits of others' load.
    pub(crate) observers: BTreeSet<u32>,
    /// Processes that commands may name; `None` for captures, whose processes may have ended.
    pub(crate) running: Option<Running>,
    /// Settings that were read, by their sysctl name.
    pub(crate) settings: BTreeMap<String, String>,
    /// Control groups with the controller cpu.
    pub(crate) cpu_groups: BTreeSet<String>,
    pub(crate) entities: BTreeMap<Scope, Vec<Entity>>,
    pub(crate) origins: Origins,
    /// Shares that are impossible and therefore unknown.
    pub(crate) impossible: Vec<BlindSpot>,
    /// How long the present losses have lasted.
    pub(crate) history: History,
}

impl Facts {
    /// Computes all signals.
    pub fn from_window(window: &Window) -> Self {
        Self::of_scopes(window, |_| true)
    }

    /// Computes the signals of the host, the disks, which the host's need, and the scopes that are `wanted`; all other scopes
    /// stay empty.
    pub fn of_scopes(window: &Window, wanted: impl Fn(Scope) -> bool) -> Self {
        let changes = window.changes::<Process>();
        let blocked = Blocked::from_window(window);
        let processes = task::processes(window, &changes, &blocked);
        let threads = task::threads(window, &processes);
        let rooms = Rooms::from_window(window);
        let read = Sources::from_window(window);
        let host = HostUse::new(window, &read, &processes, rooms.of_the_machine(), blocked.over_time());
        let mut host = Entity::from_subject(Subject::host(), &host);
        let topology = Topology::from_window(window);
        let members = BlockedMembers::new(&processes, blocked.over_time());
        let uses = io::uses(window, &topology, &processes, &changes);
        let sources = EntitySources {
            window,
            topology: &topology,
            host: &host,
            changes: &changes,
            processes: &processes,
            threads: &threads,
            rooms: &rooms,
            blocked: blocked.over_time(),
            members: &members,
            uses: &uses,
            io_stall: host.number("stall.io"),
            memory_stall: host.number("stall.memory"),
        };
        let scopes = Scope::ALL.iter().filter(|scope| matches!(scope, Scope::Host | Scope::Disk) || wanted(**scope));
        let mut entities: BTreeMap<Scope, Vec<Entity>> =
            scopes.map(|scope| (*scope, scope.entities(&sources))).collect();
        own::add(window, &mut host, &mut entities);
        entities.values_mut().flatten().chain([&mut host]).for_each(|entity| add_usual(entity, window.usual()));
        let is_captured = !window.origins().is_empty();
        let mut impossible = Vec::new();
        if is_captured {
            impossible.extend(entities.values_mut().flatten().flat_map(impossible::take_out));
            // The host is also among the entities.
            impossible::take_out(&mut host);
        }
        let disks = entities.get(&Scope::Disk).map_or(&[][..], Vec::as_slice);
        let longest = longest_stall(disks.iter());
        let steady = longest_stall(disks.iter().filter(|disk| !is_paced(disk)));
        host.set("disk.longest_stall", longest);
        host.set("disk.steady_stall", steady.or(longest.map(|_| 0.0)));
        let observer = window.the::<Observer>().and_then(|observer| observer.pid.get()).map(|pid| pid as u32);
        let observers = observer.map(|own| with_descendants(own, &changes)).unwrap_or_default();
        let running = (!is_captured).then(|| Running::from_window(window, &processes, &observers));
        Self {
            host,
            topology,
            sources: read,
            observer,
            observers,
            running,
            settings: settings(window),
            cpu_groups: cpu_groups(window),
            entities,
            origins: window.origins().clone(),
            history: History::from_window(window),
            impossible,
        }
    }

    /// Returns the entities of one kind.
    pub fn entities(&self, scope: Scope) -> &[Entity] {
        self.entities.get(&scope).map_or(&[], Vec::as_slice)
    }

    /// Returns where a signal of this entity was read: the kernel's file; for captures, file and lines.
    pub fn source_of(&self, signal: &Signal, entity: &Entity) -> String {
        let paths = |source: &str| -> Vec<String> {
            source.split([' ', ',']).filter(|w| w.starts_with('/')).map(str::to_owned).collect()
        };
        let wanted = paths(signal.source);
        let shared = |f: &FamilyInfo| paths(f.source).iter().any(|path| wanted.contains(path));
        let families = if self.origins.is_empty() { Vec::new() } else { catalogue::families() };
        let places = |f: &FamilyInfo| -> BTreeSet<&SourceLocation> {
            let rows = entity.rows.iter().flat_map(|key| self.origins.locations(f.name, key)).collect::<BTreeSet<_>>();
            if rows.is_empty() { self.origins.locations(f.name, &entity.subject.name) } else { rows }
        };
        let places: BTreeSet<&SourceLocation> = families.iter().filter(|f| shared(f)).flat_map(places).collect();
        if places.is_empty() {
            // No file of this machine is the source of a capture.
            let is_of_capture = !self.origins.is_empty() && (!wanted.is_empty() || is_bpf(signal.source));
            return if is_of_capture { String::new() } else { self.sources.origin(signal.source) };
        }
        listed(places)
    }

    /// Returns true if a capture contains what this file of the kernel shows.
    pub fn is_captured(&self, path: &str) -> bool {
        let shows = |f: &FamilyInfo| f.source.split([' ', ',']).any(|word| word == path);
        !self.origins.is_empty() && catalogue::families().into_iter().filter(shows).any(|f| self.origins.has(f.name))
    }

    /// Returns the value of a sysctl when it was last read.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Returns the control group among whose tasks a nice value counts: the deepest one with the controller cpu among these, one
    /// per line, and their ancestors. Returns `None` if only the root is left.
    pub(crate) fn cpu_group(&self, cgroups: Option<&str>) -> Option<&str> {
        let above = |path: &str| self.cpu_groups.get(path).map(String::as_str);
        let of_line = |line: &'_ str| Path::new(line).ancestors().find_map(|path| above(path.to_str()?));
        cgroups?.lines().filter_map(of_line).filter(|path| *path != "/").max_by_key(|path| path.matches('/').count())
    }

    /// Returns a signal of the host.
    pub fn host_number(&self, name: &str) -> Option<f64> {
        self.host.number(name)
    }
}

/// Adds the baseline's values of an entity.
fn add_usual(entity: &mut Entity, usual: &UsualValues) {
    if usual.is_empty() {
        return;
    }
    let Subject { kind, name, .. } = &entity.subject;
    let of_signal = |signal: &Signal| {
        let median = usual.get(&(kind.to_string(), name.clone(), signal.name.to_owned()))?;
        Some((signal.name.to_owned(), Reading::Number(*median)))
    };
    entity.usual = entity.signals.iter().filter_map(of_signal).collect();
}

/// Returns the longest time that a task waited for one of these disks, as a share of the time.
fn longest_stall<'e>(disks: impl Iterator<Item = &'e Entity>) -> Option<f64> {
    disks.filter_map(|disk| disk.number("disk.stall")).reduce(f64::max)
}

/// Returns true if the users of a disk pause between requests: then they get what they request.
fn is_paced(disk: &Entity) -> bool {
    disk.number("disk.users_blocked").is_some_and(|blocked| blocked < WITHOUT_PAUSE)
}

/// Processes that a command can still name.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// Processes of the last sample.
    at_the_end: BTreeSet<u32>,
    /// Those of them whose settings are worth changing: no kernel threads, no observer, and no short-lived processes.
    lasting: BTreeSet<u32>,
    /// Whether the window is in the past, so that its processes may have ended since.
    pub(crate) is_past: bool,
}

/// Share of the window that a process must have run to count as lasting.
const LASTING: f64 = 0.5;

impl Running {
    fn from_window(window: &Window, tasks: &[TaskUse], observers: &BTreeSet<u32>) -> Self {
        let last = window.last().map(|s| &s.task.process[..]).unwrap_or_default();
        let is_alive = |p: &&Process| !matches!(p.state.get(), Some("X" | "Z"));
        let at_the_end: BTreeSet<u32> = last.iter().filter(is_alive).map(|p| p.task.pid).collect();
        let lasts = |task: &&TaskUse| {
            let long_enough = task.seconds >= LASTING * window.seconds();
            long_enough && !task.kernel && !observers.contains(&task.key.pid) && at_the_end.contains(&task.key.pid)
        };
        let lasting = tasks.iter().filter(lasts).map(|task| task.key.pid).collect();
        Self { at_the_end, lasting, is_past: false }
    }

    /// Returns true if a command may name the process.
    pub(crate) fn has(&self, pid: u32) -> bool {
        !self.is_past && self.at_the_end.contains(&pid)
    }

    /// Returns those of these processes whose settings are worth changing, if they are the majority.
    pub(crate) fn lasting(&self, pids: impl Iterator<Item = u32>) -> Vec<u32> {
        let (lasting, others): (Vec<u32>, Vec<u32>) = pids.partition(|pid| self.lasting.contains(pid));
        if lasting.len() > others.len() { lasting } else { Vec::new() }
    }
}

/// Lists the first few locations, each file named once: `sar.txt:3-9, 12, iostat.txt:4`.
fn listed(places: BTreeSet<&SourceLocation>) -> String {
    let more = if places.len() > MOST_PLACES { ", …" } else { "" };
    let mut text = String::new();
    let mut file = None;
    for place in places.into_iter().take(MOST_PLACES) {
        let before = if file.is_none() { "" } else { ", " };
        let place_text = if file == Some(&place.file) { place.lines() } else { place.to_string() };
        file = Some(&place.file);
        text.push_str(before);
        text.push_str(&place_text);
    }
    text + more
}

/// Returns the settings; replaces the tabs with which the kernel separates their numbers by spaces.
fn settings(window: &Window) -> BTreeMap<String, String> {
    let changes = window.changes::<Setting>();
    let read = |c: &Change<'_, Setting>| {
        let value = c.last().value.get()?;
        Some((c.key().to_string(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    // Captures show it as a property of the card.
    let coalescing = window.newest::<Link>();
    let coalescing = coalescing.iter().filter(|(key, _)| key.ns.is_empty());
    let coalescing = coalescing.filter_map(|(key, link)| {
        Some((format!("nic.coalesce.rx_usecs@{}", key.name), format!("{:.0}", link.coalesce_rx.get()? / 1e3)))
    });
    coalescing.chain(changes.iter().filter_map(read)).collect()
}

/// Returns the control groups with a weight: a group has one only if the controller is on
/// (Documentation/admin-guide/cgroup-v2.rst: cpu.weight).
fn cpu_groups(window: &Window) -> BTreeSet<String> {
    let groups = window.newest::<Group>();
    groups.iter().filter(|(_, group)| group.weight.get().is_some()).map(|(path, _)| path.to_string()).collect()
}

fn with_descendants(own: u32, changes: &[Change<'_, Process>]) -> BTreeSet<u32> {
    let parents: BTreeMap<u32, u32> =
        changes.iter().filter_map(|c| Some((c.key().pid, c.last().parent.get()? as u32))).collect();
    let mut all = BTreeSet::from([own]);
    loop {
        let before = all.len();
        all.extend(parents.iter().filter(|(_, parent)| all.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>());
        if all.len() == before {
            return all;
        }
    }
}
