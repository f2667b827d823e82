//! ss(8): TCP connections with their internal state, listening sockets, UDP sockets.

use super::ss_info::{SocketMemory, record_tcp_info, value};
use crate::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use whyslow_model::catalogue::{Connection, Datagram, Listener, NetlinkSocket, PortsUsed, Process};
use whyslow_model::key::{NetKey, SocketKey};
use whyslow_proc::net::netlink_protocol;

pub const FORMAT: Format = Format {
    name: "ss",
    versions: "iproute2 3 to 6: -t, -u, -l, -n, -i, -m, -p, -e in any mix; numeric addresses; -f netlink; rows of LISTEN without the header",
    shows: "accept queues that are full; each connection's round trip, windows and losses; of two with times, rates, and connections limited by a buffer; what netlink sockets have not read",
    lacks: "sockets printed with names instead of numbers; those of other families than TCP, UDP and netlink",
    programs: &[word("ss")],
    files: &["ss"],
    columns: &[&super::ss_info::INFO],
    starts: |lines| lines.next_is(|line| is_header(line) || is_listener(line)),
    read,
    ..Format::NEW
};

/// States in the spelling of ss and of the catalogue.
const STATES: [(&str, &str); 11] = [
    ("ESTAB", "established"),
    ("SYN-SENT", "syn_sent"),
    ("SYN-RECV", "syn_received"),
    ("FIN-WAIT-1", "fin_wait_1"),
    ("FIN-WAIT-2", "fin_wait_2"),
    ("TIME-WAIT", "time_wait"),
    ("CLOSE-WAIT", "close_wait"),
    ("LAST-ACK", "last_ack"),
    ("CLOSING", "closing"),
    ("LISTEN", "listen"),
    ("UNCONN", "unconnected"),
];

/// Minimum number of connections to one peer to consider: fewer never exhaust a range of ports.
const MANY_PORTS: usize = 500;

/// Ports of connections from one address to one peer. Each connection has its own port.
#[derive(Default)]
struct PeerPorts {
    used: usize,
    time_wait: usize,
    first: u32,
    last: u32,
}

/// Records the peers whose connections occupy many local ports. The number of ports available is a setting.
fn record_ports(run: &mut ToolRun, peers: BTreeMap<(IpAddr, SocketAddr), PeerPorts>) {
    for ((local, remote), ports) in peers.into_iter().filter(|(_, ports)| ports.used >= MANY_PORTS) {
        let name = match local {
            IpAddr::V4(ip) => format!("{ip}:*->{remote}"),
            IpAddr::V6(ip) => format!("[{ip}]:*->{remote}"),
        };
        let key = NetKey { ns: "".into(), name: name.as_str().into() };
        run.row::<PortsUsed>(0.0, ports.first, key.clone());
        let row = run.row::<PortsUsed>(0.0, ports.last, key);
        row.used = (ports.used as f64).into();
        row.time_wait = (ports.time_wait as f64).into();
    }
}

/// Returns true for `State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess`.
fn is_header(line: &str) -> bool {
    line.contains("Recv-Q") && line.contains("Send-Q") && line.contains("Local Address:Port")
}

