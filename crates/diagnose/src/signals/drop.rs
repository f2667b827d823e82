//! Packets that the kernel drops, by reason and interface (enum skb_drop_reason of include/net/dropreason-core.h).

use crate::signal::{Entity, netns, over, share_of_true, signals};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Link, PacketDrop, Protocol, Setting};
use whyslow_model::key::NetKey;
use whyslow_model::value::{Counter, Name};
use whyslow_model::window::{Change, Window};

/// Drop reason of the reverse-path filter.
pub(super) const REVERSE_PATH: &str = "ip_rpfilter";

/// Counter of the drops for a reason in a namespace.
type Count = fn(&Protocol) -> Counter;

/// Reasons that the kernel also counts by namespace, for where drops were not traced.
const COUNTED: [(&str, Count); 2] =
    [(REVERSE_PATH, |p| p.tcp_ext_ip_reverse_path_filter), ("pkt_too_big", |p| p.ip_frag_fails)];

/// Functions in a bridge that check whether a packet fits through its outgoing link: by the MTU of the port.
const BRIDGE: [&str; 2] = ["br_dev_queue_push_xmit", "br_nf_dev_queue_xmit"];
/// Functions of a pair of virtual devices that check the MTU of the peer.
const PAIR: [&str; 3] = ["__dev_forward_skb", "__dev_forward_skb2", "veth_xmit"];
/// Bytes that these functions include in the size of a packet; the second function of a bridge does not.
const ETHERNET_HEADER: f64 = 14.0;

/// Packets dropped for one reason, at one interface or in a namespace.
#[derive(Default)]
pub struct DropUse<'w> {
    reason: &'w str,
    /// Packets dropped in the window.
    packets: f64,
    bytes: Option<f64>,
    unicast: Option<f64>,
    repeated: Option<f64>,
    dropping_share: Option<f64>,
    repeating_share: Option<f64>,
    seconds: f64,
    /// Packets that IP received in the namespace.
    arrived: Option<f64>,
    /// Row with the most packets.
    most: Option<&'w PacketDrop>,
    namespace: Name,
    /// Interface on which the packets arrived or were to leave.
    link: Option<&'w Link>,
    /// Interface of the namespace with the smallest MTU.
    narrowest: Option<&'w Link>,
    /// MTU of the peer, if the interface is one of a pair of virtual devices.
    peer_mtu: Option<f64>,
    /// Interfaces of the namespace with a strict reverse-path filter; `None` if no setting is known.
    strict_on: Option<Vec<String>>,
}

impl DropUse<'_> {
    fn per_second(&self, packets: Option<f64>) -> Option<f64> {
        over(packets, Some(self.seconds))
    }

    fn size(&self) -> Option<f64> {
        over(self.bytes, Some(self.packets))
    }

    /// Returns the MTU of the outgoing link, where that is what the function checks.
    fn link_mtu(&self) -> Option<f64> {
        let place = self.most?.place.get()?;
        if BRIDGE.contains(&place) { self.link?.mtu.get() } else { self.peer_mtu.filter(|_| PAIR.contains(&place)) }
    }

    /// Returns true if the packets exceed the MTU. Such functions also drop packets because the link is down: only their size
    /// shows the reason.
    fn is_over_mtu(&self) -> bool {
        let header = if self.most.and_then(|row| row.place.get()) == Some(BRIDGE[1]) { 0.0 } else { ETHERNET_HEADER };
        self.size().zip(self.link_mtu()).is_some_and(|(size, mtu)| size - header > mtu)
    }

    fn filter(&self) -> Option<&'static str> {
        match self.link?.rp_filter.get()? {
            0.0 => Some("off"),
            1.0 => Some("strict"),
            _ => Some("loose"),
        }
    }
}

