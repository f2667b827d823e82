//! Interfaces, protocols, connections, sockets, qdiscs, in every namespace that can be seen.

mod bpf;
#[cfg(test)]
mod bpf_tests;
mod conntrack;
mod driver_counters;
mod ended_connections;
mod ethtool;
mod links;
#[cfg(test)]
mod live_tests;
mod namespaces;
mod net_dev;
pub(crate) mod netlink;
mod own;
mod packet_drops;
mod packet_sizes;
mod process_namespaces;
mod qdiscs;
mod rtnetlink;
mod snmp;
mod sock_diag;
mod socket_cache;
mod socket_owners;
mod sockets;
mod tcp_info;

pub use tcp_info::connection as tcp_info;

use crate::root::Root;
use crate::source::{Miss, Source};
use std::sync::Arc;
use whyslow_model::value::Name;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    let namespaces: Arc<namespaces::Namespaces> = Arc::default();
    vec![
        Box::new(namespaces::Visibility(namespaces.clone())),
        Box::new(net_dev::Interfaces(namespaces.clone())),
        Box::new(links::Links(namespaces.clone())),
        Box::new(driver_counters::DriverCounters::new(namespaces.clone())),
        Box::new(snmp::Protocols::new(namespaces.clone())),
        Box::new(sockets::Sockets::new(namespaces.clone())),
        Box::new(qdiscs::Qdiscs::new(namespaces.clone())),
        Box::new(ended_connections::Ended::new(namespaces.clone())),
        Box::new(packet_drops::Drops::new(namespaces.clone())),
        Box::new(packet_sizes::Packets::new(namespaces)),
        Box::new(conntrack::Connections),
    ]
}

/// The text of a file under /proc/net. Only that of the observer's own namespace stays open: an open file would keep
/// another one alive.
fn net_text(root: &Root, namespace: &Name, file: &str) -> Result<String, Miss> {
    let path = net_file(root, file);
    if namespace.is_empty() { root.kept_text(&path) } else { root.text(&path) }
}

/// The path of a file under /proc/net. That of the thread, not of the process: only it is in the namespace being read.
fn net_file(root: &Root, file: &str) -> String {
    if root.is_live() { format!("proc/thread-self/net/{file}") } else { format!("proc/net/{file}") }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use tempfile::TempDir;

    /// A captured tree that holds these files.
    pub(super) fn captured(files: &[(&str, &str)]) -> TempDir {
        let tree = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        tree
    }
}
