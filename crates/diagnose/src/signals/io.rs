//! A process' use of a device: what it requested, what was read for it, and how it waited.
//!
//! BPF sees which process makes each request of a request-based device. A device that only passes requests on (dm, md) has the
//! users of those below it, where they work for it alone. Elsewhere only the bytes that each process moved are known, and which
//! devices moved as many.

use super::blocked::{DIRTY_WAITS, PAGE_WAITS};
use super::requester::{self, RequesterUse};
use super::served::{ByteRates, Devices};
use super::task::TaskUse;
use crate::signal::{Entity, over, share_of_true, signals, sum};
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{PageCache, Process, Queue, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::topology::Topology;
use whyslow_model::value::{Counter, Name, State};
use whyslow_model::window::{Change, Window, counted_seconds};

/// Maximum bytes of cached pages that one page fault maps (mm/memory.c: fault_around_bytes).
const FAULT_AROUND: f64 = 65536.0;

/// A process and a device that it used.
pub struct IoUse<'w> {
    subject: Subject,
    process: Option<(&'w TaskUse, &'w Change<'w, Process>)>,
    device: Option<Name>,
    /// Devices on top of it through which its requests came, lowest first.
    through: Vec<Name>,
    made: Option<RequesterUse>,
    /// Bytes that it read and wrote, per second of the time in which that was counted for any process.
    read: Option<f64>,
    written: Option<f64>,
    read_ahead: Option<f64>,
    cache_wait: Option<f64>,
    held_back: Option<f64>,
    cache: Option<CacheUse>,
    main: bool,
}

/// Requests of a process to the page cache, per second.
#[derive(Clone, Copy, Debug)]
struct CacheUse {
    /// Read calls that took pages from it, and page faults.
    lookups: f64,
    misses: f64,
}

impl CacheUse {
    fn from_change(change: &Change<'_, PageCache>) -> Option<Self> {
        let lookups = [change.rate(|c| c.lookups), change.rate(|c| c.faults), change.rate(|c| c.faults_cached)];
        Some(Self { lookups: sum(lookups)?, misses: change.rate(|c| c.misses)? })
    }

    fn hit_share(&self) -> Option<f64> {
        over(Some(self.misses), Some(self.lookups)).map(|missed| (1.0 - missed).max(0.0))
    }
}

impl IoUse<'_> {
    /// Returns the device, where it is known.
    pub fn device(&self) -> Option<&Name> {
        self.device.as_ref()
    }

    /// Returns true if it used this device: by its own requests, or through it the one below that served them.
    pub fn is_of(&self, device: &Name) -> bool {
        self.device.as_ref() == Some(device) || self.through.contains(device)
    }

    /// Returns the PID of the process.
    pub fn pid(&self) -> Option<u32> {
        self.subject.pid
    }

    /// Returns the mean number of its requests in flight, where they were seen.
    pub fn in_flight(&self) -> Option<f64> {
        self.made(RequesterUse::in_flight)
    }

    /// Returns true if it wrote to storage or dirtied pages.
    pub fn writes(&self) -> bool {
        self.process.is_some_and(|(task, _)| task.written.is_some_and(|written| written > 0.0))
    }

    /// Returns the share of the samples in which one of its threads waited for a page cache read.
    pub fn cache_wait(&self) -> Option<f64> {
        self.cache_wait
    }

    /// Returns the share of the time in which one of its threads was throttled because too much memory was dirty. Samples can
    /// miss it, or find nothing else, where a program writes as regularly as they are taken.
    pub fn held_back(&self) -> Option<f64> {
        let traced = self.process.and_then(|(task, _)| task.sleep.dirty_throttle);
        traced.map(|threads| threads.min(1.0)).or(self.held_back)
    }

    /// Returns the bytes read from storage for it, per second.
    pub fn read_rate(&self) -> Option<f64> {
        self.process?.1.rate(|p| p.read_bytes)
    }

    /// Returns the mean bytes of a read call.
    pub fn call_size(&self) -> Option<f64> {
        let change = self.process?.1;
        over(change.rate(|p| p.read_chars), change.rate(|p| p.read_calls))
    }

    /// Returns the maximum bytes per second that it can have requested: all that its read calls returned, cached or not, and all
    /// that its page faults can have mapped.
    fn asked(&self) -> Option<f64> {
        let change = self.process?.1;
        let faults = sum([change.rate(|p| p.minor_faults), change.rate(|p| p.major_faults)])?;
        Some(change.rate(|p| p.read_chars)? + faults * FAULT_AROUND)
    }

    /// Returns the bytes that it moved to and from storage, per second of the time in which that was counted for any process.
    pub fn storage(&self) -> Option<f64> {
        sum([self.read, self.written])
    }

    /// Returns true if it is a kernel thread.
    pub fn kernel(&self) -> bool {
        self.process.is_some_and(|(task, _)| task.kernel)
    }

    fn made<T>(&self, part: impl Fn(&RequesterUse) -> T) -> Option<T> {
        self.made.as_ref().map(part)
    }
}

