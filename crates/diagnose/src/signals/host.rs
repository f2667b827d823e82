//! The machine as a whole: CPU time by mode, stalls, memory, network totals.

use super::blocked::Blocked;
use super::core::{BusiestLine, NicInterrupts, busiest_line, interface_among};
use super::frequency::{self, Clock};
use super::guest;
use super::huge_pages::{self, Pool};
use super::log::Logged;
use super::placement::Placements;
use super::ports;
use super::reclaim::Reclaim;
use super::shortage::{Room, climb};
use super::slab;
use super::task::{self, BACKGROUND_NICE, TaskUse};
use super::uninterruptible::Uninterruptible;
use super::volume;
use crate::ledger;
use crate::signal::{mean, over, page_size, ratio, share_of_true, signals, sum};
use crate::sources::Sources;
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::MemoryHolding;
use whyslow_model::catalogue::{
    Board, Cpu, CpuMean, DirectReclaim, Disk, Family, Group, Guest, GuestMemory, HiddenGroups, Interface, Link,
    LogicalPartition, MachineInfo, Meminfo, NetworkNamespaces, Observer, Pressure, Process, Protocol, RunQueue,
    Sharing, System, Thread, Transfer, Vmstat,
};
use whyslow_model::key::TaskKey;
use whyslow_model::value::{Counter, Gauge};
use whyslow_model::window::{Change, Window};
use whyslow_quantities::{Quantity, cpu, disk, pressure, protocol, system, vmstat};

/// Idle time below this is 0 % after the rounding that tools do.
const NO_IDLE_TIME: f64 = 0.005;
/// In one of this many samples, the run queue may be shorter than the number of CPUs though hardly any idle time was counted.
const UNLUCKY: usize = 10;
/// A process that uses more CPUs than this has several running threads.
const SEVERAL_CPUS: f64 = 1.2;
/// The CPUs are full if less than this share of the CPU time is idle.
const HARDLY_IDLE: f64 = 0.05;
/// From this share of niced work on, it is unknown how many of the tasks in a run queue that is only counted are niced: they get
/// less time than they wait for.
const NICED: f64 = 0.3;
/// Minimum pressure at which tasks certainly wait for a CPU.
const PRESSED: f64 = 0.3;
/// Minimum idle share for CPUs to count as idle while tasks wait.
const MUCH_IDLE: f64 = 0.2;
/// An idle CPU that is woken runs a task within this time, in seconds, also in a virtual machine.
const WAKE_UP: f64 = 0.001;

/// Inputs of the host's signals.
pub struct HostUse<'w> {
    window: &'w Window,
    cpus: usize,
    each_cpu: Vec<Change<'w, Cpu>>,
    mean_cpu: Option<Change<'w, CpuMean>>,
    system: Option<Change<'w, System>>,
    pressure: Option<Change<'w, Pressure>>,
    vmstat: Option<Change<'w, Vmstat>>,
    meminfo: Option<Change<'w, Meminfo>>,
    interfaces: Vec<Change<'w, Interface>>,
    protocols: Vec<Change<'w, Protocol>>,
    tasks: &'w [TaskUse],
    hides_processes: bool,
    hides_io: bool,
    log: Option<Logged>,
    uninterruptible: Option<Uninterruptible>,
    room: Option<&'w Room>,
    /// Share of the time in which a process waited for pages to be read.
    page_wait: Option<f64>,
    busiest: Option<BusiestLine>,
    nic_interrupts: Option<NicInterrupts>,
    clock: Option<Clock>,
    reclaim: Reclaim<'w>,
    /// The reserved huge pages of the size with the most unused memory.
    pool: Option<Pool>,
    /// The largest holder of memory of those that are seldom large.
    holder: Option<MemoryHolding>,
    /// Memory that no holder accounts for.
    unaccounted: Option<f64>,
    /// The unreclaimable object cache that grew most, and its growth rate.
    growing_cache: Option<(&'w str, f64)>,
}

impl<'w> HostUse<'w> {
    /// Creates the inputs for this window from data already computed from it: which sources were read, the processes, and the
    /// memory left.
    pub fn new(
        window: &'w Window,
        sources: &Sources,
        tasks: &'w [TaskUse],
        room: Option<&'w Room>,
        blocked: Option<&'w Blocked>,
    ) -> Self {
        let ledger = ledger::memory(window);
        Self {
            window,
            cpus: window.newest::<Cpu>().len(),
            each_cpu: window.changes(),
            mean_cpu: window.change(),
            system: window.change(),
            pressure: window.change(),
            vmstat: window.change(),
            meminfo: window.change(),
            interfaces: window.changes(),
            protocols: window.changes(),
            tasks,
            hides_processes: sources.hides_processes(),
            hides_io: sources.processes_refused().is_some() && task::hides_io(tasks),
            busiest: busiest_line(window),
            nic_interrupts: NicInterrupts::from_window(window),
            uninterruptible: Uninterruptible::from_window(window),
            clock: Clock::from_window(window),
            reclaim: Reclaim::from_window(window, sources, tasks),
            pool: Pool::largest_unused(window),
            unaccounted: ledger.as_ref().map(ledger::unaccounted),
            holder: ledger.as_ref().and_then(ledger::largest_seldom_large).cloned(),
            growing_cache: slab::fastest_growing_fixed(window),
            log: Logged::from_window(window),
            room,
            page_wait: blocked.map(Blocked::page_wait_share),
        }
    }

    /// Returns the share of the time in which a task waited for memory. Where no samples show which processes were blocked,
    /// refaults count as I/O.
    fn memory_wait(&self) -> Option<f64> {
        let waited = self.page_wait.or_else(|| self.stalled(&pressure::IO));
        [self.stalled(&pressure::MEMORY), waited].into_iter().flatten().reduce(f64::max)
    }

    /// Returns the number of CPUs that report time; the number online, where only their mean was reported.
    fn count(&self) -> Option<f64> {
        let online = || self.window.the::<MachineInfo>().and_then(|m| m.processors.get());
        if self.cpus > 0 { Some(self.cpus as f64) } else { online() }
    }

    /// Returns a share of the time of all CPUs, or of one CPU where only their mean was reported.
    fn share(&self, of_each: &Quantity<Cpu>, of_mean: &Quantity<CpuMean>) -> Option<f64> {
        of_each.over_all(&self.each_cpu).or_else(|| of_mean.over(self.mean_cpu.as_ref()))
    }

    /// Returns a time in CPUs; `None` where only the mean of an unknown number of CPUs was reported.
    fn processors(&self, of_each: &Quantity<Cpu>, of_mean: &Quantity<CpuMean>) -> Option<f64> {
        let of_all = || Some(of_mean.over(self.mean_cpu.as_ref())? * self.count()?);
        of_each.total(&self.each_cpu).or_else(of_all)
    }

    fn idle_share(&self) -> Option<f64> {
        self.share(&cpu::NOT_BUSY, &cpu::mean::NOT_BUSY)
    }

    /// Returns a quantile of the time from becoming runnable to running, over all CPUs, in seconds.
    fn run_queue_latency(&self, quantile: f64) -> Option<f64> {
        let latencies = self.window.changes::<RunQueue>();
        let all = latencies.iter().filter_map(|c| c.histogram(|r| &r.latency)).reduce(|a, b| a.merged(&b))?;
        ratio(all.quantile(quantile))
    }

    /// Returns the 99th percentile of the direct reclaim times, in seconds.
    fn reclaim_p99(&self) -> Option<f64> {
        let latencies = self.window.changes::<DirectReclaim>();
        let all = latencies.iter().filter_map(|c| c.histogram(|r| &r.reclaim_latency)).reduce(|a, b| a.merged(&b))?;
        ratio(all.quantile(0.99))
    }

    fn stalled(&self, pressure: &Quantity<Pressure>) -> Option<f64> {
        pressure.over(self.pressure.as_ref()?)
    }

    /// Returns an average that the kernel computes itself, from the newest reading.
    fn pressure_now(&self, f: impl Fn(&Pressure) -> Gauge + Copy) -> Option<f64> {
        self.pressure.as_ref()?.latest(f)
    }

    fn vm(&self, f: impl Fn(&Vmstat) -> Counter + Copy) -> Option<f64> {
        self.vmstat.as_ref()?.rate(f)
    }

    /// Converts a count of pages to bytes per second.
    fn vm_bytes(&self, f: impl Fn(&Vmstat) -> Counter + Copy) -> Option<f64> {
        self.vm(f).map(|pages| pages * page_size(self.window))
    }

    /// Returns the memory that the balloon holds: counted in pages of the machine, whatever their size in the host.
    fn balloon(&self) -> Option<f64> {
        // The last row may come from a capture of another tool.
        let rows: Vec<&Vmstat> = self.vmstat.as_ref()?.rows().collect();
        let held = |row: &&Vmstat| Some(row.balloon_inflate.get()?.saturating_sub(row.balloon_deflate.get()?));
        Some(rows.iter().rev().find_map(held)? as f64 * page_size(self.window))
    }

