//! Processes.

use super::task::TaskUse;
use crate::signal::{Entity, over, signals, sum};
use whyslow_model::catalogue::Process;
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::Change;

/// What a process' signals are computed from.
pub struct ProcessUse<'w> {
    task: &'w TaskUse,
    change: &'w Change<'w, Process>,
    resident: Resident,
}

/// What all processes hold in memory: their sum, and the largest.
#[derive(Clone, Copy)]
struct Resident {
    sum: f64,
    most: f64,
}

impl Resident {
    fn of(changes: &[Change<'_, Process>]) -> Self {
        let each = || changes.iter().filter_map(|c| c.last().rss.get());
        Self { sum: each().sum(), most: each().fold(0.0, f64::max) }
    }
}

impl ProcessUse<'_> {
    fn at_limit(&self) -> Option<f64> {
        let last = self.change.last();
        over(last.open_files.get(), last.open_files_limit.get())
    }
}

signals! { p: &ProcessUse<'_>;
    "proc.name" "text" "the name the kernel keeps", "comm", "/proc/PID/stat" => p.task.command.as_str();
    "proc.cgroup" "text" "its control groups, one a line, the deepest first", "as the kernel gives it", "/proc/PID/cgroup" => p.task.cgroup.as_deref();
    "proc.cpu" "count" "processors' worth of time it used", "Δ(utime + stime) / Δt", "/proc/PID/stat" => p.task.cpu;
    "proc.system" "count" "of that in kernel mode", "Δstime / Δt", "/proc/PID/stat" => p.task.system;
    "proc.system_share" "ratio" "kernel mode's share of its time", "Δstime / Δ(utime + stime)", "/proc/PID/stat" => over(p.task.system, p.task.cpu);
    "proc.short_lived" "count" "processors' worth of time of children that no sample saw", "Δ(cutime + cstime) less what was seen of them alive, / Δt", "/proc/PID/stat" => p.task.short_lived;
    "proc.run_delay" "count" "mean number of its threads that waited for a processor", "Δrun_delay / Δt", "/proc/PID/schedstat" => p.task.run_delay;
    "proc.threads" "count" "threads", "as the kernel gives it", "/proc/PID/stat" => p.task.threads;
    "proc.background" "count" "1 for niced, batch and idle-class processes", "nice >= 10 or SCHED_BATCH or SCHED_IDLE", "/proc/PID/stat" => p.task.background;
    "proc.kernel" "count" "1 for threads of the kernel itself", "PF_KTHREAD", "/proc/PID/stat" => p.task.kernel;
    "proc.blocked_share" "ratio" "share of the samples in which it slept uninterruptibly", "samples in state D / samples", "/proc/PID/stat" => p.task.uninterruptible;
    "proc.wait_channel" "text" "where in the kernel it slept so", "wchan", "/proc/PID/wchan" => p.task.wait_channel.as_deref();
    "proc.storage_rate" "bytes/s" "bytes it moved to and from storage", "Δ(read_bytes + write_bytes) / Δt", "/proc/PID/io" => p.task.storage;
    "proc.read_rate" "bytes/s" "bytes it caused to be read from storage", "Δread_bytes / Δt", "/proc/PID/io" => p.change.rate(|p| p.read_bytes);
    "proc.write_rate" "bytes/s" "bytes it wrote or made dirty", "Δwrite_bytes / Δt", "/proc/PID/io" => p.change.rate(|p| p.write_bytes);
    "proc.major_faults" "1/s" "page faults that needed I/O", "Δmajflt / Δt", "/proc/PID/stat" => p.change.rate(|p| p.major_faults);
    "proc.rss" "bytes" "resident memory", "rss", "/proc/PID/stat" => p.change.last().rss.get();
    "proc.rss_share" "ratio" "its part of what all processes hold", "rss / Σ rss", "/proc/PID/stat" => over(p.change.last().rss.get(), Some(p.resident.sum));
    "proc.largest" "count" "1 for the process that holds most", "rss = max rss", "/proc/PID/stat" => p.change.last().rss.get().map(|rss| rss >= p.resident.most);
    "proc.memory" "bytes" "resident memory and swap", "rss + VmSwap", "/proc/PID/status" => sum([p.change.last().rss.get(), p.change.last().swap.get()]);
    "proc.swap" "bytes" "swapped out", "VmSwap", "/proc/PID/status" => p.change.last().swap.get();
    "proc.open_files" "count" "open file descriptors", "entries of the folder", "/proc/PID/fd" => p.change.last().open_files.get();
    "proc.open_files_limit" "count" "how many it may open", "Max open files, soft", "/proc/PID/limits" => p.change.last().open_files_limit.get();
    "proc.open_files_share" "ratio" "open file descriptors against the limit", "open / limit", "/proc/PID/fd, /proc/PID/limits" => p.at_limit();
    "proc.switches" "1/s" "times it gave up the processor or lost it", "Δ(voluntary + involuntary switches) / Δt", "/proc/PID/status" => sum([p.change.rate(|p| p.voluntary_switches), p.change.rate(|p| p.involuntary_switches)]);
}

/// The subject a process is.
pub fn subject(task: &TaskUse) -> Subject {
    Subject { pid: Some(task.key.pid), ..Subject::new("process", task.command.clone()) }
}

/// Every process. Most sleep through the window and stand near no limit; of those no rule is asked anything.
pub fn entities(tasks: &[TaskUse], changes: &[Change<'_, Process>]) -> Vec<Entity> {
    let resident = Resident::of(changes);
    tasks
        .iter()
        .zip(changes)
        .map(|(task, change)| {
            let p = ProcessUse { task, change, resident };
            let active = task.cpu != Some(0.0)
                || task.uninterruptible > 0.0
                || task.short_lived.is_some()
                || task.storage.is_some_and(|b| b > 0.0)
                || p.at_limit().is_some_and(|s| s > 0.5);
            Entity { idle: !active, ..Entity::new(subject(task), read(&p)).within(task.cgroup.clone()) }
        })
        .collect()
}