signals! { u: IoUse<'_>;
    "io.device" "text" "the device it used; empty where that is not known", "the device of its requests, or the only one that delivered as much as was read for it", "BPF: block_rq_issue, or /proc/PID/io and /proc/diskstats", normal "the device it used" => u.device.as_deref().unwrap_or_default();
    "io.devices" "text" "that device, and those on top of it through which its requests came to it", "arrays, volumes and paths for which alone the device works", "/sys/block, /proc/diskstats" => u.device.iter().chain(&u.through).map(|name| format!(" {name} ")).collect::<String>().as_str();
    "io.main" "flag" "1 for the device it used most", "most of its requests' time", "BPF: block_rq_complete, or /proc/PID/io" => u.main;
    "io.measured" "flag" "1 where its requests were seen one by one", "as BPF sees them", "BPF: block_rq_issue" => u.made.is_some();
    "io.kernel" "flag" "1 for threads of the kernel itself", "PF_KTHREAD", "/proc/PID/stat" => u.kernel();
    "io.idle_class" "flag" "1 where its requests have the lowest I/O priority already, by its scheduling class; an I/O priority set with ionice is not seen", "SCHED_IDLE (block/ioprio.c: task_nice_ioclass)", "/proc/PID/stat" => u.process.is_some_and(|(task, _)| task.idle_class);
    "io.in_flight" "count" "mean number of its requests in flight; of the kernel's, its part of the bytes that are written back, and of the journal and the flushes its part of the waiting", "Δ(queue time + device time) / Δt", "BPF: block_rq_issue, block_rq_complete" => u.made(RequesterUse::in_flight);
    "io.written_back" "count" "mean number of requests in flight by which the kernel wrote back what it had written to the page cache", "Δ(queue time + device time) of write-back / Δt, by the bytes each wrote", "BPF: block_rq_issue, block_rq_complete" => u.made(|m| m.written_back);
    "io.flush_share" "count" "mean number of flushes in flight, and writes of the journal, that it issued or waited for", "Δ(flush and journal time) / Δt, by how many of its threads the samples found waiting for a flush", "BPF: block_rq_issue, block_rq_complete, /proc/PID/task/TID/wchan" => u.made(|m| m.committed);
    "io.requests" "1/s" "requests it made itself", "Δrequests / Δt", "BPF: block_rq_complete" => u.made(|m| m.requests);
    "io.queue_time" "s" "mean time its requests waited before the device got them", "Δqueue time / Δrequests", "BPF: block_rq_issue" => over(u.made(|m| m.queue_time), u.made(|m| m.requests));
    "io.device_time" "s" "mean time the device took for its requests", "Δdevice time / Δrequests", "BPF: block_rq_complete" => over(u.made(|m| m.device_time), u.made(|m| m.requests));
    "io.rate" "bytes/s" "bytes it moved to and from storage, over all the time in which processes were sampled", "Δ(read_bytes + write_bytes) / Δt", "/proc/PID/io" => u.storage();
    "io.read_rate" "bytes/s" "bytes read from storage for it", "Δread_bytes / Δt", "/proc/PID/io", normal "no more than it requests" => u.read_rate();
    "io.write_rate" "bytes/s" "bytes it wrote or made dirty", "Δwrite_bytes / Δt", "/proc/PID/io" => u.process.and_then(|(task, _)| task.written);
    "io.blocked_share" "ratio" "share of the samples in which one of its threads was blocked: in uninterruptible sleep, or waiting for asynchronous I/O", "samples in state D, or in io_getevents or io_uring_enter / samples", "/proc/PID/task/TID/stat, syscall" => u.process.map(|(task, _)| task.blocked);
    "io.call_size" "bytes" "mean size of a read call, cached or not", "Δrchar / Δsyscr", "/proc/PID/io" => u.call_size();
    "io.asked" "bytes/s" "bytes it can have asked for at most", "(Δrchar + Δ(minor + major faults) x 64 KiB) / Δt", "/proc/PID/io, /proc/PID/stat; mm/memory.c: fault_around_bytes", normal "as much as is read" => u.asked();
    "io.amplification" "count" "bytes read from storage for each byte it asked for, at least", "Δread_bytes / (Δrchar + Δ(minor + major faults) x 64 KiB)", "/proc/PID/io, /proc/PID/stat", normal "1 or less if what was read is found in the cache again" => over(u.read_rate(), u.asked());
    "io.cache_wait" "ratio" "share of the samples in which one of its threads waited for the page cache to be read", "samples in state D with a wait channel of mm/filemap.c / samples", "/proc/PID/wchan", normal (near 0.02) => u.cache_wait;
    "io.held_back" "ratio" "share of the time in which one of its threads was held back because too much memory was dirty", "Δtime asleep in balance_dirty_pages / Δt, at most 1; without BPF the samples found so / samples", "BPF: sched_switch, sched_waking; /proc/PID/wchan (mm/page-writeback.c)" => u.held_back();
    "io.misses" "1/s" "times it found nothing in the page cache and had it read", "Δmisses / Δt", "BPF: page_cache_sync_ra" => u.cache.map(|c| c.misses);
    "io.hit_share" "ratio" "share of its read calls and page faults that found something in the page cache, read ahead or before", "1 - Δmisses / Δ(lookups + faults)", "BPF: page_cache_sync_ra, mm_filemap_get_pages, mm_filemap_fault, mm_filemap_map_pages", normal "near 1 if what is read ahead is requested next" => u.cache.and_then(|c| c.hit_share());
    "io.read_ahead" "bytes" "read-ahead of the device it used", "read_ahead_kb", "/sys/block/*/queue", normal "no more than is used: a few pages for random reads" => u.read_ahead;
}

