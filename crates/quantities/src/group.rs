//! Quantities of control groups (Documentation/admin-guide/cgroup-v2.rst).

use crate::declare::quantities;
use whyslow_model::catalogue::Group;

quantities! { Group;
    CPU = "group.cpu_usage" "count" "CPUs' worth of time it used, as its controller counts it", "cpu.stat, cpuacct.usage" = rate(cpu_usage);
    THROTTLED = "group.throttled_time" "count" "CPUs' worth of time it was stopped by the quota", "cpu.stat (sched-bwc.rst)" = rate(throttled_time);
    FILE_REFAULTS = "group.file_refaults" "1/s" "file pages it read again soon after they were reclaimed", "memory.stat (mm/workingset.c)" = rate(refault_file);
    ANON_REFAULTS = "group.anon_refaults" "1/s" "anonymous pages it read again soon after they were reclaimed", "memory.stat (mm/workingset.c)"
        = rate(refault_anon);
    CPU_PRESSURE = "group.pressure_cpu" "ratio" "share of the time in which one of its tasks waited for a CPU", "cpu.pressure" = rate(psi_cpu_some);
    MEMORY_PRESSURE = "group.pressure_memory" "ratio" "share of the time in which one of its tasks waited for memory", "memory.pressure"
        = rate(psi_memory_some);
    IO_PRESSURE = "group.pressure_io" "ratio" "share of the time in which one of its tasks waited for I/O", "io.pressure" = rate(psi_io_some);
    CPU_PRESSURE_FULL = "group.pressure_cpu_full" "ratio" "share of the time in which all of its tasks waited for a CPU", "cpu.pressure"
        = rate(psi_cpu_full);
    MEMORY_PRESSURE_FULL = "group.pressure_memory_full" "ratio" "share of the time in which all of its tasks waited for memory", "memory.pressure"
        = rate(psi_memory_full);
    IO_PRESSURE_FULL = "group.pressure_io_full" "ratio" "share of the time in which all of its tasks waited for I/O", "io.pressure" = rate(psi_io_full);
    LIMIT_HITS = "group.limit_events" "1/s" "times its usage hit the hard limit", "memory.events" = rate(limit_events);
}

/// Use of a block device by a control group.
pub mod io {
    use crate::declare::quantities;
    use whyslow_model::catalogue::GroupIo;

    quantities! { GroupIo;
        READ_RATE = "group_io.read_rate" "bytes/s" "bytes read", "io.stat, blkio.throttle.io_service_bytes" = rate(read_bytes);
        WRITE_RATE = "group_io.write_rate" "bytes/s" "bytes written", "io.stat, blkio.throttle.io_service_bytes" = rate(write_bytes);
    }
}
