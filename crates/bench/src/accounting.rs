//! I/O accounting: compares the I/O requested of each target with the counts of each layer below it.

use crate::environment::busy_seconds;
use crate::page_cache;
use crate::target::{BenchTarget, StorageMap};
use std::fs;
use whyslow_documents::bench::{CacheTraffic, IoAccounting, LayerTraffic, Traffic};
use whyslow_model::catalogue::Disk;
use whyslow_model::human;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};
use whyslow_quantities::disk;
use whyslow_sense::{Root, Sampler};

/// Share of foreign I/O, relative to the requested I/O, above which a round is unreliable.
const FOREIGN_SHARE: f64 = 0.02;
/// Minimum share of direct reads that must reach the device; below it, the device's speed was not measured.
const REACHED: f64 = 0.5;
/// Foreign I/O below this is noise, such as a line written to a log.
const NEGLIGIBLE: u64 = 1 << 20;

pub(crate) struct AccountingRecorder {
    sampler: Sampler,
}

/// Counters at the start of a round.
pub(crate) struct CountersBefore {
    snapshot: Snapshot,
    own_read_bytes: Option<u64>,
    cached: Vec<Option<u64>>,
}

#[derive(Debug)]
pub(crate) struct RoundAccounting {
    pub(crate) targets: Vec<IoAccounting>,
    /// CPU seconds used by the whole machine.
    pub(crate) machine: Option<f64>,
}

impl AccountingRecorder {
    pub(crate) fn new(root: Root) -> Self {
        Self { sampler: Sampler::of_storage(root) }
    }

    pub(crate) fn start(&mut self, targets: &[&BenchTarget]) -> CountersBefore {
        let cached = targets.iter().map(|target| cached(target)).collect();
        CountersBefore { snapshot: self.sampler.sample(), own_read_bytes: own_read_bytes(), cached }
    }

    /// Reads the counters again and accounts for the traffic. `targets`, each with its index and its requests, must be in the
    /// order given to `start`.
    pub(crate) fn finish(
        &mut self,
        before: CountersBefore,
        map: &StorageMap,
        targets: &[(usize, &BenchTarget, Traffic)],
    ) -> RoundAccounting {
        let own = own_read_bytes();
        let window = Window::new(vec![before.snapshot, self.sampler.sample()]);
        let fetched = before.own_read_bytes.zip(own).map(|(before, after)| after.saturating_sub(before));
        // The kernel counts this process's reads in one sum, which cannot be split by target.
        let fetched = fetched.filter(|_| targets.len() == 1);
        let account = |(at, &(number, target, asked)): (usize, &(usize, &BenchTarget, Traffic))| {
            let layers = layers(&window, map, target);
            let cache = cache_use(before.cached[at], target, asked, fetched);
            let (foreign_read_bytes, foreign_write_bytes) = foreign(layers.first(), asked, cache.is_none(), fetched);
            IoAccounting { target: number, asked, cache, layers, foreign_read_bytes, foreign_write_bytes }
        };
        RoundAccounting { targets: targets.iter().enumerate().map(account).collect(), machine: busy_seconds(&window) }
    }
}

/// Returns the reason if other processes' I/O makes a round unreliable.
pub(crate) fn disturbed_by_others(targets: &[IoAccounting]) -> Option<String> {
    targets.iter().find_map(|target| {
        let asked = target.asked.read_bytes + target.asked.write_bytes;
        let foreign = target.foreign_read_bytes.unwrap_or(0) + target.foreign_write_bytes.unwrap_or(0);
        let device = &target.layers.first()?.device;
        let much = foreign > NEGLIGIBLE && foreign as f64 > FOREIGN_SHARE * asked as f64;
        much.then(|| {
            let (foreign, asked) = (human::bytes(foreign), human::bytes(asked));
            format!("other processes transferred {foreign} on {device} meanwhile, beside the {asked} measured")
        })
    })
}

/// Returns the reason if direct reads did not measure the device because most of them never reached it.
pub(crate) fn not_from_device(target: &IoAccounting) -> Option<String> {
    let (top, asked) = (target.layers.first()?, target.asked.read_bytes);
    let reached = top.traffic.read_bytes;
    (asked > NEGLIGIBLE && (reached as f64) < REACHED * asked as f64).then(|| {
        format!(
            "only {} of the {} read reached {}: the rest came from holes or a cache, so this is not the device's speed",
            human::bytes(reached),
            human::bytes(asked),
            top.device
        )
    })
}

/// Returns the counters of the target's device and of each device below it.
fn layers(window: &Window, map: &StorageMap, target: &BenchTarget) -> Vec<LayerTraffic> {
    let Some(device) = &target.about.device else { return Vec::new() };
    let changes = window.changes::<Disk>();
    let mut above = device;
    let names = std::iter::once(device).chain(&target.about.below);
    let layers = names.filter_map(|name| {
        let change = changes.iter().find(|change| **change.key() == **name)?;
        let of_target = if target.about.file_system.is_some() { "file system" } else { "target" };
        let relation = map.relation(above, name).unwrap_or(of_target).to_owned();
        above = name;
        Some(layer(change, name, relation, map))
    });
    layers.collect()
}

