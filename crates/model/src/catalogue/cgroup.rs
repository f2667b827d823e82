//! Control groups of version 1, version 2 and mixed hierarchies, in one form.

use super::*;
use crate::key::{InterferenceKey, LinkKey, MachineKey};
use crate::value::Name;

family_group! {
    /// What groups of processes use, and their limits.
    cgroup: CgroupTables

    /// One control group; groups with the same path in v1 hierarchies and v2 share a row
    /// (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/).
    group: Group by path: Name of cgroup, from "/sys/fs/cgroup" since creation {
        cpu_usage: counter ns "container.cpu.time" "CPU time used";
        cpu_user: counter ns "container.cpu.user" "of that in user mode";
        cpu_system: counter ns "container.cpu.system" "of that in kernel mode";
        periods: counter count "container.cpu.periods" "quota periods in which the group ran";
        throttled_periods: counter count "container.cpu.throttled_periods" "of those, periods in which its quota ran out";
        throttled_time: counter ns "container.cpu.throttled_time" "time it was throttled by the quota, summed over CPUs";
        quota: gauge ns "container.cpu.quota" "CPU time it may use in a period; absent if unlimited";
        period: gauge ns "container.cpu.period" "the quota's period";
        weight: gauge count "container.cpu.weight" "its weight (v2) or shares (v1)";
        memory: gauge bytes "container.memory.usage" "memory charged";
        memory_max: gauge bytes "container.memory.limit" "its hard limit; absent if unlimited";
        memory_high: gauge bytes "container.memory.high" "the level above which it is throttled; absent if unlimited";
        swap: gauge bytes "container.memory.swap" "swap charged";
        swap_max: gauge bytes "container.memory.swap_limit" "its swap limit; absent if unlimited";
        anon: gauge bytes "container.memory.anon" "anonymous memory";
        file: gauge bytes "container.memory.file" "page cache";
        dirty: gauge bytes "container.memory.dirty" "page cache waiting to be written";
        shmem: gauge bytes "container.memory.shmem" "shared memory and tmpfs";
        slab: gauge bytes "container.memory.slab" "kernel objects";
        high_events: counter count "container.memory.high_events" "times it was throttled for exceeding memory.high";
        limit_events: counter count "container.memory.limit_events" "times its usage hit the hard limit (v2 max, v1 failcnt)";
        oom_events: counter count "container.memory.oom" "times the limit could not be met by reclaim";
        oom_kills: counter count "container.memory.oom_kills" "its processes killed by the OOM killer";
        faults: counter count "container.memory.faults" "page faults";
        major_faults: counter count "container.memory.major_faults" "page faults that needed I/O";
        refault_file: counter count "container.memory.refault_file" "file pages read back soon after eviction";
        refault_anon: counter count "container.memory.refault_anon" "anonymous pages read back soon after eviction";
        scanned: counter count "container.memory.scanned" "pages scanned by reclaim";
        reclaimed: counter count "container.memory.reclaimed" "pages reclaimed";
        pages_in: counter count "container.memory.pages_in" "pages charged (v1 pgpgin)";
        pages_out: counter count "container.memory.pages_out" "pages uncharged (v1 pgpgout)";
        swap_in: counter count "container.memory.swap_in" "pages swapped in";
        swap_out: counter count "container.memory.swap_out" "pages swapped out";
        pids: gauge count "container.pids" "processes and threads";
        pids_max: gauge count "container.pids_limit" "processes and threads it may have; absent if unlimited";
        pids_events: counter count "container.pids_events" "forks refused by the limit";
        psi_cpu_some: counter ns "container.psi.cpu.some" "time at least one of its tasks waited for a CPU";
        psi_cpu_full: counter ns "container.psi.cpu.full" "time all of its tasks waited at once";
        psi_memory_some: counter ns "container.psi.memory.some" "time at least one of its tasks waited for memory";
        psi_memory_full: counter ns "container.psi.memory.full" "time all of its tasks waited at once";
        psi_io_some: counter ns "container.psi.io.some" "time at least one of its tasks waited for I/O";
        psi_io_full: counter ns "container.psi.io.full" "time all of its tasks waited at once";
        psi_cpu_avg60: gauge ratio "container.psi.cpu.some.avg60" "share of time a task waited for a CPU, averaged over 1 minute; of captures";
        psi_memory_avg60: gauge ratio "container.psi.memory.some.avg60" "share of time a task waited for memory, averaged over 1 minute; of captures";
        psi_io_avg60: gauge ratio "container.psi.io.some.avg60" "share of time a task waited for I/O, averaged over 1 minute; of captures";
        version: state word "container.cgroup.version" "v1, v2 or v1+v2";
        identity: identity word "container.cgroup.inode" "inode of its directory in each hierarchy, which distinguishes it from later groups of the same name";
    }

    /// A control group's use of one block device, and its limits there.
    group_io: GroupIo by link: LinkKey of cgroup device, from "/sys/fs/cgroup (io.stat, io.max; blkio.throttle.*)" {
        read_bytes: counter bytes "container.blockio.io{disk.io.direction=read}" "bytes read";
        write_bytes: counter bytes "container.blockio.io{disk.io.direction=write}" "bytes written";
        reads: counter count "container.blockio.operations{disk.io.direction=read}" "reads";
        writes: counter count "container.blockio.operations{disk.io.direction=write}" "writes";
        read_bytes_limit: gauge bytes "container.blockio.limit" "bytes it may read per second; absent if unlimited";
        write_bytes_limit: gauge bytes "container.blockio.limit" "bytes it may write per second";
        reads_limit: gauge count "container.blockio.limit" "reads it may do per second";
        writes_limit: gauge count "container.blockio.limit" "writes it may do per second";
        identity: identity word "container.cgroup.inode" "the group's, as in family group";
    }

    /// Which control group kept which other one waiting, traced on demand.
    interference: Interference by pair: InterferenceKey of word cgroup cgroup, from "BPF: sched_switch, sched_waking, sched_wakeup_new, net_dev_queue, net_dev_start_xmit" {
        waited: counter ns "container.interference.waited" "time that tasks waited on run queues while the other group ran there, or that packets waited while those of the other group were sent, summed";
        used: counter count "container.interference.used" "nanoseconds of CPU time, or bytes sent, by the group that waits; in its row with itself";
    }

    /// Control groups of version 1 whose hierarchy is not mounted where whyslow runs, as in a container.
    hidden_groups: HiddenGroups by host: MachineKey, from "/proc/cgroups, /proc/self/mountinfo" {
        cpu: gauge count "system.cgroup.hidden" "control groups that the cpu or cpuacct controller has, and that are not seen";
    }

    /// What Kubernetes reports of a node, a pod or a container: pressure, evictions, and why a container ended.
    condition: Condition by name: Name of label, from "kubectl describe" only captures {
        object: state label "k8s.object.name" "the node, pod or container";
        kind: state word "k8s.object.kind" "node, pod or container";
        reason: state word "k8s.condition.reason" "OOMKilled, Evicted, MemoryPressure, DiskPressure, PIDPressure";
        message: state text "k8s.condition.message" "the message in the report";
        restarts: gauge count "k8s.container.restarts" "restarts of the container";
        memory_max: gauge bytes "k8s.container.memory_limit" "memory limit of the container";
    }
}
