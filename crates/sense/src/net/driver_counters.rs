//! A driver's own counters, as `ethtool -S` shows them (Documentation/networking/statistics.rst).

use super::ethtool::Ethtool;
use super::namespaces::Namespaces;
use super::netlink::Netlink;
use super::own::Own;
use super::rtnetlink;
use crate::Root;
use crate::source::{Miss, Source};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::DriverCounter;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// How long the list of interfaces and of counter names is good for.
const RELIST: Duration = Duration::from_secs(30);
/// A driver that must ask its firmware takes milliseconds, and holds the lock that all network configuration needs.
/// One that takes longer than this is asked seldom.
const DEAR: Duration = Duration::from_millis(2);
/// How seldom.
const REST: Duration = Duration::from_secs(10);
/// Parts of names that speak of a loss. A counter that stands at nought is left out (there can be thousands), save for
/// these: their first step must be seen.
const LOSSES: [&str; 12] =
    ["err", "drop", "discard", "fail", "miss", "timeout", "crc", "fifo", "over", "pause", "full", "lost"];

/// Reads the counters of every device that has a driver of its own, in every namespace.
pub(crate) struct DriverCounters {
    namespaces: Arc<Namespaces>,
    devices: HashMap<Name, (Instant, Vec<Device>)>,
    ethtool: Own<Ethtool>,
    /// Room for an answer.
    answer: Vec<u8>,
}

/// A device that has counters.
struct Device {
    name: String,
    counters: Vec<DriverCounter>,
    /// Not asked before this.
    due: Instant,
}

impl DriverCounters {
    /// Over these namespaces.
    pub fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, devices: HashMap::new(), ethtool: Own::default(), answer: Vec::new() }
    }
}

impl Source for DriverCounters {
    fn name(&self) -> &'static str {
        "ethtool statistics"
    }

    fn tells(&self) -> &'static str {
        "counters of network drivers"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        root.require_live()?;
        let known = std::mem::take(&mut self.devices);
        let mut known: HashMap<_, _> = known.into_iter().filter(|(_, (at, _))| at.elapsed() < RELIST).collect();
        self.namespaces.each(root, |namespace| {
            self.ethtool.with(namespace, Ethtool::open, |ethtool| {
                let (at, mut devices) = match known.remove(namespace) {
                    Some(listed) => listed,
                    None => (Instant::now(), list(ethtool, namespace)?),
                };
                for device in devices.iter_mut().filter(|d| d.due <= Instant::now()) {
                    device.read(ethtool, &mut self.answer, &mut out.net.driver_counter);
                }
                self.devices.insert(namespace.clone(), (at, devices));
                Ok(())
            })
        })
    }
}

/// The devices of the thread's namespace. A veth or a bridge has no hardware whose counters could tell more.
fn list(ethtool: &Ethtool, namespace: &Name) -> Result<Vec<Device>, Miss> {
    let links = rtnetlink::links(&mut Netlink::open(libc::NETLINK_ROUTE)?)?;
    let devices = links.into_iter().filter(|l| l.kind.is_none()).map(|link| {
        let key = |counter| NetKey { ns: namespace.clone(), name: format!("{}/{counter}", link.name).into() };
        let counters = ethtool.counter_names(&link.name).into_iter().map(|c| DriverCounter::new(key(c))).collect();
        Device { name: link.name, counters, due: Instant::now() }
    });
    Ok(devices.filter(|d| !d.counters.is_empty()).collect())
}

impl Device {
    fn read(&mut self, ethtool: &Ethtool, answer: &mut Vec<u8>, out: &mut Vec<DriverCounter>) {
        let start = Instant::now();
        let Some(values) = ethtool.counter_values(&self.name, self.counters.len(), answer) else { return };
        if start.elapsed() > DEAR {
            self.due = start + REST;
        }
        for (counter, value) in self.counters.iter().zip(values) {
            if value != 0 || speaks_of_loss(&counter.counter.name) {
                out.push(DriverCounter { count: value.into(), ..counter.clone() });
            }
        }
    }
}

fn speaks_of_loss(name: &str) -> bool {
    LOSSES.iter().any(|part| name.contains(part))
}
