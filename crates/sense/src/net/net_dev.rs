//! Packets by interface: /proc/net/dev.

use super::namespaces::Namespaces;
use super::netlink::Netlink;
use super::rtnetlink::interface_index;
use super::{net_file, net_text};
use crate::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::sync::Arc;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::net;

pub(super) struct Interfaces(pub(super) Arc<Namespaces>);

impl Source for Interfaces {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("proc/net/dev", "packets and drops by interface")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        self.0.each(root, |namespace| {
            // A captured tree has no interface indices.
            let netlink = if root.is_live() { Netlink::open(libc::NETLINK_ROUTE).ok() } else { None };
            for line in net_text(root, namespace, "dev")?.lines().skip(2) {
                let row = net::interface(namespace, line);
                let mut row = row.ok_or_else(|| SourceError::malformed(&net_file(root, "dev"), line))?;
                let index = netlink.as_ref().and_then(|netlink| interface_index(netlink, &row.interface.name));
                row.identity = index.map(|index| index.to_string()).into();
                out.net.interface.push(row);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;
    use whyslow_model::catalogue::Interface;
    use whyslow_model::key::NetKey;
    use whyslow_model::value::Counter;

    const HEAD: &str = "Inter-|   Receive                    |  Transmit\n face |bytes    packets ...\n";

    fn read(text: &str) -> (Result<(), SourceError>, Vec<Interface>) {
        let (outcome, out) = CapturedTree::with_files(&[("proc/net/dev", text)]).read(&mut Interfaces(Arc::default()));
        (outcome, out.net.interface.clone())
    }

    #[test]
    fn each_column_has_its_metric() {
        let (outcome, rows) =
            read(&format!("{HEAD}    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\neth0:17 {}", "1 ".repeat(15)));
        let row = |name: &str| rows.iter().find(|row| row.interface == NetKey { ns: "".into(), name: name.into() });
        let lo = row("lo").unwrap();
        let columns = [lo.rx_fifo, lo.rx_multicast, lo.tx_bytes, lo.tx_carrier];
        assert_eq!(columns.map(Counter::get), [Some(5), Some(8), Some(9), Some(15)]);
        // Counters of more than eight digits leave no space after the colon.
        assert_eq!((outcome, row("eth0").unwrap().rx_bytes.get()), (Ok(()), Some(17)));
    }

    #[test]
    fn a_malformed_line_is_a_failure_and_earlier_rows_are_kept() {
        let (outcome, rows) = read(&format!("{HEAD}lo: {}\neth0: 1 2 x", "1 ".repeat(16)));
        assert_eq!(outcome, Err(SourceError::malformed("proc/net/dev", "eth0: 1 2 x")));
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn a_kernel_without_networking_is_absent() {
        let (outcome, _) = CapturedTree::with_files(&[]).read(&mut Interfaces(Arc::default()));
        assert!(matches!(outcome, Err(SourceError::Absent(_))), "{outcome:?}");
    }
}
