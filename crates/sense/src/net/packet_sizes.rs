//! Sizes of packets by interface (crates/sense/bpf/packets.bpf.c).

use super::bpf::{Names, PlaceInNet};
use super::namespaces::Namespaces;
use crate::Root;
use crate::bpf::{Held, include_object};
use crate::source::{Miss, Source, Tempo};
use aya::Pod;
use aya::maps::PerCpuHashMap;
use std::collections::HashMap;
use std::sync::Arc;
use whyslow_model::catalogue::PacketSize;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;

/// Set in a bucket's number where the packets were sent.
const SENT: u32 = 1 << 31;

/// `struct size_key`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Key {
    place: PlaceInNet,
    bucket: u32,
}

// SAFETY: numbers and bytes only, without padding; any bytes are a valid value.
unsafe impl Pod for Key {}

/// Reads the sizes at every interface.
pub(crate) struct Packets {
    namespaces: Arc<Namespaces>,
    object: Held,
}

impl Packets {
    /// Over these namespaces.
    pub fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, object: Held::new("packets", include_object!("packets")) }
    }
}

/// Packets by bucket, sent and received.
type Ways = [Vec<(u32, u64)>; 2];

impl Source for Packets {
    fn name(&self) -> &'static str {
        "bpf/packets"
    }

    fn tells(&self) -> &'static str {
        "sizes of packets by interface"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Asked
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let object = self.object.get(root)?;
        let failed = |e| Miss::Failed(format!("BPF packets: {e}"));
        let sizes = PerCpuHashMap::<_, Key, u64>::try_from(object.map("sizes")?).map_err(failed)?;
        let mut by_place: HashMap<PlaceInNet, Ways> = HashMap::new();
        for entry in sizes.iter() {
            let (key, counts) = entry.map_err(failed)?;
            let way = usize::from(key.bucket & SENT == 0);
            by_place.entry(key.place).or_default()[way].push((key.bucket & !SENT, counts.iter().sum()));
        }
        let mut names = Names::new(&self.namespaces, root);
        out.net.packet_size.extend(by_place.into_iter().filter_map(|(place, [sent, received])| {
            let key = NetKey { ns: names.of(place.namespace), name: place.interface()?.into() };
            let (sent, received) = (Histogram::from_counts(sent), Histogram::from_counts(received));
            Some(PacketSize { sent, received, ..PacketSize::new(key) })
        }));
        Ok(())
    }
}
