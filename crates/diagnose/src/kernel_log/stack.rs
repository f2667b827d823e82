//! Stacks of tasks in the log: what blocked tasks wait for, where CPUs are stuck, and which of several waiting tasks blocks the
//! others. The functions and their meanings are in [`whyslow_model::kernel_stack`].

use super::LogMessage;
use super::words::{after, until};
use std::collections::BTreeMap;
use whyslow_model::kernel_log::{LOG_PATTERNS, LogSubject};
use whyslow_model::kernel_stack::{
    STACK_FUNCTIONS, STACK_PATTERNS, StackPattern, WaitKind, frame, stack_task, waited_for,
};

/// Number of log lines in which the report of a lockup shows the stacks of CPUs.
const REPORT: u64 = 400;
/// Maximum number of groups of waiting tasks listed, and of names in each.
const MOST_GROUPS: usize = 6;
const MOST_NAMES: usize = 4;
/// Functions of the scheduler and of timers, which every waiting task or interrupted CPU has on its stack.
const ORDINARY: [&str; 8] = [
    "__schedule",
    "schedule",
    "schedule_timeout",
    "schedule_preempt_disabled",
    "context_switch",
    "dump_stack",
    "show_stack",
    "panic",
];

/// Stack of a task, innermost function first.
#[derive(Clone, Debug, PartialEq)]
struct TaskStack {
    name: String,
    pid: u32,
    functions: Vec<String>,
    /// Functions whose addresses are on the stack, though they may have returned: the only information from kernels that cannot
    /// unwind it.
    found: Vec<String>,
    /// First line of the stack.
    sequence: u64,
    /// Whether it was running on a CPU that is reported as stuck.
    spins: bool,
}

impl TaskStack {
    fn label(&self) -> String {
        match (self.name.as_str(), self.pid) {
            ("", 0) => "a task".to_owned(),
            ("", pid) => format!("process {pid}"),
            (name, 0) => name.to_owned(),
            (name, pid) => format!("{name}[{pid}]"),
        }
    }

    fn frames(&self) -> Vec<&str> {
        self.functions.iter().map(String::as_str).collect()
    }

    /// Returns the function that shows what it waits for; for a lock, the function that takes it.
    fn function(&self, pattern: &StackPattern) -> &str {
        let is_of_lock = |name: &str| {
            STACK_PATTERNS.iter().any(|p| p.what == pattern.what && p.functions == [name])
                || ["down_", "mutex_", "__mutex", "__down", "call_rwsem", "rwsem_", "percpu_"]
                    .iter()
                    .any(|p| name.starts_with(p))
        };
        let shown = pattern.functions[pattern.functions.len() - 1];
        let is_lock = pattern.what == "a lock" || pattern.what == "a spinlock";
        let at = self.functions.iter().position(|name| name == shown).unwrap_or(0);
        let taker = self.functions[at..].iter().map(String::as_str).find(|name| !is_of_lock(name));
        if is_lock { taker.unwrap_or(shown) } else { shown }
    }
}

/// Waits of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Waits {
    /// Number of waiting tasks.
    pub tasks: f64,
    /// What the task that waits for no other task waits for, as a sentence.
    pub cause: String,
    /// Tasks by what they wait for.
    pub groups: String,
    /// What to check next.
    pub check: &'static str,
    /// Names of the tasks.
    pub names: Vec<String>,
    /// First line of the first and of the last stack.
    pub lines: (u64, u64),
}

/// Returns what the blocked tasks of a log wait for; `None` without a stack that shows it.
pub fn blocked<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> Option<Waits> {
    waits(parse(lines).into_iter().filter(|stack| !stack.spins).collect())
}

/// Returns where the CPUs of a log are stuck.
pub fn stuck_cpus<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> Option<Waits> {
    let stacks: Vec<TaskStack> = parse(lines).into_iter().filter(|stack| stack.spins).collect();
    let place = |stack: &TaskStack| {
        let innermost = stack.functions.iter().find(|name| !ORDINARY.contains(&name.as_str()))?;
        Some(match waited_for(&stack.frames()[..1]) {
            Some(pattern) => format!("{} spins for {} in {}", stack.label(), pattern.what, stack.function(pattern)),
            None => format!("{} was in {innermost}", stack.label()),
        })
    };
    let mut places: Vec<String> = stacks.iter().filter_map(place).collect();
    places.dedup();
    let patterns = || stacks.iter().find_map(|stack| waited_for(&stack.frames()[..1]));
    Some(Waits {
        tasks: stacks.len() as f64,
        cause: places.first()?.clone(),
        groups: places.iter().take(MOST_GROUPS).cloned().collect::<Vec<_>>().join("; "),
        check: patterns().map_or("Look that function up: it names the driver or subsystem", |pattern| pattern.check),
        names: stacks.iter().map(TaskStack::label).collect(),
        lines: (stacks.first()?.sequence, stacks.last()?.sequence),
    })
}

