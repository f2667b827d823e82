//! Local ports in use by connections to one peer (ip_local_port_range and ip_local_reserved_ports of
//! Documentation/networking/ip-sysctl.rst). Connections to different peers can share a port (net/ipv4/inet_hashtables.c:
//! __inet_hash_connect).

use super::sock_diag::{DiagSocket, TIME_WAIT};
use crate::Root;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::PortsUsed;
use whyslow_model::key::NetKey;
use whyslow_model::value::Name;

/// The range is not read in a namespace with fewer sockets, because no real range is that small.
const MIN_SOCKETS: u64 = 100;
/// Interval after which ports are counted again in a namespace that was not short of them: a busy server has a hundred thousand
/// sockets in TIME_WAIT, all at one port of its own.
const PAUSE: Duration = Duration::from_secs(10);

/// Decides in which namespaces ports are counted.
#[derive(Default)]
pub(super) struct PortWatch {
    not_before: HashMap<Name, Instant>,
}

impl PortWatch {
    /// Returns a counter for a namespace with this many TCP sockets, if they could use half of its ports.
    pub(super) fn counter(&mut self, root: &Root, namespace: &Name, sockets: u64) -> Option<PortCounter> {
        if sockets < MIN_SOCKETS || self.not_before.get(namespace).is_some_and(|at| Instant::now() < *at) {
            return None;
        }
        self.not_before.remove(namespace);
        let range = PortRange::read(root)?;
        (sockets.saturating_mul(2) >= range.count()).then(|| PortCounter { range, peers: HashMap::new() })
    }

    /// Returns the peers whose connections use half of the ports.
    pub(super) fn finish(&mut self, namespace: &Name, counter: PortCounter) -> Vec<PortsUsed> {
        let rows = counter.rows(namespace);
        if rows.is_empty() {
            self.not_before.retain(|_, at| Instant::now() < *at);
            self.not_before.insert(namespace.clone(), Instant::now() + PAUSE);
        }
        rows
    }
}

/// The ephemeral ports of a namespace.
#[derive(Debug, PartialEq, Eq)]
struct PortRange {
    ports: RangeInclusive<u16>,
    reserved: Vec<RangeInclusive<u16>>,
}

impl PortRange {
    /// Reads the range of the thread's namespace.
    fn read(root: &Root) -> Option<Self> {
        let reserved = root.word("proc/sys/net/ipv4/ip_local_reserved_ports").unwrap_or_default();
        Self::parse(&root.word("proc/sys/net/ipv4/ip_local_port_range")?, &reserved)
    }

    /// Parses `32768 60999`, and `8080,9000-9100`.
    fn parse(range: &str, reserved: &str) -> Option<Self> {
        let mut bounds = range.split_ascii_whitespace().map(str::parse);
        let (low, high) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
        let ports = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        Some(Self { ports: low..=high, reserved: reserved.split(',').filter_map(ports).collect() })
    }

    fn contains(&self, port: u16) -> bool {
        self.ports.contains(&port) && !self.reserved.iter().any(|ports| ports.contains(&port))
    }

    fn count(&self) -> u64 {
        self.ports.clone().filter(|port| self.contains(*port)).count() as u64
    }
}

/// Counts the ports of a namespace by local address and peer.
pub(super) struct PortCounter {
    range: PortRange,
    peers: HashMap<(IpAddr, SocketAddr), PeerPorts>,
}

#[derive(Clone, Copy, Default)]
struct PeerPorts {
    used: u64,
    time_wait: u64,
}

impl PortCounter {
    pub(super) fn add(&mut self, socket: &DiagSocket<'_>) {
        self.count(socket.local, socket.remote, socket.state == TIME_WAIT);
    }

    pub(super) fn clear(&mut self) {
        self.peers.clear();
    }

    /// Counts a connection. No two connections have the same two addresses and ports, so each one to a peer has its own port.
    fn count(&mut self, local: SocketAddr, remote: SocketAddr, time_wait: bool) {
        if self.range.contains(local.port()) {
            let peer = self.peers.entry((local.ip(), remote)).or_default();
            peer.used += 1;
            peer.time_wait += u64::from(time_wait);
        }
    }

    fn rows(&self, namespace: &Name) -> Vec<PortsUsed> {
        let available = self.range.count();
        let full = self.peers.iter().filter(|(_, ports)| ports.used.saturating_mul(2) >= available);
        full.map(|((local, remote), ports)| {
            let name = match local {
                IpAddr::V4(ip) => format!("{ip}:*->{remote}"),
                IpAddr::V6(ip) => format!("[{ip}]:*->{remote}"),
            };
            PortsUsed {
                used: ports.used.into(),
                time_wait: ports.time_wait.into(),
                available: available.into(),
                ..PortsUsed::new(NetKey { ns: namespace.clone(), name: name.into() })
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn reserved_ports_are_given_to_no_connection() {
        let range = PortRange::parse("32768\t32777", "32770,32775-40000,8080").unwrap();
        assert_eq!(range.count(), 6);
        let ports: Vec<u16> = (32760..32790).filter(|port| range.contains(*port)).collect();
        assert_eq!(ports, [32768, 32769, 32771, 32772, 32773, 32774]);
        for text in ["", "32768", "a b", "70000 80000"] {
            assert_eq!(PortRange::parse(text, ""), None, "{text}");
        }
    }

    #[test]
    fn ports_are_counted_by_own_address_and_peer() {
        let tree = CapturedTree::with_files(&[("proc/sys/net/ipv4/ip_local_port_range", "40000 40009\n")]);
        let mut watch = PortWatch::default();
        assert!(watch.counter(&tree.root(), &"".into(), 99).is_none());
        let mut counter = watch.counter(&tree.root(), &"".into(), 100).unwrap();
        let mut connect = |local: &str, remote: &str, time_wait| {
            counter.count(local.parse().unwrap(), remote.parse().unwrap(), time_wait);
        };
        for port in 40000..40006 {
            connect(&format!("10.0.0.1:{port}"), "10.0.0.2:80", port % 2 == 0);
            connect(&format!("10.0.0.9:{port}"), "10.0.0.2:80", false);
        }
        for port in 40000..40004 {
            connect(&format!("10.0.0.1:{port}"), "10.0.0.2:81", true);
        }
        // A server's listening port.
        for port in 50000..50050 {
            connect("10.0.0.1:22", &format!("10.0.0.7:{port}"), true);
        }
        let mut rows = watch.finish(&"".into(), counter);
        rows.sort_by(|a, b| a.peer.cmp(&b.peer));
        let names: Vec<&str> = rows.iter().map(|row| &*row.peer.name).collect();
        assert_eq!(names, ["10.0.0.1:*->10.0.0.2:80", "10.0.0.9:*->10.0.0.2:80"]);
        let row = &rows[0];
        assert_eq!((row.used.get(), row.time_wait.get(), row.available.get()), (Some(6.0), Some(3.0), Some(10.0)));
    }

    #[test]
    fn where_ports_are_not_short_they_are_not_counted_at_every_sample() {
        let tree = CapturedTree::with_files(&[("proc/sys/net/ipv4/ip_local_port_range", "40000 40009\n")]);
        let mut watch = PortWatch::default();
        let counter = watch.counter(&tree.root(), &"".into(), 200).unwrap();
        assert_eq!(watch.finish(&"".into(), counter), []);
        assert!(watch.counter(&tree.root(), &"".into(), 200).is_none());
        assert!(watch.counter(&tree.root(), &"other".into(), 200).is_some());
    }
}
