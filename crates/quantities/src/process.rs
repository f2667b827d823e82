//! Quantities of processes (proc_pid_stat(5), proc_pid_io(5), Documentation/scheduler/sched-stats.rst).

use crate::declare::quantities;
use whyslow_model::catalogue::Process;

quantities! { Process;
    /// Tools that do not divide the time give its sum.
    CPU = "process.cpu" "count" "CPUs' worth of time it used", "/proc/PID/stat" = rate([user] + [system] + [cpu_time]);
    RUN_DELAY = "process.run_delay" "count" "threads that waited for a CPU, mean", "/proc/PID/schedstat" = rate(run_delay);
    BLOCK_DELAY = "process.block_delay" "count" "threads that waited for storage, mean", "/proc/PID/stat, field 42" = rate(block_delay);
    READ_RATE = "process.read_rate" "bytes/s" "bytes read from storage", "/proc/PID/io", passes to crate::disk::READ_RATE = rate(read_bytes);
    WRITE_RATE = "process.write_rate" "bytes/s" "bytes written to storage", "/proc/PID/io", passes to crate::disk::WRITE_RATE = rate(write_bytes);
    SWITCHES = "process.switches" "1/s" "times it gave up a CPU, or lost it", "/proc/PID/status" = rate([voluntary_switches] + [involuntary_switches]);
    USER = "process.user" "ratio" "CPUs' worth of time in user mode", "/proc/PID/stat" = rate(user);
    SYSTEM = "process.system" "ratio" "CPUs' worth of time in kernel mode", "/proc/PID/stat" = rate(system);
    VOLUNTARY_SWITCHES = "process.voluntary_switches" "1/s" "times it gave up a CPU", "/proc/PID/status" = rate(voluntary_switches);
    INVOLUNTARY_SWITCHES = "process.involuntary_switches" "1/s" "times it lost a CPU", "/proc/PID/status" = rate(involuntary_switches);
    MAJOR_FAULTS = "process.major_faults" "1/s" "page faults that needed I/O", "/proc/PID/stat" = rate(major_faults);
    READ_CALLS_RATE = "process.read_calls_rate" "bytes/s" "bytes asked of read calls", "/proc/PID/io: rchar", passes to READ_RATE = rate(read_chars);
    WRITE_CALLS_RATE = "process.write_calls_rate" "bytes/s" "bytes given to write calls", "/proc/PID/io: wchar", passes to WRITE_RATE = rate(write_chars);
}

/// Threads.
pub mod thread {
    use crate::declare::quantities;
    use whyslow_model::catalogue::Thread;

    quantities! { Thread;
        VOLUNTARY_SWITCHES = "thread.voluntary_switches" "1/s" "times it gave up a CPU", "/proc/PID/task/TID/status" = rate(voluntary_switches);
        INVOLUNTARY_SWITCHES = "thread.involuntary_switches" "1/s" "times it lost a CPU", "/proc/PID/task/TID/status" = rate(involuntary_switches);
        MIGRATIONS = "thread.migrations" "1/s" "moves to another CPU", "/proc/PID/task/TID/sched" = rate(migrations);
    }
}
