//! TCP connections, listening sockets and UDP sockets, with the process behind each (sock_diag(7)).

use super::namespaces::Namespaces;
use super::net_text;
use super::netlink::Netlink;
use super::own::Own;
use super::rtnetlink::{self, interface_name};
use super::snmp::sockstat_value;
use super::sock_diag::{self, ALL_STATES, CONNECTED_STATES, LISTEN, Socket};
use super::socket_cache::{Few, Known};
use super::socket_owners::Owners;
use super::tcp_info;
use crate::Root;
use crate::source::{Miss, Source};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use whyslow_model::catalogue::{Connection, Datagram, Listener};
use whyslow_model::key::SocketKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Gauge, Name, State};

/// Rows of a kind kept per namespace: the busiest. A server can have a million connections, most of them idle.
const LIMIT: usize = 2000;

/// Reads the sockets of every namespace.
pub(crate) struct Sockets {
    namespaces: Arc<Namespaces>,
    netlink: Own<Netlink>,
    owners: Owners,
    activity: Activity,
    few: Few,
}

impl Sockets {
    /// Over these namespaces.
    pub fn new(namespaces: Arc<Namespaces>) -> Self {
        Self {
            namespaces,
            netlink: Own::default(),
            owners: Owners::default(),
            activity: Activity::default(),
            few: Few::default(),
        }
    }
}

impl Source for Sockets {
    fn name(&self) -> &'static str {
        "sock_diag"
    }

    fn tells(&self) -> &'static str {
        "TCP connections, listening and UDP sockets"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        root.require_live()?;
        self.activity.next();
        self.few.next();
        let outcome = self.namespaces.each(root, |namespace| {
            let tables = Tables::in_use(root, namespace);
            self.netlink.with(
                namespace,
                || Netlink::open(libc::NETLINK_SOCK_DIAG),
                |netlink| {
                    let tcp = read_tcp(netlink, &tables, namespace, &mut self.activity, &mut self.few, out);
                    tcp.and(read_udp(netlink, &tables, namespace, &mut self.activity, out))
                },
            )
        });
        self.name_owners(root, out);
        outcome
    }
}

impl Sockets {
    fn name_owners(&mut self, root: &Root, out: &mut Snapshot) {
        let net = &mut out.net;
        let keys = net.connection.iter().map(|r| &r.socket);
        let keys = keys.chain(net.listener.iter().map(|r| &r.socket)).chain(net.datagram.iter().map(|r| &r.socket));
        let inodes: HashSet<u64> = keys.map(|key| key.inode).filter(|inode| *inode != 0).collect();
        self.owners.update(root, &inodes, &self.activity.busy);
        let pid = |key: &SocketKey| gauge(self.owners.get(key.inode));
        net.connection.iter_mut().for_each(|row| row.pid = pid(&row.socket));
        net.listener.iter_mut().for_each(|row| row.pid = pid(&row.socket));
        net.datagram.iter_mut().for_each(|row| row.pid = pid(&row.socket));
    }
}

/// Which sockets are at work. Only of those is it worth finding out whose they are.
#[derive(Default)]
struct Activity {
    /// Bytes each connection had carried at the last sample, by inode.
    before: HashMap<u32, u64>,
    /// The same at this sample.
    carried: HashMap<u32, u64>,
    /// Inodes of sockets that carried data since the last sample, hold some, or have lost some.
    busy: HashSet<u64>,
}

impl Activity {
    /// A new sample begins.
    fn next(&mut self) {
        self.before = std::mem::take(&mut self.carried);
        self.busy.clear();
    }

    /// Notes what a connection has carried; gives how much of it since the last sample.
    fn carried(&mut self, inode: u32, bytes: u64) -> u64 {
        self.carried.insert(inode, bytes);
        let before = self.before.get(&inode).copied();
        // One that is new may be gone before it could be told whose it was.
        if before.is_some_and(|before| before < bytes) {
            self.busy.insert(inode.into());
        }
        bytes.saturating_sub(before.unwrap_or(0))
    }

    /// Notes what waits at a socket, or was lost there; gives it back.
    fn holds(&mut self, inode: u32, waiting: u64) -> u64 {
        if waiting > 0 {
            self.busy.insert(inode.into());
        }
        waiting
    }
}

