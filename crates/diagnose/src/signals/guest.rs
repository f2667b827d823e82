//! Virtual machines that run on this host.

use super::guest_limit::{self, DiskLimit};
use super::placement::idle_cpus;
use super::task::TaskUse;
use crate::signal::{Entity, over, signals, sum};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{
    Family, Guest, GuestCpu, GuestDisk, GuestMemory, GuestNic, Interface, MachineInfo, Process, Thread,
};
use whyslow_model::cpu_list;
use whyslow_model::key::TaskKey;
use whyslow_model::window::{Change, Window};

/// Models of real hardware: each access to their registers causes a VM exit.
const EMULATED_DISKS: [&str; 5] = ["ide-", "scsi-", "lsi", "megasas", "mptsas"];
const PARAVIRTUAL_CONTROLLERS: [&str; 3] = ["virtio-", "vhost-", "pvscsi"];
const EMULATED_CARDS: [&str; 7] = ["e1000", "e1000e", "igb", "rtl8139", "ne2k", "pcnet", "i82"];

/// A CPU that is idle for less than this share of the time is full.
const FULL: f64 = 0.1;
/// A virtual CPU that waits for more than this share of the time while other CPUs are idle is not allowed to run on those.
const KEPT_WAITING: f64 = 0.3;

/// A virtual machine over the window.
pub struct GuestUse<'w> {
    config: &'w Guest,
    machine: Option<&'w MachineInfo>,
    /// CPUs' worth of time that its virtual CPUs ran, and waited for a CPU of the host.
    cpu: Option<f64>,
    waiting: Option<f64>,
    /// Thread that serves every device without a thread of its own.
    main_loop: Option<&'w TaskUse>,
    /// Threads of the kernel, or of QEMU since Linux 6.4, that move packets of its cards; those for SCSI and sockets have the same name.
    vhost: Vec<&'w TaskUse>,
    process: Option<&'w TaskUse>,
    /// Memory of QEMU, bytes.
    resident: Option<f64>,
    /// Report of its balloon driver.
    memory: Option<&'w Change<'w, GuestMemory>>,
    disks: Vec<&'w GuestDisk>,
    cards: Vec<Card<'w>>,
    affinity: Option<BTreeSet<u32>>,
    /// Number of its virtual CPUs whose CPUs are listed.
    bound: usize,
    idle: &'w BTreeMap<u32, f64>,
    /// The most used limit of its disks.
    limit: Option<DiskLimit>,
    /// Names of other guests whose virtual CPUs are bound to some of the same CPUs.
    sharers: Vec<&'w str>,
}

struct Card<'w> {
    row: &'w GuestNic,
    packets: Option<f64>,
}

/// Returns true if a thread is a virtual CPU: `CPU 0/KVM` or `CPU 0/TCG` (accel/*/*-accel-ops.c), the names with -name
/// debug-threads=on, which libvirt and Proxmox set.
fn is_virtual_cpu(name: &str) -> bool {
    name.strip_prefix("CPU ").and_then(|rest| rest.split_once('/')).is_some_and(|(number, accelerator)| {
        number.bytes().all(|b| b.is_ascii_digit()) && ["KVM", "TCG"].contains(&accelerator)
    })
}

/// Returns the guests with all that is known about each: in captures, one tool shows a guest's settings and another, later, its
/// usage.
pub(super) fn known(window: &Window) -> BTreeMap<TaskKey, Guest> {
    let changes = window.changes::<Guest>();
    let whole = |change: &Change<'_, Guest>| {
        let mut guest = change.last().clone();
        change.rows().collect::<Vec<_>>().into_iter().rev().for_each(|row| guest.fill(row));
        (*change.key(), guest)
    };
    changes.iter().map(whole).collect()
}

