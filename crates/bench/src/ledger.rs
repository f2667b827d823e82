//! The books: what was asked for against what each layer saw.

use crate::busy::busy_seconds;
use crate::cache;
use crate::target::{Map, Target};
use std::fs;
use whyslow_model::bench::{CacheUse, LayerTraffic, Ledger, Traffic};
use whyslow_model::catalogue::Disk;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};
use whyslow_sense::{Root, Sampler};

/// The share of what was asked for from which on others' requests spoil a measurement.
const SPOILS: f64 = 0.02;
/// The share of what was read past the page cache that has to reach the device, for its speed to be what was measured.
const REACHED: f64 = 0.5;
/// Less than this is nobody's load: a line in a log.
const SPECK: u64 = 1 << 20;

/// Keeps the books of a benchmark.
pub(crate) struct Books {
    sampler: Sampler,
}

/// The books as they stood when a round began.
pub(crate) struct Opening {
    snapshot: Snapshot,
    own: Option<OwnIo>,
    cached: Vec<Option<u64>>,
}

/// The books of a round.
#[derive(Debug)]
pub(crate) struct Closing {
    pub(crate) ledgers: Vec<Ledger>,
    /// Processor time the whole machine used, seconds; none where it is not known.
    pub(crate) machine: Option<f64>,
}

impl Books {
    pub(crate) fn new(root: Root) -> Self {
        Self { sampler: Sampler::of_storage(root) }
    }

    /// Takes the readings before a round on these targets.
    pub(crate) fn open(&mut self, targets: &[&Target]) -> Opening {
        let cached = targets.iter().map(|target| cached(target)).collect();
        Opening { snapshot: self.sampler.sample(), own: OwnIo::read(), cached }
    }

    /// Takes them after it. What was asked of each target is given in the order in which they were.
    pub(crate) fn close(&mut self, opening: Opening, map: &Map, targets: &[(usize, &Target, Traffic)]) -> Closing {
        let own = OwnIo::read();
        let window = Window::new(vec![opening.snapshot, self.sampler.sample()]);
        let fetched = opening.own.zip(own).map(|(before, after)| after.read.saturating_sub(before.read));
        let ledger = |(at, (number, target, asked)): (usize, &(usize, &Target, Traffic))| {
            let layers = layers(&window, map, target);
            let cache = cache_use(opening.cached[at], target, *asked, fetched.filter(|_| targets.len() == 1));
            // What this program had read is not told apart by target.
            let fetched = fetched.filter(|_| targets.len() == 1);
            let (foreign_read_bytes, foreign_write_bytes) = foreign(layers.first(), *asked, cache.is_none(), fetched);
            Ledger { target: *number, asked: *asked, cache, layers, foreign_read_bytes, foreign_write_bytes }
        };
        Closing { ledgers: targets.iter().enumerate().map(ledger).collect(), machine: busy_seconds(&window) }
    }
}

/// Why a round is not to be trusted; none where nothing speaks against it.
pub(crate) fn spoiled(ledgers: &[Ledger]) -> Option<String> {
    ledgers.iter().find_map(|ledger| {
        let asked = ledger.asked.read_bytes + ledger.asked.write_bytes;
        let foreign = ledger.foreign_read_bytes.unwrap_or(0) + ledger.foreign_write_bytes.unwrap_or(0);
        let device = &ledger.layers.first()?.device;
        let much = foreign > SPECK && foreign as f64 > SPOILS * asked as f64;
        much.then(|| {
            let human = |bytes: u64| whyslow_model::human::quantity(bytes as f64, "bytes");
            format!(
                "other processes transferred {} on {device} meanwhile, beside the {} measured",
                human(foreign),
                human(asked)
            )
        })
    })
}

/// Why reads past the page cache did not measure the device: most of them never reached it. None where they did.
pub(crate) fn elsewhere(ledger: &Ledger) -> Option<String> {
    let (top, asked) = (ledger.layers.first()?, ledger.asked.read_bytes);
    let reached = top.traffic.read_bytes;
    (asked > SPECK && (reached as f64) < REACHED * asked as f64).then(|| {
        let human = |bytes: u64| whyslow_model::human::quantity(bytes as f64, "bytes");
        format!(
            "only {} of the {} read reached {}: the rest came from holes or a cache, so this is not the device's speed",
            human(reached),
            human(asked),
            top.device
        )
    })
}

