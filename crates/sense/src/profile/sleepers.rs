//! Threads that wait the whole time, including hung ones. They cause no context switch to record, so they are read from
//! /proc/PID/task/TID (proc_pid_status(5), proc_pid_stack(5)).

use crate::root::Root;

#[derive(Clone, Debug, PartialEq, Eq)]
struct ThreadState {
    tid: u32,
    switches: u64,
    waits: bool,
}

/// The threads of a process that are waiting when the profile begins.
#[derive(Debug)]
pub(super) struct SleepingThreads {
    pid: u32,
    threads: Vec<ThreadState>,
}

impl SleepingThreads {
    pub(super) fn read(pid: u32, root: &Root) -> Self {
        let tids = root.list(&format!("proc/{pid}/task"));
        let threads = tids.iter().filter_map(|tid| thread(pid, tid.parse().ok()?, root)).filter(|t| t.waits);
        Self { pid, threads: threads.collect() }
    }

    /// Returns the kernel functions of each thread that has waited ever since, innermost first; empty if they may not be read.
    pub(super) fn still_asleep(&self, root: &Root) -> Vec<Vec<String>> {
        let unmoved = self.threads.iter().filter(|before| thread(self.pid, before.tid, root).as_ref() == Some(before));
        unmoved.map(|thread| functions(self.pid, thread.tid, root)).collect()
    }
}

fn thread(pid: u32, tid: u32, root: &Root) -> Option<ThreadState> {
    let status = root.maybe(&format!("proc/{pid}/task/{tid}/status"))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let count = |name: &str| field(name)?.parse::<u64>().ok();
    let switches = count("voluntary_ctxt_switches:")?.wrapping_add(count("nonvoluntary_ctxt_switches:")?);
    let waits = field("State:")?.starts_with(['S', 'D']);
    Some(ThreadState { tid, switches, waits })
}

/// Returns the kernel functions of a thread, innermost first; empty if they may not be read.
pub(super) fn functions(pid: u32, tid: u32, root: &Root) -> Vec<String> {
    let stack = root.maybe(&format!("proc/{pid}/task/{tid}/stack")).unwrap_or_default();
    stack.lines().filter_map(function).map(str::to_owned).collect()
}

/// Parses `[<0>] do_nanosleep+0x67/0x1a0`.
fn function(line: &str) -> Option<&str> {
    line.split_once("] ")?.1.split(['+', ' ']).next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Reaped, wait_for, wait_until};

    #[test]
    fn a_stack_line_names_a_function() {
        assert_eq!(function("[<0>] do_nanosleep+0x67/0x1a0"), Some("do_nanosleep"));
        assert_eq!(function("[<0>] ext4_sync_file+0x10/0x20 [ext4]"), Some("ext4_sync_file"));
        assert_eq!((function(""), function("[<0>] "), function("garbage")), (None, None, None));
    }

    #[test]
    fn only_a_thread_that_never_wakes_is_still_asleep() {
        let root = Root::live();
        let asleep = Reaped::shell("exec sleep 60");
        let awake = Reaped::shell("while :; do sleep 0.02; done");
        [&asleep, &awake].iter().for_each(|child| child.wait_for_state('S'));
        let of_awake =
            wait_for("it waits", || Some(SleepingThreads::read(awake.pid(), &root)).filter(|s| s.threads.len() == 1));
        let of_asleep =
            wait_for("it sleeps", || Some(SleepingThreads::read(asleep.pid(), &root)).filter(|s| s.threads.len() == 1));
        wait_until("it has woken up", || of_awake.still_asleep(&root).is_empty());
        wait_until("it has run sleep", || SleepingThreads::read(asleep.pid(), &root).threads == of_asleep.threads);
        assert_eq!(of_asleep.still_asleep(&root).len(), 1);
    }
}
