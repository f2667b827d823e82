//! The network: packets by interface, backlog work by CPU, netlink sockets, and the names of protocol counters.

use crate::text::word;
use std::collections::HashMap;
use whyslow_model::catalogue::{Family, Interface, NetlinkSocket, Protocol, Softnet};
use whyslow_model::key::NetKey;
use whyslow_model::value::{Counter, Name};

/// Number of counters in a line of /proc/net/dev: eight received, eight sent.
const INTERFACE_COLUMNS: usize = 16;

/// Parses a line of /proc/net/dev (proc_pid_net(5), net/core/net-procfs.c) below the header, in this network namespace.
/// Large counters leave no space after the colon.
pub fn interface(namespace: &Name, line: &str) -> Option<Interface> {
    let (name, counters) = line.rsplit_once(':')?;
    let counters: Vec<u64> = counters.split_ascii_whitespace().map_while(|c| c.parse().ok()).collect();
    let at = |column: usize| Counter::from(counters[column]);
    (counters.len() >= INTERFACE_COLUMNS).then(|| Interface {
        interface: NetKey { ns: namespace.clone(), name: name.trim().into() },
        rx_bytes: at(0),
        rx_packets: at(1),
        rx_errors: at(2),
        rx_dropped: at(3),
        rx_fifo: at(4),
        rx_frame: at(5),
        rx_multicast: at(7),
        tx_bytes: at(8),
        tx_packets: at(9),
        tx_errors: at(10),
        tx_dropped: at(11),
        tx_fifo: at(12),
        tx_collisions: at(13),
        tx_carrier: at(14),
        // The file does not contain the index.
        ..Interface::default()
    })
}

/// Column of /proc/net/softnet_stat with the CPU number, from 0 (since Linux 5.10).
const CPU_COLUMN: usize = 12;

/// Parses a line of /proc/net/softnet_stat (`softnet_seq_show`, net/core/net-procfs.c): packet backlog work by CPU in
/// hexadecimal columns. `line_number` counts from 0.
pub fn softnet(line: &str, line_number: u32) -> Option<Softnet> {
    let mut columns = [None; CPU_COLUMN + 1];
    let mut rest = line;
    for column in &mut columns {
        let Some(word) = word(&mut rest) else { break };
        *column = Some(u32::from_str_radix(word, 16).ok()?);
    }
    // Before 5.10 the lines have no CPU number, and are in the order of the online CPUs.
    let cpu = columns[CPU_COLUMN].unwrap_or(line_number);
    let counter = |column: usize| columns[column].map(|v| Counter::from(u64::from(v))).unwrap_or_default();
    Some(Softnet {
        cpu,
        processed: counter(0),
        dropped: counter(1),
        squeezed: counter(2),
        received_rps: counter(9),
        flow_limited: counter(10),
    })
}

/// Parses a line of /proc/net/netlink (`netlink_native_seq_show`, net/netlink/af_netlink.c) below the header, in this
/// network namespace. `None` for a socket of the kernel, and for an idle one without groups: only messages to groups
/// can be lost. The file shows only the first 32 groups.
pub fn netlink_socket(namespace: &Name, line: &str) -> Option<NetlinkSocket> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    let &[_, protocol, port, groups, receive_queue, _, _, _, drops, inode] = &columns[..] else { return None };
    let (protocol, port): (usize, u32) = (protocol.parse().ok()?, port.parse().ok()?);
    let (receive_queue, drops): (u64, u64) = (receive_queue.parse().ok()?, drops.parse().ok()?);
    let is_idle = u32::from_str_radix(groups, 16).ok()? == 0 && receive_queue == 0 && drops == 0;
    if port == 0 || is_idle {
        return None;
    }
    let protocol = netlink_protocol(protocol);
    let inode: u64 = inode.parse().ok()?;
    Some(NetlinkSocket {
        receive_queue: receive_queue.into(),
        drops: drops.into(),
        identity: inode.to_string().into(),
        ..NetlinkSocket::new(NetKey { ns: namespace.clone(), name: format!("{protocol}:{port}").into() })
    })
}

/// Returns the name of a netlink protocol, or its number if it has no name here.
pub fn netlink_protocol(number: usize) -> String {
    NETLINK_PROTOCOLS.get(number).map_or_else(|| number.to_string(), |name| (*name).to_owned())
}