/// Returns true for `LISTEN   129   128   0.0.0.0:80   0.0.0.0:*`, without the header: only a listening socket can be
/// recognized by its form.
fn is_listener(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let fields = fields.strip_prefix(&["tcp"]).unwrap_or(&fields);
    fields.first() == Some(&"LISTEN")
        && SocketColumns::from_fields(&fields[1..])
            .is_some_and(|s| address(s.local).is_some() && address(s.remote).is_some())
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let is_row = lines.next_is(is_listener);
    let header = if is_row { None } else { lines.take() }.map(|line| line.text).unwrap_or_default();
    let protocol =
        header.split_whitespace().next() == Some("Netid") || lines.next_is(|line| is_row && line.starts_with("tcp"));
    // With a filter for one state, the column for it is missing.
    let has_state = is_row || header.contains("State");
    let state_of = |line: &str| {
        let field = line.split_whitespace().nth(usize::from(protocol));
        field.and_then(|f| STATES.iter().find(|(s, _)| *s == f))
    };
    // If only one protocol was requested, the column for it is missing.
    let is_udp_alone = context.command_of(FORMAT.name).is_some_and(|command| {
        let has = |letter, name: &str| command.has(letter) || command.arguments().any(|word| word == name);
        has('u', "--udp") && !has('t', "--tcp")
    });
    let mut seen = BTreeSet::new();
    let mut is_other_family_seen = false;
    let mut peers: BTreeMap<(IpAddr, SocketAddr), PeerPorts> = BTreeMap::new();
    if lines.peek_past_blanks(0).is_none() {
        run.note("sockets", "the table is empty", "list all of them: ss -tuanmi");
    }
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        // An orphaned connection in FIN-WAIT-2 has an empty line of information.
        if fields.is_empty() && lines.peek(1).is_some_and(|next| has_state && state_of(next).is_some()) {
            lines.skip(1);
            continue;
        }
        let state = state_of(&text);
        if text.starts_with(char::is_whitespace) || (has_state && state.is_none()) || fields.len() < 4 {
            break;
        }
        let begin = usize::from(protocol) + usize::from(has_state);
        let line = lines.number();
        if let Some(socket) = NetlinkColumns::from_fields(&fields[begin..]) {
            socket.record(run, line, &text);
            lines.skip(1);
            continue;
        }
        let wanted = match protocol {
            true => matches!(fields.first(), Some(&("tcp" | "udp"))),
            false => !is_of_other_family(&fields[begin..]),
        };
        let socket = SocketColumns::from_fields(&fields[begin..])
            .ok_or_else(|| lines.refuse("a state, two queues, an address and port, and those of the peer"));
        lines.skip(1);
        let mut info = fields.get(begin + 4..).unwrap_or_default().join(" ");
        while let Some(rest) = lines.take_if(|l| l.starts_with(char::is_whitespace) && !l.trim().is_empty()) {
            info.push(' ');
            info.push_str(rest.text.trim());
        }
        // Information about two sockets cannot be attributed to either.
        let is_mixed =
            ["rto:", "skmem:"].iter().any(|name| info.split_whitespace().filter(|w| w.starts_with(name)).count() > 1);
        let socket = if !wanted {
            is_other_family_seen = true;
            continue;
        } else if is_mixed {
            Err(Refusal::described(lines.file(), line, "what is known of one socket", "that of two"))
        } else {
            socket
        };
        let Some(socket) = lines.keep(socket)? else { continue };
        let Some(key) = socket.key(&info) else {
            run.note("sockets by name", "ports or addresses are names, which do not identify them", "add -n to ss");
            continue;
        };
        if !seen.insert(key.clone()) {
            run.note("several sockets on one address", "only the first is used", "add -e to ss, which identifies them");
            continue;
        }
        let state = state.map_or("established", |(_, name)| name);
        let udp = fields.first() == Some(&"udp") || (!protocol && (state == "unconnected" || is_udp_alone));
        if !udp && state != "listen" {
            let ports = peers.entry((key.local.ip(), key.remote)).or_default();
            ports.used += 1;
            ports.time_wait += usize::from(state == "time_wait");
            ports.last = line;
            if ports.used == 1 {
                ports.first = line;
            }
        }
        socket.record(run, line, key, state, udp, &info);
    }
    record_ports(run, peers);
    if is_other_family_seen && run.series.is_empty() {
        run.note("sockets", "none of them is of TCP, UDP or netlink", "list those: ss -tuanmi");
    }
    Ok(())
}

/// A row of a netlink socket: `213760 0 rtnl:dhcpd/5819 *`, or with -n, `213760 0 0:5819 *`.
struct NetlinkColumns {
    receive_queue: f64,
    protocol: String,
    /// Port; `None` for the kernel's own sockets.
    port: Option<i64>,
    /// Process that the port is named for, with its PID.
    owner: Option<(String, u32)>,
}

