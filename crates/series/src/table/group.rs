//! Charts of control groups and processes.

use super::declare::chart_table;
use whyslow_model::catalogue::{Group, GroupIo, Process};
use whyslow_quantities::{group, process};

chart_table! {
    "cgroup.cpu" "CPUs used by control groups" in "count" "CPU time, as a number of CPUs; groups without groups below them.";
    Lines "only if any"; shows "group.cpu" "group.cpu_quota";
    Group, TopLeaves(6) { "": of(group::CPU); }

    "cgroup.throttled" "Throttled control groups" in "count" "Time in which groups were stopped by their CPU quota, as a number of CPUs.";
    Lines "only if any"; shows "group.throttled" "group.throttled_cpus" "group.throttled_periods" "group.periods";
    Group, Top(6) { "": of(group::THROTTLED); }

    "cgroup.memory" "Memory of control groups" in "By" "Memory charged to groups, page cache included; groups without groups below them.";
    Lines; shows "group.memory" "group.memory_fill" "group.memory_limit" "group.memory_high" "group.high_fill" "group.room" "group.exhausted_in" "group.anon_share" "group.file_share";
    Group, TopLeaves(6) { "": level(memory); }

    "cgroup.refaults" "Refaults of control groups" in "1/s" "Pages of groups that were read back soon after they were evicted.";
    Lines "only if any"; shows "group.refault_file_rate" "group.refault_anon_rate" "group.refault_wait" "group.page_wait" "group.major_faults" "group.limit_hits" "group.high_hits";
    Group, TopLeaves(6) { "file": of(group::FILE_REFAULTS); "anonymous": of(group::ANON_REFAULTS); }

    "cgroup.io" "I/O of control groups" in "By/s" "Bytes that groups read from and wrote to devices; groups without groups below them.";
    Lines "only if any"; shows "quota.read_rate" "quota.write_rate" "quota.fill" "quota.stall" "quota.reads" "quota.writes";
    GroupIo, TopLeaves(6) { "reads": of(group::io::READ_RATE); "writes": of(group::io::WRITE_RATE); }

    "cgroup.pressure_cpu" "CPU pressure of control groups" in "1" "Share of the time in which a task of the group waited for a CPU.";
    Lines "only if any"; shows "group.stall_cpu" "group.waited";
    Group, TopLeaves(6) { "": of(group::CPU_PRESSURE); }

    "cgroup.pressure_memory" "Memory pressure of control groups" in "1" "Share of the time in which a task of the group waited for memory.";
    Lines "only if any"; shows "group.stall_memory" "group.memory_wait";
    Group, TopLeaves(6) { "": of(group::MEMORY_PRESSURE); }

    "cgroup.pressure_io" "I/O pressure of control groups" in "1" "Share of the time in which a task of the group waited for I/O.";
    Lines "only if any"; shows "group.stall_io";
    Group, TopLeaves(6) { "": of(group::IO_PRESSURE); }

    "process.cpu" "CPUs used by processes" in "count" "CPU time as a number of CPUs, of all processes of the same name that were sampled.";
    Lines "only if any"; shows "proc.cpu" "proc.cpu_mean" "proc.system" "proc.system_mean" "proc.system_share" "thread.busy" "thread.system_share" "cpu.attributed";
    Process, TopCommands(8 by command) { "": of(process::CPU); }

    "process.run_delay" "Processes that wait for a CPU" in "count" "Time on run queues as a number of tasks, of all processes of the same name that were sampled.";
    Lines "only if any"; shows "proc.run_delay" "thread.run_delay" "proc.run_queue_latency" "proc.run_queue_p99";
    Process, TopCommands(8 by command) { "": of(process::RUN_DELAY); }

    "process.block_delay" "Processes that wait for storage" in "count" "Time waiting for block I/O as a number of tasks, of all processes of the same name (needs delay accounting).";
    Lines "only if any"; shows "proc.wait_block_io" "proc.blocked_share" "io.blocked_share" "thread.blocked_share";
    Process, TopCommands(8 by command) { "": of(process::BLOCK_DELAY); }

    "process.io" "I/O of processes" in "By/s" "Bytes that processes of the same name caused to be read, and dirtied or wrote directly.";
    Lines "only if any"; shows "proc.read_rate" "proc.write_rate" "proc.storage_rate" "io.rate" "io.read_rate" "io.write_rate" "io.asked" "thread.storage_rate";
    Process, TopCommands(6 by command) { "reads": of(process::READ_RATE); "writes": of(process::WRITE_RATE); }

    "process.switches" "Context switches of processes" in "1/s" "Voluntary and involuntary context switches, of all processes of the same name that were sampled.";
    Lines "only if any"; shows "proc.switches" "proc.voluntary_switches" "proc.involuntary_switches" "proc.migrations" "proc.work_per_switch";
    Process, TopCommands(6 by command) { "": of(process::SWITCHES); }

    "process.memory" "Memory of processes" in "By" "Resident memory of the largest processes; memory that they share counts for each.";
    Lines; shows "proc.rss" "proc.rss_share" "proc.memory" "proc.growth" "proc.grown_for" "proc.swap" "proc.memory_taken";
    Process, TopTasks(8 by command) { "": level(rss); }
}
