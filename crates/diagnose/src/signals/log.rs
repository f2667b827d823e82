//! The kernel log: its messages of each kind, the processes it killed for memory (mm/oom_kill.c), and totals over the log.

use crate::cgroup;
use crate::kernel_log::notice::Notice;
pub use crate::kernel_log::oom::OomKill;
pub use crate::kernel_log::oom_holders::MemoryHolder;
use crate::kernel_log::{self, oom};
use crate::signal::{Entity, over, signals};
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{LogLine, LogRead, Meminfo};
use whyslow_model::human;
use whyslow_model::kernel_log::ALARMS;
use whyslow_model::window::Window;

/// Counts over the whole log.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Logged {
    /// Lines read; unknown while the log is followed live.
    pub lines: Option<f64>,
    /// Lines that contain alarming words.
    pub alarms: f64,
    /// Processes killed because the machine ran out of memory. If a control group ran out, processes outside it did not
    /// contribute.
    pub kills: f64,
    /// Processes killed because a control group reached its limit.
    pub group_kills: f64,
    /// How often memory ran out without any process left to kill.
    pub no_victim: f64,
}

impl Logged {
    /// Counts over a window; returns `None` if there is no log.
    pub fn from_window(window: &Window) -> Option<Self> {
        let lines = window.newest::<LogRead>().values().filter_map(|read| read.lines.get()).reduce(|a, b| a + b);
        let said = kernel_log::lines(window);
        if lines.is_none() && said.is_empty() {
            return None;
        }
        let alarming = said.iter().filter(|s| ALARMS.iter().any(|words| s.text.contains(words)));
        let kills = oom::kills(said.iter().copied());
        let killed = |in_group| kills.iter().filter(|kill| kill.in_group == in_group).map(|kill| kill.times).sum();
        Some(Self {
            lines,
            alarms: alarming.map(|s| s.times).sum(),
            kills: killed(false),
            group_kills: killed(true),
            no_victim: oom::without_victim(said.iter().copied()),
        })
    }
}

/// Advice where no stack is in the log.
const UNKNOWN_STACK: &str = "Read the call trace after the first such line, which names the file system, driver or lock; then check the device below it";

/// A notice, and the log that contains it.
pub struct Noticed<'a> {
    notice: &'a Notice,
    log: &'a BTreeMap<u64, &'a LogLine>,
    /// Whether a task or CPU was reported as stuck before, or later.
    follows_hang: bool,
    precedes_hang: bool,
}

impl Noticed<'_> {
    fn time(&self, line: u64) -> Option<String> {
        kernel_log::time(self.log.get(&line)?)
    }

    /// Returns the cause that blocks the tasks; a general answer if their stacks are missing.
    fn cause(&self) -> Option<String> {
        let unknown = || {
            let tasks = self.details().filter(|_| self.notice.topic == "hung_task")?;
            Some(format!("{tasks}; storage, a file system or a lock did not respond"))
        };
        self.notice.waits.as_ref().map(|waits| waits.cause.clone()).or_else(unknown)
    }

    /// Returns what to check next.
    fn check(&self) -> &'static str {
        self.notice.waits.as_ref().map_or(UNKNOWN_STACK, |waits| waits.check)
    }

    fn details(&self) -> Option<String> {
        (!self.notice.details.is_empty()).then(|| self.notice.details.join("; "))
    }
}

