//! Interfaces, protocols, connections, sockets and qdiscs, in every network namespace that can be entered.

mod bonds;
mod bpf;
#[cfg(test)]
mod bpf_tests;
pub(crate) mod conntrack;
mod driver_counters;
mod ethtool;
mod links;
#[cfg(test)]
mod live_tests;
mod namespaces;
mod net_dev;
pub(crate) mod netlink;
mod netlink_sockets;
mod ports;
mod process_namespaces;
mod qdiscs;
mod rtnetlink;
mod snmp;
pub(crate) mod sock_diag;
mod socket_cache;
mod socket_owners;
mod sockets;
mod tcp_info;

pub use tcp_info::connection as tcp_info;

use crate::root::Root;
use crate::source::{Source, stateless};
use crate::source_error::SourceError;
use std::sync::Arc;
use whyslow_model::value::Name;

/// Returns the driver and the firmware version of an interface in this thread's namespace.
pub(crate) fn driver_and_firmware(interface: &str) -> Option<(String, String)> {
    let driver = ethtool::Ethtool::open().ok()?.driver(interface)?;
    driver.name.zip(driver.firmware.filter(|version| version != "N/A"))
}

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    let namespaces: Arc<namespaces::Namespaces> = Arc::default();
    vec![
        Box::new(namespaces::Visibility(namespaces.clone())),
        Box::new(net_dev::Interfaces(namespaces.clone())),
        Box::new(links::LinkSettings(namespaces.clone())),
        stateless(bonds::INFO, bonds::read),
        Box::new(driver_counters::DriverCounters::new(namespaces.clone())),
        Box::new(snmp::Protocols::new(namespaces.clone())),
        Box::new(sockets::Sockets::new(namespaces.clone())),
        Box::new(qdiscs::Qdiscs::new(namespaces.clone())),
        bpf::ended_connections(namespaces.clone()),
        bpf::packet_drops(namespaces.clone()),
        bpf::packet_sizes(namespaces.clone()),
        Box::new(netlink_sockets::NetlinkSockets::new(namespaces.clone())),
        Box::new(conntrack::ConnectionTracking(namespaces)),
    ]
}

/// Reads a file under /proc/net. Only files of the observer's own namespace stay open: an open file keeps its namespace alive.
fn net_text(root: &Root, namespace: &Name, file: &str) -> Result<String, SourceError> {
    let path = net_file(root, file);
    if namespace.is_empty() { root.polled_text(&path) } else { root.text(&path) }
}

/// Returns the path of the thread's file, not the process's: only the thread is in the namespace being read.
fn net_file(root: &Root, file: &str) -> String {
    if root.is_live() { format!("proc/thread-self/net/{file}") } else { format!("proc/net/{file}") }
}
