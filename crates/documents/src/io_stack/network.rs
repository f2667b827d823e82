//! Network nodes: interfaces, from those that containers and programs use down to network cards.

use super::{InterruptLine, LimitKind, NodeKind, StackKind, StackNode, interrupt_lines};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Link, Qdisc, VirtualFunction};
use whyslow_model::human;
use whyslow_model::key::NetKey;
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// Kinds of interfaces through which packets of containers and virtual machines enter; they leave a bridge through its
/// other ports.
pub(super) const ENTRANCES: [&str; 3] = ["veth", "tun", "netkit"];
/// Kinds of masters that packets do not leave through the ports.
const NO_WAY_OUT: [&str; 1] = ["vrf"];
pub(super) fn nodes(window: &Window) -> Vec<StackNode> {
    let facts = NetworkFacts::from_window(window);
    let mut nodes: Vec<StackNode> = facts.links.iter().map(|(key, link)| facts.interface(key, link)).collect();
    // Interfaces that others use are not minor.
    let used: Vec<String> =
        nodes.iter().filter(|node| !node.minor).flat_map(|node| &node.below).map(|below| below.id.clone()).collect();
    nodes.iter_mut().filter(|node| used.contains(&node.id)).for_each(|node| node.minor = false);
    nodes
}

struct NetworkFacts<'w> {
    links: BTreeMap<NetKey, &'w Link>,
    /// Root queueing discipline of each interface.
    queues: BTreeMap<NetKey, &'w Qdisc>,
    interrupts: BTreeMap<String, Vec<InterruptLine>>,
    /// Virtual functions by PCI address.
    functions: BTreeMap<Name, &'w VirtualFunction>,
}

impl<'w> NetworkFacts<'w> {
    fn from_window(window: &'w Window) -> Self {
        let roots = window.newest::<Qdisc>().into_iter().filter(|(_, qdisc)| qdisc.parent.get() == Some("root"));
        let by_interface = roots.filter_map(|(key, qdisc)| {
            let interface = qdisc.interface.get()?;
            Some((NetKey { ns: key.ns, name: interface.into() }, qdisc))
        });
        Self {
            links: window.newest(),
            queues: by_interface.collect(),
            interrupts: interrupt_lines(window),
            functions: window.newest(),
        }
    }

    fn interface(&self, key: &NetKey, link: &Link) -> StackNode {
        let kind = link.kind.get().unwrap_or_default();
        let mut node = StackNode::new(StackKind::Network, NodeKind::Interface, interface_id(key), &key.name);
        node.netns = (!key.ns.is_empty()).then(|| key.ns.to_string());
        // The loopback device of a namespace is of no interest; an interface that is down and has no address is not in
        // use.
        let is_up = link.operstate.get().is_none_or(|state| state != "down" && state != "notpresent");
        node.minor = kind == "loopback" || (!is_up && link.addresses.get().is_none() && link.master.get().is_none());
        describe(&mut node, kind, link);
        self.describe_functions(&mut node, link);
        self.add_below(&mut node, key, link, kind);
        self.add_limits(&mut node, key, link);
        node.interrupts = link.bus.get().and_then(|bus| self.interrupts.get(bus)).cloned().unwrap_or_default();
        node
    }

    /// Adds SR-IOV facts: the device that the card is a virtual function of, or the number of its own virtual
    /// functions.
    fn describe_functions(&self, node: &mut StackNode, link: &Link) {
        let Some(bus) = link.bus.get() else { return };
        node.says("virtual function of", self.functions.get(bus).and_then(|own| own.part_of.get()));
        let parts = self.functions.values().filter(|function| function.part_of.get() == Some(bus)).count();
        node.has("virtual functions", (parts > 0).then_some(parts as f64), "count");
    }

    /// Adds the next interface on the way out, and a problem if packets of the largest size do not fit there.
    fn add_below(&self, node: &mut StackNode, key: &NetKey, link: &Link, kind: &str) {
        let is_entrance = ENTRANCES.contains(&kind);
        let other = self.lower(key, link);
        let next = match (self.master(key, link), &other) {
            (Some(bridge), _) if is_entrance => Some((bridge, None)),
            (None, Some(peer)) if is_entrance && self.is_outer_end(key, peer) => {
                Some((peer.clone(), Some("other end")))
            }
            (_, Some(lower)) if !is_entrance => Some((lower.clone(), None)),
            _ => None,
        };
        let ports = self
            .ports(key)
            .filter(|(_, row)| !NO_WAY_OUT.contains(&kind) && !ENTRANCES.contains(&row.kind.get().unwrap_or_default()));
        let below: Vec<(NetKey, Option<&str>)> =
            next.into_iter().chain(ports.map(|(port, _)| (port.clone(), Some("port")))).collect();
        for (lower, role) in below {
            node.problems.extend(self.too_large(link, &lower));
            // Packets cross a veth in both directions.
            if let Some(peer) = self.links.get(&lower).filter(|_| role == Some("other end")) {
                node.problems.extend(self.too_large(peer, key));
            }
            node.lies_on(interface_id(&lower), role);
        }
    }