signals! { n: Noticed<'_>;
    "notice.topic" "text" "what the message is about, in one word", "the message's words", "/dev/kmsg" => n.notice.topic;
    "notice.count" "count" "how often it was logged, messages held back included", "lines + 'suppressed'", "/dev/kmsg", normal (near 0.0) => n.notice.count;
    "notice.stands" "flag" "1 where the log does not say that it is over", "no message that ends it after the last that begins it", "/dev/kmsg" => n.notice.stands;
    "notice.ended" "flag" "1 where the log said at least once that it is over", "a message that ends it", "/dev/kmsg" => n.notice.ended;
    "notice.returns" "count" "how often it began again after it was over; absent below two", "messages that begin it after one that ended it", "/dev/kmsg" => Some(n.notice.returns).filter(|returns| *returns > 1.0);
    "notice.longest" "s" "how long a task or CPU had been stuck, at least, when it was logged; the longest", "'blocked for more than N seconds', 'stuck for Ns'", "/dev/kmsg" => n.notice.longest;
    "notice.details" "text" "what differs from message to message", "as logged", "/dev/kmsg", normal "none" => n.details().as_deref();
    "notice.places" "count" "different details", "as logged", "/dev/kmsg" => n.notice.details.len() as f64;
    "notice.follows" "flag" "1 where a task or CPU was reported as stuck before, in the same boot", "a hung task or lockup above the first line", "/dev/kmsg" => n.follows_hang;
    "notice.precedes" "flag" "1 where a task or CPU was reported as stuck later, in the same boot", "a hung task or lockup below the first line", "/dev/kmsg" => n.precedes_hang;
    "notice.waiting" "count" "tasks whose stacks show what they wait for, or where they are stuck", "number of stacks", "/dev/kmsg, /proc/PID/stack" => n.notice.waits.as_ref().map(|waits| waits.tasks);
    "notice.cause" "text" "what the task waits for that waits for no other task; of a stuck CPU, where it is", "functions on the stacks", "/dev/kmsg, /proc/PID/stack" => n.cause().as_deref();
    "notice.waits" "text" "tasks by what they wait for", "functions on the stacks", "/dev/kmsg, /proc/PID/stack", normal "no task waits for long" => n.notice.waits.as_ref().map(|waits| waits.groups.as_str());
    "notice.check" "text" "what to look at next, by what is waited for", "functions on the stacks", "/dev/kmsg, /proc/PID/stack" => n.check();
    "notice.first" "text" "when it was first logged", "as printed", "/dev/kmsg" => n.time(n.notice.lines.0).as_deref();
    "notice.last" "text" "when it was last logged", "as printed", "/dev/kmsg", normal "whether it is still happening" => n.time(n.notice.lines.1).as_deref();
}

/// Lines where the log moves to another boot: the time since boot goes back.
struct Boots(Vec<u64>);

impl Boots {
    fn from_log(log: &BTreeMap<u64, &LogLine>) -> Self {
        let times = log.iter().filter_map(|(line, row)| Some((*line, row.time.get()?)));
        let times: Vec<(u64, u64)> = times.collect();
        let goes_back = |pair: &[(u64, u64)]| pair[1].1.saturating_add(SLACK_NS) < pair[0].1;
        Self(times.windows(2).filter(|pair| goes_back(pair)).map(|pair| pair[1].0).collect())
    }

    fn number(&self, line: u64) -> usize {
        self.0.partition_point(|first| *first <= line)
    }
}

/// How far messages of several CPUs can be out of order.
const SLACK_NS: u64 = 1_000_000_000;

/// Returns every notice of the log.
pub fn notices(window: &Window) -> Vec<Entity> {
    let log = kernel_log::rows(window);
    let notices = kernel_log::notice::gather(kernel_log::lines(window).into_iter());
    let hangs = notices.iter().filter(|notice| ["hung_task", "lockup"].contains(&notice.topic));
    let hangs: Vec<(u64, u64)> = hangs.map(|notice| notice.lines).collect();
    let boots = Boots::from_log(&log);
    let entity = |notice: &Notice| {
        let is_of_boot = |line: u64| boots.number(line) == boots.number(notice.lines.0);
        let follows_hang = hangs.iter().any(|(first, _)| *first < notice.lines.0 && is_of_boot(*first));
        let precedes_hang = hangs.iter().any(|(_, last)| *last > notice.lines.0 && is_of_boot(*last));
        Entity::from_subject(notice.subject.clone(), &Noticed { notice, log: &log, follows_hang, precedes_hang })
            .of_rows([notice.lines.0, notice.lines.1])
            .also_named(notice.aliases.clone())
    };
    notices.iter().map(entity).collect()
}