/// Returns the guests that a capture shows only by the names of their threads.
fn unnamed(window: &Window, processes: &[TaskUse], threads: &[TaskUse]) -> Vec<Guest> {
    let known = window.newest::<Guest>();
    let pids: BTreeSet<u32> =
        threads.iter().filter(|thread| is_virtual_cpu(&thread.command)).map(|thread| thread.key.pid).collect();
    // A capture that does not say which process a thread belongs to lists the thread as a process.
    let is_guest = |process: &&TaskUse| pids.contains(&process.key.pid) && !is_virtual_cpu(&process.command);
    let keys = processes.iter().filter(is_guest).map(|process| process.key);
    keys.filter(|key| !known.contains_key(key)).map(Guest::new).collect()
}

/// Returns the CPUs that virtual CPUs ran on, if these must be all that they may run on: they are full, and each of the virtual
/// CPUs that had work waited for them, although others were idle meanwhile.
fn seen_on(window: &Window, own: &[&TaskUse], idle: &BTreeMap<u32, f64>) -> Option<BTreeSet<u32>> {
    let changes = window.changes::<Thread>();
    let of_own = changes.iter().filter(|change| own.iter().any(|thread| thread.key == *change.key()));
    let cpus: BTreeSet<u32> =
        of_own.flat_map(|change| change.rows().filter_map(|row| row.processor.get())).map(|cpu| cpu as u32).collect();
    let has_work = |thread: &&&TaskUse| thread.cpu.is_some_and(|cpu| cpu > 0.05);
    let are_kept = own.iter().filter(has_work).all(|thread| thread.run_delay.is_some_and(|wait| wait > KEPT_WAITING));
    let are_full = cpus.iter().all(|cpu| idle.get(cpu).is_some_and(|idle| *idle < FULL));
    let is_room = idle.iter().any(|(cpu, idle)| !cpus.contains(cpu) && *idle > 0.5);
    Some(cpus)
        .filter(|cpus| !cpus.is_empty() && own.iter().filter(has_work).count() > 0 && are_kept && are_full && is_room)
}

/// Returns the threads that move packets of the guest's cards: kernel threads before 6.4, threads of QEMU since
/// (drivers/vhost/vhost.c, kernel/vhost_task.c). Both are named `vhost-` and the PID of QEMU.
fn vhost<'t>(tasks: impl Iterator<Item = &'t TaskUse>, pid: u32) -> Vec<&'t TaskUse> {
    let name = format!("vhost-{pid}");
    tasks.filter(|task| task.command == name).collect()
}

fn begins_with(text: Option<&str>, starts: &[&str]) -> bool {
    text.is_some_and(|text| starts.iter().any(|start| text.starts_with(start)))
}

fn is_emulated(disk: &GuestDisk) -> bool {
    begins_with(disk.model.get(), &EMULATED_DISKS) && !begins_with(disk.controller.get(), &PARAVIRTUAL_CONTROLLERS)
}

/// Returns true if QEMU completes a write only when it is on stable storage (qemu block/block-backend.c: enable_write_cache).
fn flushes_each_write(disk: &GuestDisk) -> bool {
    matches!(disk.cache.get(), Some("writethrough" | "directsync")) && disk.read_only.get() != Some(1.0)
}

pub(super) fn listed<'a>(words: impl Iterator<Item = Option<&'a str>>) -> String {
    let all: BTreeSet<&str> = words.flatten().collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}

/// Largest possible PID (PID_MAX_LIMIT, include/linux/threads.h).
const MOST_PROCESSES: u32 = 4 << 20;

impl<'w> GuestUse<'w> {
    /// Returns true if KVM could run it: its CPUs are of the host's architecture.
    fn is_native(&self) -> Option<bool> {
        let (guest, host) = (self.config.architecture.get()?, self.machine?.architecture.get()?);
        Some(guest == host || (guest, host) == ("i386", "x86_64") || (guest, host) == ("ppc64", "powerpc64"))
    }

    fn steal(&self) -> Option<f64> {
        over(self.waiting, sum([self.cpu, self.waiting]))
    }

