//! TCP connections, listening sockets and UDP sockets, and the process behind each (sock_diag(7)).

use super::namespaces::Namespaces;
use super::net_text;
use super::netlink::{HomeSocket, Netlink};
use super::ports::{PortCounter, PortWatch};
use super::rtnetlink::{self, interface_name};
use super::snmp::sockstat_value;
use super::sock_diag::{self, ALL_STATES, CONNECTED_STATES, DiagSocket, LISTEN, TIME_WAIT};
use super::socket_cache::{CachedSockets, SocketCache};
use super::socket_owners::SocketOwners;
use super::tcp_info;
use crate::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use whyslow_model::catalogue::{Connection, Datagram, Listener};
use whyslow_model::key::SocketKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Name, State};

/// Maximum rows of each kind per namespace; the busiest are kept, as a server can have a million connections, most of them idle.
const LIMIT: usize = 2000;

pub(super) struct Sockets {
    namespaces: Arc<Namespaces>,
    netlink: HomeSocket<Netlink>,
    owners: SocketOwners,
    activity: Activity,
    cache: SocketCache,
    ports: PortWatch,
}

impl Sockets {
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self {
            namespaces,
            netlink: HomeSocket::default(),
            owners: SocketOwners::default(),
            activity: Activity::default(),
            cache: SocketCache::default(),
            ports: PortWatch::default(),
        }
    }
}

impl Source for Sockets {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("sock_diag", "TCP connections, listening and UDP sockets")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        root.require_live()?;
        self.activity.begin_sample();
        self.cache.begin_sample();
        let outcome = self.namespaces.each(root, |namespace| {
            let families = SocketFamilies::in_use(root, namespace);
            self.netlink.with(
                namespace,
                || Netlink::open(libc::NETLINK_SOCK_DIAG),
                |netlink| {
                    let sockets = families.tcp_count() + families.time_wait;
                    let mut ports = self.ports.counter(root, namespace, sockets);
                    let tcp = Tcp::new(namespace, &mut self.activity, ports.as_mut());
                    let tcp = read_tcp(netlink, &families, tcp, &mut self.cache, out);
                    if let Some(ports) = ports {
                        out.net.ports_used.extend(self.ports.finish(namespace, ports));
                    }
                    tcp.and(read_udp(netlink, &families, namespace, &mut self.activity, out))
                },
            )
        });
        self.add_owners(root, out);
        outcome
    }
}

impl Sockets {
    fn add_owners(&mut self, root: &Root, out: &mut Snapshot) {
        let net = &mut *out.net;
        let keys = net.connection.iter().map(|r| &r.socket);
        let keys = keys.chain(net.listener.iter().map(|r| &r.socket)).chain(net.datagram.iter().map(|r| &r.socket));
        let inodes: HashSet<u64> = keys.map(|key| key.inode).filter(|inode| *inode != 0).collect();
        self.owners.update(root, &inodes, &self.activity.active);
        let pid = |key: &SocketKey| self.owners.get(key.inode).map(u64::from).into();
        net.connection.iter_mut().for_each(|row| row.pid = pid(&row.socket));
        net.listener.iter_mut().for_each(|row| row.pid = pid(&row.socket));
        net.datagram.iter_mut().for_each(|row| row.pid = pid(&row.socket));
    }
}

/// Activity of sockets: owners are looked up only for active ones.
#[derive(Default)]
struct Activity {
    /// Bytes carried by each connection up to the last sample, by inode.
    before: HashMap<u32, u64>,
    carried: HashMap<u32, u64>,
    /// Inodes of sockets that carried data since the last sample, have data queued, or have dropped some.
    active: HashSet<u64>,
}

impl Activity {
    fn begin_sample(&mut self) {
        self.before = std::mem::take(&mut self.carried);
        self.active.clear();
    }