signals! { k: OomKill;
    "kill.name" "text" "the process killed", "'Killed process PID (NAME)'", "/dev/kmsg (mm/oom_kill.c)", normal "none" => k.command.as_str();
    "kill.times" "count" "how often the kernel killed this program for the same limit", "lines", "/dev/kmsg", normal (near 0.0) => k.times;
    "kill.called" "text" "the process killed, by its number; how often, if it was more than once", "'Killed process PID (NAME)'", "/dev/kmsg" => called(k).as_str();
    "kill.cut" "flag" "1 where the log ends before it says which process is killed", "'invoked oom-killer' without 'Killed process'", "/dev/kmsg" => k.is_cut;
    "kill.where" "text" "what ran out of memory, if no control group's limit was the cause", "'constraint='", "/dev/kmsg" => ran_out(k);
    "kill.memory" "bytes" "resident memory it had", "'anon-rss:' + 'file-rss:' + 'shmem-rss:'", "/dev/kmsg", normal "the most: else another holds it" => k.resident;
    "kill.holder" "text" "what held more memory than the process killed", "the most of: 'rss' of the list of processes, 'file_dirty' + 'file_writeback', 'shmem', 'slab_unreclaimable', 'slab_reclaimable'", "/dev/kmsg", normal "nothing: then the process killed held the most" => holder(k).as_deref();
    "kill.anon" "bytes" "anonymous memory it had", "'anon-rss:'", "/dev/kmsg", normal "its memory when it was killed" => k.anon;
    "kill.in_group" "flag" "1 where a control group's limit was the cause, 0 where the machine ran out", "'Memory cgroup out of memory'", "/dev/kmsg" => k.in_group;
    "kill.group" "text" "the control group whose limit it was", "'oom_memcg='", "/dev/kmsg", normal "the cgroup whose limit it was" => k.group.as_deref();
    "kill.home" "text" "the same as people name it: its container or unit", "'oom_memcg='", "/dev/kmsg" => k.in_group.then(|| home(k)).as_deref();
    "kill.limit" "bytes" "the group's limit", "'memory: usage ... limit'", "/dev/kmsg (mm/memcontrol.c)", normal "above what the group needs" => k.report.limit;
    "kill.group_anon" "bytes" "memory of processes in the group", "'anon'", "/dev/kmsg", normal "if processes fill the group, it is their memory" => k.report.anon;
    "kill.group_file" "bytes" "page cache of the group", "'file'", "/dev/kmsg", normal "page cache can be reclaimed once it is written" => k.report.file;
    "kill.dirty" "bytes" "page cache of the group that must be written back before it can be reclaimed", "'file_dirty' + 'file_writeback'", "/dev/kmsg" => k.report.dirty;
    "kill.dirty_share" "ratio" "the same as a share of the limit", "('file_dirty' + 'file_writeback') / limit", "/dev/kmsg" => over(k.report.dirty, k.report.limit);
    "kill.largest" "text" "the largest process listed", "largest 'rss' of the list of processes", "/dev/kmsg" => largest(k).as_deref();
    "kill.whole" "bytes" "the memory that ran out: the group's limit, or the machine's memory", "'memory: usage ... limit'; 'pages RAM' - 'pages reserved', MemTotal", "/dev/kmsg, /proc/meminfo" => k.whole();
    "kill.last" "text" "when it was last logged", "as printed", "/dev/kmsg" => k.printed.as_deref();
    "kill.past" "flag" "1 where that is known to be more than an hour before the end of what was captured", "the time printed in the log, the end of the window", "/dev/kmsg" => k.age.is_some_and(|age| age > PAST_SECONDS);
    "kill.listed" "bytes" "resident memory of all processes listed", "Σ'rss' x 4 KiB", "/dev/kmsg", normal "memory of all processes: if far below the total, the kernel or the page cache holds it" => k.report.listed;
}

