//! Processes the kernel killed for memory, as it logged them (mm/oom_kill.c).

use crate::kernel_log::{self, oom};
use crate::signal::{Entity, over, signals};
use whyslow_model::diagnosis::Subject;
use whyslow_model::human;
use whyslow_model::unit;
use whyslow_model::window::Window;

signals! { k: &oom::OomKill;
    "kill.name" "text" "the process killed", "'Killed process PID (NAME)'", "/dev/kmsg (mm/oom_kill.c)" => k.command.as_str();
    "kill.times" "count" "how often the kernel killed this program for the same limit", "lines", "/dev/kmsg" => k.times;
    "kill.called" "text" "the process killed, by its number; how often, if it was more than once", "'Killed process PID (NAME)'", "/dev/kmsg" => called(k).as_str();
    "kill.where" "text" "what ran out of memory, if no control group's limit was the cause", "'constraint='", "/dev/kmsg" => ran_out(k);
    "kill.memory" "bytes" "resident memory it had", "'anon-rss:' + 'file-rss:' + 'shmem-rss:'", "/dev/kmsg" => k.resident;
    "kill.holder" "text" "what held more memory than the process killed", "the most of: 'rss' of the list of processes, 'file_dirty' + 'file_writeback', 'shmem', 'slab_unreclaimable'", "/dev/kmsg" => holder(k).as_deref();
    "kill.anon" "bytes" "anonymous memory it had", "'anon-rss:'", "/dev/kmsg" => k.anon;
    "kill.in_group" "flag" "1 where a control group's limit was the cause, 0 where the machine ran out", "'Memory cgroup out of memory'", "/dev/kmsg" => k.in_group;
    "kill.group" "text" "the control group whose limit it was", "'oom_memcg='", "/dev/kmsg" => k.group.as_deref();
    "kill.home" "text" "the same as people name it: its container or unit", "'oom_memcg='", "/dev/kmsg" => k.in_group.then(|| home(k)).as_deref();
    "kill.limit" "bytes" "the group's limit", "'memory: usage ... limit'", "/dev/kmsg (mm/memcontrol.c)" => k.report.limit;
    "kill.group_anon" "bytes" "memory of processes in the group", "'anon'", "/dev/kmsg" => k.report.anon;
    "kill.group_file" "bytes" "page cache of the group", "'file'", "/dev/kmsg" => k.report.file;
    "kill.dirty" "bytes" "page cache of the group that must be written back before it can be given back", "'file_dirty' + 'file_writeback'", "/dev/kmsg" => k.report.dirty;
    "kill.dirty_share" "ratio" "the same as a share of the limit", "('file_dirty' + 'file_writeback') / limit", "/dev/kmsg" => over(k.report.dirty, k.report.limit);
    "kill.largest" "text" "the largest process listed", "largest 'rss' of the list of processes", "/dev/kmsg" => largest(k).as_deref();
    "kill.listed" "bytes" "resident memory of all processes listed", "Σ'rss' x 4 KiB", "/dev/kmsg" => k.report.listed;
}

fn called(kill: &oom::OomKill) -> String {
    match kill.times {
        1.0 => format!("{} (pid {})", kill.command, kill.pid),
        2.0 => format!("{} twice (last pid {})", kill.command, kill.pid),
        times => format!("{} {times} times (last pid {})", kill.command, kill.pid),
    }
}

fn home(kill: &oom::OomKill) -> String {
    let Some(group) = &kill.group else { return "its cgroup".to_owned() };
    let container = unit::container(group).map(|id| format!("container {id}"));
    let named = container.or_else(|| unit::unit(group).map(|unit| format!("unit {unit}")));
    named.unwrap_or_else(|| format!("cgroup {group}"))
}

fn ran_out(kill: &oom::OomKill) -> &'static str {
    if kill.report.nodes_only { "The NUMA nodes that its processes may use" } else { "The machine" }
}

fn holder(kill: &oom::OomKill) -> Option<String> {
    let (holder, bytes) = kill.holder()?;
    Some(format!("{holder} held the most, {}", human::quantity(bytes, "bytes")))
}

fn largest(kill: &oom::OomKill) -> Option<String> {
    let (name, pid, bytes) = kill.report.largest.as_ref()?;
    Some(format!("{name}[{pid}], {}", human::quantity(*bytes, "bytes")))
}

/// Every kill logged in the window.
pub fn entities(window: &Window) -> Vec<Entity> {
    oom::together(oom::kills(kernel_log::lines(window).into_iter()))
        .iter()
        .map(|k| {
            Entity::new(Subject { pid: Some(k.pid), ..Subject::new("process", k.command.clone()) }, read(k))
                .within(k.group.clone())
                .of_rows([k.sequence])
        })
        .collect()
}
