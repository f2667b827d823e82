//! What TCP connections came to that have ended, by peer (crates/sense/bpf/tcp.bpf.c).

use super::bpf::{Names, text};
use super::namespaces::Namespaces;
use crate::Root;
use crate::bpf::{Held, include_object};
use crate::source::{Miss, Source};
use aya::Pod;
use aya::maps::PerCpuHashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use whyslow_model::catalogue::EndedConnections;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

/// `struct peer`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Peer {
    namespace: u32,
    family: u32,
    address: [u8; 16],
}

/// `struct came_to`, of one processor.
#[derive(Clone, Copy)]
#[repr(C)]
struct CameTo {
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

// SAFETY: numbers and bytes only, without padding; any bytes are a valid value.
unsafe impl Pod for Peer {}
// SAFETY: as above.
unsafe impl Pod for CameTo {}

impl Peer {
    fn address(&self) -> IpAddr {
        let [a, b, c, d, ..] = self.address;
        if self.family == libc::AF_INET6 as u32 {
            Ipv6Addr::from(self.address).to_canonical()
        } else {
            Ipv4Addr::new(a, b, c, d).into()
        }
    }
}

/// Reads what came to an end in every namespace.
pub(crate) struct Ended {
    namespaces: Arc<Namespaces>,
    object: Held,
}

impl Ended {
    /// Over these namespaces.
    pub fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, object: Held::new("tcp", include_object!("tcp")) }
    }
}

impl Source for Ended {
    fn name(&self) -> &'static str {
        "bpf/tcp"
    }

    fn tells(&self) -> &'static str {
        "TCP connections that end between two samples"
    }

    fn prepare(&mut self, root: &Root) {
        // The reading says why, where there is none.
        let _ = self.object.get(root);
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let object = self.object.get(root)?;
        let failed = |e| Miss::Failed(format!("BPF tcp: {e}"));
        let peers = PerCpuHashMap::<_, Peer, CameTo>::try_from(object.map("peers")?).map_err(failed)?;
        let mut names = Names::new(&self.namespaces, root);
        for entry in peers.iter() {
            let (peer, parts) = entry.map_err(failed)?;
            let key = NetKey { ns: names.of(peer.namespace), name: peer.address().to_string().into() };
            out.net.ended_connections.push(row(key, &parts));
        }
        Ok(())
    }
}

fn row(key: NetKey, parts: &[CameTo]) -> EndedConnections {
    let sum = |part: fn(&CameTo) -> u64| Counter::from(parts.iter().map(part).sum::<u64>());
    // A kernel that does not count timers has not counted none.
    let if_timed = |count: Counter| if parts.iter().any(|p| p.timed > 0) { count } else { Counter::default() };
    // Of several owners, the one a processor with the most connections saw last.
    let owner = parts.iter().filter(|p| p.process != 0).max_by_key(|p| p.connections);
    EndedConnections {
        pid: owner.map(|p| p.process.into()).unwrap_or_default(),
        command: owner.and_then(|p| text(&p.command)).map(|name| name.as_str().into()).unwrap_or_default(),
        connections: sum(|p| p.connections),
        data_segments_out: sum(|p| p.segments),
        retransmits: sum(|p| p.retransmits),
        spurious: sum(|p| p.spurious),
        timeouts: if_timed(sum(|p| p.timeouts)),
        waited: if_timed(sum(|p| p.waited)),
        lived: sum(|p| p.lived),
        ..EndedConnections::new(key)
    }
}
