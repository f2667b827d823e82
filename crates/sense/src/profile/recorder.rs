//! Stacks as the kernel counted them: addresses and weights, by address space (bpf/profile.bpf.c, bpf/offcpu.bpf.c).

use super::{Ask, perf_clock};
use crate::bpf::{Object, entries, include_object};
use crate::os;
use crate::root::Root;
use crate::source::Miss;
use aya::Pod;
use aya::maps::{Array, HashMap, MapData, MapError};
use std::cmp::Reverse;
use std::collections::HashMap as StdMap;
use whyslow_model::profile::Kind;

/// Addresses of either half of a stack at most, as in bpf/stacks.h.
const KERNEL_DEPTH: usize = 64;
pub(super) const USER_DEPTH: usize = 127;
/// Halves of a stack, as in bpf/stacks.h.
const KERNEL: u32 = 1;
const USER: u32 = 2;
/// The most entries any map has in bpf/stacks.h: reading them ends, whatever happens to them meanwhile.
const ENTRIES: usize = 16384;

/// Whose addresses they are: those of a process from one `execve` to the next. The first field is a kernel address and means
/// nothing but sameness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub(super) struct SpaceId {
    mm: u64,
    tgid: u64,
}

impl SpaceId {
    /// The number of the process.
    pub(super) fn pid(self) -> u32 {
        self.tgid as u32
    }

    /// Whether this is a kernel thread, which has no address space.
    pub(super) fn is_kernel_thread(self) -> bool {
        self.mm == 0
    }
}

/// `struct wanted` of bpf/stacks.h.
#[derive(Clone, Copy)]
#[repr(C)]
struct Wanted {
    halves: u32,
    tgid: u32,
}

/// `struct stack` of bpf/stacks.h.
#[derive(Clone, Copy)]
#[repr(C)]
struct Record {
    weight: u64,
    mm: u64,
    tgid: u32,
    kernel: u32,
    user: u32,
    comm: [u8; 16],
    pad: u32,
    kernel_at: [u64; KERNEL_DEPTH],
    user_at: [u64; USER_DEPTH],
}

/// `struct wait` of bpf/offcpu.bpf.c.
#[derive(Clone, Copy)]
#[repr(C)]
struct Wait {
    since: u64,
    stack: u64,
}

/// `struct totals` of bpf/stacks.h.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Counted {
    /// Samples in which a processor was idle.
    pub(super) idle: u64,
    /// Samples, or waits, for whose stack there was no room.
    pub(super) lost: u64,
}

// SAFETY: each is `repr(C)`, has no padding that is not a field, and is made of numbers, for which any bits are a value.
unsafe impl Pod for SpaceId {}
// SAFETY: as above.
unsafe impl Pod for Wanted {}
// SAFETY: as above.
unsafe impl Pod for Record {}
// SAFETY: as above.
unsafe impl Pod for Wait {}
// SAFETY: as above.
unsafe impl Pod for Counted {}

/// A stack as the kernel counted it.
#[derive(Clone, Debug)]
pub(super) struct RawStack {
    pub(super) space: SpaceId,
    /// The process' name.
    pub(super) name: String,
    /// Samples, or nanoseconds.
    pub(super) weight: u64,
    /// Addresses in the kernel, innermost first.
    pub(super) kernel: Vec<u64>,
    /// Addresses in the program, innermost first.
    pub(super) user: Vec<u64>,
}

/// What records. Dropping it ends that.
pub(super) struct Recorder {
    object: Object,
    wanted: Array<MapData, Wanted>,
    /// Processors looked at; none where waits are recorded.
    pub(super) cpus: Option<u32>,
}