    fn partition(&self, f: impl Fn(&LogicalPartition) -> Option<f64>) -> Option<f64> {
        self.window.the::<LogicalPartition>().and_then(f)
    }

    /// Returns the mean over the window of the physical CPUs that the partition used.
    fn physical(&self) -> Option<f64> {
        let used: Vec<f64> = self.window.change::<LogicalPartition>()?.readings(|partition| partition.used).collect();
        (!used.is_empty()).then(|| used.iter().sum::<f64>() / used.len() as f64)
    }

    /// Returns the memory that all guests may use together: what the balloon leaves them, where that is known.
    fn guest_memory(&self) -> Option<f64> {
        self.of_guests(|guest| guest.memory_now.get().or(guest.memory.get()))
    }

    /// Returns the memory that the guests use, resident or swapped out.
    fn guest_memory_used(&self) -> Option<f64> {
        let (reported, rows) = (self.window.newest::<GuestMemory>(), self.window.newest::<Process>());
        self.of_guests(|guest| {
            let row = rows.get(&guest.task).and_then(|row| sum([row.rss.get(), row.swap.get()]));
            row.or_else(|| reported.get(&guest.task)?.resident.get())
        })
    }

    /// Returns the sum over the guests. Counts each guest once, by its name: virsh and the list of processes may both show it.
    fn of_guests(&self, value: impl Fn(&Guest) -> Option<f64>) -> Option<f64> {
        let mut of: BTreeMap<String, Option<f64>> = BTreeMap::new();
        for guest in guest::known(self.window).values() {
            let name = guest.name.get().map_or_else(|| guest.task.pid.to_string(), str::to_owned);
            let known = of.entry(name).or_default();
            *known = [*known, value(guest)].into_iter().flatten().reduce(f64::max);
        }
        let sum = of.values().copied().sum();
        if of.is_empty() { None } else { sum }
    }

    /// Returns `None` if no guest runs here.
    fn guests(&self) -> Option<BTreeMap<TaskKey, &Guest>> {
        Some(self.window.newest::<Guest>()).filter(|guests| !guests.is_empty())
    }

    fn guest_share(&self) -> Option<f64> {
        let guests = self.guests()?;
        let used = self.tasks.iter().filter(|task| guests.contains_key(&task.key)).filter_map(|task| task.cpu);
        over(
            Some(used.sum()),
            cpu::BUSY_TIME.total(&self.each_cpu).or_else(|| cpu::mean::BUSY_TIME.over(self.mean_cpu.as_ref())),
        )
    }

    fn memory(&self, f: impl Fn(&Meminfo) -> Gauge + Copy) -> Option<f64> {
        // The newest reading that has the value: captures of one machine have different parts.
        self.meminfo.as_ref()?.readings(f).last()
    }

    fn of_memory(&self, f: impl Fn(&Meminfo) -> Gauge + Copy) -> Option<f64> {
        over(self.memory(f), self.memory(|m| m.mem_total))
    }

    /// Returns the memory that is available without swapping: kernels before 3.14 do not estimate it.
    fn available(&self) -> Option<f64> {
        let estimate = || {
            let cache = self.memory(|m| m.cached)? - self.memory(|m| m.shmem)?;
            let other = sum([self.memory(|m| m.buffers), self.memory(|m| m.s_reclaimable)]).unwrap_or(0.0);
            Some((self.memory(|m| m.mem_free)? + cache + other).max(0.0))
        };
        self.memory(|m| m.mem_available).or_else(estimate)
    }

    /// Returns `None` for a window since boot, for which a single sample is not representative.
    fn has_samples(&self) -> Option<()> {
        (!self.window.is_since_boot()).then_some(())
    }

    /// Returns the share of the samples in which a task waited for a block request, for kernels without PSI; or the kernel's own
    /// average of the minute before, which covers more than a few samples.
    fn blocked_lately(&self) -> Option<f64> {
        self.has_samples()?;
        let blocked: Vec<f64> = self.system.as_ref()?.readings(|s| s.blocked).collect();
        let measured = self.pressure_now(|p| p.io_avg60).filter(|_| !blocked.is_empty());
        // One sample is not a share of the time.
        measured.or_else(|| share_of_true(blocked.iter().map(|blocked| *blocked > 0.0)).filter(|_| blocked.len() > 1))
    }

    /// Returns the seconds of run-queue waiting per second, summed over the tasks that `pick` selects; `None` if some tasks are
    /// not visible.
    fn waiting(&self, pick: impl Fn(&TaskUse) -> bool) -> Option<f64> {
        if self.hides_processes {
            return None;
        }
        self.tasks.iter().filter(|t| pick(t)).filter_map(|t| t.run_delay).reduce(|a, b| a + b)
    }

    /// Returns the number of tasks that waited on a run queue: all, or only those neither niced nor batch. What other tools
    /// print for a process can be the run delay of its first thread only (pidstat), so that captures also use the run queue.
    fn waits(&self, background: bool) -> Option<f64> {
        let seen = self.waiting(|task| background || !task.background);
        if self.window.origins().is_empty() {
            return seen;
        }
        let Some(queued) = self.queued() else { return seen };
        // A list of processes does not show which threads wait; the pressure counts them.
        if queued == 0.0 && seen.is_none_or(|seen| seen == 0.0) && self.pressure_now(|p| p.cpu_avg60) > Some(PRESSED) {
            return None;
        }
        // A count of running processes also misses the threads of a process that uses several CPUs.
        let has_threads = || self.tasks.iter().any(|task| task.cpu > Some(SEVERAL_CPUS));
        if queued == 0.0 && self.idle_share() < Some(HARDLY_IDLE) && has_threads() {
            return None;
        }
        let unseen = (queued - self.waiting(|_| true).unwrap_or(0.0)).max(0.0);
        let share = if background || unseen == 0.0 { 1.0 } else { self.ordinary_share()? };
        Some(seen.unwrap_or(0.0) + unseen * share)
    }

    /// Returns the ordinary tasks that waited while CPUs were idle, because a quota or a CPU set keeps them off these. A program
    /// that sleeps and wakes thousands of times per second waits as often for an idle CPU to wake up; that does not count.
    fn kept_waiting(&self) -> Option<f64> {
        let waiting = self.waits(false)?;
        let switches = self.system.as_ref()?.rate(|s| s.context_switches)?;
        let is_kept = self.idle_share()? > MUCH_IDLE && waiting > WAKE_UP * switches;
        Some(if is_kept { waiting } else { 0.0 })
    }

    /// Returns the share of the run queue that is neither niced nor batch, from the tasks that a list shows runnable. Without
    /// such a list, estimates it from their CPU time; `None` if much of that is niced.
    fn ordinary_share(&self) -> Option<f64> {
        let listed = self.window.newest::<Process>();
        let runnable = listed.values().filter(|p| p.state.get() == Some("R") && p.nice.get().is_some());
        let ordinary = runnable.map(|p| p.nice.get().is_some_and(|nice| nice < BACKGROUND_NICE));
        let niced =
            over(self.share(&cpu::NICED, &cpu::mean::NICED), self.share(&cpu::BUSY, &cpu::mean::BUSY)).unwrap_or(0.0);
        share_of_true(ordinary).or_else(|| (niced < NICED).then_some(1.0 - niced))
    }

    /// Returns the runnable tasks beyond the number of CPUs, as the mean of the samples.
    fn queued(&self) -> Option<f64> {
        self.has_samples()?;
        let processors = self.count()?;
        mean(self.system.as_ref()?.readings(|s| s.running).map(|running| (running - processors).max(0.0)))
    }

    /// Returns the runnable tasks of the samples in which the CPUs had no idle time at all. Only for captures that do not show
    /// the number of CPUs.
    fn full_samples(&self) -> Option<Vec<f64>> {
        let unknown = self.count().is_none();
        let mean = self.window.change::<CpuMean>().filter(|_| unknown)?;
        let idle = mean.steps(|c| c.idle).zip(mean.steps(|c| c.iowait)).map(|((dt, idle), (_, waiting))| {
            let ns = idle? + waiting.unwrap_or(0.0);
            Some(ns / 1e9 / dt)
        });
        let runnable = self.system.as_ref()?.readings(|s| s.running);
        let full = idle.zip(runnable).filter(|(idle, _)| idle.is_some_and(|share| share < NO_IDLE_TIME));
        Some(full.map(|(_, runnable)| runnable).collect())
    }

    /// Returns an upper bound of the number of CPUs, where it is not reported: no more than tasks were runnable while no CPU was
    /// idle. Idle time is rounded and covers the whole interval, while the run queue is of an instant, so that in a few samples
    /// fewer tasks than CPUs can have been runnable: the lowest tenth is left out.
    fn count_at_most(&self) -> Option<f64> {
        let mut full = self.full_samples()?;
        full.sort_by(f64::total_cmp);
        full.get(full.len() / UNLUCKY).map(|count| count.max(1.0))
    }

    /// Returns a lower bound of the tasks that waited for a CPU, as the mean of the samples, if the number of CPUs is unknown.
    fn waiting_at_least(&self) -> Option<f64> {
        let processors = self.count_at_most()?;
        let waiting = self.full_samples()?.iter().map(|runnable| (runnable - processors).max(0.0)).sum();
        over(Some(waiting), self.samples())
    }