/// The families of address that have sockets in the thread's namespace, and how many. The kernel keeps one table for all
/// namespaces and walks through the whole of it for each dump (0.3 ms of nothing for 262,144 buckets), so only those are
/// asked for; and where they are few, those that are known are asked for one by one.
struct Tables {
    tcp: Vec<(i32, u64)>,
    udp: Vec<(i32, u64)>,
}

impl Tables {
    fn in_use(root: &Root, namespace: &Name) -> Self {
        let four = net_text(root, namespace, "sockstat").unwrap_or_default();
        let six = net_text(root, namespace, "sockstat6").unwrap_or_default();
        let sockets = |text: &str, protocol: &str| sockstat_value(text, protocol, "inuse").unwrap_or(0);
        let families = |protocol: &str| {
            let six = (libc::AF_INET6, sockets(&six, &format!("{protocol}6")));
            [(libc::AF_INET, sockets(&four, protocol)), six].into_iter().filter(|(_, sockets)| *sockets > 0).collect()
        };
        Self { tcp: families("TCP"), udp: families("UDP") }
    }
}

fn read_tcp(
    netlink: &mut Netlink,
    tables: &Tables,
    namespace: &Name,
    activity: &mut Activity,
    few: &mut Few,
    out: &mut Snapshot,
) -> Result<(), Miss> {
    let mut tcp = Tcp { namespace, activity, listeners: Vec::new(), connections: Busiest::new() };
    let count = tables.tcp.iter().map(|(_, sockets)| sockets).sum();
    let outcome = if few.ask(netlink, namespace, count, |socket, interface| tcp.add(socket, interface)) {
        Ok(())
    } else {
        (tcp.listeners, tcp.connections) = (Vec::new(), Busiest::new());
        let mut found = Known::default();
        let walked = walk_tcp(netlink, tables, |socket, interface| {
            if tcp.add(socket, &interface) {
                found.add(socket.id, interface);
            }
        });
        few.keep(namespace, found);
        walked
    };
    out.net.listener.append(&mut tcp.listeners);
    out.net.connection.extend(tcp.connections.rows());
    outcome
}

/// The TCP sockets of a namespace.
struct Tcp<'a> {
    namespace: &'a Name,
    activity: &'a mut Activity,
    listeners: Vec<Listener>,
    connections: Busiest<Connection>,
}

impl Tcp<'_> {
    /// Adds one; false where the kernel has nothing to tell of it any more.
    fn add(&mut self, socket: &Socket<'_>, interface: &State) -> bool {
        if socket.state == LISTEN {
            let waiting = u64::from(socket.receive_queue) + u64::from(socket.drops().unwrap_or(0));
            self.activity.holds(socket.inode, waiting);
            self.listeners.push(listener(self.namespace, socket));
            return true;
        }
        let Some(row) = connection(self.namespace, socket, interface) else { return false };
        let total = row.bytes_acked.get().unwrap_or(0).saturating_add(row.bytes_received.get().unwrap_or(0));
        let queued = u64::from(socket.receive_queue) + u64::from(socket.send_queue);
        let carried = self.activity.carried(socket.inode, total);
        self.connections.push(carried.saturating_add(self.activity.holds(socket.inode, queued)), row);
        true
    }
}