fn layer(change: &Change<'_, Disk>, name: &str, relation: String, map: &StorageMap) -> LayerTraffic {
    let grown = |counter: fn(&Disk) -> Counter| change.grown(counter);
    let count = |counter: fn(&Disk) -> Counter| grown(counter).unwrap_or(0.0) as u64;
    LayerTraffic {
        device: name.to_owned(),
        relation,
        traffic: Traffic {
            reads: count(|disk| disk.reads),
            read_bytes: count(|disk| disk.read_bytes),
            writes: count(|disk| disk.writes),
            write_bytes: count(|disk| disk.write_bytes),
            flushes: count(|disk| disk.flushes),
        },
        reads_merged: count(|disk| disk.reads_merged),
        writes_merged: count(|disk| disk.writes_merged),
        read_wait: disk::READ_WAIT.over(change),
        write_wait: disk::WRITE_WAIT.over(change),
        queue: disk::QUEUE.over(change),
        busy: disk::BUSY.over(change),
        largest_request: map.queue(name).and_then(|queue| queue.max_request.get()).map(|bytes| bytes as u64),
    }
}

/// Returns the bytes that the topmost device read and wrote beyond this process's own. Writes are known only without
/// the page cache, which decides by itself when to write.
fn foreign(
    top: Option<&LayerTraffic>,
    asked: Traffic,
    direct: bool,
    fetched: Option<u64>,
) -> (Option<u64>, Option<u64>) {
    let Some(top) = top else { return (None, None) };
    let reads = fetched.map(|fetched| top.traffic.read_bytes.saturating_sub(fetched));
    (reads, direct.then(|| top.traffic.write_bytes.saturating_sub(asked.write_bytes)))
}

fn cache_use(before: Option<u64>, target: &BenchTarget, asked: Traffic, fetched: Option<u64>) -> Option<CacheTraffic> {
    let (before, after, fetched) = (before?, cached(target)?, fetched?);
    Some(CacheTraffic {
        before,
        after,
        fetched,
        served: asked.read_bytes.saturating_sub(fetched),
        in_vain: fetched.saturating_sub(asked.read_bytes),
    })
}

/// Returns the bytes that storage delivered for this process (proc(5), /proc/PID/io).
fn own_read_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

/// Returns the bytes of a buffered target in the page cache.
fn cached(target: &BenchTarget) -> Option<u64> {
    if target.is_direct() { None } else { page_cache::cached(&target.file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn top(read_bytes: u64, write_bytes: u64) -> LayerTraffic {
        LayerTraffic { device: "sda".into(), traffic: traffic(read_bytes, write_bytes), ..LayerTraffic::default() }
    }

    fn traffic(read_bytes: u64, write_bytes: u64) -> Traffic {
        Traffic { read_bytes, write_bytes, ..Traffic::default() }
    }

    #[test]
    fn foreign_io_is_what_the_device_counted_beyond_our_own() {
        let (device, asked) = (top(100 * MIB, 15 * MIB), traffic(90 * MIB, 10 * MIB));
        let found = |direct, fetched| foreign(Some(&device), asked, direct, fetched);
        assert_eq!(found(true, Some(90 * MIB)), (Some(10 * MIB), Some(5 * MIB)));
        assert_eq!(found(false, Some(90 * MIB)), (Some(10 * MIB), None));
        assert_eq!(found(true, None), (None, Some(5 * MIB)), "unknown stays unknown");
        assert_eq!(foreign(None, asked, true, Some(0)), (None, None));
    }

    #[test]
    fn reads_that_did_not_reach_the_device_are_reported() {
        let target = |reached| IoAccounting {
            asked: traffic(100 * MIB, 0),
            layers: vec![top(reached, 0)],
            ..Default::default()
        };
        assert_eq!(not_from_device(&target(99 * MIB)), None);
        assert!(not_from_device(&target(2 * MIB)).unwrap().starts_with("only 2 MiB of the 100 MiB read reached sda"));
        assert_eq!(not_from_device(&IoAccounting { layers: Vec::new(), ..target(0) }), None, "unknown stays unknown");
    }

    #[test]
    fn little_foreign_io_is_tolerated() {
        let target = |foreign_read, foreign_write| IoAccounting {
            asked: traffic(100 * MIB, 0),
            layers: vec![top(0, 0)],
            foreign_read_bytes: Some(foreign_read),
            foreign_write_bytes: Some(foreign_write),
            ..Default::default()
        };
        assert_eq!(disturbed_by_others(&[target(MIB, MIB)]), None);
        let why = disturbed_by_others(&[target(0, 0), target(MIB, 2 * MIB)]).unwrap();
        assert!(why.starts_with("other processes transferred 3 MiB on sda"), "{why}");
    }
}