impl NetlinkColumns {
    /// Protocols that ss names differently from the kernel's headers.
    const NAMES: [(&str, usize); 5] = [("rtnl", 0), ("fw", 3), ("tcpdiag", 4), ("nft", 12), ("genl", 16)];

    fn from_fields(fields: &[&str]) -> Option<Self> {
        let &[receive, send, local, "*", ..] = fields else { return None };
        let (protocol, port) = local.split_once(':')?;
        let (receive_queue, _) = (number(receive)?, number(send)?);
        // A listening TCP socket has a port after `*`.
        let named = Self::NAMES.iter().find(|(name, _)| *name == protocol).map(|(_, number)| *number);
        let numbered = || protocol.parse::<usize>().ok().filter(|number| *number < 32);
        let is_name = protocol.starts_with(|c: char| c.is_ascii_lowercase());
        let protocol = named.or_else(numbered).map(netlink_protocol).or(is_name.then(|| protocol.to_owned()))?;
        let (port, owner) = match port.rsplit_once('/') {
            Some((name, pid)) => {
                let pid: u32 = pid.parse().ok()?;
                (Some(i64::from(pid)), Some((name.to_owned(), pid)))
            }
            None if port == "kernel" => (None, None),
            None => (Some(port.parse::<i64>().ok()?), None),
        };
        // The kernel's own sockets have the number 0.
        Some(Self { receive_queue, protocol, port: port.filter(|port| *port != 0), owner })
    }

    fn record(&self, run: &mut ToolRun, line: u32, text: &str) {
        let Some(port) = self.port else {
            return;
        };
        let key = NetKey { ns: "".into(), name: format!("{}:{port}", self.protocol).into() };
        let named = owner(text).map(|(name, pid)| (name.to_owned(), pid)).or_else(|| self.owner.clone());
        let pid = named.map(|(name, pid)| {
            run.row::<Process>(0.0, line, process(pid)).command = name.as_str().into();
            f64::from(pid)
        });
        let row = run.row::<NetlinkSocket>(0.0, line, key);
        row.pid = pid.into();
        row.receive_queue = self.receive_queue.into();
    }
}

/// Returns true if a row without the name of its protocol belongs to a socket without IP addresses: a Unix or packet socket.
fn is_of_other_family(fields: &[&str]) -> bool {
    let &[_, _, local, port, ..] = fields else { return false };
    let is_path = local.starts_with(['/', '@']) || local == "*";
    is_path && port.bytes().all(|b| b.is_ascii_digit())
}

struct SocketColumns<'t> {
    receive_queue: f64,
    send_queue: f64,
    local: &'t str,
    remote: &'t str,
}