/// Protocols by number (include/uapi/linux/netlink.h).
const NETLINK_PROTOCOLS: [&str; 17] = [
    "route",
    "unused",
    "usersock",
    "firewall",
    "sock_diag",
    "nflog",
    "xfrm",
    "selinux",
    "iscsi",
    "audit",
    "fib_lookup",
    "connector",
    "netfilter",
    "ip6_fw",
    "dnrtmsg",
    "uevent",
    "generic",
];

/// Maps the kernel's names of protocol counters, in /proc/net/snmp, /proc/net/netstat and the tools that read them, to
/// the catalogue's metrics (Documentation/networking/snmp_counter.rst, net/ipv4/proc.c).
pub struct CounterNames(HashMap<String, &'static str>);

impl Default for CounterNames {
    fn default() -> Self {
        Self(Protocol::INFO.metrics.iter().map(|m| (squash(m.name), m.name)).collect())
    }
}

impl CounterNames {
    /// Returns the metric of a counter, such as `RetransSegs` of `Tcp`; `None` if the catalogue lacks it.
    pub fn metric(&self, protocol: &str, counter: &str) -> Option<&'static str> {
        self.0.get(&squash(&[protocol, counter].concat())).copied()
    }
}

/// Converts a name to lower case and removes underscores: the catalogue spells the kernel's names differently
/// (`TcpExt: TCPReqQFullDrop` is `tcp_ext_tcp_req_q_full_drop`), and both become the same.
fn squash(name: &str) -> String {
    name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_which_processor_it_is() {
        let row = softnet("00000a70 00000001 00000002 0 0 0 0 0 0 00000003 00000004 00000000 00000007 0 0", 0).unwrap();
        assert_eq!(row.cpu, 7);
        assert_eq!(row.processed.get(), Some(0xa70));
        assert_eq!(row.squeezed.get(), Some(2));
        assert_eq!(row.received_rps.get(), Some(3));
        assert_eq!(row.flow_limited.get(), Some(4));
    }

    #[test]
    fn without_it_the_order_of_lines_does() {
        let row = softnet("00000001 0 0 0 0 0 0 0 0 00000003", 1).unwrap();
        assert_eq!(row.cpu, 1);
        assert_eq!(row.received_rps.get(), Some(3));
        assert_eq!(row.flow_limited.get(), None);
    }

    #[test]
    fn what_is_not_hexadecimal_is_none() {
        assert_eq!(softnet("00000001 xyz", 0), None);
    }

    #[test]
    fn a_netlink_socket_has_its_protocol_and_address() {
        let line = "00000000bdc78173 0   23080      00000001 213504   0        0     2        17       5087018 ";
        let row = netlink_socket(&"shop".into(), line).unwrap();
        assert_eq!((&*row.socket.ns, &*row.socket.name), ("shop", "route:23080"));
        assert_eq!((row.receive_queue.get(), row.drops.get()), (Some(213_504.0), Some(17)));
        assert_eq!(row.identity.get(), Some("5087018"));
        // Protocol 40 has no name yet.
        let new = line.replacen(" 0  ", " 40 ", 1);
        assert_eq!(netlink_socket(&"".into(), &new).map(|row| row.socket.name.to_string()), Some("40:23080".into()));
    }

    #[test]
    fn sockets_of_the_kernel_those_that_join_no_group_and_torn_lines_are_left_out() {
        let idle = "00000000bdc78173 4   23080      00000000 0        0        0     2        0        5087018 ";
        let kernel = "000000003bf12c1a 0   0          00000000 0        0        0     2        0        4       ";
        for line in [
            idle,
            kernel,
            "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode",
            "0 0 7",
        ] {
            assert_eq!(netlink_socket(&"".into(), line), None, "{line}");
        }
    }

    #[test]
    fn the_kernels_names_are_found() {
        let names = CounterNames::default();
        assert_eq!(names.metric("Tcp", "RetransSegs"), Some("tcp_retrans_segs"));
        assert_eq!(names.metric("TcpExt", "TCPReqQFullDrop"), Some("tcp_ext_tcp_req_q_full_drop"));
        assert_eq!(names.metric("", "TcpExtTCPTimeouts"), Some("tcp_ext_tcp_timeouts"));
        assert_eq!(names.metric("Icmp", "InMsgs"), None);
    }
}
