//! Packet sizes by interface (crates/sense/bpf/packets.bpf.c).

use super::bpf::{NamespaceNames, NetLocation};
use super::namespaces::Namespaces;
use crate::Root;
use crate::bpf::{LazyObject, c_struct, include_object};
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::HashMap;
use std::sync::Arc;
use whyslow_model::catalogue::PacketSize;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;

/// Set in a bucket's number if the packets were sent.
const SENT: u32 = 1 << 31;

c_struct! {
    /// `struct size_key`.
    struct SizeKey {
        location: NetLocation,
        bucket: u32,
    }
}

pub(super) struct PacketSizes {
    namespaces: Arc<Namespaces>,
    object: LazyObject,
}

impl PacketSizes {
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, object: LazyObject::new("packets", include_object!("packets")) }
    }
}

/// Packets by bucket, sent and received.
type Directions = [Vec<(u32, u64)>; 2];

impl Source for PacketSizes {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("bpf/packets", "packet sizes by interface").on_demand()
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let mut by_location: HashMap<NetLocation, Directions> = HashMap::new();
        for (key, counts) in self.object.get(root)?.per_cpu_entries::<SizeKey, u64>("sizes")? {
            let direction = usize::from(key.bucket & SENT == 0);
            let counted = (key.bucket & !SENT, counts.iter().sum());
            by_location.entry(key.location).or_default()[direction].push(counted);
        }
        let mut names = NamespaceNames::new(&self.namespaces, root);
        out.net.packet_size.extend(by_location.into_iter().filter_map(|(location, [sent, received])| {
            let key = NetKey { ns: names.get(location.namespace), name: location.interface()?.into() };
            let (sent, received) = (Histogram::from_counts(sent), Histogram::from_counts(received));
            Some(PacketSize { sent, received, ..PacketSize::new(key) })
        }));
        Ok(())
    }
}
