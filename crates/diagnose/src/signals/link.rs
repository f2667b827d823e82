//! Links of network cards: what was negotiated against what both ends support, the ports of bonds, and wireless interfaces.

use crate::signal::{Entity, netns, over, signals};
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{BondPort, Link, Wireless};
use whyslow_model::window::Window;

signals! { l: Link;
    "link.speed" "bit/s" "negotiated speed", "as the driver gives it", "ethtool" => l.speed.get().filter(|speed| *speed > 0.0);
    "link.duplex" "text" "full or half", "as the driver gives it", "ethtool", normal "full" => l.duplex.get();
    "link.state" "text" "up or down", "Link detected; operstate", "ethtool, rtnetlink" => l.operstate.get();
    "link.kind" "text" "what kind of virtual device it is; absent for a physical one", "as the kernel gives it", "rtnetlink" => l.kind.get();
    "link.auto_negotiation" "text" "on or off", "as the driver gives it", "ethtool" => l.auto_negotiation.get();
    "link.supported" "bit/s" "the highest speed that the card supports", "fastest of the supported link modes", "ethtool", normal "no more than the speed in use" => l.supported_speed.get();
    "link.partner" "bit/s" "the highest speed that the other end offers", "fastest of the link modes that the partner advertises", "ethtool", normal "no more than the speed in use" => l.partner_speed.get();
    "link.of_both" "bit/s" "the highest speed that both ends can do", "min(supported, partner's)", "ethtool" => l.supported_speed.get().zip(l.partner_speed.get()).map(|(own, other)| own.min(other));
}

/// Returns every link.
pub fn links(window: &Window) -> Vec<Entity> {
    let subject = |link: &Link| Subject {
        netns: netns(&link.interface.ns),
        ..Subject::new("interface", link.interface.name.to_string())
    };
    window.newest::<Link>().into_values().map(|link| Entity::from_subject(subject(link), link)).collect()
}

/// Inputs of the signals of a bond's port.
pub struct PortUse<'w> {
    port: &'w BondPort,
    /// All ports of its bond.
    ports: &'w [&'w BondPort],
}

impl PortUse<'_> {
    fn ports_up(&self) -> f64 {
        self.ports.iter().filter(|port| port.link.get() == Some("up")).count() as f64
    }

    fn fastest(&self) -> Option<f64> {
        self.ports.iter().filter_map(|port| port.speed.get()).reduce(f64::max)
    }

    /// Returns true if it belongs to the active aggregator; if that is unknown, to the one with the most ports.
    fn is_aggregated(&self) -> Option<bool> {
        let own = self.port.aggregator.get()?;
        if let Some(active) = self.port.active_aggregator.get() {
            return Some(own == active);
        }
        let size = |id: f64| self.ports.iter().filter(|port| port.aggregator.get() == Some(id)).count();
        Some(self.ports.iter().filter_map(|port| port.aggregator.get()).all(|other| size(other) <= size(own)))
    }
}

signals! { p: PortUse<'_>;
    "port.bond" "text" "the bond", "name of the file", "/proc/net/bonding" => Some(&*p.port.port.upper);
    "port.mode" "text" "mode of the bond", "Bonding Mode", "/proc/net/bonding" => p.port.mode.get();
    "port.link" "text" "up or down", "MII Status", "/proc/net/bonding", normal "up" => p.port.link.get();
    "port.failures" "count" "times its link went down", "Link Failure Count", "/proc/net/bonding", normal (near 0.0) => p.port.failures.get();
    "port.count" "count" "ports of the bond", "ports listed", "/proc/net/bonding", normal "as many as are in the aggregate" => p.ports.len() as f64;
    "port.up" "count" "ports of the bond whose link is up", "MII Status: up", "/proc/net/bonding", normal "all ports" => p.ports_up();
    "port.speed" "bit/s" "its speed", "Speed", "/proc/net/bonding" => p.port.speed.get();
    "port.of_fastest" "ratio" "the same against the fastest port of the bond", "speed / max(speed)", "/proc/net/bonding", normal "100 %" => over(p.port.speed.get(), p.fastest());
    "port.duplex" "text" "full or half", "Duplex", "/proc/net/bonding", normal "full" => p.port.duplex.get();
    "port.aggregated" "flag" "1 where it belongs to the aggregate in use (802.3ad)", "Aggregator ID = that of the active aggregator", "/proc/net/bonding", normal "all ports are in one aggregate" => p.is_aggregated();
    "port.active" "flag" "1 where it carries the traffic of a bond that uses one port at a time", "Currently Active Slave", "/proc/net/bonding" => p.port.active.get().map(|active| active == 1.0);
}

