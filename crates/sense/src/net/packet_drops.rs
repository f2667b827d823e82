//! Dropped packets by reason and dropping function (crates/sense/bpf/drops.bpf.c).

use super::bpf::{NamespaceNames, NetLocation};
use super::namespaces::Namespaces;
use crate::Root;
use crate::bpf::{LazyObject, c_string, c_struct, enums, include_object};
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use whyslow_model::catalogue::PacketDrop;
use whyslow_model::key::NetKey;
use whyslow_model::snapshot::Snapshot;

c_struct! {
    /// `struct drop_key`.
    struct DropKey {
        /// The instruction, of which a function can have several.
        _address: u64,
        reason: u32,
        protocol: u32,
        location: NetLocation,
        _pad: u32,
    }

    /// `struct drop_count`, of one CPU. Only that of the first drop has the function's name.
    struct DropCount {
        packets: u64,
        bytes: u64,
        function: [u8; 48],
    }
}

pub(super) struct PacketDrops {
    namespaces: Arc<Namespaces>,
    object: LazyObject,
    reasons: Option<HashMap<u32, String>>,
}

impl PacketDrops {
    pub(super) fn new(namespaces: Arc<Namespaces>) -> Self {
        Self { namespaces, object: LazyObject::new("drops", include_object!("drops")), reasons: None }
    }
}

impl Source for PacketDrops {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("bpf/drops", "where and why the kernel drops packets")
    }

    fn prepare(&mut self, root: &Root) {
        // `read` reports the error.
        let _ = self.object.get(root);
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let object = self.object.get(root)?;
        let reasons = match &mut self.reasons {
            Some(reasons) => reasons,
            None => self.reasons.insert(enums::names(root, "skb_drop_reason")?),
        };
        let mut names = NamespaceNames::new(&self.namespaces, root);
        let mut rows = BTreeMap::new();
        for (key, counts) in object.per_cpu_entries::<DropKey, DropCount>("drops")? {
            if key.location.is_valid() {
                add(&mut rows, row(&key, &counts, reasons, &mut names), &counts);
            }
        }
        out.net.packet_drop.extend(rows.into_values());
        Ok(())
    }
}

/// Several instructions of one function make one row.
fn add(rows: &mut BTreeMap<NetKey, PacketDrop>, row: PacketDrop, counts: &[DropCount]) {
    let row = rows.entry(row.drop.clone()).or_insert(row);
    let sum = |so_far: Option<u64>, of: fn(&DropCount) -> u64| so_far.unwrap_or(0) + counts.iter().map(of).sum::<u64>();
    row.packets = sum(row.packets.get(), |c| c.packets).into();
    row.bytes = sum(row.bytes.get(), |c| c.bytes).into();
}

fn row(
    key: &DropKey,
    counts: &[DropCount],
    reasons: &HashMap<u32, String>,
    names: &mut NamespaceNames<'_>,
) -> PacketDrop {
    let function = counts.iter().find_map(|c| c_string(&c.function)).unwrap_or_else(|| "an unnamed function".into());
    let reason = reasons.get(&key.reason).map_or_else(
        // Reasons of other subsystems, such as mac80211, are not in this enum.
        || format!("{:#x}", key.reason),
        |name| name.trim_start_matches("SKB_DROP_REASON_").to_lowercase(),
    );
    let (interface, protocol) = (key.location.interface(), protocol(key.protocol));
    let at = interface.as_deref().unwrap_or("no interface");
    let name = format!("{function} {reason} {at} {}", protocol.as_deref().unwrap_or("other"));
    PacketDrop {
        place: function.into(),
        reason: reason.into(),
        interface: interface.into(),
        protocol: protocol.into(),
        ..PacketDrop::new(NetKey { ns: names.get(key.location.namespace), name: name.into() })
    }
}

/// A protocol's name or number (<https://www.iana.org/assignments/protocol-numbers>); `None` for packets other than IP.
fn protocol(number: u32) -> Option<String> {
    Some(match number {
        0 => return None,
        1 | 58 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        other => other.to_string(),
    })
}
