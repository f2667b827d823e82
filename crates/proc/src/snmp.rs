//! Names of protocol counters in /proc/net/snmp, /proc/net/netstat and the tools that read them
//! (Documentation/networking/snmp_counter.rst, net/ipv4/proc.c).

use std::collections::HashMap;
use whyslow_model::catalogue::{Family, Protocol};

/// The catalogue's metrics by the kernel's names.
pub struct CounterNames(HashMap<String, &'static str>);

impl Default for CounterNames {
    fn default() -> Self {
        Self(Protocol::INFO.metrics.iter().map(|m| (squash(m.name), m.name)).collect())
    }
}

impl CounterNames {
    /// The metric of a counter, such as `RetransSegs` of `Tcp`; `None` if the catalogue lacks it.
    pub fn metric(&self, protocol: &str, counter: &str) -> Option<&'static str> {
        self.0.get(&squash(&[protocol, counter].concat())).copied()
    }
}

/// Removes capitals and underscores: the catalogue spells the kernel's names differently (`TcpExt: TCPReqQFullDrop` is
/// `tcp_ext_tcp_req_q_full_drop`), and both become the same.
fn squash(name: &str) -> String {
    name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_names_are_found() {
        let names = CounterNames::default();
        assert_eq!(names.metric("Tcp", "RetransSegs"), Some("tcp_retrans_segs"));
        assert_eq!(names.metric("TcpExt", "TCPReqQFullDrop"), Some("tcp_ext_tcp_req_q_full_drop"));
        assert_eq!(names.metric("", "TcpExtTCPTimeouts"), Some("tcp_ext_tcp_timeouts"));
        assert_eq!(names.metric("Icmp", "InMsgs"), None);
    }
}
