//! TCP connections that have ended, by peer (crates/sense/bpf/tcp.bpf.c).

use super::bpf::NamespaceNames;
use super::namespaces::Namespaces;
use crate::Root;
use crate::bpf::{LazyObject, c_string, c_struct, include_object};
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use whyslow_model::catalogue::EndedConnections;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

c_struct! {
    /// `struct peer`.
    struct TcpPeer {
        namespace: u32,
        family: u32,
        address: [u8; 16],
    }

    /// `struct ended_totals`, of one CPU.
    struct EndedTotals {
        connections: u64,
        segments: u64,
        retransmits: u64,
        spurious: u64,
        timeouts: u64,
        waited: u64,
        lived: u64,
        timed: u64,
        process: u64,
        command: [u8; 16],
    }
}

impl TcpPeer {
    fn address(&self) -> IpAddr {
        let [a, b, c, d, ..] = self.address;
        if self.family == libc::AF_INET6 as u32 {
            Ipv6Addr::from(self.address).to_canonical()
        } else {
            Ipv4Addr::new(a, b, c, d).into()
        }
    }
}

pub(super) struct EndedTcp {
    namespaces: Arc<Namespaces>,
    object: LazyObject,
}

impl EndedTcp {
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, object: LazyObject::new("tcp", include_object!("tcp")) }
    }
}

impl Source for EndedTcp {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("bpf/tcp", "TCP connections that end between two samples")
    }

    fn prepare(&mut self, root: &Root) {
        // `read` reports the error.
        let _ = self.object.get(root);
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let peers = self.object.get(root)?.per_cpu_entries::<TcpPeer, EndedTotals>("peers")?;
        let mut names = NamespaceNames::new(&self.namespaces, root);
        for (peer, totals) in peers {
            let key = NetKey { ns: names.get(peer.namespace), name: peer.address().to_string().into() };
            out.net.ended_connections.push(row(key, &totals));
        }
        Ok(())
    }
}

fn row(key: NetKey, totals: &[EndedTotals]) -> EndedConnections {
    let sum = |of: fn(&EndedTotals) -> u64| Counter::from(totals.iter().map(of).sum::<u64>());
    // A kernel that does not count timeouts has not counted zero.
    let if_timed = |count: Counter| if totals.iter().any(|t| t.timed > 0) { count } else { Counter::ABSENT };
    // Of several owners, the last one on the CPU with the most connections.
    let owner = totals.iter().filter(|t| t.process != 0).max_by_key(|t| t.connections);
    EndedConnections {
        pid: owner.map(|t| t.process).into(),
        command: owner.and_then(|t| c_string(&t.command)).into(),
        connections: sum(|t| t.connections),
        data_segments_out: sum(|t| t.segments),
        retransmits: sum(|t| t.retransmits),
        spurious: sum(|t| t.spurious),
        timeouts: if_timed(sum(|t| t.timeouts)),
        waited: if_timed(sum(|t| t.waited)),
        lived: sum(|t| t.lived),
        ..EndedConnections::new(key)
    }
}