    fn main_loop_disks(&self) -> impl Iterator<Item = &'w GuestDisk> {
        self.disks.iter().copied().filter(|disk| disk.io_thread.get().is_none())
    }

    fn main_loop_cards(&self) -> impl Iterator<Item = &Card<'w>> {
        self.cards.iter().filter(|card| card.row.vhost.get() == Some(0.0))
    }

    fn main_loop_devices(&self) -> String {
        let disks = self.main_loop_disks().map(|disk| disk.model.get());
        listed(disks.chain(self.main_loop_cards().map(|card| card.row.model.get())))
    }

    fn vhost_cards(&self) -> impl Iterator<Item = &Card<'w>> {
        self.cards.iter().filter(|card| card.row.vhost.get() == Some(1.0))
    }

    /// Returns the packets through the cards whose packets vhost moves.
    fn vhost_packets(&self) -> Option<f64> {
        self.vhost_cards().filter_map(|card| card.packets).reduce(|a, b| a + b)
    }

    /// Returns the busiest of the threads that move packets.
    fn busiest_vhost(&self) -> Option<&'w TaskUse> {
        let ran = |task: &&TaskUse| task.cpu.unwrap_or(0.0);
        self.vhost.iter().copied().max_by(|a, b| ran(a).total_cmp(&ran(b)))
    }

    /// Returns the CPU use of the least busy of them.
    fn least_vhost(&self) -> Option<f64> {
        self.vhost.iter().filter_map(|task| task.cpu).reduce(f64::min)
    }

    /// Returns the queue pairs of the card whose packets vhost moves, if there is only one: a thread does not say which card it
    /// belongs to.
    fn vhost_queues(&self) -> Option<f64> {
        let mut cards = self.vhost_cards();
        let card = cards.next()?;
        if cards.next().is_some() { None } else { card.row.queues.get() }
    }

    /// Returns the packets through the cards that the main loop serves; `None` if none is connected to an interface.
    fn packets(&self) -> Option<f64> {
        self.main_loop_cards().filter_map(|card| card.packets).reduce(|a, b| a + b)
    }

    fn is_pinned(&self) -> Option<bool> {
        Some(self.idle.keys().any(|cpu| !self.affinity.as_ref().is_some_and(|own| own.contains(cpu))))
            .filter(|_| self.affinity.is_some())
    }

    fn virtual_cpus(&self) -> Option<f64> {
        self.config.cpus.get().or(Some(self.bound as f64).filter(|bound| *bound > 0.0))
    }

    /// Returns the CPUs' worth of idle time on the CPUs that it may use.
    fn idle_own(&self) -> Option<f64> {
        let own = self.affinity.as_ref()?;
        own.iter().map(|cpu| self.idle.get(cpu).copied()).sum()
    }

    /// Returns the CPUs' worth of idle time on the CPUs that it may not use.
    fn idle_elsewhere(&self) -> Option<f64> {
        let own = self.affinity.as_ref()?;
        Some(self.idle.iter().filter(|(cpu, _)| !own.contains(cpu)).map(|(_, idle)| idle).sum())
    }
}