/// Returns the ports of all bonds.
pub fn ports(window: &Window) -> Vec<Entity> {
    let rows = window.newest::<BondPort>();
    let mut bonds: BTreeMap<&str, Vec<&BondPort>> = BTreeMap::new();
    for row in rows.into_values() {
        bonds.entry(&row.port.upper).or_default().push(row);
    }
    let of_bond = |ports: &Vec<&BondPort>| {
        let entity = |port: &&BondPort| {
            let others = ports.iter().map(|other| &other.port.lower).filter(|name| **name != port.port.lower);
            let related = others.chain([&port.port.upper]).map(ToString::to_string).collect();
            let subject = Subject::new("interface", port.port.lower.to_string());
            Entity::from_subject(subject, &PortUse { port, ports }).also_named(related)
        };
        ports.iter().map(entity).collect::<Vec<_>>()
    };
    bonds.values().flat_map(of_bond).collect()
}

signals! { w: Wireless;
    "wifi.signal" "count" "strength of the received signal, in dBm", "signal; Signal level", "iw, iwconfig", normal (above -67.0 as "above -67 dBm; below -80 only the slowest modulations work") => w.signal.get();
    "wifi.send_rate" "bit/s" "rate at which it sends", "tx bitrate; Bit Rate", "iw, iwconfig", normal "hundreds of Mbit/s near the access point" => w.send_rate.get();
    "wifi.receive_rate" "bit/s" "rate at which it receives", "rx bitrate", "iw" => w.receive_rate.get();
    "wifi.sent" "count" "frames sent since it was associated", "tx packets", "iw" => w.sent.get();
    "wifi.retry_share" "ratio" "share of the transmissions that had to be repeated", "tx retries / (tx packets + tx retries)", "iw", normal (below 0.2) => over(w.retries.get(), w.retries.get().zip(w.sent.get()).map(|(again, sent)| again + sent));
    "wifi.failed" "count" "frames that were not acknowledged at all", "tx failed", "iw", normal (near 10.0 as "0, or few") => w.failed.get();
}

/// Returns every wireless interface.
pub fn wireless(window: &Window) -> Vec<Entity> {
    let rows = window.newest::<Wireless>();
    rows.into_values()
        .map(|w| Entity::from_subject(Subject::new("interface", w.interface.name.to_string()), w))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::key::LinkKey;

    #[test]
    fn a_port_is_compared_with_the_others_of_its_bond() {
        let port = |name: &str, speed: f64, aggregator: f64| BondPort {
            speed: speed.into(),
            aggregator: aggregator.into(),
            link: "up".into(),
            ..BondPort::new(LinkKey { upper: "bond0".into(), lower: name.into() })
        };
        let window = window([0], |_, s| {
            s.net.bond_port.extend([port("eth0", 1e9, 1.0), port("eth1", 1e8, 2.0), port("eth2", 1e9, 1.0)]);
        });
        let all = ports(&window);
        let of = |signal: &str| all.iter().map(|port| port.number(signal)).collect::<Vec<_>>();
        assert_eq!(of("port.of_fastest"), [Some(1.0), Some(0.1), Some(1.0)]);
        assert_eq!(of("port.aggregated"), [Some(1.0), Some(0.0), Some(1.0)], "the aggregate with most ports counts");
        assert_eq!(of("port.up"), [Some(3.0); 3]);
    }
}
