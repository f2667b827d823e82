//! Configuration of interfaces: rtnetlink(7) and the ethtool ioctl.

use super::ethtool::Ethtool;
use super::namespaces::Namespaces;
use super::netlink::Netlink;
use super::rtnetlink::{self, Address, ArpSettings, LinkInfo};
use crate::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use whyslow_model::catalogue::Link;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// Kinds without a real speed, although some drivers report one (veth 10 Gbit/s, tun 10 Mbit/s).
const WITHOUT_SPEED: [&str; 6] = ["bridge", "dummy", "ifb", "loopback", "tun", "veth"];

/// BOND_MODE_* of include/uapi/linux/if_bonding.h, by the names of Documentation/networking/bonding.rst.
const BOND_MODES: [&str; 7] =
    ["balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"];

pub(super) struct LinkSettings(pub(super) Arc<Namespaces>);

impl Source for LinkSettings {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("rtnetlink links", "speed, MTU, rings and coalescing of interfaces").slow()
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        root.require_live()?;
        let namespaces = open_all(&self.0, root);
        let (mut names, mut unresolved) = (HashMap::new(), Vec::new());
        let outcome = self.0.each(root, |namespace| {
            let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
            let ethtool = Ethtool::open()?;
            let links = rtnetlink::links(&mut netlink)?;
            let addresses = rtnetlink::addresses(&mut netlink)?;
            let (all, rules) = (arp_settings_of_all(root), rtnetlink::routing_rules(&mut netlink).ok());
            let peers = if links.iter().any(|l| l.peer_namespace.is_some()) {
                by_id(&mut netlink, &namespaces)
            } else {
                HashMap::new()
            };
            names.extend(links.iter().map(|link| ((namespace.clone(), link.index), Name::from(link.name.as_str()))));
            for link in links {
                let mut row = row_of(namespace, &link, &addresses);
                let peer = link.peer_namespace.map(|id| peers.get(&id).cloned());
                row.peer_ns = peer.clone().flatten().into();
                let master = link.master.and_then(|index| names.get(&(namespace.clone(), index)).cloned());
                row.master = master.into();
                // Without an id the peer is in this namespace. The id of an invisible namespace has no name here.
                if let Some((namespace, index)) = peer.unwrap_or(Some(namespace.clone())).zip(link.lower) {
                    unresolved.push((out.net.link.len(), (namespace, index)));
                }
                add_driver_settings(root, &ethtool, &link, &mut row);
                if let Some(arp) = link.arp.zip(all).map(|(own, all)| own.with_all(all)) {
                    row.arp_filter = u64::from(arp.arp_filter).into();
                    row.arp_ignore = u64::from(arp.arp_ignore).into();
                    row.rp_filter = u64::from(arp.rp_filter).into();
                    row.routing_rules = rules.into();
                }
                out.net.link.push(row);
            }
            Ok(())
        });
        // The other end may be in a namespace that was read later.
        for (row, lower) in unresolved {
            out.net.link[row].lower = names.get(&lower).cloned().into();
        }
        outcome
    }
}

/// Reads the settings for all interfaces of the thread's namespace.
fn arp_settings_of_all(root: &Root) -> Option<ArpSettings> {
    let setting = |name: &str| u32::try_from(root.number(&format!("proc/sys/net/ipv4/conf/all/{name}"))?).ok();
    Some(ArpSettings {
        arp_filter: setting("arp_filter")?,
        arp_ignore: setting("arp_ignore")?,
        rp_filter: setting("rp_filter")?,
    })
}

/// Opens every namespace that this process can enter, including its own.
fn open_all(namespaces: &Namespaces, root: &Root) -> Vec<(Name, File)> {
    let own = File::open("/proc/self/ns/net").map(|file| (Name::default(), file));
    let others = namespaces.others(root);
    own.into_iter().chain(others.iter().filter_map(|n| Some((n.name.clone(), n.open().ok()?)))).collect()
}

/// Maps the ids within the socket's namespace to the namespaces.
fn by_id(netlink: &mut Netlink, all: &[(Name, File)]) -> HashMap<u32, Name> {
    all.iter().filter_map(|(name, file)| Some((rtnetlink::namespace_id(netlink, file)?, name.clone()))).collect()
}