/// Returns an entity for each use.
pub fn entities(uses: &[IoUse<'_>]) -> Vec<Entity> {
    let cgroup = |u: &IoUse<'_>| u.process.and_then(|(task, _)| task.cgroup.clone());
    uses.iter().map(|u| Entity::from_subject(u.subject.clone(), u).within(cgroup(u))).collect()
}

/// Returns every process' use of devices.
pub fn uses<'w>(
    window: &'w Window,
    topology: &Topology,
    tasks: &'w [TaskUse],
    changes: &'w [Change<'w, Process>],
) -> Vec<IoUse<'w>> {
    let queues = window.newest::<Queue>();
    let threads = window.changes::<Thread>();
    let devices = Devices::from_window(window, topology);
    let caches: BTreeMap<TaskKey, CacheUse> =
        window.changes::<PageCache>().iter().filter_map(|c| Some((*c.key(), CacheUse::from_change(c)?))).collect();
    // The divisor is the same however short a part of that time a process lived; the rates of devices are computed alike.
    let over_time = |of: fn(&Process) -> Counter| {
        let seconds = counted_seconds(changes, of);
        move |change: &Change<'_, Process>| over(change.grown(of), seconds)
    };
    let (read, written) = (over_time(|p| p.read_bytes), over_time(|p| p.write_bytes));
    let processes: BTreeMap<TaskKey, _> = tasks.iter().map(|t| t.key).zip(tasks.iter().zip(changes)).collect();
    let new = |key: TaskKey, device: Option<Name>| {
        let process = processes.get(&key).copied();
        IoUse {
            subject: process.map_or_else(Subject::host, |(task, _)| super::process::subject(task)),
            process,
            made: None,
            read: process.and_then(|(_, change)| read(change)),
            written: process.and_then(|(_, change)| written(change)),
            read_ahead: device.as_ref().and_then(|d| queues.get(d)?.read_ahead.get()),
            cache_wait: process.map(|(_, change)| wait_share(&PAGE_WAITS, key, change, &threads)),
            held_back: process.map(|(_, change)| wait_share(&DIRTY_WAITS, key, change, &threads)),
            cache: caches.get(&key).copied(),
            through: device.as_ref().map(|device| devices.through(device, topology)).unwrap_or_default(),
            device,
            main: false,
        }
    };
    let made = requester::made(window, topology, tasks).into_iter().filter(|(_, made)| made.in_flight() > 0.0);
    let seen = made.map(|((key, device), made)| {
        let mut seen = new(key, Some(device));
        if seen.process.is_none() {
            seen.subject = Subject { pid: Some(key.pid), ..Subject::new("process", made.command.clone()) };
        }
        IoUse { made: Some(made), ..seen }
    });
    let moved = |change: &Change<'_, Process>| ByteRates {
        read: read(change).unwrap_or(0.0),
        written: written(change).unwrap_or(0.0),
    };
    let inferred = tasks
        .iter()
        .zip(changes)
        .filter(|(task, _)| !devices.unseen.is_empty() && task.storage.is_some_and(|rate| rate > 0.0))
        .map(|(task, change)| (task.key, devices.serving(moved(change), topology)))
        .filter(|(_, device)| device.as_ref().is_none_or(|d| devices.unseen.contains(d)))
        .map(|(key, device)| new(key, device));
    let mut uses: Vec<IoUse<'_>> = seen.chain(inferred).collect();
    mark_main(&mut uses);
    uses
}

