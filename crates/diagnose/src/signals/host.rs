//! The machine as a whole: processor time by mode, stalls, memory, network totals.

use super::page_size;
use super::task::TaskUse;
use crate::signal::{over, ratio, signals, sum};
use whyslow_model::catalogue::{
    Cpu, Family, Interface, MachineInfo, Meminfo, Observer, Pressure, Protocol, RunQueue, System, Vmstat,
};
use whyslow_model::value::{Counter, Gauge};
use whyslow_model::window::{Change, Window};

/// What the host's signals are computed from.
pub struct HostUse<'w> {
    window: &'w Window,
    cpus: Vec<Change<'w, Cpu>>,
    system: Option<Change<'w, System>>,
    pressure: Option<Change<'w, Pressure>>,
    vmstat: Option<Change<'w, Vmstat>>,
    meminfo: Option<Change<'w, Meminfo>>,
    interfaces: Vec<Change<'w, Interface>>,
    protocols: Vec<Change<'w, Protocol>>,
    tasks: &'w [TaskUse],
}

impl<'w> HostUse<'w> {
    /// Over this window, with its processes already summed up.
    pub fn new(window: &'w Window, tasks: &'w [TaskUse]) -> Self {
        Self {
            window,
            cpus: window.changes(),
            system: window.change(),
            pressure: window.change(),
            vmstat: window.change(),
            meminfo: window.change(),
            interfaces: window.changes(),
            protocols: window.changes(),
            tasks,
        }
    }

    /// Processors' time in one mode, in processors.
    fn mode(&self, f: impl Fn(&Cpu) -> Counter + Copy) -> Option<f64> {
        self.cpus.iter().filter_map(|c| ratio(c.rate(f))).reduce(|a, b| a + b)
    }

    fn count(&self) -> Option<f64> {
        (!self.cpus.is_empty()).then_some(self.cpus.len() as f64)
    }

    fn idle(&self) -> Option<f64> {
        sum([self.mode(|c| c.idle), self.mode(|c| c.iowait)])
    }

    /// Processor time used, in processors; steal is not ours to use.
    fn used(&self) -> Option<f64> {
        self.mode(|c| c.user)?;
        sum([
            self.mode(|c| c.user),
            self.mode(|c| c.nice),
            self.mode(|c| c.system),
            self.mode(|c| c.irq),
            self.mode(|c| c.softirq),
        ])
    }

    /// All processor time that was accounted for, steal and idling included: what a share is a share of.
    fn accounted(&self) -> Option<f64> {
        sum([self.used(), self.idle(), self.mode(|c| c.steal)])
    }

    /// A quantile of the time from becoming runnable to running, over all processors, seconds.
    fn run_queue_latency(&self, quantile: f64) -> Option<f64> {
        let latencies = self.window.changes::<RunQueue>();
        let all = latencies.iter().filter_map(|c| c.histogram(|r| &r.latency)).reduce(|a, b| a.merged(&b))?;
        ratio(all.quantile(quantile))
    }

    fn share(&self, part: Option<f64>) -> Option<f64> {
        over(part, self.accounted())
    }

    fn stalled(&self, f: impl Fn(&Pressure) -> Counter + Copy) -> Option<f64> {
        ratio(self.pressure.as_ref()?.rate(f)).map(|s| s.min(1.0))
    }

    fn vm(&self, f: impl Fn(&Vmstat) -> Counter + Copy) -> Option<f64> {
        self.vmstat.as_ref()?.rate(f)
    }

    /// A count of pages as bytes per second.
    fn vm_bytes(&self, f: impl Fn(&Vmstat) -> Counter + Copy) -> Option<f64> {
        self.vm(f).map(|pages| pages * page_size(self.window))
    }

    fn memory(&self, f: impl Fn(&Meminfo) -> Gauge + Copy) -> Option<f64> {
        f(self.meminfo.as_ref()?.last()).get()
    }