    /// Returns the share of the samples in which tasks certainly waited for a CPU.
    fn waiting_share(&self) -> Option<f64> {
        let processors = self.count_at_most()?;
        let waited = self.full_samples()?.iter().filter(|runnable| **runnable > processors).count();
        over(Some(waited as f64), self.samples())
    }

    /// Returns the number of samples that counted runnable tasks.
    fn samples(&self) -> Option<f64> {
        Some(self.system.as_ref()?.readings(|s| s.running).count() as f64)
    }

    /// Returns the CPU time, in CPUs, that is attributed: to processes that were seen, and to the parents of those that started
    /// and exited between two samples.
    fn attributed(&self) -> Option<f64> {
        let seconds = task::counted_cpu(&self.window.changes::<Process>());
        // A tool may list a process without the time of its threads, and also list the threads.
        let mut of_threads: BTreeMap<u32, f64> = BTreeMap::new();
        for thread in self.window.changes::<Thread>() {
            if let Some(cpu) = ratio(thread.rate(|t| t.cpu_time)) {
                *of_threads.entry(thread.key().pid).or_default() += cpu;
            }
        }
        let one = |t: &TaskUse| {
            let listed = of_threads.get(&t.key.pid).copied();
            let own = [over(t.cpu_seconds, seconds), listed].into_iter().flatten().reduce(f64::max);
            sum([own, t.short_lived.as_ref().map(|u| u.cpu)])
        };
        self.tasks.iter().filter_map(one).reduce(|a, b| a + b)
    }

    /// Returns the CPU time used by processes, in CPUs, without interrupts, which belong to no process.
    fn used_by_processes(&self) -> Option<f64> {
        self.processors(&cpu::TASK_TIME, &cpu::mean::TASK_TIME)
    }

    fn protocol(&self, f: impl Fn(&Protocol) -> Counter + Copy) -> Option<f64> {
        self.protocols.iter().filter_map(|p| p.rate(f)).reduce(|a, b| a + b)
    }

    /// Returns 0 if nothing was sent: nothing was lost then.
    fn retransmit_share(&self) -> Option<f64> {
        let is_idle =
            || self.protocol(|p| p.tcp_out_segs) == Some(0.0) && self.protocol(|p| p.tcp_retrans_segs) == Some(0.0);
        protocol::RETRANSMIT_SHARE.over_all(&self.protocols).or_else(|| is_idle().then_some(0.0))
    }

    /// Returns the segments that the peers reported to have received twice.
    fn duplicates(&self) -> Option<f64> {
        self.counted(|p| p.tcp_ext_tcp_dsack_recv_segs).or_else(|| self.counted(|p| p.tcp_ext_tcp_dsack_recv))
    }

    fn timeouts(&self) -> Option<f64> {
        let needless = self.protocol(|p| p.tcp_ext_tcp_spurious_rtos).unwrap_or(0.0);
        self.protocol(|p| p.tcp_ext_tcp_timeouts).map(|all| (all - needless).max(0.0))
    }

    fn counted(&self, f: impl Fn(&Protocol) -> Counter + Copy) -> Option<f64> {
        self.protocols.iter().filter_map(|p| p.grown(f)).reduce(|a, b| a + b)
    }

    /// Returns the failures as a share of failures and successes.
    fn failed_share(
        &self,
        failed: impl Fn(&Protocol) -> Counter + Copy,
        well: impl Fn(&Protocol) -> Counter + Copy,
    ) -> Option<f64> {
        let failed = self.counted(failed)?;
        over(Some(failed), Some(failed + self.counted(well)?))
    }

    fn interfaces(&self, f: impl Fn(&Interface) -> Counter + Copy) -> Option<f64> {
        self.interfaces.iter().filter_map(|i| i.rate(f)).reduce(|a, b| a + b)
    }

    /// Returns the interrupts' share of the time in the sample where it is largest.
    fn most_interrupt(&self) -> Option<f64> {
        let mean = self.window.change::<CpuMean>()?;
        let shares = mean.steps(|c| c.irq).zip(mean.steps(|c| c.softirq));
        shares.filter_map(|((dt, hard), (_, soft))| Some((hard? + soft?) / 1e9 / dt)).reduce(f64::max)
    }

    /// Returns the range of the samples' idle shares; leaves out samples of a machine at rest.
    fn idle_spread(&self) -> Option<f64> {
        let mean = self.window.change::<CpuMean>()?;
        let idle = mean.steps(|c| c.idle).filter_map(|(dt, idle)| Some(idle? / 1e9 / dt)).filter(|i| *i < 0.9);
        let idle: Vec<f64> = idle.collect();
        let most = idle.iter().copied().reduce(f64::max)?;
        (idle.len() >= 5).then(|| most - idle.iter().copied().fold(most, f64::min))
    }

    /// Returns the share of the samples in which a task was runnable.
    fn runnable_share(&self) -> Option<f64> {
        self.has_samples()?;
        let running: Vec<f64> = self.system.as_ref()?.readings(|s| s.running).collect();
        // One sample is not a share of the time.
        share_of_true(running.iter().map(|running| *running > 0.0)).filter(|_| running.len() > 1)
    }

    fn fixed_slab(&self) -> Option<f64> {
        self.memory(|m| m.s_unreclaim).or_else(|| slab::all_fixed(self.window))
    }

    fn file_caches(&self) -> Option<f64> {
        self.memory(|m| m.s_reclaimable).or_else(|| slab::of_files(self.window).map(|(bytes, _)| bytes))
    }

    /// Returns the growth of the unreclaimable slab objects, in bytes per second; 0 unless they keep growing.
    fn slab_growth(&self) -> Option<f64> {
        climb(&self.meminfo.as_ref()?.course(|m| m.s_unreclaim.get()).collect::<Vec<_>>())
    }

    /// Returns the time until they have used up all memory, if they are most of what uses it up.
    fn slab_exhausts_in(&self) -> Option<f64> {
        let (room, growth) = (self.room?, self.slab_growth()?);
        room.is_taken_by(growth).then(|| room.exhausted_in())?
    }

    fn grown(&self, f: impl Fn(&Vmstat) -> Counter + Copy) -> Option<f64> {
        self.vmstat.as_ref()?.grown(f)
    }

    fn oom_in_group(&self) -> bool {
        let counted = || self.window.changes::<Group>().iter().any(|g| g.grown(|g| g.oom_kills) > Some(0.0));
        self.log.is_some_and(|log| log.group_kills > 0.0) || counted()
    }

    /// Returns the level of dirty memory at which writers are throttled.
    fn dirty_limit(&self) -> Option<f64> {
        Some(self.vmstat.as_ref()?.last().nr_dirty_threshold.get()? * page_size(self.window))
    }

    /// Returns the share of the time in which requests were in flight, of the device that was waited for most.
    fn most_waited(&self) -> Option<f64> {
        let disks = self.window.changes::<Disk>();
        let waited = |c: &Change<'_, Disk>| Some(disk::QUEUE.over(c)?.min(disk::BUSY.over(c)?));
        let checked = volume::checked(self.window);
        disks.iter().filter(|disk| !checked.contains(disk.key())).filter_map(waited).reduce(f64::max)
    }

    /// Returns the largest block of a measured transfer.
    fn largest_block(&self) -> Option<f64> {
        self.window.newest::<Transfer>().values().filter_map(|t| t.block.get()).reduce(f64::max)
    }

    /// Returns true if the firmware of the board set a bit in any reading: the bit comes and goes with the load.
    fn board(&self, bit: impl Fn(&Board) -> Gauge) -> Option<bool> {
        let readings = self.window.snapshots().iter().filter_map(|s| bit(s.the::<Board>()?).get());
        readings.reduce(f64::max).map(|most| most == 1.0)
    }

    /// Returns the number of CPUs that were idle all the time, with I/O outstanding.
    fn waiting_cores(&self) -> Option<f64> {
        const ALL: f64 = 0.95;
        let waits = self.window.changes::<Cpu>().into_iter().filter_map(|cpu| ratio(cpu.rate(|c| c.iowait)));
        let waits: Vec<f64> = waits.collect();
        (!waits.is_empty()).then(|| waits.iter().filter(|share| **share > ALL).count() as f64)
    }

    fn busiest_interface(&self) -> Option<&str> {
        interface_among(self.window, self.busiest.as_ref()?.devices.as_deref()?)
    }

    /// Returns the receive coalescing of the card with the busiest interrupt line; another card's would not be evidence.
    fn coalesce(&self) -> Option<f64> {
        let name = self.busiest_interface()?;
        let links = self.window.newest::<Link>();
        let (_, link) = links.iter().find(|(key, _)| key.ns.is_empty() && &*key.name == name)?;
        link.coalesce_rx.get()
    }

    fn own_cpu(&self) -> Option<f64> {
        ratio(self.window.change::<Observer>()?.rate(|o| o.cpu_time))
    }

