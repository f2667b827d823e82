//! Processes and threads.

use super::placement::{Placements, ProcessPlacement};
use super::shortage::{self, Room, Rooms};
use super::task::{self, TaskUse, since_start};
use crate::signal::{Entity, mean, over, page_size, ratio, signals, sum};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Affinity, Limits, Process, System};
use whyslow_model::polling::is_polling_thread;
use whyslow_model::window::{Change, Window};

/// Seconds to refill a CPU's private cache: about 1 MiB, at the 10 GB/s of memory or a shared cache.
const REFILL: f64 = 100e-6;

/// Inputs of a process' signals.
pub struct ProcessUse<'w> {
    task: &'w TaskUse,
    change: &'w Change<'w, Process>,
    /// Seconds over which CPU time was counted for any process.
    counted: Option<f64>,
    page_size: f64,
    resident: Resident,
    /// Maximum number of mappings of a process.
    mappings_limit: Option<f64>,
    growth: Option<f64>,
    /// Processes and threads created on the whole machine, 1/s.
    forks: Option<f64>,
    /// Seconds since it started; unknown in captures, which rarely show when.
    age: Option<f64>,
    /// The memory that it exhausts by growing: the machine's, or that of one of its control groups.
    room: Option<&'w Room>,
    /// NUMA nodes where it has its memory and runs, if that was read.
    placement: Option<ProcessPlacement<'w>>,
    /// The CPUs that it may run on, if it may not run on all.
    bound: Option<&'w str>,
}

/// Resident memory of all processes: the sum, and the largest.
#[derive(Clone, Copy)]
struct Resident {
    sum: f64,
    most: f64,
}

impl Resident {
    fn from_changes(changes: &[Change<'_, Process>]) -> Self {
        let each = || changes.iter().filter_map(|c| c.last().rss.get());
        Self { sum: each().sum(), most: each().fold(0.0, f64::max) }
    }
}

impl<'w> ProcessUse<'w> {
    /// Returns the bytes moved through read and write calls per context switch.
    fn bytes_per_switch(&self) -> Option<f64> {
        let moved = self.change.rate(|p| p.read_chars)? + self.change.rate(|p| p.write_chars)?;
        over(Some(moved), self.task.switches())
    }

    /// Returns the CPUs' worth of time that it used in user mode.
    fn user(&self) -> Option<f64> {
        Some(self.task.cpu? - self.task.system?)
    }

    /// Returns the CPUs' worth of kernel time over the whole time, however short a part of it the process lived.
    fn system_mean(&self) -> Option<f64> {
        ratio(over(self.change.grown(|p| p.system), self.counted))
    }

    /// Returns the share of the samples in which its first thread was runnable.
    fn runnable(&self) -> Option<f64> {
        mean(self.change.rows().filter_map(|p| p.state.get()).map(|state| f64::from(u8::from(state == "R"))))
    }

    /// Returns the CPU time per migration.
    fn run_per_migration(&self) -> Option<f64> {
        over(self.task.cpu, self.task.migrations)
    }

    fn grown_for(&self) -> Option<f64> {
        self.growth.filter(|growth| *growth > 0.0)?;
        since_start(self.change, shortage::own_memory)
    }

    /// Estimates the memory that it allocates: direct I/O takes none, and the fault of a huge page counts as one page.
    fn memory_taken(&self) -> Option<f64> {
        Some(self.change.rate(|p| p.minor_faults)? * self.page_size + self.task.storage?)
    }

    fn open_files_share(&self) -> Option<f64> {
        let last = self.change.last();
        over(last.open_files.get(), last.open_files_limit.get())
    }

    fn mappings_share(&self) -> Option<f64> {
        over(self.change.last().mappings.get(), self.mappings_limit)
    }

    /// Returns true if it is near one of its limits.
    fn is_near_limit(&self) -> bool {
        [self.open_files_share(), self.mappings_share()].into_iter().flatten().any(|share| share > 0.5)
    }

