//! Control groups that make others wait: for a CPU (crates/sense/bpf/interference.bpf.c), and in the queue of a network interface
//! (send_queue.bpf.c). Every context switch, or packet, is traced, so both are on demand.

use super::hierarchy::NumberedGroups;
use crate::bpf::{Object, c_struct, include_object};
use crate::profile::require_own_numbers;
use crate::source::{Source, SourceInfo, loaded};
use crate::{Root, SourceError};
use std::collections::BTreeMap;
use whyslow_model::catalogue::Interference;
use whyslow_model::key::InterferenceKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// Maximum number of groups (groups.h: GROUPS), and numbers that stand for no group.
const GROUPS: usize = 256;
const NOBODY: u32 = 0;
const KERNEL_THREADS: u32 = 1;
/// Name for kernel threads.
const KERNEL: &str = "kernel";

c_struct! {
    /// `struct group`: the kernel's numbers of a task's control groups.
    #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct GroupIds {
        unified: u64,
        cpu: u64,
        io: u64,
        memory: u64,
    }

    /// `struct times`.
    struct Times {
        ns: [u64; GROUPS],
    }
}

pub(super) fn cpu() -> Box<dyn Source> {
    let info = SourceInfo::new("bpf/interference", "which control groups keep others waiting for a CPU").on_demand();
    let load = |root: &Root| {
        let mut object = Object::load("interference", include_object!("interference"), root)?;
        object.set_element("observer", 0, own_number(root))?;
        Ok(GroupTracer::new("cpu", object))
    };
    loaded(info, load, GroupTracer::read)
}

/// Returns the PID of this process in the initial pid namespace; 0 in another namespace, where it differs.
fn own_number(root: &Root) -> u32 {
    if require_own_numbers(root).is_ok() { std::process::id() } else { 0 }
}

pub(super) fn network() -> Box<dyn Source> {
    let info =
        SourceInfo::new("bpf/send_queue", "whose packets keep those of others waiting in the queue of an interface")
            .on_demand();
    let load = |root: &Root| Object::load("send_queue", include_object!("send_queue"), root);
    loaded(info, move |root| Ok(GroupTracer::new("network", load(root)?)), GroupTracer::read)
}

struct GroupTracer {
    resource: Name,
    object: Object,
    /// Group names by number, including removed groups. A group that existed only between two samples has no name.
    names: BTreeMap<u32, Name>,
}

impl GroupTracer {
    fn new(resource: &str, object: Object) -> Self {
        let names = BTreeMap::from([(NOBODY, Name::default()), (KERNEL_THREADS, KERNEL.into())]);
        Self { resource: resource.into(), object, names }
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let numbers: Vec<(GroupIds, u32)> = self.object.entries("numbers")?;
        if numbers.iter().any(|(_, number)| !self.names.contains_key(number)) {
            self.name(root, &numbers)?;
        }
        let mut rows: BTreeMap<InterferenceKey, Interference> = BTreeMap::new();
        for number in numbers.iter().map(|(_, number)| *number) {
            let times: Times = self.object.element("waits", number)?;
            for (culprit, ns) in (0..).zip(times.ns).filter(|(culprit, ns)| *ns > 0 || *culprit == number) {
                if let Some(row) = self.row(&mut rows, number, culprit) {
                    row.waited = (row.waited.get().unwrap_or(0) + ns).into();
                }
            }
            let used: u64 = self.object.element("used", number)?;
            if let Some(row) = self.row(&mut rows, number, number) {
                row.used = (row.used.get().unwrap_or(0) + used).into();
            }
        }
        out.cgroup.interference.extend(rows.into_values());
        match numbers.len() + 2 {
            0..GROUPS => Ok(()),
            _ => Err(SourceError::Failed(format!(
                "BPF: more than {} control groups: the others are counted as one",
                GROUPS - 2
            ))),
        }
    }

    /// Returns the row of a pair; `None` if the waiting group is unknown.
    fn row<'r>(
        &self,
        rows: &'r mut BTreeMap<InterferenceKey, Interference>,
        victim: u32,
        culprit: u32,
    ) -> Option<&'r mut Interference> {
        let name = |number| self.names.get(&number).cloned().unwrap_or_default();
        let key = InterferenceKey { resource: self.resource.clone(), victim: name(victim), culprit: name(culprit) };
        (!key.victim.is_empty()).then(|| rows.entry(key).or_insert_with_key(|key| Interference::new(key.clone())))
    }

    /// Names the groups that have no name yet: each by the deepest of its paths, as only one version 1 hierarchy may contain it.
    fn name(&mut self, root: &Root, numbers: &[(GroupIds, u32)]) -> Result<(), SourceError> {
        let groups = NumberedGroups::new(root)?;
        let by_number = |groups: Vec<(u64, Name)>| groups.into_iter().collect::<BTreeMap<u64, Name>>();
        let unified = by_number(groups.unified(root));
        let [cpu, io, memory] =
            ["cpu", "blkio", "memory"].map(|controller| by_number(groups.of_controller(root, controller)));
        for (ids, number) in numbers {
            let paths = [unified.get(&ids.unified), cpu.get(&ids.cpu), io.get(&ids.io), memory.get(&ids.memory)];
            let deepest = deepest(paths.into_iter().flatten());
            self.names.entry(*number).or_insert_with(|| deepest.cloned().unwrap_or_default());
        }
        Ok(())
    }
}

/// Returns the first of the longest paths.
fn deepest<'p>(paths: impl Iterator<Item = &'p Name>) -> Option<&'p Name> {
    let depth = |path: &Name| path.split('/').filter(|part| !part.is_empty()).count();
    paths.reduce(|best, path| if depth(path) > depth(best) { path } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Reaped, attached, read, wait_until};

    #[test]
    fn a_group_has_the_deepest_of_its_paths() {
        let paths = ["/", "/docker/a", "/docker", "/docker/b"].map(Name::from);
        assert_eq!(deepest(paths.iter()), Some(&Name::from("/docker/a")));
        assert_eq!(deepest([].iter()), None);
    }

    #[test]
    fn processes_of_one_group_wait_for_each_other() {
        let Some(mut source) = attached(cpu()) else { return };
        let processes = 2 * std::thread::available_parallelism().unwrap().get();
        let _busy: Vec<Reaped> = (0..processes).map(|_| Reaped::shell("while :; do :; done")).collect();
        wait_until("processes of this test have waited for each other", || {
            let rows = read(&mut *source).cgroup.interference.clone();
            let own = rows.iter().filter(|row| row.pair.victim == row.pair.culprit);
            own.filter_map(|row| Some((row.waited.get()?, row.used.get()?)))
                .any(|(waited, used)| waited > 100_000_000 && used > 100_000_000)
        });
    }

    #[test]
    fn packets_are_those_of_the_group_that_sends_them() {
        let Some(mut source) = attached(network()) else { return };
        let [from, to] = ["127.0.0.1:0"; 2].map(|at| std::net::UdpSocket::bind(at).unwrap());
        wait_until("a hundred packets were sent by a group", || {
            for _ in 0..100 {
                from.send_to(&[7; 1000], to.local_addr().unwrap()).unwrap();
            }
            let rows = read(&mut *source).cgroup.interference.clone();
            rows.iter().any(|row| row.pair.victim == row.pair.culprit && row.used.get() >= Some(100_000))
        });
    }
}
