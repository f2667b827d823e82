//! The clock that ticks on each processor (perf_event_open(2)): the software clock, which every machine has.

use crate::bpf::Object;
use crate::root::Root;
use crate::source::Miss;
use aya::programs::perf_event::{PerfEvent, PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{Program, ProgramError};
use aya::util::online_cpus;
use std::io;

const MOST: &str = "proc/sys/kernel/perf_event_max_sample_rate";
const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";

/// Runs the object's program `hz` times a second on each processor that is online; how many those are.
///
/// # Errors
/// The kernel grants no clock: not to this process, or not that fast.
pub(super) fn start(object: &mut Object, hz: u32, root: &Root) -> Result<u32, Miss> {
    let Some((_, Program::PerfEvent(program))) = object.programs().next() else {
        return Err(Miss::Failed("BPF profile: holds no program for a clock".into()));
    };
    program.load().map_err(|e| refused(&e, hz, root))?;
    let cpus = online_cpus().map_err(|(path, e)| Miss::from_io(path.trim_start_matches('/'), &e))?;
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

/// Why there is no clock, with the settings of Documentation/admin-guide/sysctl/kernel.rst that decide it.
fn refused(error: &ProgramError, hz: u32, root: &Root) -> Miss {
    let system = match error {
        ProgramError::SyscallError(e) => e.io_error.raw_os_error(),
        ProgramError::LoadError { io_error, .. } => io_error.raw_os_error(),
        _ => None,
    };
    let most = root.number(MOST).unwrap_or(u64::MAX);
    match system {
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = root.word(PARANOID).unwrap_or_else(|| "unknown".into());
            let why = format!("profiling is not permitted to this process (kernel.perf_event_paranoid is {paranoid})");
            Miss::NotPermitted { why, remedy: "run as root, or give the program CAP_BPF and CAP_PERFMON".into() }
        }
        Some(libc::EINVAL) if u64::from(hz) > most => {
            let why =
                format!("the kernel allows {most} samples a second (kernel.perf_event_max_sample_rate), not {hz}");
            Miss::NotPermitted { why, remedy: format!("take --hz {most} or less") }
        }
        Some(number) => Miss::Failed(format!("the kernel opens no clock: {}", io::Error::from_raw_os_error(number))),
        None => Miss::Failed(format!("the kernel opens no clock: {error}")),
    }
}
