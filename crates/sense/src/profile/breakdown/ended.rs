//! Processes that have ended. The maps of the BPF programs have limited room; if a command starts more processes, the counts of
//! ended ones are moved here and merged by name.

use super::files::OpenFiles;
use super::records::{Slice, Spent, Watch};
use crate::bpf::Object;
use crate::profile::address_space::AddressSpaces;
use crate::profile::recorder::{AddressSpaceId, RawStack, StackRecord};
use crate::source_error::SourceError;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A quarter of what the maps hold: from this number of slices, stacks or processes on, ended processes are moved.
const MOST_SLICES: usize = 8192;
const MOST_STACKS: usize = 4096;
const MOST_PROCESSES: usize = 8192;

/// A process that has ended, or several that had the same PID.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedProcess {
    pub(super) root: u32,
    pub(super) threads: u32,
    pub(super) processes: usize,
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) lived: u64,
    /// The process that its times are attributed to: the first one of its name.
    stands_for: u32,
}

#[derive(Debug, Default)]
pub(super) struct EndedProcesses {
    pub(super) times: BTreeMap<u32, EndedProcess>,
    pub(super) slices: HashMap<Slice, Spent>,
    pub(super) stacks: HashMap<u64, RawStack>,
    by_name: HashMap<String, u32>,
    /// Processes that had already ended at the last check: their counts are final.
    settled: BTreeSet<u32>,
}

/// Contents of the maps that [`EndedProcesses::take`] needs.
pub(super) struct Counted<'a> {
    /// Processes that started while they were watched and no longer have a thread.
    pub(super) ended: Vec<(u32, Watch)>,
    pub(super) slices: &'a [(Slice, Spent)],
    pub(super) processes: usize,
    pub(super) names: &'a BTreeMap<u32, String>,
    pub(super) files: &'a OpenFiles,
    pub(super) spaces: &'a AddressSpaces,
}

impl EndedProcesses {
    /// Moves ended processes out of the maps if these fill up.
    pub(super) fn take(&mut self, object: &mut Object, counted: &Counted<'_>) -> Result<(), SourceError> {
        let settled = std::mem::take(&mut self.settled);
        self.settled = counted.ended.iter().map(|(pid, _)| *pid).collect();
        let stacks: HashSet<u64> = counted.slices.iter().map(|(slice, _)| slice.stack).collect();
        let is_full =
            counted.slices.len() > MOST_SLICES || stacks.len() > MOST_STACKS || counted.processes > MOST_PROCESSES;
        if !is_full {
            return Ok(());
        }
        let taken: Vec<&(u32, Watch)> = counted.ended.iter().filter(|(pid, _)| settled.contains(pid)).collect();
        for (pid, watch) in &taken {
            object.remove::<u32, Watch>("watched", pid)?;
            self.settled.remove(pid);
            self.add_process(*pid, watch, counted.names);
        }
        let pids: BTreeSet<u32> = taken.iter().map(|(pid, _)| *pid).collect();
        let mut moved: HashMap<u64, u64> = HashMap::new();
        for (slice, spent) in counted.slices {
            if !pids.contains(&slice.tgid) {
                if pids.contains(&slice.other) {
                    object.remove::<Slice, Spent>("slices", slice)?;
                    let other = self.stands_for(slice.other);
                    self.slices.entry(Slice { other, ..*slice }).or_default().add(*spent);
                }
                continue;
            }
            object.remove::<Slice, Spent>("slices", slice)?;
            let stack = match moved.get(&slice.stack) {
                Some(stack) => *stack,
                None => {
                    let stack = self.take_stack(object, slice.stack, counted.spaces)?;
                    moved.insert(slice.stack, stack);
                    stack
                }
            };
            let slice = Slice { stack, ..self.by_name(slice, counted.files) };
            self.slices.entry(slice).or_default().add(*spent);
        }
        for (space, _) in object.entries::<AddressSpaceId, u64>("address_spaces")? {
            if pids.contains(&space.pid()) {
                object.remove::<AddressSpaceId, u64>("address_spaces", &space)?;
            }
        }
        Ok(())
    }

    fn add_process(&mut self, pid: u32, watch: &Watch, names: &BTreeMap<u32, String>) {
        let stands_for = names.get(&pid).map_or(pid, |name| *self.by_name.entry(name.clone()).or_insert(pid));
        let first = EndedProcess {
            root: watch.root,
            threads: 0,
            processes: 0,
            began: watch.began,
            ended: watch.ended,
            lived: 0,
            stands_for,
        };
        let process = self.times.entry(pid).or_insert(first);
        process.threads += watch.born;
        process.processes += 1;
        process.began = process.began.min(watch.began);
        process.ended = process.ended.max(watch.ended);
        process.lived += watch.lived;
    }

    /// Moves a stack here and returns its key. If the mappings of its process were never read, only its kernel part can be
    /// symbolized, which other processes of the same name share.
    fn take_stack(&mut self, object: &mut Object, key: u64, spaces: &AddressSpaces) -> Result<u64, SourceError> {
        if key == 0 {
            return Ok(0);
        }
        let Some(record) = object.get::<u64, StackRecord>("stacks", &key)? else { return Ok(key) };
        object.remove::<u64, StackRecord>("stacks", &key)?;
        let mut stack = RawStack::from(&record);
        if spaces.spaces.get(&stack.space).is_some_and(|space| !space.is_empty()) {
            self.stacks.insert(key, stack);
            return Ok(key);
        }
        stack.user.clear();
        let mut hasher = DefaultHasher::new();
        stack.kernel.hash(&mut hasher);
        let key = hasher.finish().max(1);
        self.stacks.entry(key).or_insert(stack);
        Ok(key)
    }

    /// Returns the slice with the process that represents all of its name, unless the process had a known file open.
    fn by_name(&self, slice: &Slice, files: &OpenFiles) -> Slice {
        let other = self.stands_for(slice.other);
        if files.get(slice.tgid, slice.first).is_some() {
            return Slice { other, ..*slice };
        }
        Slice { tgid: self.stands_for(slice.tgid), other, first: -1, ..*slice }
    }

    fn stands_for(&self, pid: u32) -> u32 {
        self.times.get(&pid).map_or(pid, |process| process.stands_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(root: u32, began: u64, ended: u64, born: u32) -> Watch {
        Watch { began, ended, lived: ended - began, what: 3, born, root, pad: 0, comm: [0; 16] }
    }

    #[test]
    fn processes_of_one_name_are_counted_together() {
        let names: BTreeMap<u32, String> = [(5, "true"), (6, "true"), (7, "cat")].map(|(p, n)| (p, n.into())).into();
        let mut ended = EndedProcesses::default();
        for (pid, began) in [(5, 100), (6, 200), (7, 300)] {
            ended.add_process(pid, &watch(1, began, began + 50, 1), &names);
        }
        let files = OpenFiles::default();
        let slice = |tgid| ended.by_name(&Slice { tgid, other: 6, first: 3, ..Slice::default() }, &files);
        assert_eq!((slice(6).tgid, slice(6).other, slice(6).first), (5, 5, -1));
        assert_eq!((slice(7).tgid, slice(8).tgid), (7, 8));
        // The PID is reused.
        ended.add_process(6, &watch(1, 900, 970, 2), &names);
        let six = ended.times[&6];
        assert_eq!((six.processes, six.threads, six.lived, six.began, six.ended), (2, 3, 50 + 70, 200, 970));
    }
}
