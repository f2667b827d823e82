//! Inventory of the machine: hardware, firmware, kernel, drivers, settings, limits, packages; and its changes, including
//! restarted units.
//!
//! A thread of low priority runs once a minute and reads each section as often as its cost allows, so that no sample waits for
//! thousands of files. A sample gets what the thread has found since the previous one: everything at first and once an hour,
//! otherwise only changes. The inventory contains nothing that identifies one machine (serial numbers, UUIDs, addresses), because
//! machines of a fleet are compared by it.

mod hardware;
mod kernel;
mod packages;
mod settings;
mod units;

use crate::os;
use crate::root::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use whyslow_model::catalogue::{InventoryChange, InventoryItem};
use whyslow_model::inventory::{RESTARTED, UNIT};
use whyslow_model::key::InventoryKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// The source's name, for callers that enable it.
pub const INVENTORY: &str = "inventory";
const INFO: SourceInfo = SourceInfo::new(INVENTORY, "inventory of the machine, and its changes").recorded();

const ROUND: Duration = Duration::from_secs(60);
const HOUR_NS: i64 = 3600 * 1_000_000_000;
/// Longer values are truncated.
const LONGEST: usize = 1000;
/// Separates the values of several things of one name.
const SEPARATOR: &str = ", ";

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![Box::<InventorySource>::default()]
}

/// Things of one kind by name. Things of the same name (two disks of a model) have their values in one text.
#[derive(Default)]
struct Things(BTreeMap<InventoryKey, BTreeSet<String>>);

impl Things {
    fn add(&mut self, kind: &Name, name: &str, value: impl Into<String>) {
        let value: String = value.into();
        let value = value.char_indices().nth(LONGEST).map_or(value.as_str(), |(end, _)| &value[..end]).to_owned();
        self.0.entry(InventoryKey { kind: kind.clone(), name: name.into() }).or_default().insert(value);
    }

    /// Adds the trimmed content of a file, if it can be read.
    fn add_word(&mut self, kind: &Name, name: &str, root: &Root, path: &str) {
        if let Some(word) = root.word(path).filter(|word| !word.is_empty()) {
            self.add(kind, name, word);
        }
    }

    fn joined(self) -> BTreeMap<InventoryKey, Name> {
        let joined = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(SEPARATOR);
        self.0.into_iter().map(|(thing, values)| (thing, joined(values).into())).collect()
    }
}

/// A part of the inventory that is read on its own.
trait Section: Send {
    /// Returns the number of rounds until it is read again.
    fn pause(&self) -> u32 {
        1
    }

    /// Reads all of its things, and the time of their change if known (nanoseconds since 1970). Returns `None` if nothing can
    /// have changed since the last time, or if the section does not exist.
    ///
    /// # Errors
    /// Fails if the section exists but cannot be read.
    fn read(&mut self, root: &Root) -> Result<Option<(Things, Option<i64>)>, SourceError>;
}

/// The things of a section at the last reading.
struct SectionState {
    section: Box<dyn Section>,
    known: Option<BTreeMap<InventoryKey, Name>>,
    error: Option<SourceError>,
}

/// Results of a round.
#[derive(Default)]
struct Findings {
    inventory: Vec<InventoryItem>,
    changes: BTreeMap<InventoryKey, InventoryChange>,
    error: Option<SourceError>,
}

impl Findings {
    fn add(&mut self, change: InventoryChange) {
        match self.changes.get_mut(&change.thing) {
            Some(earlier) => (earlier.new, earlier.time) = (change.new, change.time),
            None => drop(self.changes.insert(change.thing.clone(), change)),
        }
    }

    /// Adds the results of a later round.
    fn absorb(&mut self, later: Self) {
        later.changes.into_values().for_each(|change| self.add(change));
        if !later.inventory.is_empty() {
            self.inventory = later.inventory;
        }
        self.error = later.error;
    }
}

struct InventoryReader {
    sections: Vec<SectionState>,
    units: units::Units,
    rounds: u32,
    /// The hour in which all things were last passed on.
    hour: Option<i64>,
}

impl Default for InventoryReader {
    fn default() -> Self {
        let sections: [Box<dyn Section>; 4] = [
            Box::new(kernel::Kernel),
            Box::new(hardware::Hardware),
            Box::<settings::Settings>::default(),
            Box::<packages::Packages>::default(),
        ];
        let state = |section| SectionState { section, known: None, error: None };
        Self {
            sections: sections.into_iter().map(state).collect(),
            units: units::Units::default(),
            rounds: 0,
            hour: None,
        }
    }
}