signals! { d: DropUse<'_>;
    "drop.reason" "text" "why they were dropped", "as the kernel names it", "BPF: kfree_skb (include/net/dropreason-core.h)" => d.reason;
    "drop.place" "text" "the function that dropped most of them", "as the kernel names it", "BPF: kfree_skb" => d.most.and_then(|row| row.place.get());
    "drop.rate" "1/s" "packets dropped", "Δpackets / Δt; where not traced ΔIPReversePathFilter / Δt, ΔFragFails / Δt", "BPF: kfree_skb; /proc/net/netstat, /proc/net/snmp", normal (near 0.0) => d.per_second(Some(d.packets));
    "drop.dropped" "count" "the same, in the window", "Δpackets", "BPF: kfree_skb; /proc/net/netstat, /proc/net/snmp" => d.packets;
    "drop.share" "ratio" "the same against the packets that IP received in this network namespace", "Δpackets / ΔInReceives", "BPF: kfree_skb; /proc/net/netstat, /proc/net/snmp", normal (near 0.02) => over(Some(d.packets), d.arrived);
    "drop.dropping_share" "ratio" "share of the samples in which any were dropped", "steps with Δpackets > 0 / steps", "BPF: kfree_skb; /proc/net/netstat, /proc/net/snmp" => d.dropping_share;
    "drop.unicast" "1/s" "of those, packets to a single receiver: no broadcasts, no multicasts", "Δunicast / Δt", "BPF: kfree_skb (skb->pkt_type)" => d.per_second(d.unicast);
    "drop.repeated" "1/s" "of those, packets whose sender had lost another to the same address a second or more before, and did not learn from it", "Δrepeated / Δt", "BPF: kfree_skb" => d.per_second(d.repeated);
    "drop.repeating_share" "ratio" "share of the samples in which there were such packets", "steps with Δrepeated > 0 / steps", "BPF: kfree_skb", normal (near 0.0) => d.repeating_share;
    "drop.size" "bytes" "mean size of what was dropped; segments handled together count as one packet", "Δbytes / Δpackets", "BPF: kfree_skb", normal "at most the MTU and the Ethernet header" => d.size();
    "drop.link_mtu" "bytes" "the MTU of the link that was to carry them: that of the bridge's port, or of the other end of a virtual pair", "mtu", "rtnetlink", normal "the same at both ends, and on all ports of a bridge" => d.link_mtu();
    "drop.over_mtu" "flag" "1 if they were dropped because they are larger than that", "mean size without the Ethernet header > MTU, by the function that checks it", "BPF: kfree_skb; rtnetlink" => d.is_over_mtu();
    "drop.source" "text" "the sender of the latest one", "source address", "BPF: kfree_skb" => d.most.and_then(|row| row.source.get());
    "drop.interface" "text" "the interface at which they arrived, or by which they were to leave", "skb->dev", "BPF: kfree_skb" => d.most.and_then(|row| row.interface.get());
    "drop.namespace" "text" "the network namespace; empty for the observer's own", "name under /run/netns, or inode", "network_namespaces(7)" => &*d.namespace;
    "drop.filter" "text" "the reverse-path filter of the interface: strict, loose or off", "the larger of rp_filter of the interface and of all", "/proc/sys/net/ipv4/conf", normal "loose or off where packets arrive and leave by different interfaces" => d.filter();
    "drop.strict_on" "text" "the interfaces of this network namespace whose reverse-path filter is strict", "rp_filter = 1, the larger one of the interface's and that of all", "/proc/sys/net/ipv4/conf", normal "no interface where packets arrive and leave by different ones" => d.strict_on.as_ref().map(|names| names.join(", ")).as_deref();
    "drop.mtu" "bytes" "largest packet of the interface", "as the kernel gives it", "rtnetlink" => d.link.and_then(|link| link.mtu.get());
    "drop.smallest_mtu" "bytes" "the smallest MTU of the interfaces in this network namespace", "min of mtu", "rtnetlink", normal "the same on all links of a path" => d.narrowest.and_then(|link| link.mtu.get());
    "drop.narrowest" "text" "the interface that has it", "name", "rtnetlink", normal "a tunnel or another interface with a smaller MTU on purpose" => d.narrowest.map(|link| &*link.interface.name);
}

/// State of the network around the drops of a window.
struct Surroundings<'w> {
    window: &'w Window,
    links: BTreeMap<NetKey, &'w Link>,
    protocols: Vec<Change<'w, Protocol>>,
}

impl<'w> Surroundings<'w> {
    fn from_window(window: &'w Window) -> Self {
        Self { window, links: window.newest(), protocols: window.changes() }
    }

    fn steps(&self) -> f64 {
        self.window.snapshots().len().saturating_sub(1) as f64
    }

