//! What crates/sense/bpf/block.bpf.c keeps in its maps, field by field.

/// Slots there are.
pub(super) const SLOTS: usize = 256;
/// Ends of recent requests that are remembered.
const ENDS: usize = 256;
/// Buckets of a time, up to 2^37 ns.
const TIMES: usize = (37 - 4) * 32;
/// Buckets of a size, up to 2^26 bytes.
const SIZES: usize = (26 - 4) * 32;

/// Which requests are looked at: those made within `length` nanoseconds of `from` (`CLOCK_MONOTONIC`), in a moment whose hash
/// has none of the bits of `mask`. Each stands for `weight`. Of these `seen` were looked at; at `most` the kernel doubles the
/// weight by itself, and begins to count anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Choice {
    pub(super) from: u64,
    pub(super) length: u64,
    pub(super) mask: u64,
    pub(super) weight: u64,
    pub(super) seen: u64,
    pub(super) most: u64,
}

/// Which device and operation each slot is of, 0 for none, and how often what is known of it has changed.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Slots {
    pub(super) of: [u64; SLOTS],
    pub(super) changes: [u64; SLOTS],
}

/// A slot taken: its number, its device and operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) index: u32,
    /// `major:minor`.
    pub(super) number: String,
    pub(super) operation: &'static str,
    /// How often what is known of it has changed.
    pub(super) changes: u64,
}

impl Slots {
    /// The slots that are taken.
    pub(super) fn taken(&self) -> impl Iterator<Item = Slot> {
        let slots = self.of.iter().zip(&self.changes).zip(0..);
        slots.filter(|((of, _), _)| **of != 0).filter_map(|((of, changes), index)| {
            let operation = ["read", "write", "flush", "discard"].get((of & 0xff) as usize)?;
            let (major, minor) = (of >> 40 & 0x7f_ffff, of >> 8 & 0xffff_ffff);
            Some(Slot { index, number: format!("{major}:{minor}"), operation, changes: *changes })
        })
    }
}

/// What is known of a slot's requests.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Known {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) sequential: u64,
    pub(super) ahead: u64,
    pub(super) forced: u64,
    pub(super) splits: u64,
    pub(super) depth_requests: u64,
    pub(super) depth: u64,
    pub(super) depth_squared: u64,
    pub(super) depth_ns: u64,
    pub(super) depth_us: u64,
    /// Where recent requests ended.
    ends: [u64; 1 + 2 * ENDS],
    pub(super) queue: [u64; TIMES],
    pub(super) device: [u64; TIMES],
    pub(super) size: [u64; SIZES],
}

/// Who asked for requests of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub(super) struct User {
    pub(super) slot: u64,
    /// Start of the process, nanoseconds since boot.
    pub(super) start: u64,
    pub(super) cgroup: u64,
    pub(super) pid: u64,
}

/// What of it was looked at.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Use {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) queue_ns: u64,
    pub(super) device_ns: u64,
    pub(super) command: [u8; 16],
}

// SAFETY: each consists of whole numbers without gaps between them, for which all bytes make a value.
unsafe impl aya::Pod for Choice {}
// SAFETY: as above.
unsafe impl aya::Pod for Slots {}
// SAFETY: as above.
unsafe impl aya::Pod for Known {}
// SAFETY: as above.
unsafe impl aya::Pod for User {}
// SAFETY: as above.
unsafe impl aya::Pod for Use {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_names_its_device_and_operation() {
        let mut slots = Slots { of: [0; SLOTS], changes: [7; SLOTS] };
        slots.of[3] = 1 << 63 | 259 << 40 | 1_048_575 << 8 | 1;
        slots.of[9] = 1 << 63 | 7 << 40 | 200;
        let taken: Vec<Slot> = slots.taken().collect();
        assert_eq!(taken, [Slot { index: 3, number: "259:1048575".into(), operation: "write", changes: 7 }]);
    }
}
