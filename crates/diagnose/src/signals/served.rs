//! Finds the device that served a process: inferred from the bytes of both, or from the requests of the devices below.

use super::requester;
use crate::signal::sum;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::Disk;
use whyslow_model::topology::Topology;
use whyslow_model::value::{Counter, Name};
use whyslow_model::window::Window;

/// Bytes per second of a process or a device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByteRates {
    pub(super) read: f64,
    pub(super) written: f64,
}

/// Minimum share of a process' reads that a device must have delivered to be the one it read from: requests in flight at a
/// sample are already counted for the one and not yet for the other.
const DELIVERED: f64 = 0.8;

/// Share of the activity from which one device counts as responsible for all of it.
const ALL: f64 = 0.9;

/// Whole devices with any activity.
pub(super) struct Devices {
    rates: BTreeMap<Name, ByteRates>,
    /// Bytes per second of all devices, including partitions.
    moved: BTreeMap<Name, f64>,
    /// Devices without any request that BPF saw.
    pub(super) unseen: BTreeSet<Name>,
}

impl Devices {
    /// Collects the devices of a window.
    pub(super) fn from_window(window: &Window, topology: &Topology) -> Self {
        let seen = requester::devices(window);
        let mut devices = Self { rates: BTreeMap::new(), moved: BTreeMap::new(), unseen: BTreeSet::new() };
        for disk in window.changes::<Disk>() {
            let name = disk.key();
            let rate = |of: fn(&Disk) -> Counter| disk.rate(of).unwrap_or(0.0);
            let rates = ByteRates { read: rate(|d| d.read_bytes), written: rate(|d| d.write_bytes) };
            devices.moved.insert(name.clone(), rates.read + rates.written);
            if topology.is_partition(name) {
                continue;
            }
            let active = sum([disk.rate(|d| d.reads), disk.rate(|d| d.writes)]).is_some_and(|rate| rate > 0.0);
            if active && !seen.contains(name) {
                devices.unseen.insert(name.clone());
            }
            devices.rates.insert(name.clone(), rates);
        }
        devices
    }

    /// Returns the devices on top of this one, lowest first, that all its requests came through: an array that it is a member
    /// of, the volume on that. The walk ends where several devices, or a partition of its own, issue requests.
    pub(super) fn through(&self, device: &Name, topology: &Topology) -> Vec<Name> {
        let moved = |name: &Name| self.moved.get(name).copied().unwrap_or(0.0);
        let mut way: Vec<Name> = Vec::new();
        loop {
            let at = way.last().unwrap_or(device);
            // A loop device does not own the device that holds its file.
            let above = || topology.above(at).filter(|upper| topology.relation(upper, at) != Some("loop"));
            let Some(most) = above().max_by(|a, b| moved(a).total_cmp(&moved(b))) else { break };
            // A partition does what its disk does; the device mapper and md own the devices they are on, and may issue more or
            // fewer requests.
            let all = if topology.is_partition(most) { moved(at) } else { above().map(moved).sum() };
            if way.contains(most) || moved(most) == 0.0 || moved(most) < ALL * all {
                break;
            }
            way.push(most.clone());
        }
        way.retain(|name| !topology.is_partition(name));
        way
    }

    /// Returns the only device that can have served a process: it delivered as much as the process read and, if the process
    /// wrote, was written to at all, for write-back takes its time. Of stacked devices it is the uppermost.
    pub(super) fn serving(&self, process: ByteRates, topology: &Topology) -> Option<Name> {
        let serves = |d: &ByteRates| d.read >= DELIVERED * process.read && (process.written == 0.0 || d.written > 0.0);
        let able: Vec<&Name> = self.rates.iter().filter(|(_, rates)| serves(rates)).map(|(name, _)| name).collect();
        let uppermost = |name: &&Name| able.iter().all(|other| other == name || !topology.rests_on(other, name));
        let mut tops = able.iter().copied().filter(uppermost);
        match (tops.next(), tops.next()) {
            (Some(only), None) => Some(only.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::Layer;
    use whyslow_model::key::LinkKey;
    use whyslow_model::snapshot::Snapshot;

    fn topology(layers: &[(&str, &str, &str)]) -> Topology {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        for (upper, lower, kind) in layers {
            let link = LinkKey { upper: (*upper).into(), lower: (*lower).into() };
            s.block.layer.push(Layer { kind: (*kind).into(), ..Layer::new(link) });
        }
        s.sort();
        Topology::from_window(&Window::new(vec![s]))
    }

    fn devices(rates: &[(&str, f64, f64)]) -> Devices {
        let moved = rates.iter().map(|&(name, read, written)| (name.into(), read + written)).collect();
        let rates = rates.iter().map(|&(name, read, written)| (name.into(), ByteRates { read, written }));
        Devices { rates: rates.collect(), moved, unseen: BTreeSet::new() }
    }

    fn serves(read: f64, written: f64, devices: &Devices, topology: &Topology) -> Option<String> {
        devices.serving(ByteRates { read, written }, topology).map(|name| name.to_string())
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
        let topology = topology(&[("loop0", "sda", "loop"), ("loop1", "sda", "loop")]);
        let rates = devices(&[("sda", 100.0, 0.0), ("loop0", 95.0, 0.0), ("loop1", 0.0, 0.0)]);
        assert_eq!(serves(90.0, 0.0, &rates, &topology).as_deref(), Some("loop0"));
    }

    #[test]
    fn what_a_disk_does_is_asked_for_by_the_array_and_volume_that_own_it() {
        let layers = [
            ("sda1", "sda", "partition"),
            ("sda2", "sda", "partition"),
            ("md0", "sda1", "md"),
            ("md0", "sdb", "md"),
            ("dm-0", "md0", "dm"),
            ("dm-1", "md0", "dm"),
            ("loop0", "sda2", "loop"),
        ];
        let topology = topology(&layers);
        let through = |device: &str, own_partition: f64, second_volume: f64| {
            let rates = devices(&[
                ("sda", 50.0 + own_partition, 0.0),
                ("sda1", 50.0, 0.0),
                ("sda2", own_partition, 0.0),
                ("sdb", 50.0, 0.0),
                ("md0", 100.0, 0.0),
                ("dm-0", 100.0 - second_volume, 0.0),
                ("dm-1", second_volume, 0.0),
            ]);
            rates.through(&device.into(), &topology).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(through("sda", 0.0, 0.0), ["md0", "dm-0"]);
        assert_eq!(through("sdb", 0.0, 50.0), ["md0"], "either volume may have asked for it");
        assert_eq!(through("sda", 20.0, 0.0), [""; 0], "so may the other partition");
        assert_eq!(through("sdb", 20.0, 0.0), ["md0", "dm-0"]);
    }
}