impl<'t> SocketColumns<'t> {
    fn from_fields(fields: &[&'t str]) -> Option<Self> {
        let &[receive, send, local, remote, ..] = fields else { return None };
        let (receive_queue, send_queue) = (number(receive)?, number(send)?);
        (local.contains(':') && remote.contains(':')).then_some(Self { receive_queue, send_queue, local, remote })
    }

    /// Returns the key, or `None` if an address or port is a name.
    fn key(&self, info: &str) -> Option<SocketKey> {
        let inode = value(info, "ino").and_then(|inode| inode.parse().ok()).unwrap_or(0);
        Some(SocketKey { ns: "".into(), local: address(self.local)?, remote: address(self.remote)?, inode })
    }

    fn record(&self, run: &mut ToolRun, line: u32, key: SocketKey, state: &str, udp: bool, info: &str) {
        let pid = owner(info).map(|(name, pid)| {
            run.row::<Process>(0.0, line, process(pid)).command = name.into();
            f64::from(pid)
        });
        let memory = SocketMemory::parse(info);
        let drops = memory.drops.map(Into::into).unwrap_or_default();
        if udp {
            let row = run.row::<Datagram>(0.0, line, key);
            row.pid = pid.into();
            row.receive_queue = self.receive_queue.into();
            row.receive_buffer = memory.receive_buffer.into();
            row.drops = drops;
        } else if state == "listen" {
            let row = run.row::<Listener>(0.0, line, key);
            row.pid = pid.into();
            row.backlog = self.receive_queue.into();
            row.backlog_limit = self.send_queue.into();
            row.drops = drops;
        } else {
            record_tcp_info(run, line, key.clone(), info);
            let row = run.row::<Connection>(0.0, line, key);
            row.state = state.into();
            row.pid = pid.into();
            row.receive_queue = self.receive_queue.into();
            row.send_queue = self.send_queue.into();
            row.receive_buffer = memory.receive_buffer.into();
            row.send_buffer = memory.send_buffer.into();
        }
    }
}

/// Parses `10.0.0.1:22`, `[::1]:22`, `127.0.0.53%lo:53`, `*:22`; an unconnected socket has `*` for a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once(':')?;
    let port = if port == "*" { 0 } else { port.parse().ok()? };
    let address = address.trim_matches(['[', ']']);
    let address = address.split('%').next()?.trim_end_matches(']');
    let ip: IpAddr = if address == "*" { Ipv4Addr::UNSPECIFIED.into() } else { address.parse().ok()? };
    Some(SocketAddr::new(ip, port))
}