    /// Returns a problem if packets of one interface do not fit another that they pass through.
    fn too_large(&self, from: &Link, through: &NetKey) -> Option<String> {
        let (size, most) = from.mtu.get().zip(self.links.get(through)?.mtu.get())?;
        let (name, through) = (&from.interface.name, &through.name);
        let words = |bytes| LimitKind::PacketSize.quantity(bytes);
        (size > most)
            .then(|| format!("Packets of {name} can have {}, those of {through} only {}.", words(size), words(most)))
    }

    /// Returns the interface below, or the other end.
    fn lower(&self, key: &NetKey, link: &Link) -> Option<NetKey> {
        let ns = link.peer_ns.name().unwrap_or(&key.ns).clone();
        Some(NetKey { ns, name: link.lower.name()?.clone() }).filter(|lower| self.links.contains_key(lower))
    }

    fn master(&self, key: &NetKey, link: &Link) -> Option<NetKey> {
        Some(NetKey { ns: key.ns.clone(), name: link.master.name()?.clone() })
    }

    fn ports<'s>(&'s self, master: &'s NetKey) -> impl Iterator<Item = (&'s NetKey, &'s &'w Link)> {
        self.links.iter().filter(move |(key, link)| key.ns == master.ns && link.master.name() == Some(&master.name))
    }

    /// Returns whether packets enter by this end of a veth: its peer leads on to a bridge or, if neither does, this end
    /// is in another namespace.
    fn is_outer_end(&self, key: &NetKey, peer: &NetKey) -> bool {
        let has_master = self.links.get(peer).is_some_and(|link| link.master.get().is_some());
        let order = |key: &NetKey| (key.ns.is_empty(), key.clone());
        has_master || order(key) < order(peer)
    }

    fn add_limits(&self, node: &mut StackNode, key: &NetKey, link: &Link) {
        node.limit(LimitKind::PacketSize, "mtu", link.mtu.get(), |_| String::new());
        node.limit(LimitKind::BitRate, "speed", link.speed.get(), |_| "the link".into());
        if let Some(qdisc) = self.queues.get(key) {
            node.says("queueing discipline", qdisc.kind.get());
            node.limit(LimitKind::BitRate, "qdisc rate", qdisc.rate.get(), |_| {
                format!("its {} shaper", qdisc.kind.get().unwrap_or_default())
            });
        }
        node.limit(LimitKind::ReceiveRing, "ring rx", link.ring_rx.get(), |_| of_most(link.ring_rx_max.get()));
        node.limit(LimitKind::SendRing, "ring tx", link.ring_tx.get(), |_| of_most(link.ring_tx_max.get()));
    }
}

fn of_most(most: Option<f64>) -> String {
    most.map_or_else(String::new, |most| format!("at most {}", human::quantity(most, "count")))
}

fn describe(node: &mut StackNode, kind: &str, link: &Link) {
    node.says("type", Some(if kind.is_empty() { "network card" } else { kind }));
    node.says("driver", link.driver.get().filter(|driver| *driver != kind));
    node.says("bus address", link.bus.get().filter(|bus| *bus != "N/A"));
    node.has("NUMA node", link.numa_node.get(), "count");
    node.has("VLAN", link.vlan.get(), "count");
    node.says("bond mode", link.bond_mode.get());
    node.says("state", link.operstate.get().filter(|state| *state != "unknown"));
    node.says("addresses", link.addresses.get());
    node.says("duplex", link.duplex.get());
    node.has("receive queues", link.channels.get(), "count");
    node.has("receive queues at most", link.channels_max.get(), "count");
    node.has("send queues", link.tx_channels.get(), "count");
    node.has("coalescing rx", link.coalesce_rx.get().map(|ns| ns / 1e9), "s");
    node.has("coalescing rx frames", link.coalesce_rx_frames.get(), "count");
    node.has("coalescing tx", link.coalesce_tx.get().map(|ns| ns / 1e9), "s");
    node.says("adaptive coalescing", link.coalesce_adaptive_rx.get().map(|on| if on > 0.0 { "on" } else { "off" }));
    node.says("offloads", link.offloads.get());
    node.has("largest segmented packet", link.gso_max.get(), "bytes");
    node.has("send queue", link.tx_queue_length.get(), "count");
}