signals! { g: GuestUse<'_>;
    "guest.accelerator" "text" "what runs its CPUs: kvm, or tcg, which emulates them", "an open file of KVM, else -accel", "/proc/PID/cmdline, /proc/PID/fd", normal "kvm" => g.config.accelerator.get();
    "guest.native" "flag" "1 if its CPUs are of the host's architecture, so that KVM could run it", "name of the program against uname -m", "/proc/PID/cmdline", normal "0 for a guest of another architecture, which has to be emulated" => g.is_native();
    "guest.kvm" "flag" "1 where the host offers KVM", "/dev/kvm exists", "/dev/kvm", normal "1 if the host's CPUs and kernel can run guests" => g.machine.and_then(|m| m.kvm.get());
    "guest.cpus" "count" "its virtual CPUs", "-smp", "/proc/PID/cmdline" => g.config.cpus.get();
    "guest.cpu" "count" "CPUs' worth of time that its virtual CPUs ran", "Δ(utime + stime) of their threads / Δt; where those have no names, of all threads but the main one", "/proc/PID/task/TID/stat" => g.cpu;
    "guest.waiting" "count" "mean number of its virtual CPUs that waited for a CPU of the host", "Δrun_delay of their threads / Δt", "/proc/PID/task/TID/schedstat", normal (near 0.1) => g.waiting;
    "guest.steal" "ratio" "share of the time in which its virtual CPUs had work that they waited for a CPU of the host: steal, as the guest sees it", "run_delay / (run_delay + utime + stime)", "/proc/PID/task/TID/schedstat", normal (below 0.05) => g.steal();
    "guest.main_loop" "ratio" "share of the time in which QEMU's main loop ran, one thread for every device without a thread of its own", "Δ(utime + stime) of the main thread / Δt", "/proc/PID/task/TID/stat", normal (below 0.6, "a thread cannot use more than one CPU") => g.main_loop.and_then(|t| t.cpu);
    "guest.main_loop_wait" "ratio" "share of the time in which it waited for a CPU", "Δrun_delay / Δt", "/proc/PID/task/TID/schedstat", normal (near 0.02) => g.main_loop.and_then(|t| t.run_delay);
    "guest.main_loop_disks" "text" "models of the disks that the main loop serves; empty if there are none", "disks without iothread", "/proc/PID/cmdline" => listed(g.main_loop_disks().map(|disk| disk.model.get())).as_str();
    "guest.main_loop_cards" "text" "models of the network cards that it serves; empty if there are none", "cards without vhost", "/proc/PID/cmdline" => listed(g.main_loop_cards().map(|card| card.row.model.get())).as_str();
    "guest.main_loop_devices" "text" "both; empty if there are none", "disks without iothread, cards without vhost", "/proc/PID/cmdline" => g.main_loop_devices().as_str();
    "guest.vhost" "ratio" "share of the time in which the busiest thread of the kernel that moves packets of its network cards ran; each pair of queues has one", "Δ(utime + stime) of the threads vhost-PID / Δt", "/proc/PID/stat, /proc/PID/task/TID/stat", normal (below 0.6, "a thread cannot use more than one CPU") => g.busiest_vhost().and_then(|t| t.cpu);
    "guest.vhost_least" "ratio" "the same of the least busy of these threads", "min(Δ(utime + stime) of the threads vhost-PID) / Δt", "/proc/PID/stat, /proc/PID/task/TID/stat" => g.least_vhost();
    "guest.vhost_wait" "ratio" "share of the time in which it waited for a CPU", "Δrun_delay / Δt", "/proc/PID/schedstat", normal (near 0.02) => g.busiest_vhost().and_then(|t| t.run_delay);
    "guest.vhost_queues" "count" "pairs of queues of its network card, if the kernel moves the packets of only one", "-netdev queues=, <driver queues=>", "/proc/PID/cmdline", normal "as many as the guest has CPUs, if it has much traffic" => g.vhost_queues();
    "guest.vhost_packets" "1/s" "packets through the network cards whose packets the kernel moves", "Δ(rx_packets + tx_packets) of their taps / Δt", "/proc/net/dev", normal "what the cards move" => g.vhost_packets();
    "guest.emulated_disks" "text" "disks of models that exist in hardware, which virtio would replace; empty if there are none", "-device", "/proc/PID/cmdline" => listed(g.disks.iter().filter(|disk| is_emulated(disk)).map(|disk| disk.model.get())).as_str();
    "guest.emulated_cards" "text" "network cards of models that exist in hardware, which virtio would replace; empty if there are none", "-device", "/proc/PID/cmdline" => listed(g.cards.iter().map(|card| card.row.model.get()).filter(|model| begins_with(*model, &EMULATED_CARDS))).as_str();
    "guest.storage_rate" "bytes/s" "bytes that it moved to and from storage", "Δ(read_bytes + write_bytes) / Δt", "/proc/PID/io" => g.process.and_then(|p| p.storage);
    "guest.flushed_disks" "text" "disks whose writes QEMU has flushed one by one; empty if there are none", "cache mode writethrough or directsync", "/proc/PID/cmdline, QMP, /run/libvirt/qemu" => listed(g.disks.iter().filter(|disk| flushes_each_write(disk)).map(|disk| Some(&*disk.disk.name))).as_str();
    "guest.flush_waiters" "count" "mean number of threads of QEMU that waited for a flush", "threads found waiting in a flush or a journal's commit / samples", "/proc/PID/task/TID/wchan", normal (near 0.1) => g.process.map(|process| process.flush_waiters);
    "guest.blocked" "ratio" "share of the samples in which a thread of QEMU was blocked", "samples in state D, or in io_getevents or io_uring_enter / samples", "/proc/PID/task/TID/stat, syscall", normal (near 0.02) => g.process.map(|process| process.blocked);
    "guest.packets" "1/s" "packets through the network cards that the main loop serves", "Δ(rx_packets + tx_packets) of their taps / Δt", "/proc/net/dev", normal "what the cards move" => g.packets();
    "guest.pinned" "flag" "1 if its virtual CPUs may not run on all CPUs of the host", "Cpus_allowed_list against the CPUs online; without it, 1 if they wait for full CPUs while others are idle", "/proc/PID/task/TID/status" => g.is_pinned();
    "guest.pinned_cpus" "text" "the CPUs that they may run on", "Cpus_allowed_list; without it, those that they ran on, if they wait for these while others are idle", "/proc/PID/task/TID/status" => g.affinity.as_ref().map(cpu_list::format).as_deref();
    "guest.idle_elsewhere" "count" "CPUs' worth of idle time on those that it may not use", "Σ Δidle / Δt", "/proc/PID/task/TID/status, /proc/stat" => g.idle_elsewhere();
    "guest.idle_own" "count" "CPUs' worth of idle time on those that it may use", "Σ Δidle / Δt", "/proc/PID/task/TID/status, /proc/stat", normal "some: a virtual CPU finds a CPU at once" => g.idle_own();
    "guest.virtual_cpus" "count" "its virtual CPUs; where their number is not configured, those whose CPUs are known", "-smp; threads", "/proc/PID/cmdline, virsh vcpupin" => g.virtual_cpus();
    "guest.pinned_count" "count" "CPUs that they may run on", "CPUs in Cpus_allowed_list", "/proc/PID/task/TID/status" => g.affinity.as_ref().map(|own| own.len() as f64);
    "guest.sharers" "text" "other guests that are bound to some of the same CPUs; empty if there are none", "Cpus_allowed_list", "/proc/PID/task/TID/status", normal "none" => Some(g.sharers.join(", ")).as_deref();
    "guest.limited" "flag" "1 if QEMU keeps some of its disks within a limit", "-drive throttling.*, -object throttle-group, QMP query-block, <iotune>", "/proc/PID/cmdline, QMP, /run/libvirt/qemu" => Some(g.limit.is_some());
    "guest.limit" "text" "the limit of its disks that is used most", "max over the limits of the part that is used", "/proc/PID/cmdline, QMP, /run/libvirt/qemu", normal "no limit, or one above the need" => g.limit.as_ref().map(|limit| limit.words.as_str());
    "guest.limited_disks" "text" "the disks that share it", "throttling.group, <group_name>", "/proc/PID/cmdline, QMP, /run/libvirt/qemu", normal "none" => g.limit.as_ref().map(|limit| limit.disks.as_str());
    "guest.limit_used" "ratio" "the part of it that is used", "Δ of what these disks did / Δt / limit; where the monitor could not be asked, of what the process did", "QMP query-blockstats, /proc/PID/io, BPF: block_rq_complete", normal (below 0.8) => g.limit.as_ref().and_then(|limit| limit.used);
    "guest.limit_requests" "1/s" "reads and writes of these disks", "Δ(rd_operations + wr_operations) / Δt; where the monitor could not be asked, the requests of the process", "QMP query-blockstats, BPF: block_rq_complete", normal "below the limit" => g.limit.as_ref().and_then(|limit| limit.requests);
    "guest.limit_in_flight" "count" "mean number of their requests that were not completed yet, those that QEMU held back included", "Δ(rd_total_time_ns + wr_total_time_ns + flush_total_time_ns) / Δt", "QMP query-blockstats", normal (near 0.1, "nothing waits") => g.limit.as_ref().and_then(|limit| limit.in_flight);
    "guest.limit_latency" "s" "how long a request took, as the guest sees it", "requests in flight / requests a second", "QMP query-blockstats", normal "as long as the storage of the host takes" => g.limit.as_ref().and_then(|limit| over(limit.in_flight, limit.requests));
    "guest.memory" "bytes" "its memory", "-m", "/proc/PID/cmdline" => g.config.memory.get();
    "guest.resident" "bytes" "the part that is in the host's memory; the rest has not been touched yet, is in the balloon, or is swapped out", "rss of QEMU", "/proc/PID/stat" => g.resident.or_else(|| g.memory?.last().resident.get());
    "guest.memory_now" "bytes" "memory that its balloon leaves it", "actual", "QMP query-balloon, virsh dommemstat", normal "what its programs need" => g.config.memory_now.get();
    "guest.ballooned" "ratio" "the part of its memory that its balloon holds", "1 - actual / maximum", "QMP query-balloon, virsh dommemstat, dominfo", normal "0 while memory is short in the guest" => over(g.config.memory_now.get(), g.config.memory.get()).map(|left| (1.0 - left).max(0.0));
    "guest.usable_share" "ratio" "of what its balloon leaves it, the part that its programs could use without making it swap", "usable / actual", "guest-stats of the balloon, virsh dommemstat", normal (above 0.1) => over(g.memory.and_then(|memory| memory.last().usable.get()), g.config.memory_now.get());
    "guest.swapping_in" "bytes/s" "bytes that it reads from its swap space", "Δswap_in / Δt", "guest-stats of the balloon, virsh dommemstat", normal (near 65536.0) => g.memory.and_then(|memory| memory.rate(|m| m.swapped_in));
    "guest.memory_backing" "text" "hugetlb, or pages as the kernel has them: anonymous, memfd, file", "-object memory-backend", "/proc/PID/cmdline", normal "hugetlb, or anonymous with transparent huge pages" => g.config.memory_backing.get();
}