/// Returns the first entry of `users:(("sshd",pid=812,fd=3))` or, before iproute2 4, `users:(("sshd",812,3))`.
fn owner(text: &str) -> Option<(&str, u32)> {
    let (_, rest) = text.split_once("users:((\"")?;
    let (name, rest) = rest.split_once("\",")?;
    let pid = rest.trim_start_matches("pid=").split([',', ')']).next()?;
    Some((name, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn a_connection_with_all_that_tcp_knows() {
        let window = window_of(&fixture("ss-tinmp.txt"));
        let changes = window.changes::<Connection>();
        let change = changes.iter().find(|c| c.last().retransmits.get() > Some(0)).expect("one that sent again");
        let sender = change.last();
        assert_eq!((sender.congestion_control.get(), sender.state.get()), (Some("bbr"), Some("established")));
        assert_eq!((sender.rtt.get(), sender.send_buffer.get()), (Some(539_000.0), Some(4_194_304.0)));
        // Two readings five seconds apart.
        assert_eq!(change.rate(|c| c.retransmits), Some((1366.0 - 1312.0) / 5.0));
        let pid = sender.pid.get().expect("its owner is told") as u32;
        let process = &window.newest::<Process>()[&TaskKey { pid, tid: pid, start: 0 }];
        assert!(process.command.get().is_some());
    }

    #[test]
    fn netlink_sockets_and_what_they_have_not_read() {
        let sockets = |text: &str| {
            let window = window_of(text);
            let rows = window.newest::<NetlinkSocket>();
            let shown =
                |(key, row): (&NetKey, &&NetlinkSocket)| (key.name.to_string(), row.pid.get(), row.receive_queue.get());
            (rows.iter().map(shown).collect::<Vec<_>>(), window.newest::<Process>().len())
        };
        let dhcpd = vec![("route:5819".to_owned(), Some(5819.0), Some(213_760.0))];
        assert_eq!(sockets(&fixture("ss-netlink.txt")), (dhcpd, 1));
        let numeric = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n\
            UNCONN 4352   0                  4:7065             *     sk=0 cb=0 groups=0x00000000\n\
            UNCONN 832    0                 16:-3917            *     users:((\"NetworkManager\",pid=812,fd=5))\n";
        let (rows, _) = sockets(numeric);
        assert_eq!(rows[0], ("generic:-3917".to_owned(), Some(812.0), Some(832.0)));
        assert_eq!(rows[1], ("sock_diag:7065".to_owned(), None, Some(4352.0)));
    }

    #[test]
    fn a_connected_socket_of_udp_is_no_connection_of_tcp() {
        let table = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n\
            ESTAB  213000 0           10.0.0.5:40000      10.0.0.9:514\n";
        let kinds = |text: &str| {
            let window = window_of(text);
            (window.newest::<Datagram>().len(), window.newest::<Connection>().len())
        };
        assert_eq!([format!("# ss -uanmp\n{table}"), table.to_owned()].map(|text| kinds(&text)), [(1, 0), (0, 1)]);
    }

    #[test]
    fn sockets_of_all_families_stand_side_by_side() {
        let text = "Netid State  Recv-Q Send-Q Local Address:Port    Peer Address:Port Process\n\
            nl    UNCONN 213760 0               rtnl:dhcpd/5819              *\n\
            u_str ESTAB  0      0      /run/dbus/system_bus_socket 22334         * 22335 users:((\"a\",pid=1,fd=2))\n\
            p_raw UNCONN 0      0                  arp:eth0                  *\n\
            tcp   LISTEN 129    128            0.0.0.0:80            0.0.0.0:*\n";
        let window = window_of(text);
        assert_eq!(window.newest::<NetlinkSocket>().len(), 1);
        assert_eq!(window.the::<Listener>().unwrap().backlog.get(), Some(129.0));
    }

    #[test]
    fn a_full_accept_queue_is_read() {
        let text = "State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess
LISTEN 129    128          0.0.0.0:80        0.0.0.0:*
LISTEN 0      4096            [::]:22           [::]:*    users:((\"sshd\",pid=812,fd=3))
";
        let window = window_of(text);
        let rows = window.newest::<Listener>();
        let full = rows.values().find(|l| l.socket.local.port() == 80).unwrap();
        assert_eq!((full.backlog.get(), full.backlog_limit.get()), (Some(129.0), Some(128.0)));
        assert_eq!(rows.values().find_map(|l| l.pid.get()), Some(812.0));
    }

    #[test]
    fn a_connection_with_nothing_to_tell_does_not_end_the_table() {
        let window = window_of(
            "State      Recv-Q Send-Q Local Address:Port  Peer Address:Port Process
FIN-WAIT-2 0      0          127.0.0.1:23914    127.0.0.1:52534
\t\x20\x20
FIN-WAIT-2 0      0          127.0.0.1:23914    127.0.0.1:52536

CLOSE-WAIT 1      0          127.0.0.1:23914    127.0.0.1:53078
\t cubic rto:204
",
        );
        assert_eq!(window.newest::<Connection>().len(), 3);
    }

    #[test]
    fn local_ports_are_counted_by_peer() {
        let mut text = "State     Recv-Q Send-Q Local Address:Port  Peer Address:Port Process\n".to_owned();
        for port in 40_000..40_600 {
            let state = if port % 3 == 0 { "ESTAB" } else { "TIME-WAIT" };
            text += &format!("{state} 0 0 10.0.0.1:{port} 10.0.0.2:5432\n");
            // These are clients of a local server.
            text += &format!("TIME-WAIT 0 0 10.0.0.1:443 10.0.7.7:{port}\n");
        }
        let window = window_of(&text);
        let rows = window.newest::<PortsUsed>();
        let found: Vec<_> = rows.values().map(|r| (&*r.peer.name, r.used.get(), r.time_wait.get())).collect();
        assert_eq!(found, [("10.0.0.1:*->10.0.0.2:5432", Some(600.0), Some(400.0))]);
    }

    #[test]
    fn names_are_left_out_and_cut_rows_refused() {
        let head = "Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port\n";
        let window = window_of(&format!("{head}tcp ESTAB 0 0 web:ssh client:5021\nudp UNCONN 7 0 *:53 *:*\n"));
        assert_eq!((window.newest::<Connection>().len(), window.newest::<Datagram>().len()), (0, 1));
        assert!(window.snapshots()[0].sources[0].tells.contains("by name"));
        assert_eq!(refusal_of(&format!("{head}tcp ESTAB 0 10.0.0.1:80 10.0.0.2:99 x\n")).line, 2);
    }
}
