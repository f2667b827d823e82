//! Local ports in use by connections to one peer.

use crate::signal::{Entity, mean, netns, over, share_of_true, signals};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Connection, EndedConnections, PortsUsed, Setting};
use whyslow_model::window::{Change, Window};

/// Share of ports in use from which a sample counts as exhausted: few become free between two attempts.
const USED_UP: f64 = 0.98;

/// Returns the number of local ports for connections, according to the setting (ip_local_port_range).
pub fn in_range(window: &Window) -> Option<f64> {
    let settings = window.newest::<Setting>();
    let range = settings.get("net.ipv4.ip_local_port_range")?.value.get()?;
    let mut bounds = range.split_whitespace().map(str::parse::<u16>);
    let (low, high) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    (low <= high).then(|| f64::from(high - low) + 1.0)
}

/// Inputs of the signals of a peer whose connections use many ports.
pub struct PortUse<'w> {
    ports: &'w Change<'w, PortsUsed>,
    /// The size of the port range where it was not read along with the ports, as in captures.
    in_range: Option<f64>,
    /// Ended connections to the same address.
    attempts: Option<&'w Change<'w, EndedConnections>>,
}

impl PortUse<'_> {
    fn fills(&self) -> impl Iterator<Item = f64> {
        self.ports.rows().filter_map(|row| over(row.used.get(), row.available.get().or(self.in_range)))
    }
}

signals! { p: PortUse<'_>;
    "ports.used" "count" "local ports of connections to this peer, those in TIME_WAIT included", "connections with these two addresses and this port of the peer, mean", "sock_diag(7)" => p.ports.mean(|p| p.used);
    "ports.available" "count" "local ports that there are for connections", "ip_local_port_range without ip_local_reserved_ports", "/proc/sys/net/ipv4" => p.ports.last().available.get().or(p.in_range);
    "ports.fill" "ratio" "how many of them are used, mean", "used / available", "sock_diag(7), /proc/sys/net/ipv4", normal (below 0.8) => mean(p.fills());
    "ports.used_up_share" "ratio" "share of the samples in which 98 % or more were used", "samples with used / available >= 0.98", "sock_diag(7), /proc/sys/net/ipv4", normal (near 0.0) => share_of_true(p.fills().map(|fill| fill >= USED_UP));
    "ports.time_wait_share" "ratio" "share of those used whose connections are closed and wait for a minute (TIME_WAIT)", "TIME_WAIT / used", "sock_diag(7)", normal "low where connections are used for more than one request" => over(p.ports.mean(|p| p.time_wait), p.ports.mean(|p| p.used));
    "ports.refused" "1/s" "attempts to connect to this address that failed because no port was left", "Δfailed attempts / Δt", "BPF: inet_sock_set_state", normal (near 0.0) => p.attempts.and_then(|a| a.rate(|a| a.no_port));
}

/// Returns the process with the most connections to a peer.
fn holder(window: &Window, namespace: &str, peer: &str) -> Option<f64> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for connection in window.newest::<Connection>().into_values() {
        let key = &connection.socket;
        if let Some(pid) = connection.pid.get().filter(|_| &*key.ns == namespace && key.remote.to_string() == peer) {
            *counts.entry(pid as u32).or_default() += 1;
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(pid, _)| f64::from(pid))
}

/// Returns the peers whose connections use many ports.
pub fn entities(window: &Window) -> Vec<Entity> {
    let attempts = window.changes::<EndedConnections>();
    let in_range = in_range(window);
    let of_address = |namespace: &str, peer: &str| {
        let address = peer.parse::<SocketAddr>().ok()?.ip().to_string();
        attempts.iter().find(|a| &*a.key().ns == namespace && *a.key().name == *address)
    };
    window
        .changes::<PortsUsed>()
        .iter()
        .map(|ports| {
            let key = ports.key();
            let peer = key.name.rsplit_once("->").map_or("", |(_, peer)| peer);
            let attempts = of_address(&key.ns, peer);
            let failing = attempts.filter(|a| a.grown(|a| a.no_port).is_some_and(|failed| failed > 0.0));
            let pid = failing.and_then(|a| a.last().pid.get()).or_else(|| holder(window, &key.ns, peer));
            let subject = Subject {
                pid: pid.map(|pid| pid as u32),
                netns: netns(&key.ns),
                ..Subject::new("connection", key.name.to_string())
            };
            Entity::from_subject(subject, &PortUse { ports, in_range, attempts })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::key::NetKey;

    #[test]
    fn how_many_ports_there_are_is_a_setting_where_it_was_not_read_along() {
        let window = window([0], |_, s| {
            let key = NetKey { ns: "".into(), name: "10.0.0.1:*->10.0.0.2:80".into() };
            let ports = PortsUsed { used: 985.into(), time_wait: 985.into(), ..PortsUsed::new(key) };
            s.net.ports_used.push(ports);
            let name = "net.ipv4.ip_local_port_range";
            s.kernel.setting.push(Setting { value: "40000\t40999".into(), ..Setting::new(name.into()) });
        });
        let found = &entities(&window)[0];
        assert_eq!((found.number("ports.available"), found.number("ports.fill")), (Some(1000.0), Some(0.985)));
        assert_eq!(found.number("ports.used_up_share"), Some(1.0));
    }

    #[test]
    fn ports_are_used_up_where_attempts_fail() {
        let window = window([0, 5, 10], |t, s| {
            let key = |name: &str| NetKey { ns: "shop".into(), name: name.into() };
            s.net.ports_used.push(PortsUsed {
                used: (if t == 0 { 500 } else { 1000 }).into(),
                time_wait: (if t == 0 { 450 } else { 550 }).into(),
                available: 1000.into(),
                ..PortsUsed::new(key("10.0.0.1:*->10.0.0.2:80"))
            });
            s.net.ended_connections.push(EndedConnections {
                no_port: (t * 20).into(),
                pid: 4711.into(),
                ..EndedConnections::new(key("10.0.0.2"))
            });
        });
        let found = &entities(&window)[0];
        assert_eq!((found.subject.pid, found.subject.netns.as_deref()), (Some(4711), Some("shop")));
        let number = |name: &str| (found.number(name).unwrap() * 1e6).round() / 1e6;
        assert_eq!((number("ports.used"), number("ports.available")), (833.333333, 1000.0));
        assert_eq!((number("ports.fill"), number("ports.used_up_share")), (0.833333, 0.666667));
        // 1550 of 2500.
        assert_eq!((number("ports.time_wait_share"), number("ports.refused")), (0.62, 20.0));
    }
}