impl Recorder {
    /// Starts to record.
    ///
    /// # Errors
    /// BPF cannot be used here; the kernel does not open the clock.
    pub(super) fn start(ask: &Ask, root: &Root) -> Result<Self, Miss> {
        let mut object = match ask.kind {
            Kind::OnCpu => Object::load("profile", include_object!("profile"), root)?,
            Kind::OffCpu => Object::load("offcpu", include_object!("offcpu"), root)?,
        };
        let cpus = match ask.kind {
            Kind::OnCpu => Some(perf_clock::start(&mut object, ask.hz, root)?),
            Kind::OffCpu => None,
        };
        let wanted = Array::try_from(object.take_map("wanted")?).map_err(unreadable)?;
        let mut recorder = Self { object, wanted, cpus };
        let halves = if ask.kernel { KERNEL } else { 0 } | if ask.user { USER } else { 0 };
        recorder.want(Wanted { halves, tgid: ask.pid.unwrap_or(0) })?;
        Ok(recorder)
    }

    fn want(&mut self, wanted: Wanted) -> Result<(), Miss> {
        self.wanted.set(0, wanted, 0).map_err(unreadable)
    }

    /// The address space each process was last met in: of two, the later is what the process became by `execve`.
    ///
    /// # Errors
    /// The kernel does not give the map.
    pub(super) fn spaces(&self) -> Result<Vec<SpaceId>, Miss> {
        let spaces: HashMap<_, SpaceId, u64> = HashMap::try_from(self.object.map("spaces")?).map_err(unreadable)?;
        let mut met = entries(&spaces).map_err(unreadable)?;
        met.sort_by_key(|&(space, since)| (space.tgid, Reverse(since)));
        met.dedup_by_key(|(space, _)| space.tgid);
        Ok(met.into_iter().map(|(space, _)| space).collect())
    }

    /// Ends the recording, and gives what was counted.
    ///
    /// # Errors
    /// The kernel does not give the maps.
    pub(super) fn finish(mut self) -> Result<(Vec<RawStack>, Counted), Miss> {
        self.want(Wanted { halves: 0, tgid: 0 })?;
        let mut unfinished = self.unfinished()?;
        let stacks: HashMap<_, u64, Record> = HashMap::try_from(self.object.map("stacks")?).map_err(unreadable)?;
        let mut raw = Vec::new();
        for (key, mut record) in stacks.iter().take(ENTRIES).flatten() {
            record.weight = record.weight.saturating_add(unfinished.remove(&key).unwrap_or(0));
            raw.push(RawStack::from(&record));
        }
        let totals: Array<_, Counted> = Array::try_from(self.object.map("totals")?).map_err(unreadable)?;
        Ok((raw, totals.get(&0, 0).map_err(unreadable)?))
    }

    /// Waits that go on: for how many nanoseconds so far, by stack.
    fn unfinished(&self) -> Result<StdMap<u64, u64>, Miss> {
        let mut sums: StdMap<u64, u64> = StdMap::new();
        if self.cpus.is_some() {
            return Ok(sums);
        }
        let now = os::monotonic_ns();
        let waits: HashMap<_, u32, Wait> = HashMap::try_from(self.object.map("waits")?).map_err(unreadable)?;
        for (_, wait) in entries(&waits).map_err(unreadable)? {
            let sum = sums.entry(wait.stack).or_default();
            *sum = sum.saturating_add(now.saturating_sub(wait.since));
        }
        Ok(sums)
    }
}

fn unreadable(error: MapError) -> Miss {
    Miss::Failed(format!("BPF profile: {error}"))
}

impl From<&Record> for RawStack {
    fn from(record: &Record) -> Self {
        let half = |half: &[u64], length: u32| half[..half.len().min(length as usize)].to_vec();
        let name = record.comm.split(|&byte| byte == 0).next().unwrap_or_default();
        Self {
            space: SpaceId { mm: record.mm, tgid: record.tgid.into() },
            name: String::from_utf8_lossy(name).into_owned(),
            weight: record.weight,
            kernel: half(&record.kernel_at, record.kernel),
            user: half(&record.user_at, record.user),
        }
    }
}
