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

/// Enables counting of BPF run time (Documentation/admin-guide/sysctl/kernel.rst).
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Time for whyslow to start: loading BPF programs is not part of observing.
pub const START: Duration = Duration::from_secs(2);

/// In CPUs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Taken {
    /// BPF programs, including the counting itself: about 20 ns per call.
    pub programs: f64,
    /// Calls of BPF programs per second.
    pub calls: f64,
    /// whyslow itself.
    pub observer: f64,
}

pub fn measure(load: &Load, time: Duration, observe: impl FnOnce() -> Result<Running>) -> Result<Taken> {
    let _counting = Counting::on()?;
    let mut observer = observe()?;
    stop::pause(START)?;
    let (started, before) = (Instant::now(), Spent::of(&mut observer)?);
    load.rate(time)?;
    let (seconds, after) = (started.elapsed().as_secs_f64(), Spent::of(&mut observer)?);
    Ok(Taken {
        programs: (after.programs - before.programs) / seconds,
        calls: (after.calls - before.calls) / seconds,
        observer: (after.observer - before.observer) / seconds,
    })
}

/// Enables counting until dropped.
struct Counting {
    before: String,
}

impl Counting {
    fn on() -> Result<Self> {
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

/// Seconds since the start.
#[derive(Default)]
struct Spent {
    programs: f64,
    calls: f64,
    observer: f64,
}

impl Spent {
    fn of(observer: &mut Running) -> Result<Self> {
        let mut spent = Self { observer: observer.processor_time()?.as_secs_f64(), ..Self::default() };
        // Several descriptors may refer to one program.
        let mut programs = BTreeMap::new();
        for descriptor in fs::read_dir(format!("/proc/{}/fdinfo", observer.pid()))? {
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
        for (time, calls) in programs.values() {
            spent.programs += time;
            spent.calls += calls;
        }
        Ok(spent)
    }
}
