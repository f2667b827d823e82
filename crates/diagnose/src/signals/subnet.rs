//! Subnets in which a machine has several interfaces. By default, each interface answers ARP requests for the addresses of all,
//! so that packets arrive on any of them (arp_filter, arp_ignore and rp_filter of Documentation/networking/ip-sysctl.rst).

use super::drop::REVERSE_PATH;
use crate::signal::{Entity, netns, over, signals};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Connection, Interface, Link, PacketDrop, Protocol};
use whyslow_model::value::Name;
use whyslow_model::window::{Change, Window};

/// An IPv4 network: its first address, and the bits of its prefix.
type Network = (Ipv4Addr, u8);

/// Several interfaces of one namespace with addresses in one network.
pub struct SubnetUse<'w> {
    network: Network,
    links: Vec<&'w Link>,
    reverse_path_drops: Option<f64>,
    /// Bytes per second that connections to the addresses of each interface received, and that the interface received.
    received: Vec<(f64, Option<f64>)>,
}

impl SubnetUse<'_> {
    /// Returns true if an interface answers for its own addresses only, or packets are routed by their source.
    fn is_separated(&self) -> Option<bool> {
        let mut separated = false;
        for link in &self.links {
            separated |=
                link.arp_filter.get()? > 0.0 || link.arp_ignore.get()? > 0.0 || link.routing_rules.get()? > 0.0;
        }
        Some(separated)
    }

    fn to_addresses(&self) -> f64 {
        self.received.iter().map(|(by_connections, _)| by_connections).sum()
    }

    /// Returns the bytes per second that reached an address through another interface than its own.
    fn strayed(&self) -> Option<f64> {
        self.received
            .iter()
            .map(|(by_connections, by_interface)| Some((by_connections - (*by_interface)?).max(0.0)))
            .sum()
    }
}

signals! { s: SubnetUse<'_>;
    "subnet.network" "text" "the network in which several interfaces have addresses", "address and prefix", "rtnetlink" => format!("{}/{}", s.network.0, s.network.1).as_str();
    "subnet.separated" "flag" "1 if an interface answers for its own addresses only, or policy routing is set up", "arp_filter > 0, arp_ignore > 0 or rules for routing", "rtnetlink, /proc/sys/net/ipv4/conf", normal "1" => s.is_separated();
    "subnet.reverse_path_drops" "1/s" "packets dropped because they arrived on a different interface from the one the reply would use; where the interface is not known, all of the namespace", "Δpackets of reason IP_RPFILTER / Δt, or ΔIPReversePathFilter / Δt", "BPF: kfree_skb; /proc/net/netstat", normal (near 0.0) => s.reverse_path_drops;
    "subnet.strayed" "bit/s" "data for an address that arrived on a different interface from that of the address", "Σ max(0, received by connections to its addresses - received by the interface)", "sock_diag(7), /proc/net/dev", normal (near 10000.0) => s.strayed().map(|bytes| bytes * 8.0);
    "subnet.strayed_share" "ratio" "the same as a share of what came to all its addresses", "strayed / Σ received by connections", "sock_diag(7), /proc/net/dev", normal (near 0.02) => over(s.strayed(), Some(s.to_addresses()));
}

/// Iterates over the addresses of an interface, each with its network.
fn networks(link: &Link) -> impl Iterator<Item = (Ipv4Addr, Network)> {
    let all = link.addresses.get().unwrap_or_default().split(' ');
    all.filter_map(|text| {
        let (address, prefix) = text.split_once('/')?;
        let (address, prefix): (Ipv4Addr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
        // An address alone is not a network.
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).filter(|_| (1..=31).contains(&prefix))?;
        Some((address, (Ipv4Addr::from(u32::from(address) & mask), prefix)))
    })
}

