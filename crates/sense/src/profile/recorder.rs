//! Stacks counted in the kernel: addresses and weights by address space (bpf/profile.bpf.c, bpf/offcpu.bpf.c). Each CPU is
//! sampled by the software clock (perf_event_open(2)), which every machine has.

use super::ProfileOptions;
use crate::bpf::{Object, c_string, c_struct, include_object};
use crate::os;
use crate::root::Root;
use crate::source_error::SourceError;
use aya::programs::perf_event::{
    PerfEvent, PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::{Program, ProgramError};
use aya::util::online_cpus;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use whyslow_documents::profile::ProfileKind;

/// Constants of bpf/stacks.h.
const KERNEL_DEPTH: usize = 64;
pub(super) const USER_DEPTH: usize = 127;
/// Parts of a stack, from bpf/stacks.h.
const KERNEL: u32 = 1;
const USER: u32 = 2;
const MAX_RATE: &str = "proc/sys/kernel/perf_event_max_sample_rate";
const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";

c_struct! {
    /// A process from one `execve` to the next. `mm` is a kernel address, which only serves for comparison.
    #[derive(Debug, PartialEq, Eq, Hash)]
    pub(super) struct AddressSpaceId {
        mm: u64,
        tgid: u64,
    }

    /// `struct recording_filter` of bpf/stacks.h.
    struct RecordingFilter {
        parts: u32,
        tgid: u32,
    }

    /// `struct stack` of bpf/stacks.h.
    pub(super) struct StackRecord {
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

    /// `struct open_wait` of bpf/offcpu.bpf.c.
    struct OpenWait {
        since: u64,
        stack: u64,
    }

    /// `struct totals` of bpf/stacks.h.
    #[derive(Debug, Default)]
    pub(super) struct Counted {
        /// Samples in which a CPU was idle.
        pub(super) idle: u64,
        /// Samples or waits whose stack did not fit into the map.
        pub(super) lost: u64,
    }
}

impl AddressSpaceId {
    pub(super) fn pid(self) -> u32 {
        self.tgid as u32
    }

    pub(super) fn is_kernel_thread(self) -> bool {
        self.mm == 0
    }
}

#[derive(Clone, Debug)]
pub(super) struct RawStack {
    pub(super) space: AddressSpaceId,
    pub(super) name: String,
    /// Samples, or nanoseconds.
    pub(super) weight: u64,
    /// Innermost first.
    pub(super) kernel: Vec<u64>,
    /// Innermost first.
    pub(super) user: Vec<u64>,
}

/// Records stacks until it is dropped.
pub(super) struct StackRecorder {
    object: Object,
    /// Number of CPUs sampled; `None` if waits are recorded.
    pub(super) cpus: Option<u32>,
}

impl StackRecorder {
    pub(super) fn start(options: &ProfileOptions, root: &Root) -> Result<Self, SourceError> {
        let mut object = match options.kind {
            ProfileKind::OnCpu => Object::load("profile", include_object!("profile"), root)?,
            ProfileKind::OffCpu => Object::load("offcpu", include_object!("offcpu"), root)?,
        };
        let cpus = match options.kind {
            ProfileKind::OnCpu => Some(Clock::start(&mut object, options.hz, root)?.cpus()),
            ProfileKind::OffCpu => None,
        };
        let parts = if options.kernel { KERNEL } else { 0 } | if options.user { USER } else { 0 };
        object.set_element("filter", 0, RecordingFilter { parts, tgid: options.pid.unwrap_or(0) })?;
        Ok(Self { object, cpus })
    }

    /// Returns the address space in which each process was last seen.
    pub(super) fn spaces(&self) -> Result<Vec<AddressSpaceId>, SourceError> {
        spaces(&self.object)
    }

    /// Stops the recording and returns the counts.
    pub(super) fn finish(mut self) -> Result<(Vec<RawStack>, Counted), SourceError> {
        self.object.set_element("filter", 0, RecordingFilter { parts: 0, tgid: 0 })?;
        let mut unfinished = self.unfinished_waits()?;
        let mut stacks: Vec<(u64, StackRecord)> = self.object.entries("stacks")?;
        for (key, record) in &mut stacks {
            record.weight = record.weight.saturating_add(unfinished.remove(key).unwrap_or(0));
        }
        Ok((stacks.iter().map(|(_, record)| RawStack::from(record)).collect(), self.object.element("totals", 0)?))
    }

    /// Returns the nanoseconds so far of unfinished waits, by stack.
    fn unfinished_waits(&self) -> Result<HashMap<u64, u64>, SourceError> {
        let mut sums: HashMap<u64, u64> = HashMap::new();
        if self.cpus.is_some() {
            return Ok(sums);
        }
        let now = os::monotonic_ns();
        for (_, wait) in self.object.entries::<u32, OpenWait>("waits")? {
            let sum = sums.entry(wait.stack).or_default();
            *sum = sum.saturating_add(now.saturating_sub(wait.since));
        }
        Ok(sums)
    }
}

/// Returns the address space in which each process was last seen; after an `execve` that is the newer one.
pub(super) fn spaces(object: &Object) -> Result<Vec<AddressSpaceId>, SourceError> {
    let mut seen: Vec<(AddressSpaceId, u64)> = object.entries("address_spaces")?;
    seen.sort_by_key(|&(space, since)| (space.tgid, Reverse(since)));
    seen.dedup_by_key(|(space, _)| space.tgid);
    Ok(seen.into_iter().map(|(space, _)| space).collect())
}

impl From<&StackRecord> for RawStack {
    fn from(record: &StackRecord) -> Self {
        let half = |half: &[u64], length: u32| half[..half.len().min(length as usize)].to_vec();
        Self {
            space: AddressSpaceId { mm: record.mm, tgid: record.tgid.into() },
            name: c_string(&record.comm).unwrap_or_default(),
            weight: record.weight,
            kernel: half(&record.kernel_at, record.kernel),
            user: half(&record.user_at, record.user),
        }
    }
}

/// Runs an object's program at a fixed rate on each online CPU, until the object is dropped.
pub(super) struct Clock {
    /// One for each CPU.
    links: Vec<PerfEventLinkId>,
}

impl Clock {
    pub(super) fn start(object: &mut Object, hz: u32, root: &Root) -> Result<Self, SourceError> {
        let program = sampled_program(object)?;
        program.load().map_err(|e| refused(&e, hz, root))?;
        Ok(Self { links: attach_to_cpus(program, hz, root)? })
    }

    pub(super) fn cpus(&self) -> u32 {
        u32::try_from(self.links.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn set_rate(&mut self, object: &mut Object, hz: u32, root: &Root) -> Result<(), SourceError> {
        let program = sampled_program(object)?;
        for link in self.links.drain(..) {
            program.detach(link).map_err(|e| refused(&e, hz, root))?;
        }
        self.links = attach_to_cpus(program, hz, root)?;
        Ok(())
    }
}

fn sampled_program(object: &mut Object) -> Result<&mut PerfEvent, SourceError> {
    let program = object.programs().find_map(|(_, program)| match program {
        Program::PerfEvent(program) => Some(program),
        _ => None,
    });
    program.ok_or_else(|| SourceError::Failed("BPF: has no perf_event program".into()))
}

fn attach_to_cpus(program: &mut PerfEvent, hz: u32, root: &Root) -> Result<Vec<PerfEventLinkId>, SourceError> {
    let cpus = online_cpus().map_err(|(path, e)| SourceError::from_io(path.trim_start_matches('/'), &e))?;
    cpus.into_iter().map(|cpu| attach_to_cpu(program, cpu, hz).map_err(|e| refused(&e, hz, root))).collect()
}

fn attach_to_cpu(program: &mut PerfEvent, cpu: u32, hz: u32) -> Result<PerfEventLinkId, ProgramError> {
    let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
    let scope = PerfEventScope::AllProcessesOneCpu { cpu };
    program.attach(clock, scope, SamplePolicy::Frequency(hz.into()), false)
}

/// Returns the reason why the clock could not be created, with the settings in Documentation/admin-guide/sysctl/kernel.rst that
/// control it.
fn refused(error: &ProgramError, hz: u32, root: &Root) -> SourceError {
    let system = match error {
        ProgramError::SyscallError(e) => e.io_error.raw_os_error(),
        ProgramError::LoadError { io_error, .. } => io_error.raw_os_error(),
        _ => None,
    };
    let max = root.number(MAX_RATE).unwrap_or(u64::MAX);
    match system {
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = root.word(PARANOID).unwrap_or_else(|| "unknown".into());
            let why = format!("profiling is not permitted to this process (kernel.perf_event_paranoid is {paranoid})");
            SourceError::NotPermitted { why, remedy: "run as root, or give the program CAP_BPF and CAP_PERFMON".into() }
        }
        Some(libc::EINVAL) if u64::from(hz) > max => {
            let why = format!("the kernel allows {max} samples a second (kernel.perf_event_max_sample_rate), not {hz}");
            SourceError::NotPermitted { why, remedy: format!("use --hz {max} or less") }
        }
        Some(number) => SourceError::Failed(format!("perf_event_open: {}", io::Error::from_raw_os_error(number))),
        None => SourceError::Failed(format!("perf_event_open: {error}")),
    }
}