fn row_of(namespace: &Name, link: &LinkInfo, addresses: &[Address]) -> Link {
    let mut row = Link::new(NetKey { ns: namespace.clone(), name: link.name.as_str().into() });
    row.mtu = link.mtu.map(u64::from).into();
    row.operstate = link.operstate.map(operstate).into();
    row.kind = link.kind.as_deref().into();
    row.tx_queue_length = link.tx_queue_length.map(u64::from).into();
    row.carrier_changes = link.carrier_changes.map(u64::from).into();
    row.vlan = link.vlan.map(u64::from).into();
    row.bond_mode = link.bond_mode.and_then(|mode| BOND_MODES.get(usize::from(mode)).copied()).into();
    row.gso_max = link.gso_max.map(u64::from).into();
    let own: Vec<String> =
        addresses.iter().filter(|a| a.index == link.index).map(|a| format!("{}/{}", a.address, a.prefix)).collect();
    row.addresses = (!own.is_empty()).then(|| own.join(" ")).into();
    row
}

fn add_driver_settings(root: &Root, ethtool: &Ethtool, link: &LinkInfo, row: &mut Link) {
    if let Some(driver) = ethtool.driver(&link.name) {
        row.driver = driver.name.into();
        row.numa_node = driver.bus.as_deref().and_then(|bus| numa_node(root, bus)).into();
        row.bus = driver.bus.into();
    }
    row.offloads = ethtool.offloads(&link.name).into();
    if let Some(channels) = ethtool.channels(&link.name) {
        row.channels = u64::from(channels.rx).into();
        row.channels_max = u64::from(channels.rx_max).into();
        row.tx_channels = u64::from(channels.tx).into();
    }
    if !link.kind.as_deref().is_some_and(|kind| WITHOUT_SPEED.contains(&kind))
        && let Some(mode) = ethtool.link_mode(&link.name)
    {
        row.speed = mode.speed.map(|megabits| u64::from(megabits) * 1_000_000).into();
        row.duplex = mode.duplex.into();
    }
    if let Some(rings) = ethtool.rings(&link.name) {
        row.ring_rx = u64::from(rings.rx).into();
        row.ring_rx_max = u64::from(rings.rx_max).into();
        row.ring_tx = u64::from(rings.tx).into();
        row.ring_tx_max = u64::from(rings.tx_max).into();
    }
    if let Some(coalescing) = ethtool.coalescing(&link.name) {
        row.coalesce_rx = (u64::from(coalescing.rx_usecs) * 1_000).into();
        row.coalesce_rx_frames = u64::from(coalescing.rx_frames).into();
        row.coalesce_tx = (u64::from(coalescing.tx_usecs) * 1_000).into();
        row.coalesce_adaptive_rx = u64::from(coalescing.adaptive_rx).into();
    }
}

/// Reads the NUMA node of a PCI device; a driver may report a bus name that is not a path component.
fn numa_node(root: &Root, bus: &str) -> Option<u64> {
    let is_name = bus.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'.' | b'-'));
    is_name.then(|| root.number(&format!("sys/bus/pci/devices/{bus}/numa_node"))).flatten()
}

/// Returns the ip-link(8) name of an RFC 2863 state (IF_OPER_* of include/uapi/linux/if.h).
fn operstate(number: u8) -> &'static str {
    match number {
        1 => "notpresent",
        2 => "down",
        3 => "lowerlayerdown",
        4 => "testing",
        5 => "dormant",
        6 => "up",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn an_interface_has_only_its_own_addresses() {
        let link = LinkInfo { index: 2, name: "eth0".into(), mtu: Some(9000), ..LinkInfo::default() };
        let address = |index, last| Address { index, address: IpAddr::from([10, 0, 0, last]), prefix: 24 };
        let row = row_of(&Name::default(), &link, &[address(2, 1), address(3, 2), address(2, 3)]);
        assert_eq!(row.addresses.get(), Some("10.0.0.1/24 10.0.0.3/24"));
        assert_eq!((row.mtu.get(), row.kind.get(), row.speed.get()), (Some(9000.0), None, None));
    }
}