/// Returns every network in which a namespace has several interfaces that are up and use ARP. Leaves out VLANs, as two of them
/// are not connected.
pub fn entities(window: &Window) -> Vec<Entity> {
    let mut subnets: BTreeMap<(Name, Network), Vec<&Link>> = BTreeMap::new();
    for link in window.newest::<Link>().into_values() {
        let is_used = link.operstate.get() == Some("up") && link.arp_filter.get().is_some();
        if !is_used || matches!(link.kind.get(), Some("vlan" | "loopback")) {
            continue;
        }
        let mut own: Vec<Network> = networks(link).map(|(_, network)| network).collect();
        own.sort();
        own.dedup();
        for network in own {
            subnets.entry((link.interface.ns.clone(), network)).or_default().push(link);
        }
    }
    subnets.retain(|_, links| links.len() > 1);
    if subnets.is_empty() {
        return Vec::new();
    }
    let (interfaces, protocols) = (window.changes::<Interface>(), window.changes::<Protocol>());
    let connections = window.changes::<Connection>();
    let drops = window.changes::<PacketDrop>();
    let drops: Vec<_> = drops.iter().filter(|d| d.last().reason.get() == Some(REVERSE_PATH)).collect();
    let received = |link: &Link| {
        let own: Vec<IpAddr> = networks(link).map(|(address, _)| address.into()).collect();
        // Packets that a machine sends to itself pass through the loopback.
        let to_own = connections.iter().filter(|c| {
            let (key, own_ip) = (c.key(), |ip: IpAddr| own.contains(&ip.to_canonical()));
            key.ns == link.interface.ns && own_ip(key.local.ip()) && key.remote.ip() != key.local.ip()
        });
        let by_interface = interfaces.iter().find(|i| *i.key() == link.interface);
        (to_own.filter_map(|c| c.rate(|c| c.bytes_received)).sum(), by_interface.and_then(|i| i.rate(|i| i.rx_bytes)))
    };
    let entity = |((ns, network), links): ((Name, Network), Vec<&Link>)| {
        let names: Vec<&str> = links.iter().map(|link| &*link.interface.name).collect();
        let subject = Subject { netns: netns(&ns), ..Subject::new("interface", names.join("+")) };
        let at_these = |d: &&Change<'_, PacketDrop>| {
            d.last().interface.get().is_some_and(|at| links.iter().any(|link| *link.interface.name == *at))
        };
        let traced: Vec<_> = drops.iter().copied().filter(|d| d.key().ns == ns).collect();
        let reverse_path_drops = if traced.is_empty() {
            let protocol = protocols.iter().find(|p| p.key().ns == ns);
            protocol.and_then(|p| p.rate(|p| p.tcp_ext_ip_reverse_path_filter))
        } else {
            Some(traced.into_iter().filter(at_these).filter_map(|d| d.rate(|d| d.packets)).sum())
        };
        let received = links.iter().map(|link| received(link)).collect();
        let aliases = names.iter().map(|name| (*name).to_owned()).collect();
        Entity::from_subject(subject, &SubnetUse { network, links, reverse_path_drops, received }).also_named(aliases)
    };
    subnets.into_iter().map(entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::key::{NetKey, SocketKey};

    fn link(name: &str, addresses: &str, arp_ignore: f64) -> Link {
        Link {
            operstate: "up".into(),
            addresses: addresses.into(),
            arp_filter: 0.0.into(),
            arp_ignore: arp_ignore.into(),
            routing_rules: 0.0.into(),
            ..Link::new(NetKey { ns: "".into(), name: name.into() })
        }
    }

    /// Returns ten seconds of a stream of 1 MB/s to the address of eth1; 90 % of it arrives on eth0.
    fn ten_seconds(arp_ignore: f64) -> Window {
        window([0, 10], |t, s| {
            s.net.link.push(link("eth0", "10.0.0.1/24 fe80::1/64", arp_ignore));
            s.net.link.push(link("eth1", "10.0.0.3/24", arp_ignore));
            s.net.link.push(link("eth2", "10.0.1.3/24", arp_ignore));
            for (name, bytes) in [("eth0", 900_000), ("eth1", 100_000)] {
                let key = NetKey { ns: "".into(), name: name.into() };
                s.net.interface.push(Interface { rx_bytes: (t * bytes).into(), ..Interface::new(key) });
            }
            let (local, remote) = ("10.0.0.3:80".parse().unwrap(), "10.0.0.2:5000".parse().unwrap());
            s.net.connection.push(Connection {
                bytes_received: (t * 1_000_000).into(),
                ..Connection::new(SocketKey { ns: "".into(), local, remote, inode: 7 })
            });
            let key = NetKey { ns: "".into(), name: "ip".into() };
            s.net.protocol.push(Protocol { tcp_ext_ip_reverse_path_filter: (t * 3).into(), ..Protocol::new(key) });
        })
    }

    #[test]
    fn packets_that_come_by_another_interface_are_noticed() {
        let all = entities(&ten_seconds(0.0));
        let [found] = &all[..] else { panic!("{all:?}") };
        assert_eq!(found.subject.name, "eth0+eth1");
        assert_eq!(
            (found.number("subnet.separated"), found.number("subnet.reverse_path_drops")),
            (Some(0.0), Some(3.0))
        );
        assert_eq!((found.number("subnet.strayed"), found.number("subnet.strayed_share")), (Some(7.2e6), Some(0.9)));
    }

    #[test]
    fn interfaces_that_answer_for_themselves_are_separated() {
        assert_eq!(entities(&ten_seconds(1.0))[0].number("subnet.separated"), Some(1.0));
    }

    #[test]
    fn single_addresses_are_no_network() {
        let of = |text: &str| networks(&link("eth0", text, 0.0)).map(|(_, network)| network).collect::<Vec<_>>();
        assert_eq!(of("10.1.2.3/24 10.1.2.9/32 10.0.0.1/0 x/8 fe80::1/64"), [(Ipv4Addr::new(10, 1, 2, 0), 24)]);
    }
}