/// Shows each TCP socket, and the interface that it leaves by.
fn walk_tcp(netlink: &mut Netlink, tables: &Tables, mut each: impl FnMut(&Socket<'_>, State)) -> Result<(), Miss> {
    let mut connected = Vec::new();
    for &(family, sockets) in &tables.tcp {
        let mut listening = 0;
        sock_diag::dump(netlink, (family, libc::IPPROTO_TCP), 1 << LISTEN, |socket| {
            listening += 1;
            each(socket, State::default());
        })?;
        // Those that listen have a small table of their own; where there are no others, the large one is spared.
        if sockets > listening {
            connected.push(family);
        }
    }
    if connected.is_empty() {
        return Ok(());
    }
    let interfaces = Interfaces::read()?;
    connected.into_iter().try_for_each(|family| {
        sock_diag::dump(netlink, (family, libc::IPPROTO_TCP), CONNECTED_STATES, |socket| {
            each(socket, interfaces.of(socket).map(State::from).unwrap_or_default());
        })
    })
}

fn read_udp(
    netlink: &mut Netlink,
    tables: &Tables,
    namespace: &Name,
    activity: &mut Activity,
    out: &mut Snapshot,
) -> Result<(), Miss> {
    let mut datagrams = Busiest::new();
    let mut take = |socket: &Socket<'_>| {
        if socket.local.port() != 0 {
            let work = u64::from(socket.drops().unwrap_or(0)) + u64::from(socket.receive_queue);
            datagrams.push(activity.holds(socket.inode, work), datagram(namespace, socket));
        }
    };
    let mut dump = |family: i32| sock_diag::dump(netlink, (family, libc::IPPROTO_UDP), ALL_STATES, &mut take);
    let outcome = tables.udp.iter().try_for_each(|(family, _)| dump(*family));
    out.net.datagram.extend(datagrams.rows());
    outcome
}

/// A connection; `None` for one the kernel has nothing to tell of.
fn connection(namespace: &Name, socket: &Socket<'_>, interface: &State) -> Option<Connection> {
    let mut row = Connection::new(key(namespace, socket));
    tcp_info::take(socket.tcp_info?, &mut row);
    row.state = state(socket.state).into();
    row.interface = interface.clone();
    row.receive_queue = gauge(Some(socket.receive_queue));
    row.send_queue = gauge(Some(socket.send_queue));
    row.receive_buffer = gauge(socket.receive_buffer());
    row.send_buffer = gauge(socket.send_buffer());
    row.congestion_control = socket.congestion_control.as_deref().map(Into::into).unwrap_or_default();
    Some(row)
}

fn listener(namespace: &Name, socket: &Socket<'_>) -> Listener {
    let mut row = Listener::new(key(namespace, socket));
    row.backlog = gauge(Some(socket.receive_queue));
    row.backlog_limit = gauge(Some(socket.send_queue));
    row.drops = counter(socket.drops());
    row
}

fn datagram(namespace: &Name, socket: &Socket<'_>) -> Datagram {
    let mut row = Datagram::new(key(namespace, socket));
    row.receive_queue = gauge(Some(socket.receive_queue));
    row.receive_buffer = gauge(socket.receive_buffer());
    row.drops = counter(socket.drops());
    row
}

fn key(namespace: &Name, socket: &Socket<'_>) -> SocketKey {
    SocketKey { ns: namespace.clone(), local: socket.local, remote: socket.remote, inode: socket.inode.into() }
}

fn gauge(value: Option<u32>) -> Gauge {
    value.map(|v| u64::from(v).into()).unwrap_or_default()
}

fn counter(value: Option<u32>) -> Counter {
    value.map(|v| u64::from(v).into()).unwrap_or_default()
}

/// A TCP state (include/net/tcp_states.h) by the name OpenTelemetry's `network.connection.state` has for it.
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

/// The busiest rows of a kind. Holds at most twice as many as it gives.
struct Busiest<Row> {
    rows: Vec<(u64, Row)>,
}

impl<Row> Busiest<Row> {
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

/// The interfaces of a namespace.
struct Interfaces {
    by_address: HashMap<IpAddr, Name>,
    /// Whom to ask for the name of one.
    netlink: Netlink,
}

impl Interfaces {
    fn read() -> Result<Self, Miss> {
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

    /// The interface a connection leaves by: the one it is bound to, the loopback if both ends are here, or the one that
    /// has its own address, which is the same as the route's unless routing is by policy.
    fn of(&self, socket: &Socket<'_>) -> Option<Name> {
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
    fn the_busiest_are_kept() {
        let mut busiest = Busiest::new();
        for activity in 0..5 * LIMIT as u64 {
            busiest.push(activity, activity);
        }
        let kept: Vec<u64> = busiest.rows().collect();
        assert_eq!((kept.len(), kept.iter().min().copied()), (LIMIT, Some(4 * LIMIT as u64)));
    }

    #[test]
    fn few_are_all_kept() {
        let mut busiest = Busiest::new();
        busiest.push(0, "idle");
        assert_eq!(busiest.rows().collect::<Vec<_>>(), ["idle"]);
    }
}