/// What the target's device saw, and what each below it did.
fn layers(window: &Window, map: &Map, target: &Target) -> Vec<LayerTraffic> {
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

fn layer(change: &Change<'_, Disk>, name: &str, relation: String, map: &Map) -> LayerTraffic {
    let grown = |counter: fn(&Disk) -> Counter| change.grown(counter);
    let count = |counter: fn(&Disk) -> Counter| grown(counter).unwrap_or(0.0) as u64;
    let wait = |time: fn(&Disk) -> Counter, requests: fn(&Disk) -> Counter| {
        Some(grown(time)? / 1e9 / grown(requests).filter(|&requests| requests > 0.0)?)
    };
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
        read_wait: wait(|disk| disk.read_time, |disk| disk.reads),
        write_wait: wait(|disk| disk.write_time, |disk| disk.writes),
        queue: change.rate(|disk| disk.weighted_time).map(|ns| ns / 1e9),
        busy: change.rate(|disk| disk.busy_time).map(|ns| (ns / 1e9).min(1.0)),
        largest_request: map.queue(name).and_then(|queue| queue.max_request.get()).map(|bytes| bytes as u64),
    }
}

/// Bytes that the topmost device moved for others: reads beyond what this program had read, and writes, where the page cache
/// has no say in them, beyond what was asked for.
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

/// What the page cache did for a target that is reached by way of it.
fn cache_use(before: Option<u64>, target: &Target, asked: Traffic, fetched: Option<u64>) -> Option<CacheUse> {
    let (before, after, fetched) = (before?, cached(target)?, fetched?);
    Some(CacheUse {
        before,
        after,
        fetched,
        served: asked.read_bytes.saturating_sub(fetched),
        in_vain: fetched.saturating_sub(asked.read_bytes),
    })
}

/// What this process had read from storage (proc(5), /proc/PID/io).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnIo {
    read: u64,
}

impl OwnIo {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/io").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?;
        Some(Self { read: line.trim().parse().ok()? })
    }
}

/// Bytes of a target in the page cache; none where it is passed by, or the kernel does not tell.
fn cached(target: &Target) -> Option<u64> {
    if target.is_direct() { None } else { cache::cached(&target.file) }
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
    fn what_others_had_moved_is_what_is_left_of_the_devices_own_count() {
        let asked = traffic(90 * MIB, 10 * MIB);
        assert_eq!(
            foreign(Some(&top(100 * MIB, 15 * MIB)), asked, true, Some(90 * MIB)),
            (Some(10 * MIB), Some(5 * MIB))
        );
        assert_eq!(foreign(Some(&top(100 * MIB, 15 * MIB)), asked, false, Some(90 * MIB)), (Some(10 * MIB), None));
        assert_eq!(foreign(Some(&top(1, 1)), asked, true, None), (None, Some(0)), "what is not known is not guessed");
        assert_eq!(foreign(None, asked, true, Some(0)), (None, None));
    }

    #[test]
    fn reads_that_do_not_reach_the_device_are_told() {
        let ledger =
            |reached| Ledger { asked: traffic(100 * MIB, 0), layers: vec![top(reached, 0)], ..Ledger::default() };
        assert_eq!(elsewhere(&ledger(99 * MIB)), None);
        assert!(elsewhere(&ledger(2 * MIB)).unwrap().starts_with("only 2 MiB of the 100 MiB read reached sda"));
        assert_eq!(elsewhere(&Ledger { layers: Vec::new(), ..ledger(0) }), None, "what is not known is not guessed");
    }

    #[test]
    fn little_spoils_nothing() {
        let ledger = |foreign_read, foreign_write| Ledger {
            asked: traffic(100 * MIB, 0),
            layers: vec![top(0, 0)],
            foreign_read_bytes: Some(foreign_read),
            foreign_write_bytes: Some(foreign_write),
            ..Ledger::default()
        };
        assert_eq!(spoiled(&[ledger(MIB, MIB)]), None);
        assert!(
            spoiled(&[ledger(0, 0), ledger(MIB, 2 * MIB)])
                .unwrap()
                .starts_with("other processes transferred 3 MiB on sda")
        );
    }
}
