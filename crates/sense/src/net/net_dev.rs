//! Packets by interface: /proc/net/dev.

use super::namespaces::Namespaces;
use super::netlink::Netlink;
use super::rtnetlink::interface_index;
use super::{net_file, net_text};
use crate::Root;
use crate::source::{Miss, Source};
use std::sync::Arc;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::State;
use whyslow_proc::net_dev;

/// Reads the interfaces of every namespace.
pub(crate) struct Interfaces(pub Arc<Namespaces>);

impl Source for Interfaces {
    fn name(&self) -> &'static str {
        "proc/net/dev"
    }

    fn tells(&self) -> &'static str {
        "packets and drops by interface"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        self.0.each(root, |namespace| {
            // The files of a copy tell no index.
            let netlink = if root.is_live() { Netlink::open(libc::NETLINK_ROUTE).ok() } else { None };
            for line in net_text(root, namespace, "dev")?.lines().skip(2) {
                let row = net_dev::row(namespace, line);
                let mut row = row.ok_or_else(|| Miss::malformed(&net_file(root, "dev"), line))?;
                let index = netlink.as_ref().and_then(|netlink| interface_index(netlink, &row.interface.name));
                row.identity = index.map_or_else(State::default, |index| index.to_string().into());
                out.net.interface.push(row);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::captured;
    use whyslow_model::catalogue::Interface;
    use whyslow_model::key::NetKey;
    use whyslow_model::value::Counter;

    const HEAD: &str = "Inter-|   Receive                    |  Transmit\n face |bytes    packets ...\n";

    fn read(text: &str) -> (Result<(), Miss>, Vec<Interface>) {
        let tree = captured(&[("proc/net/dev", text)]);
        let mut out = Snapshot::default();
        let outcome = Interfaces(Arc::default()).read(&Root::captured(tree.path()), &mut out);
        (outcome, out.net.interface)
    }

    #[test]
    fn each_column_has_its_metric() {
        let (outcome, rows) =
            read(&format!("{HEAD}    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\neth0:17 {}", "1 ".repeat(15)));
        assert_eq!(outcome, Ok(()));
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].interface, NetKey { ns: "".into(), name: "lo".into() });
        let columns = [rows[0].rx_fifo, rows[0].rx_multicast, rows[0].tx_bytes, rows[0].tx_carrier];
        assert_eq!(columns.map(Counter::get), [Some(5), Some(8), Some(9), Some(15)]);
        // Counters of more than eight digits leave no blank after the colon.
        assert_eq!(rows[1].rx_bytes.get(), Some(17));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_a_failure_and_keeps_what_came_before() {
        let (outcome, rows) = read(&format!("{HEAD}lo: {}\neth0: 1 2 x", "1 ".repeat(16)));
        assert!(matches!(outcome, Err(Miss::Failed(_))));
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn a_kernel_without_networking_is_absent() {
        let tree = captured(&[]);
        let outcome = Interfaces(Arc::default()).read(&Root::captured(tree.path()), &mut Snapshot::default());
        assert!(matches!(outcome, Err(Miss::Absent(_))));
    }
}