fn waits(stacks: Vec<TaskStack>) -> Option<Waits> {
    let mut groups: Vec<(&'static StackPattern, Vec<&TaskStack>)> = Vec::new();
    for stack in &stacks {
        let Some(pattern) = waited_for(&stack.frames()) else { continue };
        match groups.iter_mut().find(|(other, _)| other.what == pattern.what) {
            Some((_, tasks)) => tasks.push(stack),
            None => groups.push((pattern, vec![stack])),
        }
    }
    // Largest first; groups of equal size in log order.
    groups.sort_by_key(|(_, tasks)| std::cmp::Reverse(tasks.len()));
    let deepest = groups.iter().map(|(pattern, _)| pattern.kind).max()?;
    let (pattern, tasks) = groups.iter().find(|(pattern, _)| pattern.kind == deepest)?;
    let waiting: Vec<&TaskStack> = groups.iter().flat_map(|(_, tasks)| tasks).copied().collect();
    let list = groups.iter().take(MOST_GROUPS).map(|(pattern, tasks)| group(pattern, tasks)).collect::<Vec<_>>();
    Some(Waits {
        tasks: waiting.len() as f64,
        cause: cause(pattern, tasks, waiting.len() - tasks.len()),
        groups: list.join("; "),
        check: pattern.check,
        names: waiting.iter().map(|stack| stack.label()).collect(),
        lines: (waiting.iter().map(|s| s.sequence).min()?, waiting.iter().map(|s| s.sequence).max()?),
    })
}

/// Formats as `dd[812] waits for a frozen file system (mnt_want_write); 11 others wait for each other or for I/O`.
fn cause(pattern: &StackPattern, tasks: &[&TaskStack], others: usize) -> String {
    let function = tasks[0].function(pattern);
    let first = match tasks {
        [task] => format!("{} waits for {} ({function})", task.label(), pattern.what),
        tasks => format!("{} tasks wait for {} ({function})", tasks.len(), pattern.what),
    };
    match (pattern.kind, others) {
        (WaitKind::Task, 0) => format!("{first}; no stack shows the task that holds them up"),
        (WaitKind::Task, _) => {
            format!("{first}, the others for other tasks; no stack shows the task that holds them up")
        }
        (_, 0) => first,
        (_, 1) => format!("{first}; another one waits for I/O or another task"),
        (_, others) => format!("{first}; {others} others wait for each other or for I/O"),
    }
}

/// Formats as `7 for a page to be written (folio_wait_writeback): dd[812], dd[813]`.
fn group(pattern: &StackPattern, tasks: &[&TaskStack]) -> String {
    let names = tasks.iter().take(MOST_NAMES).map(|task| task.label()).collect::<Vec<_>>().join(", ");
    format!("{} for {} ({}): {names}", tasks.len(), pattern.what, tasks[0].function(pattern))
}

/// Parses the newest stack of each task.
fn parse<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> Vec<TaskStack> {
    let mut stacks: BTreeMap<(u32, String, u64), TaskStack> = BTreeMap::new();
    let mut open: Option<TaskStack> = None;
    let mut lockup: Option<u64> = None;
    let mut close = |open: &mut Option<TaskStack>| {
        let Some(mut stack) = open.take() else { return };
        if stack.functions.is_empty() {
            stack.functions = std::mem::take(&mut stack.found);
        }
        if !stack.functions.is_empty() {
            let unnamed = if stack.pid == 0 { stack.sequence } else { 0 };
            stacks.insert((stack.pid, stack.name.clone(), unnamed), stack);
        }
    };
    for said in lines {
        let task = blocked_task(said.text).or_else(|| {
            let task = stack_task(said.text)?;
            // Tasks in other states sleep because they have nothing to do.
            let is_blocked = matches!(task.state, Some('D' | '?'));
            let spins = task.state.is_none() && lockup.is_some_and(|at| said.sequence - at <= REPORT);
            Some((task.name, task.pid, is_blocked || spins, spins))
        });
        if let Some((name, pid, counts, spins)) = task {
            close(&mut open);
            open = counts.then(|| TaskStack {
                name: name.to_owned(),
                pid,
                functions: Vec::new(),
                found: Vec::new(),
                sequence: said.sequence,
                spins,
            });
            if let (Some(stack), Some((_, functions))) = (&mut open, said.text.split_once(STACK_FUNCTIONS)) {
                stack.functions = functions.split_whitespace().map(str::to_owned).collect();
            }
        } else if let (Some(stack), Some(frame)) = (&mut open, frame(said.text)) {
            let functions = if frame.reliable { &mut stack.functions } else { &mut stack.found };
            functions.push(frame.function.to_owned());
        } else if LOG_PATTERNS.iter().any(|p| p.subject == LogSubject::Cpu && p.matches(said.text)) {
            close(&mut open);
            lockup = Some(said.sequence);
        }
    }
    close(&mut open);
    let mut all: Vec<TaskStack> = stacks.into_values().collect();
    all.sort_by_key(|stack| stack.sequence);
    all
}

/// Parses `INFO: task jbd2/sda1-8:812 blocked for more than 120 seconds.`
fn blocked_task(text: &str) -> Option<(&str, u32, bool, bool)> {
    let (task, _) = after(text, "INFO: task ")?.split_once(" blocked for more than")?;
    let (name, pid) = task.rsplit_once(':')?;
    Some((name, until(pid, |c| !c.is_ascii_digit()).parse().ok()?, true, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_log::log;

    #[test]
    fn the_task_that_waits_for_no_other_one_is_the_cause() {
        let lines = [
            "INFO: task postgres:900 blocked for more than 120 seconds.",
            "task:postgres        state:D stack:0     pid:900   tgid:900   ppid:1      flags:0x00000002",
            "Call Trace:",
            "__schedule+0x3cc/0xf50",
            "rwsem_down_read_slowpath+0x1/0x2",
            "down_read+0x1/0x2",
            "xfs_ilock+0x1/0x2",
            "? xfs_buf_iowait+0x1/0x2",
            "INFO: task postgres:901 blocked for more than 120 seconds.",
            "task:postgres        state:D stack:0     pid:901   tgid:901   ppid:1      flags:0x00000002",
            "rwsem_down_read_slowpath+0x1/0x2",
            "down_read+0x1/0x2",
            "xfs_ilock+0x1/0x2",
            "task:md0_raid5       state:D stack:0     pid:77    tgid:77    ppid:2      flags:0x00000002",
            "md_super_wait+0x1/0x2",
            "md_update_sb+0x1/0x2",
            "task:bash            state:S stack:0     pid:5     tgid:5     ppid:1      flags:0x00000002",
            "submit_bio_wait+0x1/0x2",
        ];
        let waits = blocked(log(&lines)).unwrap();
        assert_eq!(
            waits.cause,
            "md0_raid5[77] waits for an md array to write its superblocks (md_super_wait); 2 others wait for each other or for I/O"
        );
        assert_eq!(
            waits.groups,
            "2 for a lock (xfs_ilock): postgres[900], postgres[901]; \
             1 for an md array to write its superblocks (md_super_wait): md0_raid5[77]"
        );
        assert_eq!((waits.tasks, waits.lines), (3.0, (1, 13)));
        assert_eq!(stuck_cpus(log(&lines)), None);
    }

    #[test]
    fn where_only_locks_are_waited_for_no_one_is_named() {
        let lines = ["task:a state:D stack:0 pid:1 tgid:1", "__mutex_lock+0x1/0x2", "rename_lock+0x1/0x2"];
        let cause = blocked(log(&lines)).unwrap().cause;
        assert_eq!(cause, "a[1] waits for a lock (rename_lock); no stack shows the task that holds them up");
    }

    #[test]
    fn a_stack_that_the_kernel_cannot_unwind_is_read_all_the_same() {
        let lines =
            ["task:a state:D pid:1", "? __schedule+0x1/0x2", "? jbd2_log_wait_commit+0x1/0x2", "? ksys_read+0x1/0x2"];
        assert!(
            blocked(log(&lines))
                .unwrap()
                .cause
                .starts_with("a[1] waits for a commit of the journal (jbd2_log_wait_commit)")
        );
        let unwound = ["task:a state:D pid:1", "? jbd2_log_wait_commit+0x1/0x2", "submit_bio_wait+0x1/0x2"];
        assert_eq!(blocked(log(&unwound)).unwrap().cause, "a[1] waits for a block request (submit_bio_wait)");
    }

    #[test]
    fn a_task_that_is_reported_again_counts_once() {
        let lines = [
            "INFO: task a:1 blocked for more than 120 seconds.",
            "nfs_wait_on_request+0x1/0x2",
            "INFO: task a:1 blocked for more than 241 seconds.",
            "nfs_wait_on_request+0x1/0x2",
        ];
        let waits = blocked(log(&lines)).unwrap();
        assert_eq!((waits.tasks, waits.cause.as_str()), (1.0, "a[1] waits for an NFS server (nfs_wait_on_request)"));
    }

    #[test]
    fn a_stuck_cpu_is_where_its_innermost_function_is() {
        let lines = [
            "CPU: 0 PID: 3 Comm: other Not tainted 6.1.0 #1",
            "warn_on+0x1/0x2",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:1234]",
            "CPU: 1 PID: 1234 Comm: kworker/1:2 Not tainted 6.1.0 #1",
            "RIP: 0010:native_queued_spin_lock_slowpath+0x6e/0x2e0",
            "_raw_spin_lock_irqsave+0x3d/0x50",
            "ahci_interrupt+0x1/0x2",
        ];
        let waits = stuck_cpus(log(&lines)).unwrap();
        assert_eq!(waits.cause, "kworker/1:2[1234] spins for a spinlock in ahci_interrupt");
        assert_eq!(blocked(log(&lines)), None);
    }
}
