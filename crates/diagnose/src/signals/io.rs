//! A process' use of a device: what it asked for, what was read for it, and how it waited.

use super::task::TaskUse;
use crate::signal::{Entity, over, signals, sum};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Disk, Process, Queue, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::topology::Topology;
use whyslow_model::value::{Name, State};
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

/// The part of what a process read that a device must have delivered to be the one it read from: requests that were in
/// flight when a sample was taken are counted for the one and not yet for the other.
const DELIVERED: f64 = 0.8;

/// A process that moved bytes to or from storage.
pub struct IoUse<'w> {
    task: &'w TaskUse,
    change: &'w Change<'w, Process>,
    device: Option<Name>,
    read_ahead: Option<f64>,
    cache_wait: f64,
}

impl IoUse<'_> {
    /// The device it used, where that is known.
    pub fn device(&self) -> Option<&Name> {
        self.device.as_ref()
    }

    /// Share of the samples in which one of its threads waited for the page cache to be read.
    pub fn cache_wait(&self) -> f64 {
        self.cache_wait
    }

    /// Bytes read from storage for it, per second.
    pub fn read_rate(&self) -> Option<f64> {
        self.change.rate(|p| p.read_bytes)
    }

    /// Mean bytes of a read call.
    pub fn call_size(&self) -> Option<f64> {
        over(self.change.rate(|p| p.read_chars), self.change.rate(|p| p.read_calls))
    }

    /// What it can have asked for at most, per second: all that its read calls brought, cached or not, and all that its
    /// page faults can have mapped.
    fn asked(&self) -> Option<f64> {
        let faults = sum([self.change.rate(|p| p.minor_faults), self.change.rate(|p| p.major_faults)])?;
        Some(self.change.rate(|p| p.read_chars)? + faults * FAULT_AROUND)
    }
}

signals! { u: &IoUse<'_>;
    "io.device" "text" "the device it used; empty where it cannot be told", "the only device that delivered as much as was read for it", "/proc/PID/io, /proc/diskstats" => u.device.as_deref().unwrap_or_default();
    "io.kernel" "count" "1 for threads of the kernel itself", "PF_KTHREAD", "/proc/PID/stat" => u.task.kernel;
    "io.rate" "bytes/s" "bytes it moved to and from storage", "Δ(read_bytes + write_bytes) / Δt", "/proc/PID/io" => u.task.storage;
    "io.read_rate" "bytes/s" "bytes read from storage for it", "Δread_bytes / Δt", "/proc/PID/io" => u.read_rate();
    "io.call_size" "bytes" "mean size of a read call, cached or not", "Δrchar / Δsyscr", "/proc/PID/io" => u.call_size();
    "io.asked" "bytes/s" "bytes it can have asked for at most", "(Δrchar + Δ(minor + major faults) x 64 KiB) / Δt", "/proc/PID/io, /proc/PID/stat; mm/memory.c: fault_around_bytes" => u.asked();
    "io.amplification" "count" "bytes read from storage for each byte it asked for, at least", "Δread_bytes / (Δrchar + Δ(minor + major faults) x 64 KiB)", "/proc/PID/io, /proc/PID/stat" => over(u.read_rate(), u.asked());
    "io.cache_wait" "ratio" "share of the samples in which one of its threads waited for the page cache to be read", "samples in state D with a wait channel of mm/filemap.c / samples", "/proc/PID/wchan" => u.cache_wait;
    "io.read_ahead" "bytes" "read-ahead of the device it used", "read_ahead_kb", "/sys/block/*/queue" => u.read_ahead;
}

/// The processes that moved bytes to or from storage.
pub fn uses<'w>(
    window: &'w Window,
    topology: &Topology,
    tasks: &'w [TaskUse],
    changes: &'w [Change<'w, Process>],
) -> Vec<IoUse<'w>> {
    let delivered: BTreeMap<Name, f64> = window
        .changes::<Disk>()
        .iter()
        .filter(|d| !topology.is_partition(d.key()))
        .filter_map(|d| Some((d.key().clone(), d.rate(|d| d.read_bytes)?)))
        .collect();
    let queues = window.newest::<Queue>();
    let threads = window.changes::<Thread>();
    tasks
        .iter()
        .zip(changes)
        .filter(|(task, _)| task.storage.is_some_and(|rate| rate > 0.0))
        .map(|(task, change)| {
            let read = change.rate(|p| p.read_bytes).unwrap_or(0.0);
            let device = source(read, &delivered, topology);
            IoUse {
                task,
                change,
                read_ahead: device.as_ref().and_then(|d| queues.get(d)?.read_ahead.get()),
                device,
                cache_wait: cache_wait(task.key, change, &threads),
            }
        })
        .collect()
}

/// What each of them did.
pub fn entities(uses: &[IoUse<'_>]) -> Vec<Entity> {
    uses.iter().map(|u| Entity::new(super::process::subject(u.task), read(u)).within(u.task.cgroup.clone())).collect()
}

/// The only device that delivered as much as a process read; of devices that lie on one another the uppermost.
fn source(read: f64, delivered: &BTreeMap<Name, f64>, topology: &Topology) -> Option<Name> {
    if read == 0.0 {
        return None;
    }
    let able: Vec<&Name> =
        delivered.iter().filter(|(_, rate)| **rate >= DELIVERED * read).map(|(name, _)| name).collect();
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

    fn delivered(rates: &[(&str, f64)]) -> BTreeMap<Name, f64> {
        rates.iter().map(|(name, rate)| ((*name).into(), *rate)).collect()
    }

    #[test]
    fn a_process_read_from_the_only_device_that_delivered_as_much() {
        let rates = delivered(&[("sda", 100.0), ("sdb", 10.0)]);
        assert_eq!(source(90.0, &rates, &topology(&[])).as_deref(), Some("sda"));
        assert_eq!(source(9.0, &rates, &topology(&[])), None, "it may have been either");
        assert_eq!(source(900.0, &rates, &topology(&[])), None, "over the network");
        assert_eq!(source(0.0, &rates, &topology(&[])), None);
    }

    #[test]
    fn of_devices_on_one_another_it_is_the_uppermost_that_delivered() {
        let topology = topology(&[("loop0", "sda"), ("loop1", "sda")]);
        let rates = delivered(&[("sda", 100.0), ("loop0", 95.0), ("loop1", 0.0)]);
        assert_eq!(source(90.0, &rates, &topology).as_deref(), Some("loop0"));
    }
}
