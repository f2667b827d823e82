//! The cgroup names of processes, read once for all processes that share a set of cgroups.

use super::pid_files;
use super::proc_dir::ProcDir;
use super::stat::Stat;
use std::collections::HashMap;
use whyslow_model::value::State;

/// Names by set; BPF identifies the sets.
#[derive(Default)]
pub(super) struct CgroupSets(HashMap<[u64; 2], SetNames>);

struct SetNames {
    /// Names in the format of [`pid_files::cgroups`].
    names: State,
    /// The sample in which they were read.
    sample: u64,
    /// True if two samples read the same names. A single read may belong to another set that the process joined after BPF had
    /// seen it.
    is_sure: bool,
}

impl CgroupSets {
    /// Returns the names of a set. They are read from the process that `dir` has entered, which is in the set, unless it is
    /// exiting: then the files show it in the root of each version 1 hierarchy (kernel/cgroup/cgroup.c, proc_cgroup_show).
    pub(super) fn names(&mut self, set: [u64; 2], sample: u64, dir: &mut ProcDir) -> State {
        let known = self.0.get(&set);
        if let Some(known) = known.filter(|known| known.is_sure || known.sample == sample) {
            return known.names.clone();
        }
        let names: State = dir.read("cgroup").ok().and_then(pid_files::cgroups).into();
        let stat = dir.read("stat").ok().and_then(Stat::parse);
        if stat.is_some_and(|(stat, _)| !stat.is_ending()) {
            let is_sure = known.is_some_and(|known| known.names == names);
            self.0.insert(set, SetNames { names: names.clone(), sample, is_sure });
        }
        names
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    /// Flags of a running process, and of one that is exiting (PF_EXITING).
    const RUNS: u32 = 0x40_0100;
    const ENDS: u32 = 0x40_0104;

    /// Creates a tree of processes with their cgroups and flags.
    fn tree(processes: &[(u32, &str, u32)]) -> CapturedTree {
        let tree = CapturedTree::with_files(&[]);
        for (pid, group, flags) in processes {
            let rest = "1 0 0 0 1 1 0 0 20 0 1 0 4711 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 1 0 0 0 0 0";
            tree.write(&format!("proc/{pid}/stat"), &format!("{pid} (db) S 1 7 7 0 -1 {flags} {rest}\n"));
            tree.write(&format!("proc/{pid}/cgroup"), &format!("0::{group}\n"));
        }
        tree
    }

    #[test]
    fn names_that_one_sample_read_are_read_again_until_two_agree() {
        let tree = tree(&[(7, "/moved", RUNS), (8, "/a", RUNS), (9, "/b", RUNS)]);
        let mut dir = ProcDir::new(&tree.root());
        let mut sets = CgroupSets::default();
        let mut names = |pid, sample| {
            dir.enter_process(pid);
            sets.names([1, 1], sample, &mut dir).get().map(str::to_owned)
        };
        let read = [(7, 1), (8, 1), (8, 2), (9, 2), (8, 3), (9, 4)].map(|(pid, sample)| names(pid, sample).unwrap());
        assert_eq!(
            read,
            ["/moved", "/moved", "/a", "/a", "/a", "/a"],
            "8 in the samples 2 and 3, then no one is asked"
        );
    }

    #[test]
    fn a_process_that_is_ending_does_not_name_its_set() {
        let tree = tree(&[(7, "/", ENDS), (8, "/a", RUNS)]);
        let mut dir = ProcDir::new(&tree.root());
        let mut sets = CgroupSets::default();
        let read = [7, 8, 7].map(|pid| {
            dir.enter_process(pid);
            sets.names([1, 1], 1, &mut dir).get().map(str::to_owned)
        });
        assert_eq!(read.map(Option::unwrap), ["/", "/a", "/a"]);
    }
}
