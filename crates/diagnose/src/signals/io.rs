//! A process' use of a device: what it asked for, what was read for it, and how it waited.
//!
//! BPF sees who makes each request of a request-based device. Where it does not look, and for devices that pass on what
//! they are asked (dm, md), what is left are the bytes of each process, and the devices that delivered as many.

use super::requester::{self, Made};
use super::task::TaskUse;
use crate::signal::{Entity, over, signals, sum};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Disk, Process, Queue, Thread};
use whyslow_model::diagnosis::Subject;
use whyslow_model::key::TaskKey;
use whyslow_model::topology::Topology;
use whyslow_model::value::{Counter, Name, State};
use whyslow_model::window::{Change, Window};

/// Where a task sleeps that waits for a page of the page cache to be read, by kernel version (mm/filemap.c).
const CACHE_WAITS: [&str; 6] = [
    "folio_wait_bit_common",
    "folio_put_wait_locked",
    "wait_on_page_bit_common",
    "put_and_wait_on_page_locked",
    "__lock_page_killable",
    "wait_on_page_bit_killable",
];

/// What one page fault maps at most of what is cached already (mm/memory.c: fault_around_bytes).
const FAULT_AROUND: f64 = 65536.0;

/// Bytes a second: of a process or of a device.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    read: f64,
    written: f64,
}

/// The part of what a process read that a device must have delivered to be the one it read from: requests that were in
/// flight when a sample was taken are counted for the one and not yet for the other.
const DELIVERED: f64 = 0.8;

/// A process and a device that it used.
pub struct IoUse<'w> {
    subject: Subject,
    process: Option<(&'w TaskUse, &'w Change<'w, Process>)>,
    device: Option<Name>,
    made: Option<Made>,
    read_ahead: Option<f64>,
    cache_wait: Option<f64>,
    main: bool,
}

impl IoUse<'_> {
    /// The device, where it is known.
    pub fn device(&self) -> Option<&Name> {
        self.device.as_ref()
    }

    /// Share of the samples in which one of its threads waited for the page cache to be read.
    pub fn cache_wait(&self) -> Option<f64> {
        self.cache_wait
    }

    /// Bytes read from storage for it, per second.
    pub fn read_rate(&self) -> Option<f64> {
        self.process?.1.rate(|p| p.read_bytes)
    }

    /// Mean bytes of a read call.
    pub fn call_size(&self) -> Option<f64> {
        let change = self.process?.1;
        over(change.rate(|p| p.read_chars), change.rate(|p| p.read_calls))
    }

    /// What it can have asked for at most, per second: all that its read calls brought, cached or not, and all that its
    /// page faults can have mapped.
    fn asked(&self) -> Option<f64> {
        let change = self.process?.1;
        let faults = sum([change.rate(|p| p.minor_faults), change.rate(|p| p.major_faults)])?;
        Some(change.rate(|p| p.read_chars)? + faults * FAULT_AROUND)
    }

    fn storage(&self) -> Option<f64> {
        self.process?.0.storage
    }

    fn kernel(&self) -> bool {
        self.process.is_some_and(|(task, _)| task.kernel)
    }

    fn made<T>(&self, part: impl Fn(&Made) -> T) -> Option<T> {
        self.made.as_ref().map(part)
    }
}