    fn narrowest(&self, ns: &str) -> Option<&'w Link> {
        let own = self.links.values().copied().filter(|link| *link.interface.ns == *ns);
        let used = own.filter(|link| link.kind.get() != Some("loopback") && link.operstate.get() != Some("down"));
        let by_mtu = used.filter_map(|link| Some((link.mtu.get()?, link)));
        by_mtu.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, link)| link)
    }

    /// Returns the peer's MTU; the smallest one, if its namespace has several ends of pairs with this one.
    fn peer_mtu(&self, link: &Link) -> Option<f64> {
        let (ns, peer) = (&*link.interface.ns, link.peer_ns.get().unwrap_or(&link.interface.ns));
        let is_peer = |other: &&&Link| {
            *other.interface.ns == *peer
                && other.peer_ns.get().unwrap_or(&other.interface.ns) == ns
                && other.interface != link.interface
                && other.kind.get() == Some("veth")
        };
        let pairs = self.links.values().filter(is_peer).filter_map(|other| other.mtu.get());
        pairs.reduce(f64::min).filter(|_| link.kind.get() == Some("veth"))
    }

    /// Returns the interfaces with a strict filter, from the interfaces themselves or, in captures, from sysctl.
    fn strict_on(&self, ns: &str) -> Option<Vec<String>> {
        let own = self.links.values().filter(|link| *link.interface.ns == *ns);
        let mut filters: Vec<(String, f64)> =
            own.filter_map(|link| Some((link.interface.name.to_string(), link.rp_filter.get()?))).collect();
        if filters.is_empty() && ns.is_empty() {
            filters = printed_filters(self.window);
        }
        let strict = filters.iter().filter(|(_, filter)| *filter == 1.0).map(|(name, _)| name.clone());
        (!filters.is_empty()).then(|| strict.collect())
    }

    /// Returns what is common to all drops of a namespace.
    fn dropped(&self, ns: &Name, reason: &'w str) -> DropUse<'w> {
        let protocol = self.protocols.iter().find(|p| p.key().ns == *ns);
        DropUse {
            reason,
            seconds: self.window.seconds(),
            arrived: protocol.and_then(|p| p.grown(|p| p.ip_in_receives)),
            namespace: ns.clone(),
            narrowest: self.narrowest(ns),
            strict_on: self.strict_on(ns),
            ..DropUse::default()
        }
    }

    /// Combines the rows of one reason at one interface. Each row begins with the first packet that is dropped there.
    fn traced(&self, ns: &Name, reason: &'w str, rows: &[Change<'w, PacketDrop>]) -> DropUse<'w> {
        let grown = |of: fn(&PacketDrop) -> Counter| rows.iter().filter_map(|row| row.grown(of)).sum::<f64>();
        let growing_share = |of: fn(&PacketDrop) -> Counter| {
            let growing: BTreeSet<u64> = rows.iter().flat_map(|row| growing_at(row, of)).collect();
            over(Some(growing.len() as f64), Some(self.steps()))
        };
        let packets = |row: &&Change<'w, PacketDrop>| row.grown(|d| d.packets).unwrap_or(0.0);
        let most = rows.iter().max_by(|a, b| packets(a).total_cmp(&packets(b))).map(Change::last);
        let interface = most.and_then(|row| row.interface.get());
        let key = interface.map(|name| NetKey { ns: ns.clone(), name: name.into() });
        let link = key.and_then(|key| self.links.get(&key).copied());
        DropUse {
            packets: grown(|d| d.packets),
            bytes: Some(grown(|d| d.bytes)),
            unicast: Some(grown(|d| d.unicast)),
            repeated: Some(grown(|d| d.repeated)),
            dropping_share: growing_share(|d| d.packets),
            repeating_share: growing_share(|d| d.repeated),
            most,
            link,
            peer_mtu: link.and_then(|link| self.peer_mtu(link)),
            ..self.dropped(ns, reason)
        }
    }

    fn counted(&self, protocol: &Change<'w, Protocol>, reason: &'w str, of: Count) -> DropUse<'w> {
        let growing = protocol.steps(of).filter_map(|(_, packets)| Some(packets? > 0.0));
        DropUse {
            packets: protocol.grown(of).unwrap_or(0.0),
            dropping_share: share_of_true(growing),
            ..self.dropped(&protocol.key().ns, reason)
        }
    }
}