impl InventoryReader {
    fn round(&mut self, root: &Root, wall_ns: i64) -> Findings {
        let mut findings = Findings::default();
        for state in &mut self.sections {
            if self.rounds.is_multiple_of(state.section.pause()) {
                state.read(root, &mut findings);
            }
        }
        for (unit, time) in self.units.restarted(root) {
            let thing = InventoryKey { kind: UNIT.into(), name: unit };
            findings.add(InventoryChange { new: RESTARTED.into(), time: time.into(), ..InventoryChange::new(thing) });
        }
        self.rounds = self.rounds.wrapping_add(1);
        let hour = wall_ns.div_euclid(HOUR_NS);
        if self.hour.replace(hour) != Some(hour) {
            findings.inventory = self.all();
        }
        findings.error = self.sections.iter().find_map(|state| state.error.clone());
        findings
    }

    fn all(&self) -> Vec<InventoryItem> {
        let things = self.sections.iter().filter_map(|state| state.known.as_ref()).flatten();
        let row = |(thing, value): (&InventoryKey, &Name)| InventoryItem {
            value: value.clone().into(),
            ..InventoryItem::new(thing.clone())
        };
        things.map(row).collect()
    }
}

impl SectionState {
    fn read(&mut self, root: &Root, findings: &mut Findings) {
        let (now, time) = match self.section.read(root) {
            Ok(Some((things, time))) => (things.joined(), time.and_then(|time| u64::try_from(time).ok())),
            Ok(None) => return,
            Err(error) => {
                self.error = Some(error);
                return;
            }
        };
        self.error = None;
        let Some(known) = &mut self.known else {
            self.known = Some(now);
            return;
        };
        let change = |thing: &InventoryKey, old: Option<Name>, new: Option<Name>| InventoryChange {
            old: old.into(),
            new: new.into(),
            time: time.into(),
            ..InventoryChange::new(thing.clone())
        };
        let gone: Vec<InventoryKey> = known.keys().filter(|thing| !now.contains_key(*thing)).cloned().collect();
        for thing in gone {
            findings.add(change(&thing, known.remove(&thing), None));
        }
        for (thing, value) in now {
            if known.get(&thing) != Some(&value) {
                findings.add(change(&thing, known.get(&thing).cloned(), Some(value.clone())));
                known.insert(thing, value);
            }
        }
    }
}

/// Reads in a separate thread on the live machine, and immediately from a captured tree.
#[derive(Default)]
struct InventorySource {
    reader: Option<InventoryReader>,
    thread: Option<InventoryThread>,
    error: Option<SourceError>,
}

struct InventoryThread {
    findings: Receiver<Findings>,
    /// Dropping it ends the thread.
    _end: Sender<()>,
}