signals! { u: &IoUse<'_>;
    "io.device" "text" "the device it used; empty where it cannot be told", "the device of its requests, or the only one that delivered as much as was read for it", "BPF: block_rq_issue, or /proc/PID/io and /proc/diskstats" => u.device.as_deref().unwrap_or_default();
    "io.main" "count" "1 for the device it used most", "most of its requests' time", "BPF: block_rq_complete, or /proc/PID/io" => u.main;
    "io.measured" "count" "1 where its requests were seen one by one", "as BPF sees them", "BPF: block_rq_issue" => u.made.is_some();
    "io.kernel" "count" "1 for threads of the kernel itself", "PF_KTHREAD", "/proc/PID/stat" => u.kernel();
    "io.in_flight" "count" "mean number of its requests in flight; of those that write back what processes wrote, its part of the bytes", "Δ(queue time + device time) / Δt", "BPF: block_rq_issue, block_rq_complete" => u.made(Made::in_flight);
    "io.requests" "1/s" "requests it made itself", "Δrequests / Δt", "BPF: block_rq_complete" => u.made(|m| m.requests);
    "io.queue_time" "s" "mean time its requests waited before the device got them", "Δqueue time / Δrequests", "BPF: block_rq_issue" => over(u.made(|m| m.queue_time), u.made(|m| m.requests));
    "io.device_time" "s" "mean time the device took for its requests", "Δdevice time / Δrequests", "BPF: block_rq_complete" => over(u.made(|m| m.device_time), u.made(|m| m.requests));
    "io.rate" "bytes/s" "bytes it moved to and from storage", "Δ(read_bytes + write_bytes) / Δt", "/proc/PID/io" => u.storage();
    "io.read_rate" "bytes/s" "bytes read from storage for it", "Δread_bytes / Δt", "/proc/PID/io" => u.read_rate();
    "io.write_rate" "bytes/s" "bytes it wrote or made dirty", "Δwrite_bytes / Δt", "/proc/PID/io" => u.process.and_then(|(task, _)| task.written);
    "io.blocked_share" "ratio" "share of the samples in which it slept uninterruptibly", "samples in state D / samples", "/proc/PID/stat" => u.process.map(|(task, _)| task.uninterruptible);
    "io.call_size" "bytes" "mean size of a read call, cached or not", "Δrchar / Δsyscr", "/proc/PID/io" => u.call_size();
    "io.asked" "bytes/s" "bytes it can have asked for at most", "(Δrchar + Δ(minor + major faults) x 64 KiB) / Δt", "/proc/PID/io, /proc/PID/stat; mm/memory.c: fault_around_bytes" => u.asked();
    "io.amplification" "count" "bytes read from storage for each byte it asked for, at least", "Δread_bytes / (Δrchar + Δ(minor + major faults) x 64 KiB)", "/proc/PID/io, /proc/PID/stat" => over(u.read_rate(), u.asked());
    "io.cache_wait" "ratio" "share of the samples in which one of its threads waited for the page cache to be read", "samples in state D with a wait channel of mm/filemap.c / samples", "/proc/PID/wchan" => u.cache_wait;
    "io.read_ahead" "bytes" "read-ahead of the device it used", "read_ahead_kb", "/sys/block/*/queue" => u.read_ahead;
}

/// What each of them did.
pub fn entities(uses: &[IoUse<'_>]) -> Vec<Entity> {
    let cgroup = |u: &IoUse<'_>| u.process.and_then(|(task, _)| task.cgroup.clone());
    uses.iter().map(|u| Entity::new(u.subject.clone(), read(u)).within(cgroup(u))).collect()
}

/// Everybody's use of devices.
pub fn uses<'w>(
    window: &'w Window,
    topology: &Topology,
    tasks: &'w [TaskUse],
    changes: &'w [Change<'w, Process>],
) -> Vec<IoUse<'w>> {
    let queues = window.newest::<Queue>();
    let threads = window.changes::<Thread>();
    let devices = Devices::of(window, topology);
    let processes: BTreeMap<TaskKey, _> = tasks.iter().map(|t| t.key).zip(tasks.iter().zip(changes)).collect();
    let new = |key: TaskKey, device: Option<Name>| {
        let process = processes.get(&key).copied();
        IoUse {
            subject: process.map_or_else(Subject::host, |(task, _)| super::process::subject(task)),
            process,
            made: None,
            read_ahead: device.as_ref().and_then(|d| queues.get(d)?.read_ahead.get()),
            cache_wait: process.map(|(_, change)| cache_wait(key, change, &threads)),
            device,
            main: false,
        }
    };
    let made = requester::made(window, tasks).into_iter().filter(|(_, made)| made.in_flight() > 0.0);
    let seen = made.map(|((key, device), made)| {
        let mut seen = new(key, Some(device));
        if seen.process.is_none() {
            seen.subject = Subject { pid: Some(key.pid), ..Subject::new("process", made.command.clone()) };
        }
        IoUse { made: Some(made), ..seen }
    });
    let moved = |change: &Change<'_, Process>| Rates {
        read: change.rate(|p| p.read_bytes).unwrap_or(0.0),
        written: change.rate(|p| p.write_bytes).unwrap_or(0.0),
    };
    let inferred = tasks
        .iter()
        .zip(changes)
        .filter(|(task, _)| !devices.unseen.is_empty() && task.storage.is_some_and(|rate| rate > 0.0))
        .map(|(task, change)| (task.key, serving(moved(change), &devices.rates, topology)))
        .filter(|(_, device)| device.as_ref().is_none_or(|d| devices.unseen.contains(d)))
        .map(|(key, device)| new(key, device));
    let mut uses: Vec<IoUse<'_>> = seen.chain(inferred).collect();
    mark_main(&mut uses);
    uses
}

/// The whole devices that did anything.
struct Devices {
    /// What each did.
    rates: BTreeMap<Name, Rates>,
    /// Those of whose requests BPF saw none.
    unseen: BTreeSet<Name>,
}