    /// Returns the bytes that a connection carried since the last sample.
    fn add_carried(&mut self, inode: u32, bytes: u64) -> u64 {
        self.carried.insert(inode, bytes);
        let before = self.before.get(&inode).copied();
        // A new connection may be gone before its owner is found.
        if before.is_some_and(|before| before < bytes) {
            self.active.insert(inode.into());
        }
        bytes.saturating_sub(before.unwrap_or(0))
    }

    /// Records the data queued at a socket or dropped there, and returns it.
    fn add_queued(&mut self, inode: u32, waiting: u64) -> u64 {
        if waiting > 0 {
            self.active.insert(inode.into());
        }
        waiting
    }
}

/// Address families that have sockets in the thread's namespace, with their number. The kernel has one table for all namespaces
/// and walks all of it for each dump (0.3 ms for 262,144 empty buckets), so only these families are dumped, and a few sockets are
/// read one by one.
struct SocketFamilies {
    tcp: Vec<(i32, u64)>,
    udp: Vec<(i32, u64)>,
    /// TCP sockets in TIME_WAIT, which are not counted by family.
    time_wait: u64,
    has_ipv6: bool,
}

impl SocketFamilies {
    fn in_use(root: &Root, namespace: &Name) -> Self {
        let four = net_text(root, namespace, "sockstat").unwrap_or_default();
        let six = net_text(root, namespace, "sockstat6").unwrap_or_default();
        let sockets = |text: &str, protocol: &str| sockstat_value(text, protocol, "inuse").unwrap_or(0);
        let families = |protocol: &str| {
            let six = (libc::AF_INET6, sockets(&six, &format!("{protocol}6")));
            [(libc::AF_INET, sockets(&four, protocol)), six].into_iter().filter(|(_, sockets)| *sockets > 0).collect()
        };
        let time_wait = sockstat_value(&four, "TCP", "tw").unwrap_or(0);
        Self { tcp: families("TCP"), udp: families("UDP"), time_wait, has_ipv6: !six.is_empty() }
    }

    fn tcp_count(&self) -> u64 {
        self.tcp.iter().map(|(_, sockets)| sockets).sum()
    }
}

fn read_tcp(
    netlink: &mut Netlink,
    families: &SocketFamilies,
    mut tcp: Tcp<'_>,
    cache: &mut SocketCache,
    out: &mut Snapshot,
) -> Result<(), SourceError> {
    let namespace = tcp.namespace;
    let count = families.tcp_count();
    let outcome = if cache.read(netlink, namespace, count, |socket, interface| tcp.add(socket, interface)) {
        Ok(())
    } else {
        tcp.clear();
        let mut found = CachedSockets::default();
        let walked = walk_tcp(netlink, families, |socket, interface| {
            if tcp.add(socket, &interface) {
                found.add(socket.id, interface);
            }
        });
        cache.insert(namespace, found);
        walked
    };
    out.net.listener.append(&mut tcp.listeners);
    out.net.connection.extend(tcp.connections.rows());
    if let Some(ports) = tcp.ports.filter(|_| families.time_wait > 0) {
        let ipv6 = families.has_ipv6.then_some(libc::AF_INET6);
        for family in [libc::AF_INET].into_iter().chain(ipv6) {
            let tcp = (family, libc::IPPROTO_TCP);
            sock_diag::dump(netlink, tcp, 1 << TIME_WAIT, |socket| ports.add(socket))?;
        }
    }
    outcome
}

struct Tcp<'a> {
    namespace: &'a Name,
    activity: &'a mut Activity,
    listeners: Vec<Listener>,
    connections: BusiestRows<Connection>,
    ports: Option<&'a mut PortCounter>,
}

impl<'a> Tcp<'a> {
    fn new(namespace: &'a Name, activity: &'a mut Activity, ports: Option<&'a mut PortCounter>) -> Self {
        Self { namespace, activity, listeners: Vec::new(), connections: BusiestRows::new(), ports }
    }

