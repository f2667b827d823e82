//! /proc/net/dev: packets by interface (proc_pid_net(5), net/core/net-procfs.c).

use whyslow_model::catalogue::Interface;
use whyslow_model::key::NetKey;
use whyslow_model::value::{Counter, Name};

/// Counters in a line: eight received, eight sent.
const COLUMNS: usize = 16;

/// Parses a line below the header, in this network namespace. Large counters leave no blank after the colon.
pub fn row(namespace: &Name, line: &str) -> Option<Interface> {
    let (name, counters) = line.rsplit_once(':')?;
    let counters: Vec<u64> = counters.split_ascii_whitespace().map_while(|c| c.parse().ok()).collect();
    let at = |column: usize| Counter::from(counters[column]);
    (counters.len() >= COLUMNS).then(|| Interface {
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