impl Devices {
    fn of(window: &Window, topology: &Topology) -> Self {
        let seen = requester::devices(window);
        let mut devices = Self { rates: BTreeMap::new(), unseen: BTreeSet::new() };
        for disk in window.changes::<Disk>().iter().filter(|d| !topology.is_partition(d.key())) {
            let name = disk.key();
            let active = sum([disk.rate(|d| d.reads), disk.rate(|d| d.writes)]).is_some_and(|rate| rate > 0.0);
            if active && !seen.contains(name) {
                devices.unseen.insert(name.clone());
            }
            let rate = |of: fn(&Disk) -> Counter| disk.rate(of).unwrap_or(0.0);
            let rates = Rates { read: rate(|d| d.read_bytes), written: rate(|d| d.write_bytes) };
            devices.rates.insert(name.clone(), rates);
        }
        devices
    }
}

/// Of each process' uses marks the largest, so that a rule about the process is asked once.
fn mark_main(uses: &mut [IoUse<'_>]) {
    let weight = |u: &IoUse<'_>| u.made(Made::in_flight).unwrap_or(0.0);
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

/// The only device that can have served a process: that delivered as much as it read and, where it wrote, was written to
/// at all, for write-back takes its time. Of devices that lie on one another it is the uppermost.
fn serving(process: Rates, devices: &BTreeMap<Name, Rates>, topology: &Topology) -> Option<Name> {
    let serves = |d: &Rates| d.read >= DELIVERED * process.read && (process.written == 0.0 || d.written > 0.0);
    let able: Vec<&Name> = devices.iter().filter(|(_, rates)| serves(rates)).map(|(name, _)| name).collect();
    let uppermost = |name: &&Name| able.iter().all(|other| other == name || !topology.rests_on(other, name));
    let mut tops = able.iter().copied().filter(uppermost);
    match (tops.next(), tops.next()) {
        (Some(only), None) => Some(only.clone()),
        _ => None,
    }
}

/// The largest share of the samples in which a thread of the process waited for the page cache.
fn cache_wait(process: TaskKey, change: &Change<'_, Process>, threads: &[Change<'_, Thread>]) -> f64 {
    let of_main = waits(change.rows().map(|r| (&r.state, &r.wait_channel)));
    threads
        .iter()
        .filter(|t| t.key().pid == process.pid)
        .map(|t| waits(t.rows().map(|r| (&r.state, &r.wait_channel))))
        .fold(of_main, f64::max)
}

fn waits<'r>(samples: impl Iterator<Item = (&'r State, &'r State)>) -> f64 {
    let waiting: Vec<bool> = samples
        .map(|(state, place)| state.get() == Some("D") && place.get().is_some_and(|p| CACHE_WAITS.contains(&p)))
        .collect();
    over(Some(waiting.iter().filter(|w| **w).count() as f64), Some(waiting.len() as f64)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::Layer;
    use whyslow_model::key::Pair;
    use whyslow_model::snapshot::Snapshot;

    fn topology(loops: &[(&str, &str)]) -> Topology {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        for (upper, lower) in loops {
            let link = Pair { upper: (*upper).into(), lower: (*lower).into() };
            s.block.layer.push(Layer { kind: "loop".into(), ..Layer::new(link) });
        }
        s.sort();
        Topology::of(&Window::new(vec![s]))
    }

    fn devices(rates: &[(&str, f64, f64)]) -> BTreeMap<Name, Rates> {
        rates.iter().map(|(name, read, written)| ((*name).into(), Rates { read: *read, written: *written })).collect()
    }

    fn serves(read: f64, written: f64, devices: &BTreeMap<Name, Rates>, topology: &Topology) -> Option<String> {
        serving(Rates { read, written }, devices, topology).map(|name| name.to_string())
    }

    #[test]
    fn a_process_used_the_only_device_that_did_as_much() {
        let rates = devices(&[("sda", 100.0, 5.0), ("sdb", 10.0, 0.0)]);
        let none = topology(&[]);
        assert_eq!(serves(90.0, 0.0, &rates, &none).as_deref(), Some("sda"));
        assert_eq!(serves(9.0, 0.0, &rates, &none), None, "it may have been either");
        assert_eq!(serves(9.0, 700.0, &rates, &none).as_deref(), Some("sda"), "nothing was written to the other");
        assert_eq!(serves(900.0, 0.0, &rates, &none), None, "over the network");
    }

    #[test]
    fn of_devices_on_one_another_it_is_the_uppermost() {
        let topology = topology(&[("loop0", "sda"), ("loop1", "sda")]);
        let rates = devices(&[("sda", 100.0, 0.0), ("loop0", 95.0, 0.0), ("loop1", 0.0, 0.0)]);
        assert_eq!(serves(90.0, 0.0, &rates, &topology).as_deref(), Some("loop0"));
    }
}