    fn placed<T>(&self, of: impl Fn(&ProcessPlacement<'w>) -> Option<T>) -> Option<T> {
        of(self.placement.as_ref()?)
    }

    fn short_lived_most(&self) -> Option<f64> {
        let children = self.task.short_lived.as_ref()?;
        children.rate.or(self.forks)
    }
}

signals! { p: ProcessUse<'_>;
    "proc.name" "text" "the name the kernel keeps", "comm", "/proc/PID/stat" => p.task.command.as_str();
    "proc.cgroup" "text" "its control groups, one a line, the deepest first", "as the kernel gives it", "/proc/PID/cgroup" => p.task.cgroup.as_deref();
    "proc.cpu" "count" "CPUs' worth of time it used", "Δ(utime + stime) / Δt", "/proc/PID/stat" => p.task.cpu;
    "proc.cpu_mean" "count" "CPUs' worth of time it used, over all the time in which processes were sampled, however briefly it lived", "Δ(utime + stime) / Δt", "/proc/PID/stat" => over(p.task.cpu_seconds, p.counted);
    "proc.system_mean" "count" "the same in kernel mode", "Δstime / Δt", "/proc/PID/stat" => p.system_mean();
    "proc.system" "count" "of that in kernel mode", "Δstime / Δt", "/proc/PID/stat" => p.task.system;
    "proc.system_for" "s" "time since it began, where it has used as much CPU time in kernel mode ever since", "now - start, if stime / (now - start) is within a quarter of that over the window", "/proc/PID/stat" => p.task.system_for;
    "proc.system_share" "ratio" "kernel mode's share of its time", "Δstime / Δ(utime + stime)", "/proc/PID/stat", normal "below 30 % for most programs" => over(p.task.system, p.task.cpu);
    "proc.short_lived" "count" "CPUs' worth of time of children that no sample saw", "their own figures when they ended; without BPF Δ(cutime + cstime) less what was seen of them alive, / Δt", "BPF sched_process_exit, /proc/PID/stat", normal (near 0.1, "CPUs' worth of children no sample saw") => p.task.short_lived.as_ref().map(|u| u.cpu);
    "proc.short_lived_rate" "1/s" "how many such children ended", "ends / Δt", "BPF sched_process_exit", normal "below 10/s on most machines" => p.task.short_lived.as_ref().and_then(|u| u.rate);
    "proc.short_lived_most" "1/s" "at most how many such children ended: without BPF all processes and threads that were created, by any process", "ends / Δt; without BPF Δprocesses / Δt", "BPF sched_process_exit, /proc/stat" => p.short_lived_most();
    "proc.short_lived_name" "text" "the name of those that used most", "comm", "BPF sched_process_exit", normal "what it starts again and again" => p.task.short_lived.as_ref().and_then(|u| u.name.as_deref());
    "proc.run_delay" "count" "mean number of its threads that waited for a CPU", "Δrun_delay / Δt", "/proc/PID/schedstat", normal (near 0.1, "it runs when it wants to") => p.task.run_delay;
    "proc.runnable" "ratio" "share of the samples in which its first thread ran or waited for a CPU", "samples in state R / samples", "/proc/PID/stat" => p.runnable();
    "proc.threads" "count" "the most threads that it had", "max(num_threads)", "/proc/PID/stat", normal "no more than can work at once" => p.task.threads;
    "proc.background" "flag" "1 for niced, batch and idle-class processes", "nice >= 10 or SCHED_BATCH or SCHED_IDLE", "/proc/PID/stat" => p.task.background;
    "proc.kernel" "flag" "1 for threads of the kernel itself", "PF_KTHREAD", "/proc/PID/stat" => p.task.kernel;
    "proc.blocked_share" "ratio" "share of the samples in which one of its threads was blocked: in uninterruptible sleep, or waiting for asynchronous I/O", "samples in state D, or in io_getevents or io_uring_enter / samples", "/proc/PID/task/TID/stat, syscall", normal (near 0.02) => p.task.blocked;
    "proc.wait_channel" "text" "where in the kernel its threads were blocked", "wchan", "/proc/PID/task/TID/wchan" => p.task.wait_channel.as_deref();
    "proc.storage_rate" "bytes/s" "bytes it moved to and from storage", "Δ(read_bytes + write_bytes) / Δt", "/proc/PID/io" => p.task.storage;
    "proc.read_rate" "bytes/s" "bytes it caused to be read from storage", "Δread_bytes / Δt", "/proc/PID/io" => p.change.rate(|p| p.read_bytes);
    "proc.write_rate" "bytes/s" "bytes it wrote or made dirty", "Δwrite_bytes / Δt", "/proc/PID/io" => p.change.rate(|p| p.write_bytes);
    "proc.major_faults" "1/s" "page faults that needed I/O", "Δmajflt / Δt", "/proc/PID/stat" => p.change.rate(|p| p.major_faults);
    "proc.rss" "bytes" "resident memory", "rss", "/proc/PID/stat", normal "what it needs for its work" => p.change.last().rss.get();
    "proc.rss_share" "ratio" "its part of what all processes hold", "rss / Σ rss", "/proc/PID/stat" => over(p.change.last().rss.get(), Some(p.resident.sum));
    "proc.largest" "flag" "1 for the process that holds most", "rss = max rss", "/proc/PID/stat" => p.change.last().rss.get().map(|rss| rss >= p.resident.most);
    "proc.rss_readings" "count" "how often its memory was read: once does not tell whether it grows", "readings of rss", "/proc/PID/stat" => p.change.readings(|p| p.rss).count() as f64;
    "proc.memory" "bytes" "resident memory and swap", "rss + VmSwap", "/proc/PID/status", normal "what it needs for its work" => sum([p.change.last().rss.get(), p.change.last().swap.get()]);
    "proc.growth" "bytes/s" "how fast its own memory grows, swapped or not; 0 where it does not keep growing", "Δ(rss - file pages + swap) / Δt over the latter half of the window", "/proc/PID/status", normal "0 bytes/s once it has started" => p.growth;
    "proc.grown_for" "s" "time since it began, where its memory has grown as fast ever since", "now - start, if its memory / (now - start) is within a quarter of the growth over the window", "/proc/PID/stat, /proc/PID/status" => p.grown_for();
    "proc.age" "s" "time since it began", "now - start", "/proc/PID/stat" => p.age;
    "proc.watched" "s" "how long it was watched: less than the window if it began or ended in it", "last reading - first reading", "the window" => Some(p.change.seconds());
    "proc.exhausted_in" "s" "time until its growth has used up all memory and swap that it can have, where it is most of what uses that up", "room / rate at which it shrinks, of the machine or one of its control groups", "/proc/meminfo, memory.stat, /proc/PID/status", normal "not about to run out" => p.room.and_then(Room::exhausted_in);
    "proc.room" "bytes" "memory and swap that are left to it", "MemAvailable + SwapFree, or what its control group may still take", "/proc/meminfo, memory.stat", normal "no rebuild is running" => p.room.map(|r| r.left);
    "proc.room_of" "text" "whose memory it uses up", "the machine, or the control group with the limit", "/proc/PID/cgroup" => p.room.map(|r| r.of.as_str());
    "proc.minor_faults" "1/s" "page faults that needed no I/O: memory touched for the first time, mostly", "Δminflt / Δt", "/proc/PID/stat", normal "few: each first touch of a page costs kernel time" => p.change.rate(|p| p.minor_faults);
    "proc.swap" "bytes" "swapped out", "VmSwap", "/proc/PID/status" => p.change.last().swap.get();
    "proc.open_files" "count" "open file descriptors", "entries of the folder", "/proc/PID/fd", normal "well below the limit" => p.change.last().open_files.get();
    "proc.open_files_limit" "count" "how many it may open", "Max open files, soft", "/proc/PID/limits", normal "above the need; soft limit" => p.change.last().open_files_limit.get();
    "proc.open_files_hard_limit" "count" "to how many it may raise that limit itself", "Max open files, hard", "/proc/PID/limits" => p.change.last().open_files_hard_limit.get();
    "proc.open_files_share" "ratio" "open file descriptors against the limit", "open / limit", "/proc/PID/fd, /proc/PID/limits", normal (below 0.8) => p.open_files_share();
    "proc.mappings" "count" "memory mappings", "mm->map_count", "BPF, /proc/PID/maps", normal "well below the limit; most programs have less than a few thousand" => p.change.last().mappings.get();
    "proc.mappings_limit" "count" "how many a process can have", "vm.max_map_count", "/proc/sys/vm/max_map_count", normal "above the need" => p.mappings_limit;
    "proc.mappings_share" "ratio" "memory mappings against the limit", "mappings / vm.max_map_count", "BPF, /proc/PID/maps, /proc/sys/vm/max_map_count", normal (below 0.8) => p.mappings_share();
    "proc.page_tables" "bytes" "page tables, which map its memory", "VmPTE", "/proc/PID/status" => p.change.last().page_tables.get();
    "proc.remote_share" "ratio" "share of its accesses to memory that go to another NUMA node, if it uses all of its memory alike", "1 - Σ over nodes of its share of the CPU time x its share of the memory", "/proc/PID/numa_maps, /proc/PID/task/TID/stat", normal "near 0; with memory spread over all nodes, 1 - 1/nodes" => p.placed(ProcessPlacement::remote_share);
    "proc.bound_cpus" "text" "the CPUs that its first thread may run on; nothing if it may run on all", "Cpus_allowed_list", "/proc/PID/status" => p.bound;
    "proc.memory_node" "text" "the NUMA node that has most of its memory", "max of N<node>=pages", "/proc/PID/numa_maps", normal "the node where it runs" => p.placed(ProcessPlacement::memory_node).map(|node| node.to_string()).as_deref();
    "proc.cpu_node" "text" "the NUMA node where it ran most", "max of Δ(utime + stime) by the CPU where each thread is found", "/proc/PID/task/TID/stat" => p.placed(ProcessPlacement::cpu_node).map(|node| node.to_string()).as_deref();
    "proc.advised_node" "text" "a NUMA node with room for all of it, preferably the one that has most of its memory; empty if there is none", "idle CPUs + its own >= its CPUs, and MemFree + its own >= its memory", "/proc/PID/numa_maps, /sys/devices/system/node, /proc/stat" => p.placed(|placement| Some(placement.advised().map(|node| node.to_string()).unwrap_or_default())).as_deref();
    "proc.advised_cpus" "text" "the CPUs of that node", "cpulist", "/sys/devices/system/node" => p.placed(ProcessPlacement::advised_cpus).as_deref();
    "proc.switches" "1/s" "times it gave up the CPU or lost it", "Δ(voluntary + involuntary switches) / Δt", "/proc/PID/task/TID/status", normal (below 5000.0 as "below 5,000/s, or much work each time") => p.task.switches();
    "proc.voluntary_switches" "1/s" "times it gave up the CPU to wait", "Δvoluntary_ctxt_switches / Δt", "/proc/PID/task/TID/status" => p.task.voluntary_switches;
    "proc.involuntary_switches" "1/s" "times the CPU was taken from it", "Δnonvoluntary_ctxt_switches / Δt", "/proc/PID/task/TID/status" => p.task.involuntary_switches;
    "proc.work_per_switch" "s" "its own work, in user mode, from one switch to the next", "Δutime / Δswitches", "/proc/PID/stat, /proc/PID/task/TID/status" => over(p.user(), p.task.switches());
    "proc.kernel_per_switch" "s" "kernel time from one switch to the next: the most that a switch costs it", "Δstime / Δswitches", "/proc/PID/stat, /proc/PID/task/TID/status", normal "below the work" => over(p.task.system, p.task.switches());
    "proc.bytes_per_switch" "bytes" "bytes through read and write calls from one switch to the next", "Δ(rchar + wchar) / Δswitches", "/proc/PID/io, /proc/PID/task/TID/status", normal "kilobytes: what is handed over each time" => p.bytes_per_switch();
    "proc.io_unread" "flag" "1 where its I/O was not read: another user's, if it was refused", "rchar and wchar are absent", "/proc/PID/io" => p.task.storage.is_none();
    "proc.migrations" "1/s" "times its threads moved to another CPU", "Δse.nr_migrations / Δt", "/proc/PID/task/TID/sched", normal (below 100.0) => p.task.migrations;
    "proc.run_per_migration" "s" "CPU time from one such move to the next", "Δ(utime + stime) / Δse.nr_migrations", "/proc/PID/stat, /proc/PID/task/TID/sched" => p.run_per_migration();
    "proc.refill_share" "ratio" "the most of its time that filling caches anew can take", "100 us (1 MiB at 10 GB/s) / CPU time between moves, at most 1", "/proc/PID/stat, /proc/PID/task/TID/sched", normal "below 5 %: an upper bound, of use where its data fill a cache" => over(Some(REFILL), p.run_per_migration()).map(|s| s.min(1.0));
    "proc.lock_waiters" "count" "mean number of its threads that slept for a lock another held", "Δtime asleep in futex(2) on a word that says 'held and wanted' / Δt; without BPF the threads found so / samples", "BPF: sched_switch; /proc/PID/task/TID/syscall", normal (near 0.1, "idle pool threads do not count") => p.task.lock_waiters();
    "proc.lock_share" "ratio" "waiting for locks as a share of the time its threads wanted to get on", "waiters / (waiters + running + waiting for a CPU + blocked)", "BPF: sched_switch; /proc/PID/task/TID/syscall, stat, schedstat", normal (below 0.1) => p.task.lock_share();
    "proc.lock_waits" "1/s" "times one of its threads slept for a lock", "Δwaits that ended / Δt", "BPF: sched_switch, sched_waking", normal "few" => p.task.sleep.lock_waits;
    "proc.lock_wait" "s" "how long it slept each time", "Δtime asleep for locks / Δwaits that ended", "BPF: sched_switch, sched_waking", normal "microseconds: a lock held while its holder sleeps, computes or does I/O takes longer" => over(p.task.sleep.lock, p.task.sleep.lock_waits);
    "proc.kernel_lock_waiters" "count" "mean number of its threads that waited for locks within the kernel", "Δ(spinning + mutexes + reader-writer and other locks) / Δt", "BPF: contention_begin, contention_end" => p.task.sleep.kernel_lock;
    "proc.reclaim_waiters" "count" "mean number of its threads that reclaimed memory of the machine before they got some", "Δtime in direct reclaim for at most eight pages / Δt", "BPF: mm_vmscan_direct_reclaim_begin", normal (near 0.0) => p.task.sleep.reclaim.machine;
    "proc.group_reclaim_waiters" "count" "mean number of its threads that reclaimed memory of their control group before they got some", "Δtime reclaiming / Δt", "BPF: mm_vmscan_memcg_reclaim_begin" => p.task.sleep.reclaim.group;
    "proc.compaction_waiters" "count" "mean number of its threads that compacted memory, or reclaimed some for that, before they got a block of contiguous pages", "Δtime in direct compaction, and in direct reclaim for more than eight pages / Δt", "BPF: mm_compaction_begin, mm_vmscan_direct_reclaim_begin", normal (near 0.0, "huge pages are free, or made in the background") => p.task.sleep.reclaim.compaction;
    "proc.compactions" "1/s" "how often they did", "Δtimes / Δt", "BPF: mm_compaction_begin, mm_vmscan_direct_reclaim_begin", normal (near 0.0) => p.task.sleep.reclaim.compactions;
    "proc.compaction_p99" "s" "how long the longest hundredth of the compactions took", "99th percentile of the histogram", "BPF: mm_compaction_begin", normal "a page fault takes microseconds" => p.task.sleep.reclaim.compaction_p99;
    "proc.memory_taken" "bytes/s" "memory it took: pages touched for the first time, and what it read from storage or wrote", "Δminflt x page size / Δt + Δ(read_bytes + write_bytes) / Δt", "/proc/PID/stat, /proc/PID/io" => p.memory_taken();
    "proc.wait_futex" "count" "mean number of its threads that waited in futex(2) for work or a turn", "Δtime asleep / Δt", "BPF: sched_switch, sched_waking" => p.task.sleep.futex;
    "proc.wait_memory" "count" "mean number of its threads that waited in page faults or for memory", "Δtime asleep / Δt", "BPF: sched_switch, sched_waking" => p.task.sleep.memory;
    "proc.wait_block_io" "count" "mean number of its threads that waited for block I/O", "Δtime asleep / Δt", "BPF: sched_switch, sched_waking" => p.task.sleep.block_io;
    "proc.wait_network" "count" "mean number of its threads that waited for the other end of a socket", "Δtime asleep / Δt", "BPF: sched_switch, sched_waking" => p.task.sleep.network;
    "proc.wait_pipe" "count" "mean number of its threads that waited for the other end of a pipe", "Δtime asleep / Δt", "BPF: sched_switch, sched_waking" => p.task.sleep.pipe;
    "proc.run_queue_latency" "s" "mean time from becoming runnable to running", "Δtime on run queues / Δtimes", "BPF: sched_waking, sched_switch", normal "low: it does not wait for a CPU" => p.task.sleep.run_queue;
    "proc.run_queue_p99" "s" "the same of the unluckiest hundredth", "99th percentile of the histogram", "BPF: sched_waking, sched_switch" => p.task.sleep.run_queue_p99;
    "proc.moved_running" "1/s" "moves of threads that ran: by a change of affinity, or to even the load out", "Δmoves by the stopper thread / Δt", "BPF: sched_migrate_task", normal (near 1.0, "migrations while running, by affinity or load balancing") => p.task.sleep.moved_running;
    "proc.moved_waking" "1/s" "moves of threads that woke where a CPU was free", "Δmoves in state TASK_WAKING / Δt", "BPF: sched_migrate_task", normal "migrations at wake-up to an idle CPU" => p.task.sleep.moved_waking;
}

/// Returns the subject for a process.
pub fn subject(task: &TaskUse) -> Subject {
    Subject { pid: Some(task.key.pid), ..Subject::new("process", task.command.clone()) }
}

/// Returns every process. Most sleep through the window and are near no limit; no rule is judged on those.
pub fn processes(window: &Window, tasks: &[TaskUse], changes: &[Change<'_, Process>], rooms: &Rooms) -> Vec<Entity> {
    let resident = Resident::from_changes(changes);
    let page_size = page_size(window);
    let counted = task::counted_cpu(changes);
    let mappings_limit = window.the::<Limits>().and_then(|limits| limits.map_count_max.get());
    let forks = window.change::<System>().and_then(|system| system.rate(|s| s.forks));
    let is_captured = !window.origins().is_empty();
    let placements = Placements::from_window(window);
    let bound = window.newest::<Affinity>();
    tasks
        .iter()
        .zip(changes)
        .map(|(task, change)| {
            let growth = shortage::growth(change);
            let room = growth.and_then(|growth| rooms.taken_by(growth, task.cgroup.as_deref()));
            let age = if is_captured { None } else { task::age(change) };
            let p = ProcessUse {
                task,
                change,
                counted,
                page_size,
                resident,
                mappings_limit,
                growth,
                forks,
                age,
                room,
                placement: placements.process(task.key),
                bound: bound.get(&task.key).and_then(|row| row.cpus.get()),
            };
            let active = task.cpu != Some(0.0)
                || task.blocked > 0.0
                || task.short_lived.is_some()
                || task.storage.is_some_and(|b| b > 0.0)
                || p.is_near_limit();
            Entity { idle: !active, ..Entity::from_subject(subject(task), &p).within(task.cgroup.clone()) }
        })
        .collect()
}

signals! { t: TaskUse;
    "thread.name" "text" "the thread's name", "comm", "/proc/PID/task/TID/stat" => t.command.as_str();
    "thread.busy" "ratio" "share of the time in which it ran", "Δ(utime + stime) / Δt", "/proc/PID/task/TID/stat" => t.cpu;
    "thread.busy_for" "s" "time since it began, where it has used as much CPU time ever since", "now - start, if (utime + stime) / (now - start) is within a quarter of that over the window", "/proc/PID/task/TID/stat" => t.busy_for;
    "thread.system_share" "ratio" "kernel mode's share of its time", "Δstime / Δ(utime + stime)", "/proc/PID/task/TID/stat", normal "low: its own code, not the kernel" => over(t.system, t.cpu);
    "thread.run_delay" "ratio" "share of the time in which it waited for a CPU", "Δrun_delay / Δt", "/proc/PID/task/TID/schedstat", normal (near 0.02, "it does not wait for a CPU") => t.run_delay;
    "thread.blocked_share" "ratio" "share of the samples in which it was blocked: in uninterruptible sleep, or waiting for asynchronous I/O", "samples in state D, or in io_getevents or io_uring_enter / samples", "/proc/PID/task/TID/stat, syscall", normal (near 0.1 as "near 0; short sleeps in D are ordinary I/O") => t.blocked;
    "thread.stuck" "flag" "1 where it slept in one place through all samples and never ran", "state D throughout, same wchan, no time used, no switch", "/proc/PID/task/TID/stat, wchan" => t.stuck;
    "thread.wait_channel" "text" "where in the kernel it slept", "wchan", "/proc/PID/task/TID/wchan", normal "the kernel function shows what it waits for" => t.wait_channel.as_deref();
    "thread.storage_rate" "bytes/s" "bytes its process moved to and from storage", "Δ(read_bytes + write_bytes) / Δt", "/proc/PID/io" => t.storage;
    "thread.kept_waiting" "count" "mean number of others that waited for it to release a lock", "Δtime they slept until it woke them / Δt", "BPF: sched_waking" => t.kept_waiting;
    "thread.idle_class" "flag" "1 where its requests have the lowest I/O priority, by its scheduling class", "SCHED_IDLE (block/ioprio.c: task_nice_ioclass)", "/proc/PID/stat" => t.idle_class;
    "thread.background" "flag" "1 for niced, batch and idle-class threads", "nice >= 10 or SCHED_BATCH or SCHED_IDLE", "/proc/PID/task/TID/stat" => t.background;
    "thread.kernel" "flag" "1 for threads of the kernel itself", "PF_KTHREAD", "/proc/PID/stat" => t.kernel;
    "thread.polls" "flag" "1 for threads that poll network cards or disks by design", "names of Open vSwitch, DPDK, VPP and SPDK", "/proc/PID/task/TID/stat" => is_polling_thread(&t.command);
    "thread.seconds" "s" "time it was seen", "last sample - first sample", "/proc/PID/task", normal "an ordinary I/O takes milliseconds" => t.seconds;
    "thread.threads" "count" "threads of its process", "1 where it was the only one throughout", "/proc/PID/stat", normal "1 where it is the process' only thread" => t.threads;
}

/// Returns the threads that ran, were blocked, or kept others waiting.
pub fn threads(threads: &[TaskUse]) -> Vec<Entity> {
    let took_part = |t: &&TaskUse| t.cpu != Some(0.0) || t.blocked > 0.0 || t.kept_waiting.is_some();
    let entity = |t: &TaskUse| {
        let (pid, tid) = (Some(t.key.pid), Some(t.key.tid).filter(|tid| *tid != 0));
        let subject = Subject { pid, tid, ..Subject::new("thread", t.command.clone()) };
        Entity::from_subject(subject, t).within(t.cgroup.clone())
    };
    threads.iter().filter(took_part).map(entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signals::blocked::Blocked;
    use crate::signals::lock::LockUse;
    use whyslow_model::catalogue::ProcessRow;
    use whyslow_model::key::TaskKey;
    use whyslow_model::snapshot::Snapshot;
    use whyslow_model::window::Window;

    const MS: u64 = 1_000_000;

    /// Returns the signals of a process that starts at zero and reaches `end` after two seconds.
    fn over_two_seconds(end: ProcessRow) -> impl Fn(&str) -> Option<f64> {
        let zero = || 0.into();
        let start = ProcessRow {
            user: zero(),
            system: zero(),
            voluntary_switches: zero(),
            involuntary_switches: zero(),
            migrations: zero(),
            read_chars: zero(),
            write_chars: zero(),
            minor_faults: zero(),
            read_bytes: zero(),
            write_bytes: zero(),
            ..ProcessRow::new(end.task)
        };
        let snapshot = |second: u64, row: ProcessRow| {
            let mut s = Snapshot { boot_ns: second * 1000 * MS, ..Snapshot::default() };
            s.task.process.push(row.into());
            s
        };
        let window = Window::new(vec![snapshot(1, start), snapshot(3, end)]);
        let changes = window.changes::<Process>();
        let mut tasks = task::processes(&window, &changes, &Blocked::from_window(&window));
        tasks[0].lock = Some(LockUse { waiters: 3.0, blocked: 0.0 });
        let resident = Resident::from_changes(&changes);
        let (task, change) = (&tasks[0], &changes[0]);
        let process = ProcessUse {
            task,
            change,
            counted: Some(2.0),
            page_size: 4096.0,
            resident,
            mappings_limit: Some(1000.0),
            forks: None,
            growth: None,
            age: None,
            room: None,
            placement: None,
            bound: None,
        };
        let entity = Entity::from_subject(subject(&tasks[0]), &process);
        move |name| entity.number(name)
    }

    fn process() -> ProcessRow {
        ProcessRow::new(TaskKey { pid: 7, tid: 7, start: 1 })
    }

    #[test]
    fn what_lies_between_two_switches() {
        // 0.1 s of own work and 0.9 s of kernel time in 100,000 switches, each of which moved 2 bytes.
        let of = over_two_seconds(ProcessRow {
            user: (100 * MS).into(),
            system: (900 * MS).into(),
            voluntary_switches: 99_000.into(),
            involuntary_switches: 1000.into(),
            read_chars: 100_000.into(),
            write_chars: 100_000.into(),
            ..process()
        });
        let near = |name: &str, expected: f64| {
            let value = of(name).unwrap();
            assert!((value / expected - 1.0).abs() < 1e-9, "{name} {value}");
        };
        near("proc.switches", 50_000.0);
        near("proc.voluntary_switches", 49_500.0);
        near("proc.involuntary_switches", 500.0);
        near("proc.work_per_switch", 1e-6);
        near("proc.kernel_per_switch", 9e-6);
        near("proc.bytes_per_switch", 2.0);
        // Three wait while half a CPU is used: 3 / 3.5.
        near("proc.lock_share", 6.0 / 7.0);
        assert_eq!(of("proc.run_per_migration"), None, "it never moved");
    }

    #[test]
    fn memory_is_taken_by_touching_pages_and_by_moving_data() {
        let moved = |row: ProcessRow| {
            let of = over_two_seconds(ProcessRow { minor_faults: 500.into(), ..row });
            of("proc.memory_taken")
        };
        // 250 pages per second, and 3,000,000 bytes.
        let known = ProcessRow { read_bytes: 4_000_000.into(), write_bytes: 2_000_000.into(), ..process() };
        assert_eq!(moved(known), Some(4_024_000.0));
        assert_eq!(moved(process()), None, "whose I/O cannot be read");
    }

    #[test]
    fn what_moving_can_cost() {
        let moved = |times: u64| {
            over_two_seconds(ProcessRow {
                user: (1000 * MS).into(),
                system: 0.into(),
                migrations: times.into(),
                ..process()
            })
        };
        // A second of work in 2000 periods of 500 us each; filling a cache takes up to 100 us of each.
        let of = moved(2000);
        assert_eq!((of("proc.migrations"), of("proc.run_per_migration")), (Some(1000.0), Some(500e-6)));
        assert_eq!(of("proc.refill_share"), Some(0.2));
        assert_eq!(moved(50_000)("proc.refill_share"), Some(1.0), "no more than all of it");
    }
}
