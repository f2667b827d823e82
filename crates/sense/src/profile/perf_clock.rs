//! The sampling clock of each CPU (perf_event_open(2)): the software clock, which every machine has.

use crate::bpf::Object;
use crate::root::Root;
use crate::source_error::SourceError;
use aya::programs::perf_event::{PerfEvent, PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{Program, ProgramError};
use aya::util::online_cpus;
use std::io;

const MAX_RATE: &str = "proc/sys/kernel/perf_event_max_sample_rate";
const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";

/// Runs the object's program `hz` times a second on each online CPU. Returns the number of CPUs.
pub(super) fn start(object: &mut Object, hz: u32, root: &Root) -> Result<u32, SourceError> {
    let Some((_, Program::PerfEvent(program))) = object.programs().next() else {
        return Err(SourceError::Failed("BPF profile: has no perf_event program".into()));
    };
    program.load().map_err(|e| refused(&e, hz, root))?;
    let cpus = online_cpus().map_err(|(path, e)| SourceError::from_io(path.trim_start_matches('/'), &e))?;
    for &cpu in &cpus {
        tick(program, cpu, hz).map_err(|e| refused(&e, hz, root))?;
    }
    Ok(u32::try_from(cpus.len()).unwrap_or(u32::MAX))
}

fn tick(program: &mut PerfEvent, cpu: u32, hz: u32) -> Result<(), ProgramError> {
    let clock = PerfEventConfig::Software(SoftwareEvent::CpuClock);
    let scope = PerfEventScope::AllProcessesOneCpu { cpu };
    program.attach(clock, scope, SamplePolicy::Frequency(hz.into()), false).map(drop)
}

/// Why there is no clock, with the settings in Documentation/admin-guide/sysctl/kernel.rst that control it.
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