/// Marks the largest use of each process, so that a rule about the process is judged once.
fn mark_main(uses: &mut [IoUse<'_>]) {
    let weight = |u: &IoUse<'_>| u.made(RequesterUse::in_flight).unwrap_or(0.0);
    let mut largest: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, used) in uses.iter().enumerate() {
        let Some(pid) = used.subject.pid else { continue };
        let best = largest.entry(pid).or_insert(at);
        if weight(used) > weight(&uses[*best]) {
            *best = at;
        }
    }
    for at in largest.into_values() {
        uses[at].main = true;
    }
}

/// Returns the largest share of the samples in which a thread of the process waited at one of these places.
fn wait_share(places: &[&str], process: TaskKey, change: &Change<'_, Process>, threads: &[Change<'_, Thread>]) -> f64 {
    let of_main = waits(places, change.rows().map(|r| (&r.state, &r.wait_channel)));
    threads
        .iter()
        .filter(|t| t.key().pid == process.pid)
        .map(|t| waits(places, t.rows().map(|r| (&r.state, &r.wait_channel))))
        .fold(of_main, f64::max)
}

fn waits<'r>(places: &[&str], samples: impl Iterator<Item = (&'r State, &'r State)>) -> f64 {
    let is_waiting =
        |(state, place): (&State, &State)| state.get() == Some("D") && place.get().is_some_and(|p| places.contains(&p));
    share_of_true(samples.map(is_waiting)).unwrap_or(0.0)
}
