//! The structures in the maps of crates/sense/bpf/block.bpf.c.

use crate::bpf::c_struct;
use whyslow_model::key::ResponseKey;

pub(super) const SLOTS: usize = 256;
/// Number of ends of recent requests that the program remembers.
const ENDS: usize = 256;
/// Buckets of times up to 2^37 ns.
const TIMES: usize = (37 - 4) * 32;
/// Buckets of sizes up to 2^26 bytes.
const SIZES: usize = (26 - 4) * 32;
/// Levels of requests in flight.
pub(super) const LEVELS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Upper bounds of the size classes.
pub(super) const SIZE_CLASSES: [u32; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, ResponseKey::LARGEST];
pub(super) const ACCESSES: [&str; 2] = ["random", "sequential"];
const CELLS: usize = SIZE_CLASSES.len() * ACCESSES.len() * LEVELS.len();

c_struct! {
    /// `struct sampling_filter`: requests are sampled if they were allocated within `length` nanoseconds of `from`
    /// (`CLOCK_MONOTONIC`; when the programs were attached), in a moment whose hash has none of the bits of `mask`. Each counts for `weight`. When `seen` reaches
    /// `most`, the program doubles the weight and starts counting again.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct SamplingFilter {
        pub(super) from: u64,
        pub(super) length: u64,
        pub(super) mask: u64,
        pub(super) weight: u64,
        pub(super) seen: u64,
        pub(super) most: u64,
    }

    /// `struct slots`: the device and operation of each slot (0 if free), and how often its counters changed.
    pub(super) struct SlotTable {
        pub(super) of: [u64; SLOTS],
        pub(super) changes: [u64; SLOTS],
    }
}

/// The requests that a slot counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Operation(&'static str),
    /// The device as a whole.
    Whole,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) index: u32,
    /// `major:minor`.
    pub(super) number: String,
    pub(super) counts: Counted,
    pub(super) changes: u64,
}

impl SlotTable {
    pub(super) fn taken(&self) -> impl Iterator<Item = Slot> {
        let slots = self.of.iter().zip(&self.changes).zip(0..);
        slots.filter(|((of, _), _)| **of != 0).filter_map(|((of, changes), index)| {
            let counts = match of & 0xff {
                0 => Counted::Operation("read"),
                1 => Counted::Operation("write"),
                2 => Counted::Operation("flush"),
                3 => Counted::Operation("discard"),
                4 => Counted::Whole,
                _ => return None,
            };
            let (major, minor) = (of >> 40 & 0x7f_ffff, of >> 8 & 0xffff_ffff);
            Some(Slot { index, number: format!("{major}:{minor}"), counts, changes: *changes })
        })
    }
}

c_struct! {
    /// `struct slot_counters`: the counters of a slot.
    pub(super) struct SlotCounters {
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
        /// Requests, their bytes and time in the device, by size, access and level.
        pub(super) cells: [u64; 3 * CELLS],
        /// Where recent requests ended.
        ends: [u64; 1 + 2 * ENDS],
        pub(super) queue: [u64; TIMES],
        pub(super) device: [u64; TIMES],
        pub(super) size: [u64; SIZES],
    }

    /// `struct depth`: a device's requests in flight, and for each level busy time, requests in flight x time, requests and bytes.
    pub(super) struct DepthCounters {
        pub(super) in_flight: u64,
        slice: [u64; 4 + 4],
        pub(super) levels: [u64; 4 * LEVELS.len()],
    }

    /// `struct requester`: which process issued requests of a slot.
    #[derive(PartialEq, Eq, Hash)]
    pub(super) struct RequesterId {
        pub(super) slot: u64,
        /// Start time of the process, nanoseconds since boot.
        pub(super) start: u64,
        pub(super) cgroup: u64,
        pub(super) pid: u64,
    }

    /// `struct requester_totals`: its sampled requests.
    pub(super) struct RequesterTotals {
        pub(super) requests: u64,
        pub(super) bytes: u64,
        pub(super) queue_ns: u64,
        pub(super) device_ns: u64,
        pub(super) command: [u8; 16],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_names_its_device_and_operation() {
        let mut slots = SlotTable { of: [0; SLOTS], changes: [7; SLOTS] };
        slots.of[3] = 1 << 63 | 259 << 40 | 1_048_575 << 8 | 1;
        slots.of[9] = 1 << 63 | 7 << 40 | 200;
        let taken: Vec<Slot> = slots.taken().collect();
        assert_eq!(
            taken,
            [Slot { index: 3, number: "259:1048575".into(), counts: Counted::Operation("write"), changes: 7 }]
        );
    }
}
