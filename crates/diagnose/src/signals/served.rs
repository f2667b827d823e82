//! Which device served a process, inferred from the bytes of both.

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

/// The part of what a process read that a device must have delivered to be the one it read from: requests that were in
/// flight when a sample was taken are counted for the one and not yet for the other.
const DELIVERED: f64 = 0.8;

/// The whole devices that did anything.
pub(super) struct Devices {
    rates: BTreeMap<Name, ByteRates>,
    /// Those without any request that BPF saw.
    pub(super) unseen: BTreeSet<Name>,
}

impl Devices {
    /// Those of a window.
    pub(super) fn of(window: &Window, topology: &Topology) -> Self {
        let seen = requester::devices(window);
        let mut devices = Self { rates: BTreeMap::new(), unseen: BTreeSet::new() };
        for disk in window.changes::<Disk>().iter().filter(|d| !topology.is_partition(d.key())) {
            let name = disk.key();
            let active = sum([disk.rate(|d| d.reads), disk.rate(|d| d.writes)]).is_some_and(|rate| rate > 0.0);
            if active && !seen.contains(name) {
                devices.unseen.insert(name.clone());
            }
            let rate = |of: fn(&Disk) -> Counter| disk.rate(of).unwrap_or(0.0);
            let rates = ByteRates { read: rate(|d| d.read_bytes), written: rate(|d| d.write_bytes) };
            devices.rates.insert(name.clone(), rates);
        }
        devices
    }

    /// The only one that can have served a process: that delivered as much as it read and, where it wrote, was written to
    /// at all, for write-back takes its time. Of devices that lie on one another it is the uppermost.
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

    fn topology(loops: &[(&str, &str)]) -> Topology {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        for (upper, lower) in loops {
            let link = LinkKey { upper: (*upper).into(), lower: (*lower).into() };
            s.block.layer.push(Layer { kind: "loop".into(), ..Layer::new(link) });
        }
        s.sort();
        Topology::of(&Window::new(vec![s]))
    }

    fn devices(rates: &[(&str, f64, f64)]) -> Devices {
        let rates = rates.iter().map(|&(name, read, written)| (name.into(), ByteRates { read, written }));
        Devices { rates: rates.collect(), unseen: BTreeSet::new() }
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
        let topology = topology(&[("loop0", "sda"), ("loop1", "sda")]);
        let rates = devices(&[("sda", 100.0, 0.0), ("loop0", 95.0, 0.0), ("loop1", 0.0, 0.0)]);
        assert_eq!(serves(90.0, 0.0, &rates, &topology).as_deref(), Some("loop0"));
    }
}
