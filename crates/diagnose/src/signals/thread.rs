//! Threads.

use super::task::TaskUse;
use crate::signal::{Entity, over, signals};
use whyslow_model::diagnosis::Subject;

signals! { t: &TaskUse;
    "thread.name" "text" "the thread's name", "comm", "/proc/PID/task/TID/stat" => t.command.as_str();
    "thread.busy" "ratio" "share of the time in which it ran", "Δ(utime + stime) / Δt", "/proc/PID/task/TID/stat" => t.cpu;
    "thread.busy_for" "s" "time since it began, where it has used as much CPU time ever since", "now - start, if (utime + stime) / (now - start) is within a quarter of that over the window", "/proc/PID/task/TID/stat" => t.busy_for;
    "thread.system_share" "ratio" "kernel mode's share of its time", "Δstime / Δ(utime + stime)", "/proc/PID/task/TID/stat" => over(t.system, t.cpu);
    "thread.run_delay" "ratio" "share of the time in which it waited for a CPU", "Δrun_delay / Δt", "/proc/PID/task/TID/schedstat" => t.run_delay;
    "thread.blocked_share" "ratio" "share of the samples in which it was blocked: in uninterruptible sleep, or waiting for asynchronous I/O", "samples in state D, or in io_getevents or io_uring_enter / samples", "/proc/PID/task/TID/stat, syscall" => t.blocked;
    "thread.stuck" "flag" "1 where it slept in one place through all samples and never ran", "state D throughout, same wchan, no time used, no switch", "/proc/PID/task/TID/stat, wchan" => t.stuck;
    "thread.wait_channel" "text" "where in the kernel it slept", "wchan", "/proc/PID/task/TID/wchan" => t.wait_channel.as_deref();
    "thread.storage_rate" "bytes/s" "bytes its process moved to and from storage", "Δ(read_bytes + write_bytes) / Δt", "/proc/PID/io" => t.storage;
    "thread.kept_waiting" "count" "mean number of others that waited for it to give a lock up", "Δtime they slept until it woke them / Δt", "BPF: sched_waking" => t.kept_waiting;
    "thread.background" "flag" "1 for niced, batch and idle-class threads", "nice >= 10 or SCHED_BATCH or SCHED_IDLE", "/proc/PID/task/TID/stat" => t.background;
    "thread.kernel" "flag" "1 for threads of the kernel itself", "PF_KTHREAD", "/proc/PID/stat" => t.kernel;
    "thread.seconds" "s" "time it was seen", "last sample - first sample", "/proc/PID/task" => t.seconds;
    "thread.threads" "count" "threads of its process", "1 where it is the only one", "/proc/PID/stat" => t.threads;
}

/// The threads that ran, were blocked, or kept others waiting.
pub fn entities(threads: &[TaskUse]) -> Vec<Entity> {
    threads
        .iter()
        .filter(|t| t.cpu != Some(0.0) || t.blocked > 0.0 || t.kept_waiting.is_some())
        .map(|t| {
            Entity::new(
                Subject {
                    pid: Some(t.key.pid),
                    tid: Some(t.key.tid).filter(|tid| *tid != 0),
                    ..Subject::new("thread", t.command.clone())
                },
                read(t),
            )
            .within(t.cgroup.clone())
        })
        .collect()
}
