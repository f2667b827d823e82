//! Protocol counters: /proc/net/snmp, netstat, sockstat and sockstat6 (Documentation/networking/snmp_counter.rst,
//! net/ipv4/proc.c).

use super::namespaces::Namespaces;
use super::net_text;
use crate::Root;
use crate::os::page_size;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::HashMap;
use std::sync::Arc;
use whyslow_model::catalogue::{Family, Protocol};
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;
use whyslow_proc::net::CounterNames;

pub(super) struct Protocols {
    namespaces: Arc<Namespaces>,
    names: CounterNames,
    /// By protocol, as last read.
    columns: HashMap<String, HeaderColumns>,
}

/// A header line and the metrics of the names in it.
#[derive(Default)]
struct HeaderColumns {
    names: String,
    metrics: Vec<Option<&'static str>>,
}

impl Protocols {
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, names: CounterNames::default(), columns: HashMap::new() }
    }

    fn read_namespace(&mut self, root: &Root, namespace: &Name) -> Result<Protocol, SourceError> {
        let mut row = Protocol::new(NetKey { ns: namespace.clone(), name: "ip".into() });
        let counters = ["snmp", "netstat"].map(|file| net_text(root, namespace, file));
        for text in counters.iter().flatten() {
            self.parse_counters(text, &mut row);
        }
        let sockets4 = net_text(root, namespace, "sockstat").unwrap_or_default();
        let sockets6 = net_text(root, namespace, "sockstat6").unwrap_or_default();
        parse_sockets(&sockets4, &sockets6, &mut row);
        if row.tcp_in_use.get().is_some_and(|sockets| sockets > 0.0) {
            row.tcp_receive_buffer_max = buffer_max(root, namespace, "tcp_rmem").into();
            row.tcp_send_buffer_max = buffer_max(root, namespace, "tcp_wmem").into();
        }
        // These counts are machine-wide in every namespace.
        if namespace.is_empty() {
            self.parse_machine_wide(&sockets4, &mut row);
        }
        // Captures may have any of these files.
        match counters {
            [Err(error), _] if row == Protocol::new(row.key().clone()) => Err(error),
            _ => Ok(row),
        }
    }

    /// Parses `snmp` or `netstat`: a line of names, then a line of values, both starting with the protocol's name.
    fn parse_counters(&mut self, text: &str, row: &mut Protocol) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (Some((protocol, names)), Some((_, values))) = (names.split_once(':'), values.split_once(':')) else {
                return;
            };
            for (metric, value) in self.columns_of(protocol, names).iter().zip(values.split_ascii_whitespace()) {
                if let (Some(metric), Ok(value)) = (metric, value.parse()) {
                    row.set(metric, value);
                }
            }
        }
    }

    /// Returns the metrics of a header line, which hardly ever changes.
    fn columns_of(&mut self, protocol: &str, names: &str) -> &[Option<&'static str>] {
        if self.columns.get(protocol).is_none_or(|columns| columns.names != names) {
            let metrics = names.split_ascii_whitespace().map(|name| self.names.metric(protocol, name)).collect();
            self.columns.insert(protocol.to_owned(), HeaderColumns { names: names.to_owned(), metrics });
        }
        &self.columns[protocol].metrics
    }

    fn parse_machine_wide(&self, sockstat: &str, row: &mut Protocol) {
        let pages = |protocol| Some(sockstat_value(sockstat, protocol, "mem")?.saturating_mul(page_size()));
        row.tcp_orphans = sockstat_value(sockstat, "TCP", "orphan").into();
        row.tcp_memory = pages("TCP").into();
        row.udp_memory = pages("UDP").into();
    }
}

impl Source for Protocols {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("proc/net/snmp", "protocol counters: retransmissions, overflows, sockets in use")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let namespaces = self.namespaces.clone();
        namespaces.each(root, |namespace| {
            out.net.protocol.push(self.read_namespace(root, namespace)?);
            Ok(())
        })
    }
}

