//! Packets that the kernel throws away, by reason and place (crates/sense/bpf/drops.bpf.c).

use super::bpf::{Names, PlaceInNet, text};
use super::namespaces::Namespaces;
use crate::Root;
use crate::bpf::{Held, enums, include_object};
use crate::source::{Miss, Source};
use aya::Pod;
use aya::maps::PerCpuHashMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use whyslow_model::catalogue::PacketDrop;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;

/// `struct drop_key`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Key {
    /// The instruction, of which a function can have several.
    _place: u64,
    reason: u32,
    protocol: u32,
    place: PlaceInNet,
    _none: u32,
}

/// `struct drop_count`, of one processor. Only the one that saw the first has the function's name.
#[derive(Clone, Copy)]
#[repr(C)]
struct Count {
    packets: u64,
    bytes: u64,
    place: [u8; 48],
}

// SAFETY: numbers and bytes only, without padding; any bytes are a valid value.
unsafe impl Pod for Key {}
// SAFETY: as above.
unsafe impl Pod for Count {}

/// Reads the drops of every namespace.
pub(crate) struct Drops {
    namespaces: Arc<Namespaces>,
    object: Held,
    reasons: Option<HashMap<u32, String>>,
}

impl Drops {
    /// Over these namespaces.
    pub fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, object: Held::new("drops", include_object!("drops")), reasons: None }
    }
}

impl Source for Drops {
    fn name(&self) -> &'static str {
        "bpf/drops"
    }

    fn tells(&self) -> &'static str {
        "where and why the kernel throws packets away"
    }

    fn prepare(&mut self, root: &Root) {
        // The reading says why, where there is none.
        let _ = self.object.get(root);
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let object = self.object.get(root)?;
        let reasons = match &mut self.reasons {
            Some(reasons) => reasons,
            None => self.reasons.insert(enums::names(root, "skb_drop_reason")?),
        };
        let failed = |e| Miss::Failed(format!("BPF drops: {e}"));
        let counts = PerCpuHashMap::<_, Key, Count>::try_from(object.map("drops")?).map_err(failed)?;
        let mut names = Names::new(&self.namespaces, root);
        let mut rows = BTreeMap::new();
        for entry in counts.iter() {
            let (key, counts) = entry.map_err(failed)?;
            if key.place.is_sound() {
                add(&mut rows, row(&key, &counts, reasons, &mut names), &counts);
            }
        }
        out.net.packet_drop.extend(rows.into_values());
        Ok(())
    }
}

/// Several places in one function are one row.
fn add(rows: &mut BTreeMap<NetKey, PacketDrop>, row: PacketDrop, counts: &[Count]) {
    let row = rows.entry(row.drop.clone()).or_insert(row);
    let more =
        |so_far: Option<u64>, part: fn(&Count) -> u64| so_far.unwrap_or(0) + counts.iter().map(part).sum::<u64>();
    row.packets = more(row.packets.get(), |c| c.packets).into();
    row.bytes = more(row.bytes.get(), |c| c.bytes).into();
}

fn row(key: &Key, counts: &[Count], reasons: &HashMap<u32, String>, names: &mut Names<'_>) -> PacketDrop {
    let place = counts.iter().find_map(|c| text(&c.place)).unwrap_or_else(|| "an unnamed function".into());
    let reason = reasons.get(&key.reason).map_or_else(
        // The numbers of other subsystems, such as mac80211, are not in this enum.
        || format!("{:#x}", key.reason),
        |name| name.trim_start_matches("SKB_DROP_REASON_").to_lowercase(),
    );
    let (interface, protocol) = (key.place.interface(), protocol(key.protocol));
    let at = interface.as_deref().unwrap_or("no interface");
    let name = format!("{place} {reason} {at} {}", protocol.as_deref().unwrap_or("other"));
    PacketDrop {
        place: place.as_str().into(),
        reason: reason.as_str().into(),
        interface: interface.as_deref().map(Into::into).unwrap_or_default(),
        protocol: protocol.as_deref().map(Into::into).unwrap_or_default(),
        ..PacketDrop::new(NetKey { ns: names.of(key.place.namespace), name: name.into() })
    }
}

/// A protocol's name, or its number (<https://www.iana.org/assignments/protocol-numbers>); `None` for packets not of IP.
fn protocol(number: u32) -> Option<String> {
    Some(match number {
        0 => return None,
        1 | 58 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        other => other.to_string(),
    })
}
