//! Threads that wait from before the beginning to after the end, of which no switch of tasks tells: a hung one among them.
//! What the kernel says of them in /proc/PID/task/TID (proc_pid_status(5), proc_pid_stack(5)) has to do.

use crate::root::Root;

/// A thread, and how often it has left a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    tid: u32,
    switches: u64,
    waits: bool,
}

/// The threads of a process that wait as the watching begins.
#[derive(Debug)]
pub(super) struct Sleepers {
    pid: u32,
    threads: Vec<Thread>,
}

impl Sleepers {
    pub(super) fn of(pid: u32, root: &Root) -> Self {
        let tids = root.list(&format!("proc/{pid}/task"));
        let threads = tids.iter().filter_map(|tid| thread(pid, tid.parse().ok()?, root)).filter(|t| t.waits);
        Self { pid, threads: threads.collect() }
    }

    /// For each thread that has waited ever since: the kernel's functions it is in, innermost first. None where they may not
    /// be read.
    pub(super) fn still_asleep(&self, root: &Root) -> Vec<Vec<String>> {
        let unmoved = self.threads.iter().filter(|before| thread(self.pid, before.tid, root).as_ref() == Some(before));
        unmoved.map(|thread| functions(self.pid, thread.tid, root)).collect()
    }
}

fn thread(pid: u32, tid: u32, root: &Root) -> Option<Thread> {
    let status = root.maybe(&format!("proc/{pid}/task/{tid}/status"))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let count = |name: &str| field(name)?.parse::<u64>().ok();
    let switches = count("voluntary_ctxt_switches:")?.wrapping_add(count("nonvoluntary_ctxt_switches:")?);
    let waits = field("State:")?.starts_with(['S', 'D']);
    Some(Thread { tid, switches, waits })
}

fn functions(pid: u32, tid: u32, root: &Root) -> Vec<String> {
    let stack = root.maybe(&format!("proc/{pid}/task/{tid}/stack")).unwrap_or_default();
    stack.lines().filter_map(function).map(str::to_owned).collect()
}

/// `[<0>] do_nanosleep+0x67/0x1a0`
fn function(line: &str) -> Option<&str> {
    line.split_once("] ")?.1.split(['+', ' ']).next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_line_of_a_stack_names_a_function() {
        assert_eq!(function("[<0>] do_nanosleep+0x67/0x1a0"), Some("do_nanosleep"));
        assert_eq!(function("[<0>] ext4_sync_file+0x10/0x20 [ext4]"), Some("ext4_sync_file"));
        assert_eq!((function(""), function("[<0>] "), function("garbage")), (None, None, None));
    }

    #[test]
    fn one_that_sleeps_on_is_told_from_one_that_wakes() {
        let root = Root::live();
        let mut asleep = Command::new("sleep").arg("60").spawn().unwrap();
        let mut awake = Command::new("sh").args(["-c", "while :; do sleep 0.02; done"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let before = [&asleep, &awake].map(|child| Sleepers::of(child.id(), &root));
        std::thread::sleep(Duration::from_millis(300));
        let after = before.map(|sleepers| sleepers.still_asleep(&root).len());
        asleep.kill().unwrap();
        awake.kill().unwrap();
        asleep.wait().unwrap();
        awake.wait().unwrap();
        assert_eq!(after, [1, 0]);
    }
}
