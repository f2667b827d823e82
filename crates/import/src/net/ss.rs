//! ss(8): TCP connections with what TCP itself knows of them, listening sockets, UDP sockets.

mod info;

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use whyslow_model::catalogue::{Connection, Datagram, Listener, Process};
use whyslow_model::key::{SocketKey, TaskKey};

/// The format.
pub const FORMAT: Format = Format {
    name: "ss",
    versions: "iproute2 3 to 6: -t, -u, -l, -n, -i, -m, -p, -e in any mix; numeric addresses",
    tells: "accept queues that are full; each connection's round trip, windows and losses, as levels; rates of two with their times",
    starts: |lines| lines.peek(0).is_some_and(is_header),
    read,
};

/// States, as ss spells them and as the catalogue does.
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

/// `State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess`
fn is_header(line: &str) -> bool {
    line.contains("Recv-Q") && line.contains("Send-Q") && line.contains("Local Address:Port")
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let header = lines.take().map(|line| line.text).unwrap_or_default();
    let protocol = header.split_whitespace().next() == Some("Netid");
    // One state alone is not told row by row.
    let state = header.contains("State");
    let mut seen = BTreeSet::new();
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let stated = |line: &str| {
            let field = line.split_whitespace().nth(usize::from(protocol));
            field.and_then(|f| STATES.iter().find(|(s, _)| *s == f))
        };
        // A connection nobody owns any more, in FIN-WAIT-2, has a line of information with nothing on it.
        if fields.is_empty() && lines.peek(1).is_some_and(|next| state && stated(next).is_some()) {
            lines.skip(1);
            continue;
        }
        let stated = stated(&text);
        if text.starts_with(char::is_whitespace) || (state && stated.is_none()) || fields.len() < 4 {
            break;
        }
        let own = !protocol || matches!(fields.first(), Some(&("tcp" | "udp")));
        let begin = usize::from(protocol) + usize::from(state);
        let line = lines.number();
        let socket = Socket::of(&fields[begin..]).map_err(|expected| lines.refuse(expected));
        lines.skip(1);
        let mut more = fields.get(begin + 4..).unwrap_or_default().join(" ");
        while let Some(rest) = lines.peek(0).filter(|l| l.starts_with(char::is_whitespace) && !l.trim().is_empty()) {
            more.push(' ');
            more.push_str(rest.trim());
            lines.skip(1);
        }
        let Some(socket) = lines.keep(socket)?.filter(|_| own) else { continue };
        let Some(key) = socket.key(&more) else {
            run.note(
                "sockets by name",
                "ports or addresses are names, which tell no two of them apart",
                "add -n to ss",
            );
            continue;
        };
        if !seen.insert(key.clone()) {
            run.note("sockets on one address", "told once", "add -e to ss, which tells them apart");
            continue;
        }
        let stated = stated.map_or("established", |(_, name)| name);
        let udp = fields.first() == Some(&"udp") || (!protocol && stated == "unconnected");
        socket.tell(run, line, key, (stated, udp), &more);
    }
    Ok(())
}

/// The columns of a socket.
struct Socket<'t> {
    receive_queue: f64,
    send_queue: f64,
    local: &'t str,
    remote: &'t str,
}

impl<'t> Socket<'t> {
    fn of(fields: &[&'t str]) -> Result<Self, &'static str> {
        const EXPECTED: &str = "a state, two queues, an address and port, and those of the other end";
        let &[receive, send, local, remote, ..] = fields else { return Err(EXPECTED) };
        let (Some(receive_queue), Some(send_queue)) = (number(receive), number(send)) else { return Err(EXPECTED) };
        let has_port = |address: &str| address.contains(':');
        (has_port(local) && has_port(remote))
            .then_some(Self { receive_queue, send_queue, local, remote })
            .ok_or(EXPECTED)
    }

    /// `None` where an address or port is a name.
    fn key(&self, more: &str) -> Option<SocketKey> {
        let inode = info::value(more, "ino").and_then(|inode| inode.parse().ok()).unwrap_or(0);
        Some(SocketKey { ns: "".into(), local: address(self.local)?, remote: address(self.remote)?, inode })
    }

    fn tell(&self, run: &mut Run, line: u32, key: SocketKey, (state, udp): (&str, bool), more: &str) {
        let pid = owner(more).map(|(name, pid)| {
            let task = TaskKey { pid, tid: pid, start: 0 };
            run.row::<Process>(0.0, line, task).command = name.into();
            f64::from(pid)
        });
        let memory = info::Memory::of(more);
        if udp {
            let row = run.row::<Datagram>(0.0, line, key);
            row.pid = pid.into();
            row.receive_queue = self.receive_queue.into();
            row.receive_buffer = memory.receive_buffer.into();
            row.drops = memory.drops.map(Into::into).unwrap_or_default();
        } else if state == "listen" {
            let row = run.row::<Listener>(0.0, line, key);
            row.pid = pid.into();
            row.backlog = self.receive_queue.into();
            row.backlog_limit = self.send_queue.into();
            row.drops = memory.drops.map(Into::into).unwrap_or_default();
        } else {
            let row = run.row::<Connection>(0.0, line, key);
            row.state = state.into();
            row.pid = pid.into();
            row.receive_queue = self.receive_queue.into();
            row.send_queue = self.send_queue.into();
            row.receive_buffer = memory.receive_buffer.into();
            row.send_buffer = memory.send_buffer.into();
            info::take(more, row);
        }
    }
}

/// `10.0.0.1:22`, `[::1]:22`, `127.0.0.53%lo:53`, `*:22`; an unconnected one has `*` for a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once(':')?;
    let port = if port == "*" { 0 } else { port.parse().ok()? };
    let address = address.trim_matches(['[', ']']);
    let address = address.split('%').next()?.trim_end_matches(']');
    let ip: IpAddr = if address == "*" { Ipv4Addr::UNSPECIFIED.into() } else { address.parse().ok()? };
    Some(SocketAddr::new(ip, port))
}

/// The first of `users:(("sshd",pid=812,fd=3))`, or `users:(("sshd",812,3))` as it was before iproute2 4.
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
    fn a_full_accept_queue() {
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
    fn names_are_left_out_and_cut_rows_refused() {
        let head = "Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port\n";
        let window = window_of(&format!("{head}tcp ESTAB 0 0 web:ssh client:5021\nudp UNCONN 7 0 *:53 *:*\n"));
        assert_eq!((window.newest::<Connection>().len(), window.newest::<Datagram>().len()), (0, 1));
        assert!(window.snapshots()[0].sources[0].tells.contains("by name"));
        assert_eq!(refusal_of(&format!("{head}tcp ESTAB 0 10.0.0.1:80 10.0.0.2:99 x\n")).line, 2);
    }
}
