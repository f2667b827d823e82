//! Netlink sockets of programs and their lost messages (netlink(7); /proc/net/netlink).

use super::namespaces::Namespaces;
use super::net_text;
use super::socket_owners::SocketOwners;
use crate::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::HashSet;
use std::sync::Arc;
use whyslow_model::catalogue::NetlinkSocket;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::net::netlink_socket;

pub(super) struct NetlinkSockets {
    namespaces: Arc<Namespaces>,
    owners: SocketOwners,
}

impl NetlinkSockets {
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, owners: SocketOwners::default() }
    }

    /// Looks up the owners of sockets that have lost messages.
    fn add_owners(&mut self, root: &Root, rows: &mut [NetlinkSocket]) {
        let inodes: HashSet<u64> = rows.iter().filter_map(inode).collect();
        let losing = rows.iter().filter(|row| row.drops.get().is_some_and(|drops| drops > 0));
        let losing: HashSet<u64> = losing.filter_map(inode).collect();
        self.owners.update(root, &inodes, &losing);
        for row in rows {
            row.pid = inode(row).and_then(|inode| self.owners.get(inode)).map(u64::from).into();
        }
    }
}

fn inode(row: &NetlinkSocket) -> Option<u64> {
    row.identity.get()?.parse().ok()
}

impl Source for NetlinkSockets {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("proc/net/netlink", "kernel messages that programs lose")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let rows = &mut out.net.netlink_socket;
        let outcome = self.namespaces.each(root, |namespace| {
            let text = net_text(root, namespace, "netlink")?;
            rows.extend(text.lines().filter_map(|line| netlink_socket(namespace, line)));
            Ok(())
        });
        self.add_owners(root, &mut out.net.netlink_socket);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    const SOCKETS: &str = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n\
        000000003bf12c1a 0   0          00000000 0        0        0     2        0        4       \n\
        0000000031581c41 0   700        00000001 213504   0        0     2        17       100     \n\
        00000000bdc78173 15  800        00000001 0        0        0     2        0        101     \n";

    #[test]
    fn the_owner_of_a_socket_that_loses_messages_is_looked_up() {
        let tree = CapturedTree::with_files(&[("proc/net/netlink", SOCKETS)]);
        tree.link("proc/7/fd/3", "socket:[100]");
        tree.link("proc/8/fd/3", "socket:[101]");
        let (outcome, out) = tree.read(&mut NetlinkSockets::new(Arc::default()));
        let rows: Vec<_> = out.net.netlink_socket.iter().map(|row| (&*row.socket.name, row.pid.get())).collect();
        assert_eq!(outcome, Ok(()));
        assert_eq!(rows, [("route:700", Some(7.0)), ("uevent:800", None)]);
    }
}