pub(super) fn interface_id(key: &NetKey) -> String {
    format!("interface:{key}")
}

#[cfg(test)]
mod tests {
    use super::super::IoStack;
    use super::*;
    use whyslow_model::catalogue::{Irq, IrqLine};
    use whyslow_model::key::PerCpu;
    use whyslow_model::snapshot::Snapshot;

    fn key(ns: &str, name: &str) -> NetKey {
        NetKey { ns: ns.into(), name: name.into() }
    }

    fn link(ns: &str, name: &str, kind: &str, mtu: f64) -> Link {
        let kind = Some(kind).filter(|kind| !kind.is_empty());
        Link { kind: kind.into(), mtu: mtu.into(), operstate: "up".into(), ..Link::new(key(ns, name)) }
    }

    fn stack(links: Vec<Link>, change: impl FnOnce(&mut Snapshot)) -> IoStack {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        s.net.link = links;
        change(&mut s);
        s.sort();
        IoStack::from_window(&Window::new(vec![s]))
    }

    /// Formats each node with those below it, and `!` for each problem.
    fn edges(stack: &IoStack) -> Vec<String> {
        let short = |id: &str| id.strip_prefix("interface:").unwrap().to_owned();
        let line = |node: &StackNode| {
            let below: Vec<String> = node.below.iter().map(|below| short(&below.id)).collect();
            format!("{} > {}{}", short(&node.id), below.join(" "), "!".repeat(node.problems.len()))
        };
        let mut lines: Vec<String> = stack.nodes.iter().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_container_leads_through_its_bridge_to_the_card() {
        let found = stack(
            vec![
                Link { peer_ns: "".into(), lower: "veth1".into(), ..link("web", "eth0", "veth", 1500.0) },
                Link {
                    peer_ns: "web".into(),
                    lower: "eth0".into(),
                    master: "br0".into(),
                    ..link("", "veth1", "veth", 1500.0)
                },
                link("", "br0", "bridge", 1500.0),
                Link { master: "br0".into(), speed: 1e9.into(), ..link("", "eth0", "", 1500.0) },
                Link { master: "br0".into(), ..link("", "vnet0", "tun", 1500.0) },
            ],
            |_| (),
        );
        let expected = ["br0 > eth0", "eth0 > ", "eth0@web > veth1", "veth1 > br0", "vnet0 > br0"];
        assert_eq!(edges(&found), expected);
        let tops: Vec<&str> = found.paths.iter().map(|path| path.top.as_str()).collect();
        assert_eq!(tops, ["interface:vnet0", "interface:eth0@web"]);
        let rate = found.paths[1].smallest.iter().find(|limit| limit.kind == LimitKind::BitRate).unwrap();
        assert_eq!(rate.words, "bit rate 1 Gbit/s at eth0 (the link)");
    }

    #[test]
    fn containers_on_one_bridge_are_alike_and_one_on_another_bridge_is_not() {
        let container = |name: &str, bridge: &str| {
            let (inner, outer) = (format!("{name}-in"), format!("{name}-out"));
            [
                Link { peer_ns: "".into(), lower: outer.as_str().into(), ..link(name, &inner, "veth", 1500.0) },
                Link {
                    peer_ns: name.into(),
                    lower: inner.as_str().into(),
                    master: bridge.into(),
                    ..link("", &outer, "veth", 1500.0)
                },
            ]
        };
        let mut links = [container("a", "br0"), container("b", "br0"), container("c", "br1")].concat();
        links.extend([link("", "br0", "bridge", 1500.0), link("", "br1", "bridge", 1500.0)]);
        let found = stack(links, |_| ());
        let like: Vec<_> = found.paths.iter().map(|path| (path.top.as_str(), path.like.as_deref())).collect();
        let expected =
            [("interface:a-in@a", None), ("interface:b-in@b", Some("interface:a-in@a")), ("interface:c-in@c", None)];
        assert_eq!(like, expected);
    }

    #[test]
    fn without_a_bridge_packets_enter_a_veth_in_the_other_namespace() {
        let found = stack(
            vec![
                Link { peer_ns: "web".into(), lower: "eth0".into(), ..link("", "veth1", "veth", 9000.0) },
                Link { peer_ns: "".into(), lower: "veth1".into(), ..link("web", "eth0", "veth", 1500.0) },
            ],
            |_| (),
        );
        assert_eq!(edges(&found), ["eth0@web > veth1!", "veth1 > "]);
        let problem = &found.nodes.iter().find(|node| !node.problems.is_empty()).unwrap().problems[0];
        assert_eq!(problem, "Packets of veth1 can have 9000 B, those of eth0 only 1500 B.");
    }

    #[test]
    fn a_vlan_on_a_bond_leads_to_the_ports_and_the_smallest_mtu_is_marked() {
        let found = stack(
            vec![
                Link { lower: "bond0".into(), vlan: 10.0.into(), ..link("", "bond0.10", "vlan", 9000.0) },
                Link { bond_mode: "802.3ad".into(), ..link("", "bond0", "bond", 9000.0) },
                Link { master: "bond0".into(), ..link("", "eth0", "", 9000.0) },
                Link { master: "bond0".into(), ..link("", "eth1", "", 1500.0) },
            ],
            |_| (),
        );
        assert_eq!(edges(&found), ["bond0 > eth0 eth1!", "bond0.10 > bond0", "eth0 > ", "eth1 > "]);
        let marked: Vec<&str> = found
            .nodes
            .iter()
            .filter(|node| node.limits.iter().any(|limit| !limit.smallest_for.is_empty()))
            .map(|node| node.name.as_str())
            .collect();
        assert_eq!(marked, ["eth1"]);
    }

    #[test]
    fn two_bridges_joined_by_a_veth_make_no_circle() {
        let veth = |name: &str, peer: &str, bridge: &str| Link {
            lower: peer.into(),
            master: bridge.into(),
            ..link("", name, "veth", 1500.0)
        };
        let found = stack(
            vec![
                veth("p0", "p1", "br0"),
                veth("p1", "p0", "br1"),
                link("", "br0", "bridge", 1500.0),
                link("", "br1", "bridge", 1500.0),
            ],
            |_| (),
        );
        assert_eq!(edges(&found), ["br0 > ", "br1 > ", "p0 > br0", "p1 > br1"]);
    }

    #[test]
    fn what_is_down_and_has_no_address_is_minor() {
        let down = || Link { operstate: "down".into(), ..link("", "x", "", 1500.0) };
        let named = |name: &str, link: Link| Link { interface: key("", name), ..link };
        let found = stack(
            vec![
                named("idle", down()),
                named("addressed", Link { addresses: "10.0.0.1/24".into(), ..down() }),
                named("below", down()),
                Link { lower: "below".into(), ..link("", "vlan7", "vlan", 1500.0) },
                link("", "lo", "loopback", 65_536.0),
            ],
            |_| (),
        );
        let minor: Vec<&str> = found.nodes.iter().filter(|node| node.minor).map(|node| node.name.as_str()).collect();
        assert_eq!(minor, ["idle", "lo"]);
    }

    #[test]
    fn a_card_has_its_interrupts_and_a_shaper_its_rate() {
        let found =
            stack(vec![Link { bus: "0000:00:03.0".into(), speed: 1e9.into(), ..link("", "eth0", "", 1500.0) }], |s| {
                let line = PerCpu { name: "38".into(), cpu: 1 };
                s.processor.irq.push(Irq { device: "virtio2-input.0".into(), ..Irq::new(line) });
                for (line, bus) in [("38", "0000:00:03.0"), ("9", "0000:00:03.0"), ("40", "0000:00:04.0")] {
                    let cpus = "1".into();
                    s.processor.irq_line.push(IrqLine { bus: bus.into(), cpus, ..IrqLine::new(line.into()) });
                }
                s.net.qdisc.push(Qdisc {
                    interface: "eth0".into(),
                    kind: "tbf".into(),
                    parent: "root".into(),
                    rate: 1e8.into(),
                    ..Qdisc::new(key("", "eth0 tbf 1:"))
                });
            });
        let lines: Vec<_> = found.nodes[0].interrupts.iter().map(|i| (&*i.line, i.name.as_deref())).collect();
        assert_eq!(lines, [("9", None), ("38", Some("virtio2-input.0"))]);
        let rate = found.paths[0].smallest.iter().find(|limit| limit.kind == LimitKind::BitRate).unwrap();
        assert_eq!((rate.value, rate.largest, rate.compared), (1e8, 1e9, 2));
    }
}