/// Reads the maximum of a buffer's three sizes in the thread's namespace (tcp(7)).
fn buffer_max(root: &Root, namespace: &Name, setting: &str) -> Option<u64> {
    let path = format!("proc/sys/net/ipv4/{setting}");
    // The settings cache holds only values of our own namespace.
    let sizes = if namespace.is_empty() { root.setting(&path) } else { root.word(&path).map(Name::from) };
    sizes?.split_ascii_whitespace().nth(2)?.parse().ok()
}

fn parse_sockets(sockets4: &str, sockets6: &str, row: &mut Protocol) {
    let in_use = |four, six| {
        // Kernels without IPv6 have no sockstat6.
        let six = sockstat_value(sockets6, six, "inuse").unwrap_or(0);
        Some(sockstat_value(sockets4, four, "inuse")?.saturating_add(six))
    };
    row.tcp_in_use = in_use("TCP", "TCP6").into();
    row.udp_in_use = in_use("UDP", "UDP6").into();
    row.tcp_time_wait = sockstat_value(sockets4, "TCP", "tw").into();
}

/// Returns a value of `sockstat`: `TCP: inuse 5 orphan 0 tw 0 alloc 8 mem 2`.
pub(super) fn sockstat_value(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(protocol)?.strip_prefix(':'))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|w| *w == name)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue_tests::MACHINE;
    use crate::testing::CapturedTree;

    const OLD_SNMP: &str = include_str!("../../tests/fixtures/net/snmp-2.6.32");
    const OLD_NETSTAT: &str = include_str!("../../tests/fixtures/net/netstat-2.6.32");

    fn read(files: &[(&str, &str)]) -> Result<Protocol, SourceError> {
        let (outcome, mut out) = CapturedTree::with_files(files).read(&mut Protocols::new(Arc::default()));
        outcome.map(|()| out.net.protocol.remove(0))
    }

    #[test]
    fn sockets_of_both_versions_of_ip_are_added_up() {
        let row = read(&CapturedTree::files_in(MACHINE).collect::<Vec<_>>()).unwrap();
        assert_eq!((row.tcp_in_use.get(), row.udp_in_use.get()), (Some(9.0), Some(4.0)));
        assert_eq!(row.tcp_memory.get(), Some(3.0 * page_size() as f64));
    }

    #[test]
    fn how_far_buffers_are_tuned_is_read_where_tcp_is_in_use() {
        let most = |in_use: &str| {
            let sockets = format!("TCP: inuse {in_use} orphan 0 tw 0 alloc 1 mem 0\n");
            let files = [
                ("proc/net/snmp", OLD_SNMP),
                ("proc/net/sockstat", &sockets),
                ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
                ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\n"),
            ];
            let row = read(&files).unwrap();
            (row.tcp_receive_buffer_max.get(), row.tcp_send_buffer_max.get())
        };
        assert_eq!(most("1"), (Some(6_291_456.0), None));
        assert_eq!(most("0"), (None, None));
    }

    #[test]
    fn counters_missing_on_an_old_kernel_are_absent() {
        let row = read(&[("proc/net/snmp", OLD_SNMP), ("proc/net/netstat", OLD_NETSTAT)]).unwrap();
        assert_eq!(row.tcp_retrans_segs.get(), Some(321));
        assert_eq!(row.tcp_ext_listen_overflows.get(), Some(17));
        assert_eq!(row.tcp_ext_tcp_req_q_full_drop.get(), None);
        assert_eq!(row.tcp_in_use.get(), None);
    }

    #[test]
    fn malformed_lines_set_nothing() {
        let row = read(&[("proc/net/snmp", "Tcp\nTcp: 3\nTcp: RetransSegs\nTcp: -1\n")]).unwrap();
        assert_eq!(row, Protocol::new(row.scope.clone()));
    }
}