/// A kill this many seconds before the end of the capture does not belong to the current problem.
const PAST_SECONDS: f64 = 3600.0;
/// Clock values below this, in nanoseconds, count from boot or have no known year.
const FIRST_DATE_NS: f64 = 9e17;

fn called(kill: &OomKill) -> String {
    match kill.times {
        _ if kill.is_cut => format!("a process that the log does not show, when {} asked for memory", kill.command),
        1.0 => format!("{} (pid {})", kill.command, kill.pid),
        2.0 => format!("{} twice (last pid {})", kill.command, kill.pid),
        times => format!("{} {times} times (last pid {})", kill.command, kill.pid),
    }
}

fn home(kill: &OomKill) -> String {
    let Some(group) = &kill.group else { return "its cgroup".to_owned() };
    let container = cgroup::container(group).map(|id| format!("container {id}"));
    let named = container.or_else(|| cgroup::unit(group).map(|unit| format!("unit {unit}")));
    named.unwrap_or_else(|| format!("cgroup {group}"))
}

fn ran_out(kill: &OomKill) -> &'static str {
    if kill.report.nodes_only { "The NUMA nodes that its processes may use" } else { "The machine" }
}

fn holder(kill: &OomKill) -> Option<String> {
    let (holder, bytes) = kill.holder()?;
    Some(format!("{holder} held the most, {}", human::quantity(bytes, "bytes")))
}

fn largest(kill: &OomKill) -> Option<String> {
    let largest = kill.report.largest()?;
    Some(format!("{}[{}], {}", largest.name, largest.pid, human::quantity(largest.bytes, "bytes")))
}

signals! { h: MemoryHolder;
    "holder.bytes" "bytes" "memory that it held when a process was killed for it", "'rss' of the list of processes; 'file_dirty' + 'file_writeback', 'shmem', 'kernel', 'slab'; the rest", "/dev/kmsg" => h.bytes;
    "holder.kill" "count" "the process killed, by its number", "'Killed process PID (NAME)'", "/dev/kmsg" => f64::from(h.kill);
}

/// Returns what held memory at every kill.
pub fn holders(window: &Window) -> Vec<Entity> {
    let entity = |holder: MemoryHolder| {
        let kind = if holder.pid.is_some() { "process" } else { "memory" };
        Entity::from_subject(Subject { pid: holder.pid, ..Subject::new(kind, holder.name.clone()) }, &holder)
    };
    logged_kills(window).iter().flat_map(OomKill::holders).map(entity).collect()
}

/// Returns the kills in the window, grouped by program and limit.
fn logged_kills(window: &Window) -> Vec<OomKill> {
    let mut kills = oom::together(oom::kills(kernel_log::lines(window).into_iter()));
    let memory = window.the::<Meminfo>().and_then(|memory| memory.mem_total.get());
    let log = kernel_log::rows(window);
    let end_ns = window.last().map(|last| last.wall_ns).filter(|ns| *ns != 0);
    for kill in &mut kills {
        kill.report.ram = kill.report.ram.or(memory);
        let Some(line) = log.get(&kill.sequence) else { continue };
        kill.printed = line.printed.get().map(str::to_owned);
        let logged_ns = line.clock.get().filter(|ns| *ns > FIRST_DATE_NS);
        kill.age = end_ns.zip(logged_ns).map(|(end, logged)| (end as f64 - logged) / 1e9);
    }
    kills
}

/// Returns every kill logged in the window.
pub fn kills(window: &Window) -> Vec<Entity> {
    logged_kills(window)
        .iter()
        .map(|k| {
            let pid = (!k.is_cut).then_some(k.pid);
            Entity::from_subject(Subject { pid, ..Subject::new("process", k.command.clone()) }, k)
                .within(k.group.clone())
                .of_rows([k.sequence])
        })
        .collect()
}