    fn clear(&mut self) {
        (self.listeners, self.connections) = (Vec::new(), BusiestRows::new());
        if let Some(ports) = &mut self.ports {
            ports.clear();
        }
    }

    /// Adds a row. Returns false if the kernel no longer has a tcp_info for the socket.
    fn add(&mut self, socket: &DiagSocket<'_>, interface: &State) -> bool {
        if socket.state == LISTEN {
            let waiting = u64::from(socket.receive_queue) + u64::from(socket.drops().unwrap_or(0));
            self.activity.add_queued(socket.inode, waiting);
            self.listeners.push(listener(self.namespace, socket));
            return true;
        }
        if let Some(ports) = &mut self.ports {
            ports.add(socket);
        }
        let Some(row) = connection(self.namespace, socket, interface) else { return false };
        let total = row.bytes_acked.get().unwrap_or(0).saturating_add(row.bytes_received.get().unwrap_or(0));
        let queued = u64::from(socket.receive_queue) + u64::from(socket.send_queue);
        let carried = self.activity.add_carried(socket.inode, total);
        self.connections.push(carried.saturating_add(self.activity.add_queued(socket.inode, queued)), row);
        true
    }
}

/// Calls `each` with every TCP socket and its interface.
fn walk_tcp(
    netlink: &mut Netlink,
    families: &SocketFamilies,
    mut each: impl FnMut(&DiagSocket<'_>, State),
) -> Result<(), SourceError> {
    let mut connected = Vec::new();
    for &(family, sockets) in &families.tcp {
        let mut listening = 0;
        sock_diag::dump(netlink, (family, libc::IPPROTO_TCP), 1 << LISTEN, |socket| {
            listening += 1;
            each(socket, State::default());
        })?;
        // Listening sockets have a small table of their own; without others there is no need to walk the large one.
        if sockets > listening {
            connected.push(family);
        }
    }
    if connected.is_empty() {
        return Ok(());
    }
    let interfaces = InterfaceAddresses::read()?;
    connected.into_iter().try_for_each(|family| {
        sock_diag::dump(netlink, (family, libc::IPPROTO_TCP), CONNECTED_STATES, |socket| {
            each(socket, interfaces.interface(socket).into());
        })
    })
}

fn read_udp(
    netlink: &mut Netlink,
    families: &SocketFamilies,
    namespace: &Name,
    activity: &mut Activity,
    out: &mut Snapshot,
) -> Result<(), SourceError> {
    let mut datagrams = BusiestRows::new();
    let mut take = |socket: &DiagSocket<'_>| {
        if socket.local.port() != 0 {
            let work = u64::from(socket.drops().unwrap_or(0)) + u64::from(socket.receive_queue);
            datagrams.push(activity.add_queued(socket.inode, work), datagram(namespace, socket));
        }
    };
    let mut dump = |family: i32| sock_diag::dump(netlink, (family, libc::IPPROTO_UDP), ALL_STATES, &mut take);
    let outcome = families.udp.iter().try_for_each(|(family, _)| dump(*family));
    out.net.datagram.extend(datagrams.rows());
    outcome
}

/// Builds a row. Returns `None` without a tcp_info.
fn connection(namespace: &Name, socket: &DiagSocket<'_>, interface: &State) -> Option<Connection> {
    let mut row = Connection::new(key(namespace, socket));
    tcp_info::fill(socket.tcp_info?, &mut row);
    row.state = state(socket.state).into();
    row.interface = interface.clone();
    row.receive_queue = u64::from(socket.receive_queue).into();
    row.send_queue = u64::from(socket.send_queue).into();
    row.receive_buffer = socket.receive_buffer().map(u64::from).into();
    row.send_buffer = socket.send_buffer().map(u64::from).into();
    row.congestion_control = socket.congestion_control.as_deref().into();
    Some(row)
}

