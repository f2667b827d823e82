//! A driver's own counters, as `ethtool -S` shows them (Documentation/networking/statistics.rst).

use super::ethtool::Ethtool;
use super::namespaces::Namespaces;
use super::netlink::{HomeSocket, Netlink};
use super::rtnetlink;
use crate::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::DriverCounter;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// Interval at which interfaces and counter names are listed again.
const LIST_TTL: Duration = Duration::from_secs(30);
/// A driver that queries its firmware takes milliseconds and holds the lock that all network configuration needs. A device slower
/// than this is read only every ten seconds.
const SLOW: Duration = Duration::from_millis(2);
const SLOW_INTERVAL: Duration = Duration::from_secs(10);
/// Parts of names of error counters. Counters at zero are left out, as there can be thousands, except for error counters: their
/// first increment must be seen.
const ERROR_COUNTERS: [&str; 12] =
    ["err", "drop", "discard", "fail", "miss", "timeout", "crc", "fifo", "over", "pause", "full", "lost"];

/// Counters of every device that has its own driver, in every namespace.
pub(super) struct DriverCounters {
    namespaces: Arc<Namespaces>,
    devices: HashMap<Name, (Instant, Vec<CountedDevice>)>,
    ethtool: HomeSocket<Ethtool>,
    buffer: Vec<u8>,
}

struct CountedDevice {
    name: String,
    counters: Vec<DriverCounter>,
    due: Instant,
}

impl DriverCounters {
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, devices: HashMap::new(), ethtool: HomeSocket::default(), buffer: Vec::new() }
    }
}

impl Source for DriverCounters {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("ethtool statistics", "counters of network drivers")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        root.require_live()?;
        let cached = std::mem::take(&mut self.devices);
        let mut cached: HashMap<_, _> = cached.into_iter().filter(|(_, (at, _))| at.elapsed() < LIST_TTL).collect();
        self.namespaces.each(root, |namespace| {
            self.ethtool.with(namespace, Ethtool::open, |ethtool| {
                let (at, mut devices) = match cached.remove(namespace) {
                    Some(listed) => listed,
                    None => (Instant::now(), list(ethtool, namespace)?),
                };
                for device in devices.iter_mut().filter(|d| d.due <= Instant::now()) {
                    device.read(ethtool, &mut self.buffer, &mut out.net.driver_counter);
                }
                self.devices.insert(namespace.clone(), (at, devices));
                Ok(())
            })
        })
    }
}

/// Lists the devices of the thread's namespace that have hardware, unlike a veth or a bridge.
fn list(ethtool: &Ethtool, namespace: &Name) -> Result<Vec<CountedDevice>, SourceError> {
    let links = rtnetlink::links(&mut Netlink::open(libc::NETLINK_ROUTE)?)?;
    let devices = links.into_iter().filter(|l| l.kind.is_none()).map(|link| {
        let key = |counter| NetKey { ns: namespace.clone(), name: format!("{}/{counter}", link.name).into() };
        let counters = ethtool.counter_names(&link.name).into_iter().map(|c| DriverCounter::new(key(c))).collect();
        CountedDevice { name: link.name, counters, due: Instant::now() }
    });
    Ok(devices.filter(|d| !d.counters.is_empty()).collect())
}

impl CountedDevice {
    fn read(&mut self, ethtool: &Ethtool, buffer: &mut Vec<u8>, out: &mut Vec<DriverCounter>) {
        let start = Instant::now();
        let Some(values) = ethtool.counter_values(&self.name, self.counters.len(), buffer) else { return };
        if start.elapsed() > SLOW {
            self.due = start + SLOW_INTERVAL;
        }
        for (counter, value) in self.counters.iter().zip(values) {
            if value != 0 || counts_errors(&counter.counter.name) {
                out.push(DriverCounter { count: value.into(), ..counter.clone() });
            }
        }
    }
}

fn counts_errors(name: &str) -> bool {
    ERROR_COUNTERS.iter().any(|part| name.contains(part))
}