/// Returns the guest that each process runs, by the name that findings use.
pub fn names(window: &Window) -> BTreeMap<TaskKey, String> {
    let guests = window.newest::<Guest>();
    guests.into_iter().filter_map(|(task, guest)| Some((task, format!("guest {}", guest.name.get()?)))).collect()
}

/// Returns every guest of this host.
pub fn entities(window: &Window, processes: &[TaskUse], threads: &[TaskUse]) -> Vec<Entity> {
    let guests = known(window).into_values().chain(unnamed(window, processes, threads));
    let guests: BTreeMap<TaskKey, Guest> = guests.map(|guest| (guest.task, guest)).collect();
    if guests.is_empty() {
        return Vec::new();
    }
    let (idle, rows, memory) = (idle_cpus(window), window.newest::<Process>(), window.changes::<GuestMemory>());
    let (cpus, disks, cards) = (window.newest::<GuestCpu>(), window.newest::<GuestDisk>(), window.newest::<GuestNic>());
    let packets: BTreeMap<_, Option<f64>> = window
        .changes::<Interface>()
        .iter()
        .filter(|change| change.key().ns.is_empty())
        .map(|change| (change.key().name.clone(), sum([change.rate(|i| i.rx_packets), change.rate(|i| i.tx_packets)])))
        .collect();
    let (disk_io, requests) = (guest_limit::disk_io(window), guest_limit::block_requests(window));
    let threads: BTreeMap<TaskKey, &TaskUse> = threads.iter().map(|thread| (thread.key, thread)).collect();
    // Captures show at best the threads' names.
    let virtual_cpus = |task: &TaskKey| -> Vec<&TaskUse> {
        let of_task = || threads.iter().filter(|(thread, _)| thread.pid == task.pid);
        let known: Vec<&TaskUse> =
            of_task().filter(|(thread, _)| cpus.contains_key(thread)).map(|(_, used)| *used).collect();
        let named = || of_task().map(|(_, used)| *used).filter(|used| is_virtual_cpu(&used.command)).collect();
        if known.is_empty() { named() } else { known }
    };
    let thread_rows = window.newest::<Thread>();
    let affinity = |task: &TaskKey| -> Option<BTreeSet<u32>> {
        if !cpus.keys().any(|thread| thread.pid == task.pid) {
            return seen_on(window, &virtual_cpus(task), &idle);
        }
        let lists = cpus.values().filter(|cpu| cpu.thread.pid == task.pid).map(|cpu| cpu_list::parse(cpu.cpus.get()?));
        lists.collect::<Option<Vec<_>>>()?.into_iter().reduce(|a, b| &a | &b)
    };
    let affinities: BTreeMap<TaskKey, BTreeSet<u32>> =
        guests.keys().filter_map(|task| Some((*task, affinity(task)?))).collect();
    let entity = |(task, config): (&TaskKey, &Guest)| {
        let process = processes.iter().find(|process| process.key == *task);
        // If the number of threads is unknown, the row of the process is not that of its first thread. In top -H it is, and it
        // is unknown which other threads belong to the process.
        let stands_for_first = rows.get(task).is_some_and(|row| row.threads.get() == Some(1.0));
        let main_loop = threads.get(task).copied().filter(|_| stands_for_first || thread_rows.contains_key(task));
        let own = virtual_cpus(task);
        let of_cpus = |f: fn(&TaskUse) -> Option<f64>| {
            // Without names, its threads look like workers of QEMU.
            let others = || (!stands_for_first).then(|| Some((f(process?)? - f(main_loop?)?).max(0.0))).flatten();
            if own.is_empty() { others() } else { own.iter().map(|thread| f(thread)).sum() }
        };
        let pinned = affinities.get(task);
        let is_all = |cpus: &BTreeSet<u32>| idle.keys().all(|cpu| cpus.contains(cpu));
        let shares = |(other, cpus): &(&TaskKey, &BTreeSet<u32>)| {
            *other != task && !is_all(cpus) && pinned.is_some_and(|own| !own.is_disjoint(cpus))
        };
        let disks: Vec<&GuestDisk> = disks.values().filter(|disk| disk.disk.task == *task).copied().collect();
        let guest = GuestUse {
            config,
            limit: guest_limit::most_used(&disks, &disk_io, process, requests.get(&task.pid).copied()),
            machine: window.the(),
            cpu: of_cpus(|thread| thread.cpu),
            waiting: of_cpus(|thread| thread.run_delay),
            main_loop,
            vhost: vhost(processes.iter().chain(threads.values().copied()), task.pid),
            process,
            resident: rows.get(task).and_then(|row| row.rss.get()),
            memory: memory.iter().find(|change| change.key() == task),
            disks,
            cards: cards
                .values()
                .filter(|card| card.card.task == *task)
                .map(|row| Card { row, packets: row.interface.get().and_then(|name| *packets.get(name)?) })
                .collect(),
            affinity: pinned.cloned(),
            bound: cpus.keys().filter(|thread| thread.pid == task.pid).count(),
            idle: &idle,
            sharers: affinities
                .iter()
                .filter(shares)
                .filter_map(|(other, _)| guests.get(other)?.name.get().filter(|name| Some(*name) != config.name.get()))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
        };
        let name = config.name.get().map_or_else(|| task.pid.to_string(), str::to_owned);
        // virsh shows no process.
        let pid = Some(task.pid).filter(|pid| *pid <= MOST_PROCESSES);
        let subject = Subject { pid, ..Subject::new("guest", name) };
        Entity::from_subject(subject, &guest).within(process.and_then(|process| process.cgroup.clone()))
    };
    guests.iter().map(entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::scope::Scope;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::{Cpu, ProcessRow, Thread};
    use whyslow_model::key::GuestDevice;
    use whyslow_model::snapshot::Snapshot;

    fn task(pid: u32, tid: u32) -> TaskKey {
        TaskKey { pid, tid, start: 1 }
    }

    /// Returns a thread that ran and waited for these percentages of the time until `t`.
    fn thread(t: u64, key: TaskKey, ran: u64, waited: u64) -> Thread {
        let percent = t * SECOND / 100;
        Thread {
            command: "x".into(),
            user: (percent * ran).into(),
            system: 0.into(),
            run_delay: (percent * waited).into(),
            ..Thread::new(key)
        }
    }

    /// Adds two guests with one virtual CPU each on CPU 0 of two. The second has a busy main loop.
    fn host(t: u64, s: &mut Snapshot) {
        s.kernel.machine.push(MachineInfo { architecture: "x86_64".into(), kvm: 1.into(), ..MachineInfo::default() });
        for (cpu, idle) in [(0, 0), (1, 90)] {
            s.processor.cpu.push(Cpu { idle: (t * SECOND / 100 * idle).into(), iowait: 0.into(), ..Cpu::new(cpu) });
        }
        for (pid, name, main) in [(7, "web1", 5), (9, "db", 80)] {
            let key = task(pid, pid);
            s.task.process.push(
                ProcessRow {
                    command: "qemu-kvm".into(),
                    threads: 2.into(),
                    rss: (1 << 20).into(),
                    ..ProcessRow::new(key)
                }
                .into(),
            );
            s.task.thread.push(thread(t, key, main, 1));
            s.task.thread.push(thread(t, task(pid, pid + 1), 30, 20));
            s.guest.guest.push(Guest {
                name: name.into(),
                accelerator: "tcg".into(),
                architecture: "x86_64".into(),
                cpus: 1.into(),
                ..Guest::new(key)
            });
            s.guest.guest_cpu.push(GuestCpu { cpus: "0".into(), ..GuestCpu::new(task(pid, pid + 1)) });
            let device = |name: &str| GuestDevice { task: key, name: name.into() };
            let disk = |name: &str, model: &str| GuestDisk { model: model.into(), ..GuestDisk::new(device(name)) };
            s.guest.guest_disk.push(disk("a", "ide-hd"));
            s.guest.guest_disk.push(GuestDisk { io_thread: "io1".into(), ..disk("b", "virtio-blk-pci") });
            s.guest.guest_disk.push(GuestDisk { controller: "virtio-scsi-pci".into(), ..disk("c", "scsi-hd") });
            let card = GuestNic {
                model: "e1000".into(),
                vhost: 0.into(),
                interface: "tap0".into(),
                ..GuestNic::new(device("n"))
            };
            s.guest.guest_nic.push(card);
        }
        let tap = Interface {
            rx_packets: (t * 300).into(),
            tx_packets: (t * 200).into(),
            ..Interface::new(whyslow_model::key::NetKey { name: "tap0".into(), ..Default::default() })
        };
        s.net.interface.push(tap);
    }

    #[test]
    fn a_guest_is_what_its_threads_and_devices_are() {
        let window = window([0, 10], host);
        let facts = Facts::from_window(&window);
        let [web1, db] = facts.entities(Scope::Guest) else { panic!("two guests") };
        assert_eq!((web1.subject.kind.as_str(), web1.subject.name.as_str()), ("guest", "web1"));
        let numbers =
            |names: [&str; 8]| names.map(|name| db.number(name).map(|number| (number * 1000.0).round() / 1000.0));
        let found = numbers([
            "guest.cpu",
            "guest.waiting",
            "guest.steal",
            "guest.main_loop",
            "guest.packets",
            "guest.pinned",
            "guest.idle_elsewhere",
            "guest.native",
        ]);
        assert_eq!(found, [0.3, 0.2, 0.4, 0.8, 500.0, 1.0, 0.9, 1.0].map(Some));
        let text = |name: &str| format!("{:?}", db.reading(name));
        for (signal, words) in [
            ("guest.main_loop_disks", "ide-hd, scsi-hd"),
            ("guest.main_loop_cards", "e1000"),
            ("guest.main_loop_devices", "e1000, ide-hd, scsi-hd"),
            ("guest.emulated_disks", "ide-hd"),
            ("guest.emulated_cards", "e1000"),
            ("guest.sharers", "web1"),
            ("guest.pinned_cpus", "0"),
        ] {
            assert_eq!(text(signal), format!("Some(Text({words:?}))"), "{signal}");
        }
        assert_eq!(db.number("guest.resident"), Some(1_048_576.0));
        let process = facts.entities(Scope::Process).iter().find(|process| process.subject.pid == Some(9)).unwrap();
        assert_eq!(process.subject.name, "guest db");
    }
}