fn listener(namespace: &Name, socket: &DiagSocket<'_>) -> Listener {
    let mut row = Listener::new(key(namespace, socket));
    row.backlog = u64::from(socket.receive_queue).into();
    row.backlog_limit = u64::from(socket.send_queue).into();
    row.drops = socket.drops().map(u64::from).into();
    row
}

fn datagram(namespace: &Name, socket: &DiagSocket<'_>) -> Datagram {
    let mut row = Datagram::new(key(namespace, socket));
    row.receive_queue = u64::from(socket.receive_queue).into();
    row.receive_buffer = socket.receive_buffer().map(u64::from).into();
    row.drops = socket.drops().map(u64::from).into();
    row
}

fn key(namespace: &Name, socket: &DiagSocket<'_>) -> SocketKey {
    SocketKey { ns: namespace.clone(), local: socket.local, remote: socket.remote, inode: socket.inode.into() }
}

/// Names a TCP state (include/net/tcp_states.h) as in OpenTelemetry's `network.connection.state`.
fn state(number: u8) -> &'static str {
    match number {
        1 => "established",
        2 => "syn_sent",
        3 => "syn_received",
        4 => "fin_wait_1",
        5 => "fin_wait_2",
        8 => "close_wait",
        9 => "last_ack",
        11 => "closing",
        _ => "unknown",
    }
}

/// Collects the busiest rows. Holds at most twice the limit.
struct BusiestRows<Row> {
    rows: Vec<(u64, Row)>,
}

impl<Row> BusiestRows<Row> {
    fn new() -> Self {
        Self { rows: Vec::new() }
    }

    fn push(&mut self, activity: u64, row: Row) {
        self.rows.push((activity, row));
        if self.rows.len() >= 2 * LIMIT {
            self.prune();
        }
    }

    fn prune(&mut self) {
        if self.rows.len() > LIMIT {
            self.rows.select_nth_unstable_by_key(LIMIT, |(activity, _)| Reverse(*activity));
            self.rows.truncate(LIMIT);
        }
    }

    fn rows(mut self) -> impl Iterator<Item = Row> {
        self.prune();
        self.rows.into_iter().map(|(_, row)| row)
    }
}

struct InterfaceAddresses {
    by_address: HashMap<IpAddr, Name>,
    netlink: Netlink,
}

impl InterfaceAddresses {
    fn read() -> Result<Self, SourceError> {
        let mut netlink = Netlink::open(libc::NETLINK_ROUTE)?;
        let mut names: HashMap<u32, Option<Name>> = HashMap::new();
        let mut by_address = HashMap::new();
        for found in rtnetlink::addresses(&mut netlink)? {
            if let Some(name) = names.entry(found.index).or_insert_with(|| interface_name(&netlink, found.index)) {
                by_address.insert(found.address, name.clone());
            }
        }
        Ok(Self { by_address, netlink })
    }

    /// Returns the interface that a connection uses: the one it is bound to, the loopback if both ends are local, or the one with
    /// its local address, which is that of the route except with policy routing.
    fn interface(&self, socket: &DiagSocket<'_>) -> Option<Name> {
        if socket.interface != 0 {
            return interface_name(&self.netlink, socket.interface);
        }
        let (local, remote) = (socket.local.ip(), socket.remote.ip());
        if local.is_loopback() || self.by_address.contains_key(&remote) {
            return Some("lo".into());
        }
        self.by_address.get(&local).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_rows_are_kept() {
        let mut busiest = BusiestRows::new();
        for activity in 0..5 * LIMIT as u64 {
            busiest.push(activity, activity);
        }
        let kept: Vec<u64> = busiest.rows().collect();
        assert_eq!((kept.len(), kept.iter().min().copied()), (LIMIT, Some(4 * LIMIT as u64)));
    }

    #[test]
    fn few_rows_are_all_kept() {
        let mut busiest = BusiestRows::new();
        busiest.push(0, "idle");
        assert_eq!(busiest.rows().collect::<Vec<_>>(), ["idle"]);
    }
}