impl InventoryThread {
    fn begin(root: Root) -> Result<Self, SourceError> {
        let (to_source, findings) = channel();
        let (end, ended) = channel::<()>();
        let run = move || {
            os::lower_priority();
            let mut reader = InventoryReader::default();
            loop {
                if to_source.send(reader.round(&root, os::wall_ns())).is_err() {
                    return;
                }
                if ended.recv_timeout(ROUND) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name(INVENTORY.into()).spawn(run);
        thread.map_err(|error| SourceError::Failed(whyslow_model::human::no_thread(&error)))?;
        Ok(Self { findings, _end: end })
    }
}

impl Source for InventorySource {
    fn info(&self) -> SourceInfo {
        INFO
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let mut found = Findings { error: self.error.take(), ..Findings::default() };
        if root.is_live() {
            let thread = match self.thread.take() {
                Some(thread) => thread,
                None => InventoryThread::begin(root.clone())?,
            };
            thread.findings.try_iter().for_each(|later| found.absorb(later));
            self.thread = Some(thread);
        } else {
            found = self.reader.get_or_insert_default().round(root, os::wall_ns());
        }
        // Most samples have neither; they then have no tables.
        if !found.inventory.is_empty() || !found.changes.is_empty() {
            out.kernel.inventory = found.inventory;
            out.kernel.change = found.changes.into_values().collect();
        }
        self.error.clone_from(&found.error);
        found.error.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CapturedTree, wait_for};
    use std::time::Instant;
    use whyslow_model::inventory::MachineInventory;

    const STATUS: &str = "Package: bash\nStatus: install ok installed\nVersion: 5.2-1\n\n";

    fn words(sample: &Snapshot) -> Vec<String> {
        MachineInventory::default().take(sample).iter().map(|change| change.in_words()).collect()
    }

    #[test]
    fn all_of_it_is_passed_on_at_first_and_then_only_changes() {
        let tree = CapturedTree::with_files(&[
            ("proc/cmdline", "quiet\n"),
            ("proc/sys/vm/swappiness", "60\n"),
            ("var/lib/dpkg/status", STATUS),
        ]);
        let mut source = InventorySource::default();
        let (outcome, first) = tree.read(&mut source);
        assert_eq!(outcome, Ok(()));
        let listed = |sample: &Snapshot| -> Vec<String> {
            let rows = sample.kernel.inventory.iter();
            rows.map(|row| format!("{} = {}", row.thing, row.value.get().unwrap())).collect()
        };
        assert_eq!(listed(&first), ["kernel cmdline.quiet = set", "package bash = 5.2-1", "sysctl vm.swappiness = 60"]);
        assert_eq!(words(&first), [""; 0]);
        source.reader.as_mut().unwrap().rounds = 9;
        tree.write("var/lib/dpkg/status", &STATUS.replace("5.2-1", "5.2-12"));
        let second = tree.read(&mut source).1;
        assert_eq!(words(&second), ["package bash: was 5.2-1, is 5.2-12"]);
        assert!(second.kernel.change[0].time.get().is_some(), "the file says when");
        // Settings are read again after some minutes.
        source.reader.as_mut().unwrap().rounds = 10;
        tree.write("proc/sys/vm/swappiness", "10\n");
        tree.write("proc/sys/vm/overcommit_memory", "2\n");
        assert_eq!(
            words(&tree.read(&mut source).1),
            ["sysctl vm.overcommit_memory added: 2", "sysctl vm.swappiness: was 60, is 10"]
        );
        source.reader.as_mut().unwrap().hour = None;
        let last = tree.read(&mut source).1;
        assert_eq!((listed(&last).len(), last.kernel.change.len()), (4, 0), "{:?}", listed(&last));
    }

    #[test]
    fn changes_that_no_sample_has_had_yet_are_joined() {
        let change = |old: &str, new: &str| InventoryChange {
            old: old.into(),
            new: new.into(),
            ..InventoryChange::new(InventoryKey { kind: "package".into(), name: "bash".into() })
        };
        let findings = |change: InventoryChange| {
            let mut findings = Findings::default();
            findings.add(change);
            findings
        };
        let mut all = findings(change("1", "2"));
        all.absorb(findings(change("2", "3")));
        assert_eq!(all.changes.into_values().collect::<Vec<_>>(), [change("1", "3")]);
    }

    #[test]
    fn things_of_one_name_have_their_values_in_one_text() {
        let kind = Name::from("firmware");
        let mut things = Things::default();
        for value in ["2.0", "1.0", "2.0"] {
            things.add(&kind, "SSD 980", value);
        }
        assert_eq!(things.joined().into_values().collect::<Vec<_>>(), [Name::from("1.0, 2.0")]);
    }

    #[test]
    fn the_live_machine_is_read_without_delaying_a_sample() {
        let mut source = InventorySource::default();
        let mut longest = Duration::ZERO;
        let sample = wait_for("the inventory", || {
            let (begun, mut sample) = (Instant::now(), Snapshot::default());
            assert_eq!(source.read(&Root::live(), &mut sample), Ok(()));
            longest = longest.max(begun.elapsed());
            Some(sample).filter(|sample| !sample.kernel.inventory.is_empty())
        });
        assert!(longest < Duration::from_secs(1), "{longest:?}");
        let kinds: BTreeSet<&str> = sample.kernel.inventory.iter().map(|row| &*row.thing.kind).collect();
        assert!(kinds.is_superset(&["kernel", "machine", "sysctl"].into()), "{kinds:?}");
        let has = |name: &str| sample.kernel.inventory.iter().any(|row| &*row.thing.name == name);
        assert!(
            has("vm.swappiness") && !has("kernel.ns_last_pid") && !has("kernel.hostname") && !has("fs.dentry-state")
        );
        let identity = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert!(sample.kernel.inventory.iter().all(|row| row.value.get() != Some(identity.trim())));
    }
}
