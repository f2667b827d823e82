//! Processes and threads.

use super::*;
use crate::key::{NodeTask, Offspring, TaskKey};

family_group! {
    /// Processes and threads, and what they wait for.
    task: TaskTables

    /// Processes: sums over their threads if the kernel keeps such sums (proc(5)).
    process: Process shares ProcessRow by task: TaskKey, from "/proc/PID" {
        command: state process "process.command" "the name the kernel keeps (15 bytes)";
        parent: gauge count "process.parent_pid" "parent process";
        state: state word "process.state" "R, S, D, T, Z, I ...";
        wait_channel: state word "process.wait_channel" "the kernel function the main thread is blocked in, or the system call in which it waits for asynchronous I/O";
        cgroup: state cgroup "process.cgroup" "its control groups, one per line, the deepest first";
        user: counter ns "process.cpu.time{cpu.mode=user}" "time in user mode";
        system: counter ns "process.cpu.time{cpu.mode=system}" "time in kernel mode";
        cpu_time: counter ns "process.cpu.time" "time in both modes, from tools that report only their sum" only captures;
        children_user: counter ns "process.children.user" "time in user mode of children waited for";
        children_system: counter ns "process.children.system" "time in kernel mode of children waited for";
        run_delay: counter ns "process.run_delay" "time on a run queue, waiting for a CPU";
        block_delay: counter ns "process.block_delay" "time waiting for block I/O (needs delay accounting)";
        swap_delay: counter ns "process.swap_delay" "time waiting for swapped-out pages (needs delay accounting and BPF)";
        reclaim_delay: counter ns "process.reclaim_delay" "time waiting for memory to be reclaimed (needs delay accounting and BPF)";
        minor_faults: counter count "process.paging.faults{system.paging.fault.type=minor}" "page faults without I/O";
        major_faults: counter count "process.paging.faults{system.paging.fault.type=major}" "page faults that needed I/O";
        voluntary_switches: counter count "process.context_switches{process.context_switch.type=voluntary}" "voluntary context switches: it blocked";
        involuntary_switches: counter count "process.context_switches{process.context_switch.type=involuntary}" "involuntary context switches: it was preempted";
        migrations: counter count "process.migrations" "times one of its threads moved to another CPU";
        threads: gauge count "process.thread.count" "threads";
        nice: gauge count "process.nice" "nice value";
        policy: state word "process.scheduling_policy" "scheduling class";
        rss: gauge bytes "process.memory.usage" "resident memory";
        rss_anon: gauge bytes "process.memory.anon" "of that anonymous";
        rss_file: gauge bytes "process.memory.file" "of that mapped files";
        rss_shmem: gauge bytes "process.memory.shmem" "of that shared memory";
        swap: gauge bytes "process.memory.swap" "swapped out";
        virtual_size: gauge bytes "process.memory.virtual" "address space";
        page_tables: gauge bytes "process.memory.page_tables" "page tables";
        mappings: gauge count "process.memory.mappings" "memory mappings (needs BPF)";
        read_chars: counter bytes "process.io.read_chars" "bytes asked of read calls, cached or not";
        write_chars: counter bytes "process.io.write_chars" "bytes given to write calls";
        read_calls: counter count "process.io.read_calls" "read calls";
        write_calls: counter count "process.io.write_calls" "write calls";
        read_bytes: counter bytes "process.disk.io{disk.io.direction=read}" "bytes it caused to be read from storage";
        write_bytes: counter bytes "process.disk.io{disk.io.direction=write}" "bytes it dirtied or wrote directly";
        cancelled_write_bytes: counter bytes "process.disk.cancelled" "bytes it dirtied that were discarded before being written";
        open_files: gauge count "process.unix.file_descriptor.count" "open file descriptors";
        open_files_limit: gauge count "process.unix.file_descriptor.limit" "how many it may open (soft limit)";
        open_files_hard_limit: gauge count "process.unix.file_descriptor.hard_limit" "to how many it may raise that limit itself (hard limit)";
        processes_limit: gauge count "process.limit.processes" "how many processes its user may have (soft limit)";
        user_id: gauge count "process.user_id" "the user it runs as";
        kernel_thread: gauge count "process.kernel_thread" "1 for a kernel thread";
    }

    /// Processes that started and ended between two samples, by parent and name: resources used since the previous sample.
    exited_children (once "brief"): ExitedChildren by offspring: Offspring of process, from "BPF sched_process_exit" as events {
        ended: gauge count "process.brief.count" "number of processes that ended since the previous sample";
        user: gauge ns "process.brief.cpu.time{cpu.mode=user}" "time they used in user mode";
        system: gauge ns "process.brief.cpu.time{cpu.mode=system}" "time they used in kernel mode";
        run_delay: gauge ns "process.brief.run_delay" "time they waited for a CPU";
        read_bytes: gauge bytes "process.brief.disk.io{disk.io.direction=read}" "bytes read from storage for them";
        write_bytes: gauge bytes "process.brief.disk.io{disk.io.direction=write}" "bytes they dirtied or wrote directly";
    }

    /// Threads of multithreaded processes.
    thread: Thread by task: TaskKey, from "/proc/PID/task/TID" {
        command: state process "thread.name" "the thread's name";
        state: state word "thread.state" "R, S, D ...";
        wait_channel: state word "thread.wait_channel" "the kernel function it is blocked in, or the system call in which it waits for asynchronous I/O";
        user: counter ns "thread.cpu.time{cpu.mode=user}" "time in user mode";
        system: counter ns "thread.cpu.time{cpu.mode=system}" "time in kernel mode";
        cpu_time: counter ns "thread.cpu.time" "time in both modes, from tools that report only their sum" only captures;
        run_delay: counter ns "thread.run_delay" "time on a run queue, waiting for a CPU";
        block_delay: counter ns "thread.block_delay" "time waiting for block I/O (needs delay accounting)";
        swap_delay: counter ns "thread.swap_delay" "time waiting for swapped-out pages (needs delay accounting and BPF)";
        reclaim_delay: counter ns "thread.reclaim_delay" "time waiting for memory to be reclaimed (needs delay accounting and BPF)";
        major_faults: counter count "thread.paging.faults" "page faults that needed I/O";
        voluntary_switches: counter count "thread.context_switches{process.context_switch.type=voluntary}" "voluntary context switches: it blocked";
        involuntary_switches: counter count "thread.context_switches{process.context_switch.type=involuntary}" "involuntary context switches: it was preempted";
        migrations: counter count "thread.migrations" "times it moved to another CPU";
        lock_wait: gauge count "thread.lock_wait" "1 while it sleeps for a lock held by another thread (futex(2)), otherwise 0";
        processor: gauge count "thread.processor" "the CPU it ran on last";
        nice: gauge count "thread.nice" "nice value";
    }

    /// What threads waited for, summed by process, traced on demand.
    sleep: Sleep by task: TaskKey, from "BPF: sched_switch, sched_waking, sched_migrate_task" {
        run_queue: counter ns "process.wait.run_queue" "time on a run queue, waiting for a CPU";
        run_queue_waits: counter count "process.wait.run_queue.count" "number of those waits";
        run_queue_latency: histogram ns "process.wait.run_queue.latency" "the same, each time";
        lock: counter ns "process.wait.lock" "time asleep for locks that other threads held (futex(2))";
        lock_waits: counter count "process.wait.lock.count" "number of those waits";
        futex: counter ns "process.wait.futex" "time asleep in futex(2) for anything else: work queues, condition variables, thread joins";
        memory: counter ns "process.wait.memory" "time asleep in page faults, in reclaim and for dirty pages to become fewer";
        dirty_throttle: counter ns "process.wait.dirty_throttle" "of that, time held back until less memory is dirty (balance_dirty_pages)";
        block_io: counter ns "process.wait.block_io" "time asleep for block I/O";
        network: counter ns "process.wait.network" "time asleep waiting for the peer of a socket";
        pipe: counter ns "process.wait.pipe" "time asleep waiting for the other end of a pipe";
        poll: counter ns "process.wait.poll" "time asleep in poll, select or epoll";
        timer: counter ns "process.wait.timer" "time asleep for a time to pass";
        kernel_lock: counter ns "process.wait.kernel_lock" "time asleep for a lock within the kernel";
        other: counter ns "process.wait.other" "time asleep for anything else";
        moved_waking: counter count "process.migrations.waking" "migrations at wake-up";
        moved_running: counter count "process.migrations.running" "migrations of running threads: affinity changes or load balancing";
        moved_queued: counter count "process.migrations.queued" "migrations of threads waiting on a run queue";
    }

    /// Threads that held user-space locks that other threads of their process waited for, traced on demand.
    lock_holder: LockHolder by task: TaskKey, from "BPF: sched_waking" {
        kept_waiting: counter ns "thread.lock.kept_waiting" "time others slept until it released the lock; of a lock that was handed on, until it handed it on";
        handed_on: counter count "thread.lock.handed_on" "number of times it released a contended lock";
    }

    /// Waits for kernel locks by process, traced on demand.
    kernel_lock: KernelLock by task: TaskKey, from "BPF: contention_begin, contention_end" {
        spinning: counter ns "process.kernel_lock.spinning" "time spent spinning for a spinlock";
        mutexes: counter ns "process.kernel_lock.mutex" "time waiting for a mutex";
        readers: counter ns "process.kernel_lock.read" "time waiting to read under a reader-writer lock";
        writers: counter ns "process.kernel_lock.write" "time waiting to write under a reader-writer lock";
        others: counter ns "process.kernel_lock.other" "time waiting for other kinds of lock";
        waits: counter count "process.kernel_lock.count" "number of those waits";
    }

    /// What processes did for their memory before they got it, traced on demand.
    direct_reclaim: DirectReclaim by task: TaskKey, from "BPF: mm_vmscan_direct_reclaim_begin, mm_vmscan_memcg_reclaim_begin, mm_compaction_begin" {
        reclaim: counter ns "process.direct_reclaim.time" "time reclaiming memory of the machine";
        reclaims: counter count "process.direct_reclaim.count" "number of times";
        reclaim_latency: histogram ns "process.direct_reclaim.latency" "the same, each time";
        large_reclaim: counter ns "process.direct_reclaim.large.time" "time reclaiming memory of the machine for a block of more than eight pages";
        large_reclaims: counter count "process.direct_reclaim.large.count" "number of times";
        group_reclaim: counter ns "process.direct_reclaim.cgroup.time" "time reclaiming memory of its control group";
        group_reclaims: counter count "process.direct_reclaim.cgroup.count" "number of times";
        compaction: counter ns "process.direct_compaction.time" "time moving pages together for a block of contiguous ones";
        compactions: counter count "process.direct_compaction.count" "zones of memory that it compacted";
        compaction_latency: histogram ns "process.direct_compaction.latency" "time for a zone, each time";
    }
    /// Processes that may not run on all CPUs.
    affinity: Affinity by task: TaskKey, from "/proc/PID/status" {
        cpus: state word "process.cpu.affinity" "CPUs on which its first thread may run";
    }
    /// Where large processes have their memory, and where they run, on a machine with several NUMA nodes; read on demand.
    placement: Placement by on: NodeTask, from "/proc/PID/numa_maps, /proc/PID/task/TID/stat" {
        memory: gauge bytes "process.numa.memory" "its memory on the node";
        cpu_time: counter ns "process.numa.cpu.time" "time its threads ran on the node's CPUs: of each thread, where it was found";
    }
}