    fn of_memory(&self, f: impl Fn(&Meminfo) -> Gauge + Copy) -> Option<f64> {
        over(self.memory(f), self.memory(|m| m.mem_total))
    }

    /// The part of the samples in which a task waited for a block request, for kernels without PSI.
    fn blocked_share(&self) -> Option<f64> {
        let system = self.system.as_ref()?;
        let readings: Vec<f64> = system.readings(|s| s.blocked).collect();
        let blocked = readings.iter().filter(|b| **b > 0.0).count();
        over(Some(blocked as f64), Some(readings.len() as f64))
    }

    /// Seconds of run-queue waiting per second, summed over the tasks that `pick` takes.
    fn waiting(&self, pick: impl Fn(&TaskUse) -> bool) -> Option<f64> {
        self.tasks.iter().filter(|t| pick(t)).filter_map(|t| t.run_delay).reduce(|a, b| a + b)
    }

    /// Processor time that is charged to somebody, in processors: to processes that were seen, and to the parents of those
    /// that came and went between two samples.
    fn attributed(&self) -> Option<f64> {
        let seconds = self.window.seconds();
        let one = |t: &TaskUse| sum([t.cpu_seconds.map(|s| s / seconds), t.short_lived.as_ref().map(|u| u.cpu)]);
        self.tasks.iter().filter_map(one).reduce(|a, b| a + b)
    }

    /// Processor time used by processes, in processors: interrupts serve whom they may.
    fn used_by_processes(&self) -> Option<f64> {
        self.mode(|c| c.user)?;
        sum([self.mode(|c| c.user), self.mode(|c| c.nice), self.mode(|c| c.system)])
    }

    fn protocol(&self, f: impl Fn(&Protocol) -> Counter + Copy) -> Option<f64> {
        self.protocols.iter().filter_map(|p| p.rate(f)).reduce(|a, b| a + b)
    }

    fn timeouts(&self) -> Option<f64> {
        let needless = self.protocol(|p| p.tcp_ext_tcp_spurious_rtos).unwrap_or(0.0);
        self.protocol(|p| p.tcp_ext_tcp_timeouts).map(|all| (all - needless).max(0.0))
    }

    fn interfaces(&self, f: impl Fn(&Interface) -> Counter + Copy) -> Option<f64> {
        self.interfaces.iter().filter_map(|i| i.rate(f)).reduce(|a, b| a + b)
    }

    fn own_cpu(&self) -> Option<f64> {
        ratio(self.window.change::<Observer>()?.rate(|o| o.cpu_time))
    }

    fn state<F: Family>(&self, f: impl Fn(&'w F) -> Option<&'w str>) -> Option<&'w str> {
        f(self.window.the::<F>()?)
    }
}