    fn state<F: Family>(&self, f: impl Fn(&'w F) -> Option<&'w str>) -> Option<&'w str> {
        f(self.window.the::<F>()?)
    }
}

signals! { h: HostUse<'_>;
    quantities of h.system.as_ref() => system::SWITCHES, system::FORKS;
    quantities of h.vmstat.as_ref() => vmstat::MAJOR_FAULTS, vmstat::DIRECT_SCAN;
    as cpu::mean::BUSY => h.share(&cpu::BUSY, &cpu::mean::BUSY);
    as cpu::mean::USER => h.share(&cpu::USER, &cpu::mean::USER);
    as cpu::mean::NICED => h.share(&cpu::NICED, &cpu::mean::NICED);
    as cpu::mean::SYSTEM => h.share(&cpu::SYSTEM, &cpu::mean::SYSTEM);
    as cpu::mean::INTERRUPT => h.share(&cpu::INTERRUPT, &cpu::mean::INTERRUPT);
    as cpu::mean::STEAL => h.share(&cpu::STEAL, &cpu::mean::STEAL);
    as cpu::mean::IOWAIT => h.share(&cpu::IOWAIT, &cpu::mean::IOWAIT);
    as cpu::mean::NOT_BUSY => h.share(&cpu::NOT_BUSY, &cpu::mean::NOT_BUSY);
    as protocol::SEGMENTS => protocol::SEGMENTS.total(&h.protocols);
    as protocol::RETRANSMIT_SHARE => h.retransmit_share();
    as protocol::FAST_RETRANSMITS => protocol::FAST_RETRANSMITS.total(&h.protocols);
    as protocol::REVERSE_PATH_DROPS => protocol::REVERSE_PATH_DROPS.total(&h.protocols);
    as protocol::CONNECTS => protocol::CONNECTS.total(&h.protocols);
    as protocol::LISTEN_OVERFLOWS => protocol::LISTEN_OVERFLOWS.total(&h.protocols);
    as protocol::UDP_DROPS => protocol::UDP_DROPS.total(&h.protocols);
    "cpu.count" "count" "CPUs online", "CPUs that report time", "/proc/stat" => h.count();
    "cpu.entitled" "count" "physical CPUs that this partition may always use", "ent, partition_entitled_capacity / 100", "lparstat, /proc/ppc64/lparcfg" => h.partition(|p| p.entitled.get());
    "cpu.entitlement_capped" "flag" "1 if it never gets more, 0 if it may use what others leave", "mode, capped", "lparstat, /proc/ppc64/lparcfg", normal "0: what others leave can be used, too" => h.partition(|p| p.capped.get());
    "cpu.virtual" "count" "virtual CPUs of this partition; each gets at most one physical CPU", "lcpu, partition_active_processors", "lparstat, /proc/ppc64/lparcfg" => h.partition(|p| p.processors.get());
    "cpu.physical" "count" "physical CPUs that this partition used", "physc", "lparstat", normal "as many as it has work for" => h.physical();
    "cpu.idle_processors" "count" "CPUs' worth of idle time", "Δ(idle + iowait) / Δt", "/proc/stat", normal "idle CPUs do not help one thread" => h.processors(&cpu::IDLE_TIME, &cpu::mean::IDLE_TIME);
    "cpu.system_processors" "count" "CPUs' worth of kernel time", "Δsystem / Δt", "/proc/stat" => h.processors(&cpu::SYSTEM_TIME, &cpu::mean::SYSTEM_TIME);
    "cpu.waiting" "count" "mean number of tasks that waited on a run queue", "ΣΔrun_delay / Δt", "/proc/PID/schedstat (sched-stats.rst)", normal (below 1.0, "tasks waiting on run queues"), better lower, baseline true => h.waits(true);
    "cpu.waiting_normal" "count" "the same for tasks not niced or batch", "ΣΔrun_delay of tasks with nice < 10 / Δt", "/proc/PID/schedstat" => h.waits(false);
    "cpu.kept_waiting" "count" "the same while CPUs were idle, if each wait took longer than waking up an idle CPU; else 0", "cpu.waiting_normal, if cpu.idle > 0.2 and cpu.waiting_normal / cpu.switches > 1 ms", "/proc/PID/schedstat, /proc/stat" => h.kept_waiting();
    "cpu.hidden_groups" "count" "control groups of version 1 whose use of the CPUs is not seen, as their hierarchy is not mounted here", "cgroups of /proc/cgroups - 1, without a mount", "/proc/cgroups" => h.window.the::<HiddenGroups>().and_then(|groups| groups.cpu.get());
    "cpu.count_at_most" "count" "the most CPUs there can be, where their number is not known", "10th percentile of procs_running while no CPU was idle", "/proc/stat" => h.count_at_most();
    "cpu.waiting_at_least" "count" "the fewest tasks that can have waited on a run queue, where the number of CPUs is not known", "mean of procs_running beyond cpu.count_at_most while no CPU was idle", "/proc/stat", normal (near 0.0) => h.waiting_at_least();
    "cpu.waiting_share" "ratio" "share of the samples in which any of them did", "samples with procs_running above cpu.count_at_most while no CPU was idle", "/proc/stat" => h.waiting_share();
    "cpu.runnable" "count" "runnable tasks, mean of the samples", "mean(procs_running)", "/proc/stat", normal "no more than CPUs" => h.system.as_ref().and_then(|s| s.mean(|s| s.running));
    "task.uninterruptible" "count" "tasks in uninterruptible sleep at the end", "rows in state D", "/proc/PID/stat", normal (below 3.0) => h.uninterruptible.as_ref().map(|tasks| tasks.count as f64);
    "task.uninterruptible_names" "text" "the most frequent of them", "comm", "/proc/PID/stat" => h.uninterruptible.as_ref().map(|tasks| tasks.names.as_str()).filter(|names| !names.is_empty());
    "task.uninterruptible_in" "text" "functions of the kernel in which they wait", "wchan", "/proc/PID/wchan" => h.uninterruptible.as_ref().map(|tasks| tasks.functions.as_str()).filter(|functions| !functions.is_empty());
    "cpu.load_1m" "count" "load average; counts uninterruptible tasks too", "as the kernel gives it", "/proc/loadavg" => h.system.as_ref().and_then(|s| s.last().load_1m.get());
    "cpu.guest_cpus" "count" "virtual CPUs of the guests that run on this machine", "Σ of -smp", "/proc/PID/cmdline" => h.guests().map(|guests| guests.values().filter_map(|guest| guest.cpus.get()).sum::<f64>());
    "cpu.guest_share" "ratio" "share of the CPU time used that guests used", "ΣΔ(utime + stime) of their processes / Δ of all CPUs", "/proc/PID/stat, /proc/PID/cmdline, /proc/stat" => h.guest_share();
    "cpu.attributed" "ratio" "share of the CPU time used, interrupts excluded, that is attributed to processes", "(ΣΔcpu of processes + Σcpu of those that ended unseen) / Δ(user + nice + system)", "/proc/PID/stat, /proc/stat" => over(h.attributed(), h.used_by_processes());
    "cpu.run_queue_median" "s" "time from becoming runnable to running, as the median of all CPUs", "50th percentile of the histograms together", "BPF: sched_waking, sched_switch", normal "microseconds", better lower, baseline true => h.run_queue_latency(0.5);
    "cpu.run_queue_p99" "s" "the same of the unluckiest hundredth", "99th percentile of the histograms together", "BPF: sched_waking, sched_switch", normal "below a millisecond", better lower, baseline true => h.run_queue_latency(0.99);
    "cpu.clock" "Hz" "frequency of the CPUs while they are busy", "Σ(busy share x Bzy_MHz) / Σbusy share", "turbostat", normal "the base frequency or more" => h.clock.as_ref().and_then(Clock::hertz);
    "cpu.clock_share" "ratio" "the same against their base frequency", "Σ(busy share x Bzy_MHz) / Σ(busy share x TSC_MHz)", "turbostat", normal "100 % or more: turbo" => h.clock.as_ref().and_then(Clock::of_base);
    "cpu.clock_busy" "ratio" "how busy these CPUs are", "mean of Busy%", "turbostat", normal "on an idle CPU, a low frequency saves power and costs nothing" => h.clock.as_ref().map(Clock::busy);
    "cpu.temperature" "count" "the hottest sensor, in degrees Celsius", "max of the thermal zones", "/sys/class/thermal, turbostat", normal (below 80.0, "near 100 the CPU throttles itself") => frequency::hottest(h.window);
    "cpu.heat_throttles" "count" "times heat throttled a CPU since boot, of the CPU with most, if that was read once", "max of core_throttle_count and package_throttle_count", "/sys/devices/system/cpu/cpu*/thermal_throttle", normal (near 0.0) => frequency::heat_throttles(h.window);
    "cpu.heat_throttle_rate" "1/s" "times heat throttles a CPU, of the CPU with most", "max of Δcore_throttle_count and Δpackage_throttle_count / Δt", "/sys/devices/system/cpu/cpu*/thermal_throttle", normal (near 0.0) => frequency::heat_throttle_rate(h.window);
    "cpu.policy_limit" "Hz" "the highest frequency that the policy allows, of the CPU that it limits most", "scaling_max_freq", "/sys/devices/system/cpu/cpu*/cpufreq" => frequency::policy(h.window).map(|(limit, _)| limit);
    "cpu.hardware_limit" "Hz" "the highest frequency that this CPU has", "cpuinfo_max_freq", "/sys/devices/system/cpu/cpu*/cpufreq" => frequency::hardware_limit(h.window);
    "cpu.governor" "text" "the frequency governor", "scaling_governor of the first CPU", "/sys/devices/system/cpu/cpu*/cpufreq" => frequency::governor(h.window);
    "cpu.fastest_share" "ratio" "frequency against the highest that the hardware has, of the CPU that is nearest to it", "max(scaling_cur_freq / cpuinfo_max_freq)", "/sys/devices/system/cpu/cpu*/cpufreq" => frequency::fastest_share(h.window);
    "cpu.policy_share" "ratio" "the former against the latter", "scaling_max_freq / cpuinfo_max_freq", "/sys/devices/system/cpu/cpu*/cpufreq", normal "100 %: the policy allows what the hardware can do" => frequency::policy(h.window).map(|(limit, most)| limit / most);
    "cpu.clock_limit" "Hz" "the highest frequency that CPUs can be set to", "scaling_max_freq, else cpuinfo_max_freq", "/sys/devices/system/cpu/cpu*/cpufreq, lscpu", normal "the same in all readings" => frequency::policy(h.window).map(|(limit, _)| limit).or_else(|| frequency::hardware_limit(h.window));
    "cpu.clock_limit_elsewhere" "Hz" "the same in another reading of this machine, the highest one", "max of cpu.clock_limit over the readings", "/sys/devices/system/cpu/cpu*/cpufreq, lscpu", normal "the same" => frequency::limit_elsewhere(h.window);
    "cpu.slowest_share" "ratio" "frequency of a CPU against the lowest one that it has, of the CPU for which that is least", "scaling_cur_freq / cpuinfo_min_freq", "/sys/devices/system/cpu/cpu*/cpufreq", normal "at least 100 %: at rest, too" => frequency::slowest_share(h.window);
    "cpu.cores_seen" "count" "CPUs whose own time was reported", "rows", "/proc/stat" => h.cpus as f64;
    "cpu.waiting_cores" "count" "CPUs that did nothing but wait for I/O", "CPUs with Δiowait / Δt > 0.95", "/proc/stat" => h.waiting_cores();
    "board.under_voltage" "flag" "1 where the supply voltage is too low", "bit 0 of throttled", "vcgencmd get_throttled", normal (near 0.0 as "0") => h.board(|b| b.under_voltage);
    "board.capped" "flag" "1 where the clock frequency is capped", "bit 1 of throttled", "vcgencmd get_throttled", normal (near 0.0 as "0") => h.board(|b| b.capped);
    "board.throttled" "flag" "1 where the CPU is throttled", "bit 2 of throttled", "vcgencmd get_throttled", normal (near 0.0 as "0") => h.board(|b| b.throttled);
    "board.soft_limit" "flag" "1 where the soft limit of the temperature is in force", "bit 3 of throttled", "vcgencmd get_throttled", normal (near 0.0 as "0") => h.board(|b| b.soft_limit);
    "board.had_under_voltage" "flag" "1 where the supply voltage was too low at some time since boot", "bit 16 of throttled", "vcgencmd get_throttled", normal (near 0.0 as "0") => h.board(|b| b.had_under_voltage);
    "board.had_throttling" "flag" "1 where the frequency was capped or the CPU throttled at some time since boot", "bits 17 and 18 of throttled", "vcgencmd get_throttled", normal (near 0.0 as "0") => h.board(|b| b.had_throttling);
    "cpu.model" "text" "the model of the CPUs", "model name", "/proc/cpuinfo, lscpu", normal "the same CPU" => h.state::<MachineInfo>(|m| m.processor.get());
    "stall.cpu" "ratio" "share of time in which a task waited for a CPU", "Δcpu some total / Δt; of a single copy avg60, unless tasks were seen waiting; without PSI the mean of tasks waiting, at most 1", "/proc/pressure/cpu (psi.rst)", normal (below 0.1), better lower, baseline true => h.stalled(&pressure::CPU).or_else(|| h.waits(true).map(|w| w.min(1.0))).or_else(|| h.pressure_now(|p| p.cpu_avg60));
    "stall.io" "ratio" "share of time in which a task waited for I/O", "Δio some total / Δt; of a single copy beside other captures, avg60; without PSI the share of samples with procs_blocked > 0", "/proc/pressure/io (psi.rst), /proc/stat", normal (below 0.1), better lower, baseline true => h.stalled(&pressure::IO).or_else(|| h.blocked_lately());
    "stall.cpu_minute" "ratio" "share of the last minute in which a task waited for a CPU", "cpu some avg60", "/proc/pressure/cpu (psi.rst)", normal (below 0.05) => h.pressure_now(|p| p.cpu_avg60);
    "stall.memory_minute" "ratio" "the same for memory", "memory some avg60", "/proc/pressure/memory (psi.rst)", normal (below 0.05) => h.pressure_now(|p| p.memory_avg60);
    "stall.io_minute" "ratio" "the same for I/O", "io some avg60", "/proc/pressure/io (psi.rst)", normal (below 0.05) => h.pressure_now(|p| p.io_avg60);
    "stall.io_hidden" "flag" "1 where the I/O of other users' processes cannot be read: whether they wait for asynchronous I/O, which is no part of the pressure, is then unknown", "a process at work whose I/O was refused", "/proc/PID/io, /proc/PID/task/TID/syscall", normal "no: then the waiting of all processes is seen" => h.hides_io;
    "stall.io_full" "ratio" "share of time in which all tasks waited for I/O", "Δio full total / Δt", "/proc/pressure/io", better lower, baseline true => h.stalled(&pressure::IO_FULL);
    "stall.memory" "ratio" "share of time in which a task waited for memory", "Δmemory some total / Δt", "/proc/pressure/memory", normal (below 0.01), better lower, baseline true => h.stalled(&pressure::MEMORY);
    "stall.memory_full" "ratio" "share of time in which all tasks waited for memory", "Δmemory full total / Δt", "/proc/pressure/memory", better lower, baseline true => h.stalled(&pressure::MEMORY_FULL);
    "mem.total" "bytes" "usable memory", "MemTotal; used + free if it is not reported", "/proc/meminfo" => h.memory(|m| m.mem_total);
    "mem.available" "bytes" "memory available without swapping", "MemAvailable; without it MemFree + Cached + Buffers - Shmem + SReclaimable, which is more", "/proc/meminfo", normal "above 10 % of memory", better higher, baseline true => h.available();
    "mem.available_share" "ratio" "the same as a share of memory", "available / MemTotal", "/proc/meminfo", normal (above 0.1) => over(h.available(), h.memory(|m| m.mem_total));
    "mem.cached" "bytes" "page cache", "Cached", "/proc/meminfo", normal "page cache, which is no shortage of memory", baseline true => h.memory(|m| m.cached);
    "mem.cached_share" "ratio" "share of memory that is page cache", "Cached / MemTotal", "/proc/meminfo", normal "what memory leaves for cache" => h.of_memory(|m| m.cached);
    "mem.swap_total" "bytes" "total swap space", "SwapTotal", "/proc/meminfo", normal "none: no program is swapped out" => h.memory(|m| m.swap_total);
    "mem.file_cache_share" "ratio" "share of memory that is page cache of files, shared memory not included", "(Cached - Shmem) / MemTotal", "/proc/meminfo" => h.memory(|m| m.cached).zip(h.memory(|m| m.shmem)).zip(h.memory(|m| m.mem_total)).map(|((cached, shared), total)| (cached - shared).max(0.0) / total);
    "mem.swap_used" "bytes" "swap in use", "SwapTotal - SwapFree", "/proc/meminfo", baseline true => h.memory(|m| m.swap_total).zip(h.memory(|m| m.swap_free)).map(|(t, f)| t - f);
    "mem.swap_in_rate" "bytes/s" "memory swapped in", "Δpswpin x page size / Δt", "/proc/vmstat", normal (near 65536.0), better lower, baseline true => h.vm_bytes(|v| v.pswpin);
    "mem.swap_out_rate" "bytes/s" "memory swapped out", "Δpswpout x page size / Δt", "/proc/vmstat", normal (near 65536.0), better lower, baseline true => h.vm_bytes(|v| v.pswpout);
    "mem.wait" "ratio" "share of the time in which a task waited for memory: for reclaim, or for pages to be read, which work on other CPUs does not dilute", "max of Δmemory some total / Δt and the share of the time in which a thread was blocked in mm/filemap.c", "/proc/pressure/memory, /proc/PID/task/TID/wchan", normal (below 0.01) => h.memory_wait();
    "mem.waited" "ratio" "share of the time in which a program waited for memory: without what the kernel reclaims in the background", "Δmemory some total / Δt, less the share of kswapd and kcompactd, but at least that of the program that reclaimed or compacted most itself; without BPF Δmemory some total / Δt", "BPF: mm_vmscan_direct_reclaim_begin, mm_vmscan_memcg_reclaim_begin, mm_compaction_begin; /proc/pressure/memory" => h.stalled(&pressure::MEMORY).map(|pressure| h.reclaim.programs_wait(pressure));
    "mem.background_reclaim" "ratio" "share of the time in which the kernel reclaimed or compacted memory in the background", "Δ(CPU time + run delay + time blocked) of kswapd, kcompactd, and arc_evict of ZFS / Δt, at most 1", "/proc/PID/stat, /proc/PID/schedstat", normal (below 1.0, "kswapd keeps up") => h.reclaim.background();
    "mem.reclaim_wait" "ratio" "share of the time in which a program reclaimed memory of the machine before it got some, of the program with most", "max of Δtime in direct reclaim for at most eight pages / Δt, at most 1; 0 if allocstall did not grow", "BPF: mm_vmscan_direct_reclaim_begin", normal (near 0.0, "kswapd reclaims before programs have to") => h.reclaim.reclaimed().lost();
    "mem.reclaim_victim" "text" "that program", "comm", "BPF: mm_vmscan_direct_reclaim_begin", normal "none" => h.reclaim.reclaimed().program();
    "mem.reclaim_p99" "s" "how long the longest hundredth of these reclaims took, over all programs", "99th percentile of the histograms together", "BPF: mm_vmscan_direct_reclaim_begin", normal "an allocation takes microseconds" => h.reclaim_p99();
    "mem.reclaim_estimate" "ratio" "share of the time in which programs reclaimed memory before they got some, as estimated from what they scanned", "CPU time of kswapd x Δpgscan_direct / Δpgscan_kswapd / Δt, at most 1", "/proc/vmstat, /proc/PID/stat", normal (near 0.0, "kswapd reclaims before programs have to") => h.reclaim.estimate();
    "mem.direct_share" "ratio" "share of the reclaimed pages that programs reclaimed themselves", "Δpgsteal_direct / Δ(pgsteal_direct + pgsteal_kswapd)", "/proc/vmstat", normal (near 0.02) => h.reclaim.direct_share();
    "mem.reclaim_rate" "bytes/s" "memory reclaimed", "Δ(pgsteal_direct + pgsteal_kswapd) x page size / Δt", "/proc/vmstat", normal "as much as is taken from then on" => h.reclaim.rate();
    "mem.compaction_wait" "ratio" "share of the time in which a program compacted memory before it got a block of contiguous pages, of the program with most", "max of Δtime in direct compaction, and in direct reclaim for more than eight pages / Δt, at most 1; 0 if neither compact_stall nor allocstall grew", "BPF: mm_compaction_begin, mm_vmscan_direct_reclaim_begin" => h.reclaim.compacted().lost();
    "mem.compact_stalls" "1/s" "times a program compacted memory before it got a block of contiguous pages", "Δcompact_stall / Δt", "/proc/vmstat", normal (near 0.0) => h.vm(|v| v.compact_stall);
    "mem.compact_failed" "ratio" "share of them that made no such block", "Δcompact_fail / Δcompact_stall", "/proc/vmstat" => over(h.grown(|v| v.compact_fail), h.grown(|v| v.compact_stall));
    "mem.huge_faults" "1/s" "page faults that asked for a huge page", "Δ(thp_fault_alloc + thp_fault_fallback) / Δt", "/proc/vmstat", normal "0/s if other large blocks are wanted" => h.vm(|v| v.thp_fault_alloc).zip(h.vm(|v| v.thp_fault_fallback)).map(|(given, denied)| given + denied);
    "mem.thp_defrag" "text" "which page faults compact memory to get a huge page", "as the kernel gives it", "/sys/kernel/mm/transparent_hugepage", normal "defer or never, unless programs may wait for huge pages" => h.state::<Sharing>(|s| s.thp_defrag.get());
    "mem.refault_rate" "bytes/s" "file pages read again soon after eviction", "Δworkingset_refault_file x page size / Δt", "/proc/vmstat (mm/workingset.c)", better lower, baseline true => h.vm_bytes(|v| v.workingset_refault_file);
    "mem.refaulted" "bytes" "the same over the whole window", "Δworkingset_refault_file x page size", "/proc/vmstat (mm/workingset.c)", normal "less than memory" => h.grown(|v| v.workingset_refault_file).map(|pages| pages * page_size(h.window));
    "mem.refault_share" "ratio" "the same as a share of what is read from block devices", "Δworkingset_refault_file x page size / Δpgpgin", "/proc/vmstat (mm/workingset.c)", normal (near 0.02, "a first read is not a refault") => over(h.vm_bytes(|v| v.workingset_refault_file), h.vm(|v| v.pgpgin));
    "mem.read_rate" "bytes/s" "bytes read from block devices", "Δpgpgin / Δt", "/proc/vmstat" => h.vm(|v| v.pgpgin);
    "mem.oom_kills" "count" "processes killed for memory in the window", "Δoom_kill", "/proc/vmstat", normal (near 0.0 as "0 in the window") => h.grown(|v| v.oom_kill);
    "mem.oom_in_group" "flag" "1 if one of them was killed because of a control group's limit, which processes outside it cannot cause", "'Memory cgroup out of memory'; Δoom_kill", "/dev/kmsg, memory.events" => h.oom_in_group();
    "mem.dirty_fill" "ratio" "dirty pages against the level at which writers are held back", "mean(nr_dirty + nr_writeback) / nr_dirty_threshold", "/proc/vmstat", normal (below 0.5), baseline true => h.vmstat.as_ref().and_then(|v| over(sum([v.mean(|v| v.nr_dirty), v.mean(|v| v.nr_writeback)]), v.last().nr_dirty_threshold.get()));
    "mem.unaccounted" "bytes" "memory that neither processes, page cache nor a known part of the kernel holds", "MemTotal - all holders of the ledger", "/proc/meminfo", normal "a few per cent of memory" => h.unaccounted;
    "mem.unaccounted_share" "ratio" "the same as a share of memory", "unaccounted / MemTotal", "/proc/meminfo", normal (below 0.1) => over(h.unaccounted, h.memory(|m| m.mem_total));
    "mem.fixed_slab" "bytes" "objects of the kernel that cannot be reclaimed", "SUnreclaim; without it the sum of the listed caches that are no caches of files", "/proc/meminfo, /proc/slabinfo", normal "a few per cent of memory" => h.fixed_slab();
    "mem.fixed_slab_share" "ratio" "the same as a share of memory", "SUnreclaim / MemTotal", "/proc/meminfo, /proc/slabinfo", normal (below 0.1) => over(h.fixed_slab(), h.memory(|m| m.mem_total));
    "mem.fixed_slab_growth" "bytes/s" "how fast they grow; 0 where they do not keep growing", "ΔSUnreclaim / Δt over the latter half of the window", "/proc/meminfo", normal "0 bytes/s in the long run" => h.slab_growth();
    "mem.slab_exhausted_in" "s" "time until their growth has used up all memory and swap, where it is most of what uses that up", "room / rate at which it shrinks", "/proc/meminfo", normal "not about to run out" => h.slab_exhausts_in();
    "mem.holder" "text" "the largest holder of memory among shared memory and tmpfs, per-CPU data, vmalloc and kernel stacks", "max of Shmem, Percpu, VmallocUsed - KernelStack, KernelStack", "/proc/meminfo", normal "small, but where a database shares memory" => h.holder.as_ref().map(|holding| &*holding.holder);
    "mem.held" "bytes" "the memory that it holds", "Shmem, Percpu, KernelStack or VmallocUsed - KernelStack", "/proc/meminfo", normal "a few per cent of memory" => h.holder.as_ref().map(|holding| holding.bytes);
    "mem.held_share" "ratio" "the same as a share of memory", "held / MemTotal", "/proc/meminfo", normal "below 10 %, but where a database shares memory" => h.holder.as_ref().map(|holding| holding.share);
    "mem.file_caches" "bytes" "caches of files and directories, which reclaim frees", "SReclaimable; without it the sum of dentry and inode caches", "/proc/meminfo, /proc/slabinfo", normal "large on a file server; they shrink when memory is needed" => h.file_caches();
    "mem.file_caches_share" "ratio" "the same as a share of memory", "SReclaimable / MemTotal", "/proc/meminfo, /proc/slabinfo", normal "below half" => over(h.file_caches(), h.memory(|m| m.mem_total));
    "mem.largest_file_cache" "text" "the largest of these caches", "max of slabs x size of a slab", "/proc/slabinfo, slabtop", normal "its name says which file system" => slab::of_files(h.window).map(|(_, largest)| largest);
    "mem.growing_cache" "text" "the object cache that grew most, of those that cannot be reclaimed", "max of Δ(slabs x size of a slab)", "/proc/slabinfo, slabtop", normal "its name says what allocates it: a file system, the network, a driver" => h.growing_cache.as_ref().map(|(name, _)| *name);
    "mem.growing_cache_rate" "bytes/s" "how fast it grew", "Δ(slabs x size of a slab) / Δt", "/proc/slabinfo, slabtop", normal (near 0.0) => h.growing_cache.as_ref().map(|(_, rate)| *rate);
    "mem.page_tables" "bytes" "page tables of all processes", "PageTables", "/proc/meminfo", normal "below 1 % of memory" => h.memory(|m| m.page_tables);
    "mem.page_tables_share" "ratio" "the same as a share of memory", "PageTables / MemTotal", "/proc/meminfo", normal (below 0.01, "1/512 of what is mapped once") => h.of_memory(|m| m.page_tables);
    "mem.shared" "bytes" "shared memory and tmpfs", "Shmem", "/proc/meminfo" => h.memory(|m| m.shmem);
    "mem.hugepages" "bytes" "memory reserved for huge pages, of the size with most unused memory", "nr_hugepages x size", "/proc/meminfo, /sys/kernel/mm/hugepages", normal "what programs use" => h.pool.as_ref().map(Pool::bytes);
    "mem.hugepages_unused" "bytes" "the part of it that no program uses, nor has been promised", "(free_hugepages - resv_hugepages) x size", "/proc/meminfo, /sys/kernel/mm/hugepages" => h.pool.as_ref().map(Pool::unused_bytes);
    "mem.hugepages_unused_share" "ratio" "the same as a share of memory", "(free_hugepages - resv_hugepages) x size / MemTotal", "/proc/meminfo, /sys/kernel/mm/hugepages", normal (below 0.05 as "below a few per cent of memory") => over(h.pool.as_ref().map(Pool::unused_bytes), h.memory(|m| m.mem_total));
    "mem.hugepages_pool" "text" "the pool of that size", "its name", "/sys/kernel/mm/hugepages" => h.pool.as_ref().map(Pool::name).as_deref();
    "mem.hugepages_needed" "count" "pages of it that are in use or promised", "nr_hugepages - free_hugepages + resv_hugepages", "/proc/meminfo, /sys/kernel/mm/hugepages" => h.pool.as_ref().map(Pool::needed);
    "mem.anon_huge" "bytes" "anonymous memory in transparent huge pages", "AnonHugePages", "/proc/meminfo", normal "not shrinking" => h.memory(|m| m.anon_huge_pages);
    "mem.anon_huge_share" "ratio" "the same as a share of anonymous memory", "AnonHugePages / AnonPages", "/proc/meminfo", normal "high on a host of guests" => over(h.memory(|m| m.anon_huge_pages), h.memory(|m| m.anon_pages));
    "mem.thp" "text" "when transparent huge pages are used", "as the kernel gives it", "/sys/kernel/mm/transparent_hugepage" => h.state::<Sharing>(|s| s.thp_enabled.get());
    "mem.huge_splits" "1/s" "transparent huge pages that were split", "Δthp_split_page / Δt", "/proc/vmstat", normal (near 1.0) => h.vm(|v| v.thp_split_page);
    "mem.huge_split" "count" "the same in the window", "Δthp_split_page", "/proc/vmstat", normal "few" => h.grown(|v| v.thp_split_page);
    "mem.huge_split_share" "ratio" "the same as a share of those that were made", "Δthp_split_page / Δ(thp_fault_alloc + thp_collapse_alloc)", "/proc/vmstat", normal (below 0.1) => h.vmstat.as_ref().and_then(huge_pages::split_share);
    "mem.ksm_runs" "flag" "1 where page sharing looks for equal pages", "run = 1", "/sys/kernel/mm/ksm" => huge_pages::ksm_runs(h.window);
    "mem.ksm_saved" "bytes" "memory that page sharing saves", "pages_sharing x page size", "/sys/kernel/mm/ksm" => h.window.the::<Sharing>().and_then(|s| s.ksm_pages_sharing.get()).map(|pages| pages * page_size(h.window));
    "mem.dirty_limit" "bytes" "dirty memory at which writers are held back", "nr_dirty_threshold x page size", "/proc/vmstat", normal "what programs write in a burst, and more" => h.dirty_limit();
    "mem.direct_reclaims" "1/s" "times a task that wanted memory had to reclaim some first", "Δallocstall / Δt", "/proc/vmstat", normal (near 0.0) => h.vm(|v| v.allocstall);
    "mem.corrupted" "bytes" "memory taken out of use because of errors", "HardwareCorrupted", "/proc/meminfo", normal (near 0.0) => h.memory(|m| m.hardware_corrupted);
    "mem.balloon" "bytes" "memory that the balloon driver has handed to the hypervisor", "(balloon_inflate - balloon_deflate) x page size", "/proc/vmstat", normal "0 while memory is short here" => h.balloon();
    "mem.guests" "bytes" "memory that the virtual machines here may use together", "Σ -m, or what the balloon leaves", "/proc/PID/cmdline, QMP", normal "less than the memory of the host, which needs some itself" => h.guest_memory();
    "mem.guests_used" "bytes" "memory that the virtual machines here use, in memory or swapped out", "Σ (rss + swap of QEMU)", "/proc/PID/status, virsh dommemstat", normal "less than the memory of the host" => h.guest_memory_used();
    "mem.guests_share" "ratio" "the same as a share of memory", "Σ -m / MemTotal", "/proc/PID/cmdline, /proc/meminfo" => over(h.guest_memory(), h.memory(|m| m.mem_total));
    "mem.numa_nodes" "count" "NUMA nodes with CPUs", "nodes with a cpulist", "/sys/devices/system/node", normal "1: then all memory is equally near" => Placements::count(h.window);
    "mem.node_reclaims" "1/s" "times a task reclaimed memory of its own NUMA node before it asked another one", "Δ(zone_reclaim_success + zone_reclaim_failed) / Δt", "/proc/vmstat" => sum([h.vm(|v| v.zone_reclaim_success), h.vm(|v| v.zone_reclaim_failed)]);
    "mem.node_reclaimed" "count" "the same in the window", "Δ(zone_reclaim_success + zone_reclaim_failed)", "/proc/vmstat", normal (near 0.1) => sum([h.grown(|v| v.zone_reclaim_success), h.grown(|v| v.zone_reclaim_failed)]);
    "mem.numa_hints" "1/s" "page faults by which NUMA balancing samples who uses which memory", "Δnuma_hint_faults / Δt", "/proc/vmstat", normal "some; each costs a page fault" => h.vm(|v| v.numa_hint_faults);
    "mem.numa_hints_remote" "ratio" "share of them that found the memory on another node", "1 - Δnuma_hint_faults_local / Δnuma_hint_faults", "/proc/vmstat", normal (below 0.3) => over(h.grown(|v| v.numa_hint_faults_local), h.grown(|v| v.numa_hint_faults)).map(|local| (1.0 - local).max(0.0));
    "mem.numa_migrated" "bytes/s" "memory that NUMA balancing moved to other nodes", "Δnuma_pages_migrated x page size / Δt", "/proc/vmstat", normal "near 0, once memory is where it is used" => h.vm_bytes(|v| v.numa_pages_migrated);
    "mem.largest_cache" "text" "the largest object cache that cannot be reclaimed", "max of slabs x size of a slab", "/proc/slabinfo, slabtop", normal "its name says what allocates it: a file system, the network, a driver" => slab::largest_fixed(h.window).map(|(name, _)| name);
    "mem.largest_cache_bytes" "bytes" "memory that it holds", "slabs x size of a slab", "/proc/slabinfo, slabtop", normal "not growing" => slab::largest_fixed(h.window).map(|(_, bytes)| bytes);
    "mem.room" "bytes" "memory and swap still available", "MemAvailable + SwapFree; MemFree + Buffers + Cached for the former if it is not reported", "/proc/meminfo", normal "not shrinking" => h.room.map(|r| r.left);
    "mem.shrink_rate" "bytes/s" "how fast that decreases; 0 unless it keeps decreasing", "-Δ(MemAvailable + SwapFree) / Δt over the latter half of the window", "/proc/meminfo" => h.room.and_then(|r| r.shrinks);
    "mem.exhausted_in" "s" "time until none is left at this rate", "room / rate at which it shrinks", "/proc/meminfo" => h.room.and_then(Room::exhausted_in);
    "cpu.most_interrupt" "ratio" "share in interrupts and softirqs in the sample with most of them", "max(Δ(irq + softirq) / Δt), where only the CPUs' mean was reported", "/proc/stat", normal (below 0.2) => h.most_interrupt();
    "cpu.idle_spread" "ratio" "how far apart the samples' idle times are while there was work", "max - min of idle, samples above 90 % left out", "/proc/stat" => h.idle_spread();
    "cpu.runnable_share" "ratio" "share of the samples in which a task was runnable", "samples with procs_running > 0", "/proc/stat", normal "0 while CPUs idle" => h.runnable_share();
    "log.lines" "count" "lines of the kernel's log that were read from files", "number of lines", "/dev/kmsg" => h.log.and_then(|l| l.lines);
    "log.alarms" "count" "lines of it with words of alarm: call traces, panics, time-outs", "lines with 'Call Trace', 'BUG:', 'WARNING:', 'timed out' ...", "/dev/kmsg" => h.log.map(|l| l.alarms);
    "log.kills" "count" "processes killed because the machine ran out of memory", "'Out of memory: Killed process'", "/dev/kmsg", normal (near 0.0) => h.log.map(|l| l.kills);
    "log.no_victim" "count" "times memory ran out and no process was left to kill", "'no killable processes'", "/dev/kmsg" => h.log.map(|l| l.no_victim);
    "disk.most_waited" "ratio" "share of the time in which requests were in flight, of the device with most; the disks of an array that is being checked are left out where the array itself is counted", "max of min(Δ(requests x time), Δbusy time) / Δt", "/proc/diskstats, /sys/block/md*/md", normal "the disks are not the bottleneck" => h.most_waited();
    // Known only after the devices: see `Facts`.
    "disk.longest_stall" "ratio" "share of the time in which a task waited for a device, of the device with most", "max of disk.stall", "/proc/PID/stat, /proc/pressure/io, /proc/diskstats" => None::<f64>;
    "disk.steady_stall" "ratio" "the same of the devices whose users do not pause between requests, or of whom that is unknown", "max of disk.stall where not disk.users_blocked < 0.8", "/proc/PID/stat, /proc/pressure/io, /proc/diskstats" => None::<f64>;
    "irq.busiest" "text" "the interrupt line with most interrupts, timers left out", "max Δcount, or max count since boot if read once", "/proc/interrupts", normal "the timer's line, on an idle machine" => h.busiest.as_ref().map(|b| &*b.line);
    "irq.busiest_rate" "1/s" "its interrupts", "Δcount / Δt, all CPUs", "/proc/interrupts", normal "low beside the timer's: packets share an interrupt where the card coalesces" => h.busiest.as_ref().and_then(|b| b.rate);
    "irq.busiest_devices" "text" "the devices behind it", "as the kernel gives them", "/proc/interrupts", normal "one device a line" => h.busiest.as_ref().and_then(|b| b.devices.as_deref());
    "irq.busiest_interface" "text" "the network interface among them", "by its name", "/proc/interrupts" => h.busiest_interface();
    "irq.nic" "text" "the network interface with most interrupts, if they were read once", "by its name", "/proc/interrupts" => h.nic_interrupts.as_ref().map(|nic| nic.interface.as_str());
    "irq.nic_count" "count" "its interrupts since boot", "sum over its lines and CPUs", "/proc/interrupts", normal "few interrupts need no second CPU" => h.nic_interrupts.as_ref().map(|nic| nic.count);
    "irq.nic_share" "ratio" "the part of them that one CPU handled", "maximum / sum over CPUs", "/proc/interrupts", normal "spread over the CPUs, by several queues" => h.nic_interrupts.as_ref().map(|nic| nic.most);
    "irq.nic_cpu" "text" "that CPU", "column", "/proc/interrupts" => h.nic_interrupts.as_ref().map(|nic| format!("cpu{}", nic.cpu)).as_deref();
    "irq.cpus" "count" "CPUs with interrupts", "columns", "/proc/interrupts", normal "one, or as many as there are queues" => h.nic_interrupts.as_ref().map(|nic| nic.cpus as f64);
    "net.coalesce_rx" "s" "delay before a receive interrupt, of the card with the busiest interrupt line", "rx-usecs", "ethtool", normal "tens of microseconds" => ratio(h.coalesce());
    "asked.largest_block" "bytes" "the most that a measured transfer asked for at a time", "bs=", "output of dd, iperf", normal "as large at the device" => h.largest_block();
    "disk.devices" "count" "block devices whose requests were seen", "rows", "/proc/diskstats" => h.window.newest::<Disk>().len() as f64;
    "net.bytes_rate" "bytes/s" "bytes through all interfaces, loopback included", "Σ(Δrx_bytes + Δtx_bytes) / Δt", "/proc/net/dev", baseline true => sum([h.interfaces(|i| i.rx_bytes), h.interfaces(|i| i.tx_bytes)]);
    "net.retransmitted" "count" "segments retransmitted in the window", "ΔRetransSegs", "/proc/net/snmp" => h.counted(|p| p.tcp_retrans_segs);
    "net.retransmitted_opening" "ratio" "share of the retransmitted segments that open connections", "ΔTCPSynRetrans / ΔRetransSegs", "/proc/net/netstat, /proc/net/snmp" => over(h.counted(|p| p.tcp_ext_tcp_syn_retrans), h.counted(|p| p.tcp_retrans_segs));
    "net.retransmits" "1/s" "segments retransmitted, except those that open connections", "(ΔRetransSegs - ΔTCPSynRetrans) / Δt", "/proc/net/snmp, /proc/net/netstat", normal (near 1.0) => h.protocol(|p| p.tcp_retrans_segs).zip(h.protocol(|p| p.tcp_ext_tcp_syn_retrans)).map(|(all, opening)| (all - opening).max(0.0));
    "net.spurious_share" "ratio" "share of the retransmitted segments that the peers had already: late or overtaken, not lost", "ΔTCPDSACKRecvSegs / ΔRetransSegs; before Linux 5.13 ΔTCPDSACKRecv, which can cover several segments each", "/proc/net/netstat, /proc/net/snmp (RFC 2883)", normal "near 100 % if packets were only late, not lost" => over(h.duplicates(), h.counted(|p| p.tcp_retrans_segs)).map(|s| s.min(1.0));
    "net.loss_share" "ratio" "retransmitted segments that the peers had not got, as a share of those sent", "(ΔRetransSegs - ΔTCPDSACKRecvSegs) / ΔOutSegs", "/proc/net/netstat, /proc/net/snmp", normal "above 0.1 % if packets are lost" => over(h.counted(|p| p.tcp_retrans_segs).map(|all| (all - h.duplicates().unwrap_or(0.0)).max(0.0)), h.counted(|p| p.tcp_out_segs));
    "net.reorderings" "1/s" "times segments were found to be reordered", "Δ(TCPSACKReorder + TCPTSReorder) / Δt", "/proc/net/netstat", normal (near 0.0, "packets of one connection take one path") => sum([h.protocol(|p| p.tcp_ext_tcp_sack_reorder), h.protocol(|p| p.tcp_ext_tcp_ts_reorder)]);
    "net.time_wait" "count" "closed TCP connections that wait for a minute (TIME_WAIT)", "tw of 'TCP'", "/proc/net/sockstat, ss -s" => h.protocols.iter().filter_map(|p| p.last().tcp_time_wait.get()).reduce(f64::max);
    "net.local_ports" "count" "local ports that there are for connections", "last - first + 1 of ip_local_port_range", "/proc/sys/net/ipv4" => ports::in_range(h.window);
    "net.namespaces_refused" "count" "other network namespaces in use that may not be entered", "those with a name, or an interface that leads there", "/run/netns, rtnetlink" => h.window.the::<NetworkNamespaces>().and_then(|n| n.refused.get());
    "net.timeouts" "1/s" "retransmission timers that expired, needless ones not included", "(ΔTCPTimeouts - ΔTCPSpuriousRTOs) / Δt", "/proc/net/netstat", normal (near 1.0), better lower, baseline true => h.timeouts();
    "net.listen_overflows" "count" "the same, in the window", "ΔListenOverflows", "/proc/net/netstat", normal (near 10.0 as "0, or a few when a service restarts") => h.counted(|p| p.tcp_ext_listen_overflows);
    "net.listen_overflow_share" "ratio" "share of the connections from peers that were dropped that way", "ΔListenOverflows / Δ(ListenOverflows + PassiveOpens)", "/proc/net/netstat, /proc/net/snmp", normal (near 0.02) => h.failed_share(|p| p.tcp_ext_listen_overflows, |p| p.tcp_passive_opens);
    "net.udp_dropped" "count" "datagrams dropped because a receive buffer was full, in the window", "ΔRcvbufErrors", "/proc/net/snmp" => h.counted(|p| p.udp_rcvbuf_errors);
    "net.udp_drop_share" "ratio" "share of the datagrams received that were dropped that way", "ΔRcvbufErrors / Δ(RcvbufErrors + InDatagrams)", "/proc/net/snmp", normal (near 0.0) => h.failed_share(|p| p.udp_rcvbuf_errors, |p| p.udp_in_datagrams);
    "self.cpu" "count" "CPUs' worth of time whyslow itself used", "Δ(own user + system) / Δt", "getrusage(2)" => h.own_cpu();
    "host.clock_source" "text" "clock source in use", "as the kernel gives it", "/sys/devices/system/clocksource", normal "tsc, or the hypervisor's own (kvm-clock, hyperv_clocksource_tsc_page)" => h.state::<MachineInfo>(|m| m.clock_source.get());
    "host.virtualization" "text" "hypervisor, or none", "DMI, /sys/hypervisor, cpuid", "/proc/cpuinfo" => h.state::<MachineInfo>(|m| m.virtualization.get());
}
