//! CPU time of observing while a load runs, as the kernel counts it: more precise than a comparison of rates, and an
//! upper bound of the loss apart from cache effects.

use crate::loads::Load;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use whyslow_pairs::child::Running;
use whyslow_pairs::failure::Result;
use whyslow_pairs::stop;

/// Sysctl that enables counting of BPF run time (Documentation/admin-guide/sysctl/kernel.rst).
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Time for whyslow to start: loading BPF programs is not part of observing.
pub const START: Duration = Duration::from_secs(2);

/// CPU time of observing, in CPUs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Taken {
    /// BPF programs, including the counting itself: about 20 ns per call.
    pub programs: f64,
    /// Calls of BPF programs per second.
    pub calls: f64,
    /// Time of whyslow itself.
    pub observer: f64,
}

pub fn measure(load: &Load, time: Duration, observe: impl FnOnce() -> Result<Running>) -> Result<Taken> {
    let _counting = Counting::on()?;
    let mut observer = observe()?;
    stop::pause(START)?;
    let (started, before) = (Instant::now(), Spent::read(&mut observer)?);
    load.rate(time)?;
    let (seconds, after) = (started.elapsed().as_secs_f64(), Spent::read(&mut observer)?);
    Ok(Taken {
        programs: (after.programs.time - before.programs.time) / seconds,
        calls: (after.programs.calls - before.programs.calls) / seconds,
        observer: (after.observer - before.observer) / seconds,
    })
}

/// Enables counting until dropped.
pub struct Counting {
    before: String,
}

impl Counting {
    pub fn on() -> Result<Self> {
        let before = fs::read_to_string(STATS)?;
        fs::write(STATS, "1")?;
        Ok(Self { before })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // Nothing can be done if the kernel refuses its own value.
        let _ = fs::write(STATS, self.before.trim());
    }
}

/// Seconds spent since the start.
struct Spent {
    programs: Programs,
    observer: f64,
}

impl Spent {
    fn read(observer: &mut Running) -> Result<Self> {
        let time = observer.processor_time()?.as_secs_f64();
        Ok(Self { programs: Programs::read(observer.pid())?, observer: time })
    }
}

/// Time that the BPF programs of a process took while counting was on.
pub struct Programs {
    /// Run time in seconds.
    pub time: f64,
    pub calls: f64,
}

impl Programs {
    pub fn read(process: u32) -> Result<Self> {
        // Several descriptors may refer to one program.
        let mut programs = BTreeMap::new();
        for descriptor in fs::read_dir(format!("/proc/{process}/fdinfo"))? {
            // Descriptors come and go while files are read.
            let text = fs::read_to_string(descriptor?.path()).unwrap_or_default();
            let field = |name: &str| {
                let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
                value.and_then(|value| value.parse::<u64>().ok())
            };
            if let (Some(id), Some(time), Some(calls)) = (field("prog_id"), field("run_time_ns"), field("run_cnt")) {
                programs.insert(id, (time as f64 / 1e9, calls as f64));
            }
        }
        let sum = |of: fn(&(f64, f64)) -> f64| programs.values().map(of).sum();
        Ok(Self { time: sum(|(time, _)| *time), calls: sum(|(_, calls)| *calls) })
    }
}