signals! { h: &HostUse<'_>;
    "cpu.count" "count" "processors online", "processors that report time", "/proc/stat" => h.count();
    "cpu.busy" "ratio" "share of the processors' time in use", "(user + nice + system + irq + softirq) / all", "/proc/stat" => h.share(h.used());
    "cpu.user" "ratio" "share in user mode", "(user + nice) / all", "/proc/stat" => h.share(sum([h.mode(|c| c.user), h.mode(|c| c.nice)]));
    "cpu.nice" "ratio" "share in user mode of niced tasks", "nice / all", "/proc/stat" => h.share(h.mode(|c| c.nice));
    "cpu.system" "ratio" "share in kernel mode, interrupts apart", "system / all", "/proc/stat" => h.share(h.mode(|c| c.system));
    "cpu.interrupt" "ratio" "share in interrupts and softirqs", "(irq + softirq) / all", "/proc/stat" => h.share(sum([h.mode(|c| c.irq), h.mode(|c| c.softirq)]));
    "cpu.steal" "ratio" "share the hypervisor gave to others while we had work", "steal / all", "/proc/stat" => h.share(h.mode(|c| c.steal));
    "cpu.idle" "ratio" "share idle, waiting for I/O included", "(idle + iowait) / all", "/proc/stat" => h.share(h.idle());
    "cpu.idle_processors" "count" "processors' worth of idle time", "Δ(idle + iowait) / Δt", "/proc/stat" => h.idle();
    "cpu.system_processors" "count" "processors' worth of kernel time", "Δsystem / Δt", "/proc/stat" => h.mode(|c| c.system);
    "cpu.waiting" "count" "mean number of tasks that waited on a run queue", "ΣΔrun_delay / Δt", "/proc/PID/schedstat (sched-stats.rst)" => h.waiting(|_| true);
    "cpu.waiting_normal" "count" "the same for tasks not niced or batch", "ΣΔrun_delay of tasks with nice < 10 / Δt", "/proc/PID/schedstat" => h.waiting(|t| !t.background);
    "cpu.runnable" "count" "runnable tasks, mean of the samples", "mean(procs_running)", "/proc/stat" => h.system.as_ref().and_then(|s| s.mean(|s| s.running));
    "cpu.load_1m" "count" "load average; counts uninterruptible tasks too", "as the kernel gives it", "/proc/loadavg" => h.system.as_ref().and_then(|s| s.last().load_1m.get());
    "cpu.switches" "1/s" "context switches", "Δctxt / Δt", "/proc/stat" => h.system.as_ref().and_then(|s| s.rate(|s| s.context_switches));
    "cpu.forks" "1/s" "processes and threads created", "Δprocesses / Δt", "/proc/stat" => h.system.as_ref().and_then(|s| s.rate(|s| s.forks));
    "cpu.attributed" "ratio" "share of the processor time used, but for interrupts, that is charged to processes", "(ΣΔcpu of processes + Σcpu of those that ended unseen) / Δ(user + nice + system)", "/proc/PID/stat, /proc/stat" => over(h.attributed(), h.used_by_processes());
    "cpu.run_queue_median" "s" "time from becoming runnable to running, as the median of all processors", "50th percentile of the histograms together", "BPF: sched_waking, sched_switch" => h.run_queue_latency(0.5);
    "cpu.run_queue_p99" "s" "the same of the unluckiest hundredth", "99th percentile of the histograms together", "BPF: sched_waking, sched_switch" => h.run_queue_latency(0.99);
    "stall.cpu" "ratio" "share of time in which a task waited for a processor", "Δcpu some total / Δt; without PSI the mean of tasks waiting, at most 1", "/proc/pressure/cpu (psi.rst)" => h.stalled(|p| p.cpu_some).or_else(|| h.waiting(|_| true).map(|w| w.min(1.0)));
    "stall.io" "ratio" "share of time in which a task waited for I/O", "Δio some total / Δt; without PSI the share of samples with procs_blocked > 0", "/proc/pressure/io (psi.rst)" => h.stalled(|p| p.io_some).or_else(|| h.blocked_share());
    "stall.io_full" "ratio" "share of time in which all tasks waited for I/O", "Δio full total / Δt", "/proc/pressure/io" => h.stalled(|p| p.io_full);
    "stall.memory" "ratio" "share of time in which a task waited for memory", "Δmemory some total / Δt", "/proc/pressure/memory" => h.stalled(|p| p.memory_some);
    "stall.memory_full" "ratio" "share of time in which all tasks waited for memory", "Δmemory full total / Δt", "/proc/pressure/memory" => h.stalled(|p| p.memory_full);
    "mem.total" "bytes" "usable memory", "MemTotal", "/proc/meminfo" => h.memory(|m| m.mem_total);
    "mem.available" "bytes" "memory that can be had without swapping", "MemAvailable", "/proc/meminfo" => h.memory(|m| m.mem_available);
    "mem.available_share" "ratio" "the same as a share of memory", "MemAvailable / MemTotal", "/proc/meminfo" => h.of_memory(|m| m.mem_available);
    "mem.cached_share" "ratio" "share of memory that is page cache", "Cached / MemTotal", "/proc/meminfo" => h.of_memory(|m| m.cached);
    "mem.swap_used" "bytes" "swap in use", "SwapTotal - SwapFree", "/proc/meminfo" => h.memory(|m| m.swap_total).zip(h.memory(|m| m.swap_free)).map(|(t, f)| t - f);
    "mem.swap_in_rate" "bytes/s" "memory swapped in", "Δpswpin x page size / Δt", "/proc/vmstat" => h.vm_bytes(|v| v.pswpin);
    "mem.swap_out_rate" "bytes/s" "memory swapped out", "Δpswpout x page size / Δt", "/proc/vmstat" => h.vm_bytes(|v| v.pswpout);
    "mem.refault_rate" "bytes/s" "file pages read again soon after eviction", "Δworkingset_refault_file x page size / Δt", "/proc/vmstat (mm/workingset.c)" => h.vm_bytes(|v| v.workingset_refault_file);
    "mem.read_rate" "bytes/s" "bytes read from block devices", "Δpgpgin / Δt", "/proc/vmstat" => h.vm(|v| v.pgpgin);
    "mem.direct_scan_rate" "1/s" "pages scanned by tasks that wanted memory", "Δpgscan_direct / Δt", "/proc/vmstat" => h.vm(|v| v.pgscan_direct);
    "mem.oom_kills" "count" "processes killed for memory in the window", "Δoom_kill", "/proc/vmstat" => h.vmstat.as_ref().and_then(|v| v.grown(|v| v.oom_kill));
    "mem.dirty_fill" "ratio" "dirty pages against the level at which writers are held back", "mean(nr_dirty + nr_writeback) / nr_dirty_threshold", "/proc/vmstat" => h.vmstat.as_ref().and_then(|v| over(sum([v.mean(|v| v.nr_dirty), v.mean(|v| v.nr_writeback)]), v.last().nr_dirty_threshold.get()));
    "net.bytes_rate" "bytes/s" "bytes through all interfaces, loopback included", "Σ(Δrx_bytes + Δtx_bytes) / Δt", "/proc/net/dev" => sum([h.interfaces(|i| i.rx_bytes), h.interfaces(|i| i.tx_bytes)]);
    "net.retransmit_share" "ratio" "segments sent again", "ΔRetransSegs / ΔOutSegs", "/proc/net/snmp" => over(h.protocol(|p| p.tcp_retrans_segs), h.protocol(|p| p.tcp_out_segs)).or_else(|| h.protocol(|p| p.tcp_out_segs).map(|_| 0.0));
    "net.retransmits" "1/s" "segments sent again, those that open connections not included", "(ΔRetransSegs - ΔTCPSynRetrans) / Δt", "/proc/net/snmp, /proc/net/netstat" => h.protocol(|p| p.tcp_retrans_segs).zip(h.protocol(|p| p.tcp_ext_tcp_syn_retrans)).map(|(all, opening)| (all - opening).max(0.0));
    "net.timeouts" "1/s" "retransmission timers that expired, needless ones not included", "(ΔTCPTimeouts - ΔTCPSpuriousRTOs) / Δt", "/proc/net/netstat" => h.timeouts();
    "net.listen_overflow_rate" "1/s" "connections dropped because an accept queue was full", "ΔListenOverflows / Δt", "/proc/net/netstat" => h.protocol(|p| p.tcp_ext_listen_overflows);
    "net.udp_drop_rate" "1/s" "datagrams dropped because a receive buffer was full", "ΔRcvbufErrors / Δt", "/proc/net/snmp" => h.protocol(|p| p.udp_rcvbuf_errors);
    "self.cpu" "count" "processors' worth of time whyslow itself used", "Δ(own user + system) / Δt", "getrusage(2)" => h.own_cpu();
    "host.clock_source" "text" "clock source in use", "as the kernel gives it", "/sys/devices/system/clocksource" => h.state::<MachineInfo>(|m| m.clock_source.get());
    "host.virtualization" "text" "hypervisor, or none", "DMI, /sys/hypervisor, cpuid", "/proc/cpuinfo" => h.state::<MachineInfo>(|m| m.virtualization.get());
}
