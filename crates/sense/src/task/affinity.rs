//! Processes that may not run on all CPUs, because of a CPU set of their control group or of sched_setaffinity(2)
//! (proc_pid_status(5): Cpus_allowed_list).

use super::stat::Stat;
use crate::root::{Root, status_field};
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use std::fs;
use whyslow_model::catalogue::Affinity;
use whyslow_model::cpu_list;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("proc/affinity", "which processes may run on some of the CPUs only").slow();

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let online = root.word("sys/devices/system/cpu/online").and_then(|list| cpu_list::parse(&list));
    let online = online.ok_or_else(|| SourceError::Absent("/sys/devices/system/cpu/online names no CPUs".into()))?;
    let pids = root.list("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    out.task.affinity.extend(pids.filter_map(|pid| {
        let status = root.maybe(&format!("proc/{pid}/status"))?;
        // Kernel threads have no memory of their own. Many are bound to the CPU that they serve.
        status_field(&status, "VmSize")?;
        let list = status_field(&status, "Cpus_allowed_list")?;
        let allowed = cpu_list::parse(list)?;
        if online.is_subset(&allowed) {
            return None;
        }
        let line = fs::read(root.at(format!("proc/{pid}/stat"))).ok()?;
        let (stat, _) = Stat::parse(&line)?;
        Some(Affinity { cpus: list.into(), ..Affinity::new(TaskKey { pid, tid: pid, start: stat.start }) })
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn only_programs_that_may_not_run_everywhere_are_listed() {
        let stat = |pid: u32| {
            format!(
                "{pid} (p) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 700 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0"
            )
        };
        let status = |memory: &str, cpus: &str| format!("Name:\tp\n{memory}Cpus_allowed_list:\t{cpus}\n");
        let tree = CapturedTree::with_files(&[("sys/devices/system/cpu/online", "0-3\n")]);
        for (pid, memory, cpus) in [(7, "VmSize:\t 8 kB\n", "1-2"), (8, "VmSize:\t 8 kB\n", "0-63"), (9, "", "1")] {
            tree.write(&format!("proc/{pid}/status"), &status(memory, cpus));
            tree.write(&format!("proc/{pid}/stat"), &stat(pid));
        }
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let [only] = &out.task.affinity[..] else { panic!("{:?}", out.task.affinity) };
        assert_eq!((only.task.pid, only.cpus.get()), (7, Some("1-2")));
    }
}