/// Returns the interfaces and their filters from settings such as `net.ipv4.conf.eth0.rp_filter = 1`.
fn printed_filters(window: &Window) -> Vec<(String, f64)> {
    let settings = window.newest::<Setting>();
    let filter = |(name, row): (&Name, &&Setting)| {
        let interface = name.strip_prefix("net.ipv4.conf.")?.strip_suffix(".rp_filter")?;
        Some((interface.to_owned(), row.value.get()?.parse().ok()?))
    };
    let filters: Vec<(String, f64)> = settings.iter().filter_map(filter).collect();
    let Some(all) = filters.iter().find(|(name, _)| name == "all").map(|(_, filter)| *filter) else {
        return Vec::new();
    };
    let own = filters.into_iter().filter(|(name, _)| !["all", "default"].contains(&name.as_str()));
    own.map(|(name, filter)| (name, filter.max(all))).collect()
}

/// Returns the times of the samples in which a count had grown.
fn growing_at(row: &Change<'_, PacketDrop>, of: fn(&PacketDrop) -> Counter) -> Vec<u64> {
    let course: Vec<(f64, f64)> = row.course(|d| of(d).get().map(|count| count as f64)).collect();
    course.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| pair[1].0.to_bits()).collect()
}

/// Returns the drops of the window: for each reason at each interface, or, where that was not traced, in each namespace.
pub fn entities(window: &Window) -> Vec<Entity> {
    let around = Surroundings::from_window(window);
    let mut groups: BTreeMap<(Name, Name, Name), Vec<Change<'_, PacketDrop>>> = BTreeMap::new();
    for row in window.changes::<PacketDrop>() {
        let last = row.last();
        if let Some(reason) =
            last.reason.get().filter(|_| row.grown(|d| d.packets).is_some_and(|packets| packets > 0.0))
        {
            let interface = last.interface.get().unwrap_or_default();
            groups.entry((row.key().ns.clone(), reason.into(), interface.into())).or_default().push(row);
        }
    }
    let mut found = Vec::new();
    for ((ns, _, interface), rows) in &groups {
        let Some(reason) = rows[0].last().reason.get() else { continue };
        let subject = if interface.is_empty() { Subject::host() } else { Subject::new("interface", &**interface) };
        let subject = Subject { netns: netns(ns), ..subject };
        found.push(Entity::from_subject(subject, &around.traced(ns, reason, rows)));
    }
    let is_traced = !groups.is_empty();
    for (reason, of) in COUNTED.into_iter().filter(|_| !is_traced) {
        for protocol in &around.protocols {
            let dropped = around.counted(protocol, reason, of);
            if dropped.packets > 0.0 {
                found.push(Entity::from_subject(
                    Subject { netns: netns(&protocol.key().ns), ..Subject::host() },
                    &dropped,
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_documents::diagnosis::Reading;

    fn key(name: &str) -> NetKey {
        NetKey { ns: "shop".into(), name: name.into() }
    }

    fn link(name: &str, mtu: f64) -> Link {
        Link { mtu: mtu.into(), rp_filter: 1.0.into(), operstate: "up".into(), ..Link::new(key(name)) }
    }

    /// Returns drops of ten packets per second, nine of them unicast and six repeated; none after five seconds.
    fn packet_drop(t: u64, protocol: &str) -> PacketDrop {
        let seconds = t.min(5);
        PacketDrop {
            reason: REVERSE_PATH.into(),
            place: "ip_rcv_finish_core".into(),
            interface: "eth1".into(),
            source: "192.0.2.7".into(),
            packets: (seconds * 10).into(),
            bytes: (seconds * 1000).into(),
            unicast: (seconds * 9).into(),
            repeated: (seconds * 6).into(),
            ..PacketDrop::new(key(protocol))
        }
    }

    fn ten_seconds(is_traced: bool) -> Window {
        window([0, 5, 10], |t, s| {
            s.net.link.extend([link("eth1", 1500.0), link("tun0", 1400.0)]);
            let counted = Protocol {
                ip_in_receives: (t * 1000).into(),
                tcp_ext_ip_reverse_path_filter: (t * 20).into(),
                ip_frag_fails: 0.into(),
                ..Protocol::new(key("ip"))
            };
            s.net.protocol.push(counted);
            if is_traced {
                s.net.packet_drop.extend(["tcp", "udp"].map(|protocol| packet_drop(t, protocol)));
            }
        })
    }

    #[test]
    fn drops_of_one_reason_at_one_interface_are_added_up() {
        let found = entities(&ten_seconds(true));
        let [drop] = &found[..] else { panic!("{found:?}") };
        assert_eq!((drop.subject.name.as_str(), drop.subject.netns.as_deref()), ("eth1", Some("shop")));
        // Two rows, each of 50 packets in ten seconds.
        assert_eq!((drop.number("drop.rate"), drop.number("drop.dropped")), (Some(10.0), Some(100.0)));
        assert_eq!((drop.number("drop.unicast"), drop.number("drop.repeated")), (Some(9.0), Some(6.0)));
        assert_eq!((drop.number("drop.dropping_share"), drop.number("drop.repeating_share")), (Some(0.5), Some(0.5)));
        assert_eq!((drop.number("drop.share"), drop.number("drop.size")), (Some(0.01), Some(100.0)));
        assert_eq!(drop.number("drop.smallest_mtu"), Some(1400.0));
        assert_eq!(drop.reading("drop.filter"), Some(&Reading::Text("strict".into())));
        assert_eq!(drop.reading("drop.source"), Some(&Reading::Text("192.0.2.7".into())));
    }

    /// Returns the result for ten packets of this size at veth0, whose peer takes 1300 bytes, dropped by this function.
    fn over_mtu(place: &str, size: u64) -> Option<f64> {
        let end = |ns: &str, name: &str, mtu: f64, peer: &str| {
            let key = NetKey { ns: ns.into(), name: name.into() };
            Link { mtu: mtu.into(), kind: "veth".into(), peer_ns: peer.into(), ..Link::new(key) }
        };
        let window = window([0, 10], |t, s| {
            s.net.link.extend([end("shop", "veth0", 1500.0, "host"), end("host", "veth1", 1300.0, "shop")]);
            s.net.packet_drop.push(PacketDrop {
                reason: "not_specified".into(),
                place: place.into(),
                interface: "veth0".into(),
                packets: t.into(),
                bytes: (t * size).into(),
                ..PacketDrop::new(key("udp"))
            });
        });
        entities(&window)[0].number("drop.over_mtu")
    }

    #[test]
    fn packets_are_too_large_by_the_mtu_that_the_function_checks() {
        assert_eq!(over_mtu("__dev_forward_skb2", 1400), Some(1.0));
        // With the Ethernet header of 14 bytes it just fits: the peer is down.
        assert_eq!(over_mtu("__dev_forward_skb2", 1314), Some(0.0));
        // veth0 as the port of a bridge.
        assert_eq!(
            (over_mtu("br_nf_dev_queue_xmit", 1501), over_mtu("br_nf_dev_queue_xmit", 1500)),
            (Some(1.0), Some(0.0))
        );
        assert_eq!(over_mtu("br_dev_queue_push_xmit", 1514), Some(0.0));
        assert_eq!(over_mtu("tcp_v4_rcv", 9000), Some(0.0));
    }

    #[test]
    fn settings_of_captures_say_where_the_filter_is_strict() {
        let window = window([0, 10], |t, s| {
            let counted = Protocol { tcp_ext_ip_reverse_path_filter: (t * 20).into(), ..Protocol::default() };
            s.net.protocol.push(counted);
            for (name, filter) in [("all", "1"), ("default", "0"), ("eth0", "0"), ("eth1", "2")] {
                let name = format!("net.ipv4.conf.{name}.rp_filter");
                s.kernel.setting.push(Setting { value: filter.into(), ..Setting::new(name.as_str().into()) });
            }
        });
        let found = entities(&window);
        assert_eq!(found[0].reading("drop.strict_on"), Some(&Reading::Text("eth0".into())));
        assert_eq!((found[0].subject.kind.as_str(), found[0].subject.netns.as_deref()), ("host", None));
    }

    #[test]
    fn without_a_trace_the_kernels_counts_are_those_of_the_namespace() {
        let found = entities(&ten_seconds(false));
        let [drop] = &found[..] else { panic!("{found:?}") };
        assert_eq!((drop.subject.kind.as_str(), drop.subject.netns.as_deref()), ("host", Some("shop")));
        assert_eq!((drop.number("drop.rate"), drop.number("drop.dropping_share")), (Some(20.0), Some(1.0)));
        assert_eq!((drop.number("drop.unicast"), drop.number("drop.repeated")), (None, None));
    }
}
