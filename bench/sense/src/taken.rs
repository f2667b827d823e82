//! The processor time that observing takes while a load runs, as the kernel counts it: what a comparison of rates, which
//! drowns in noise, cannot tell. A load cannot lose more but for what caches forget.

use crate::loads::Load;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use whyslow_pairs::child::Running;
use whyslow_pairs::failure::Result;
use whyslow_pairs::stop;

/// Has the kernel count the time of BPF programs (Documentation/admin-guide/sysctl/kernel.rst).
const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";
/// Time that whyslow gets to start: to load BPF programs is no part of observing.
pub const START: Duration = Duration::from_secs(2);

/// Processors' worth of time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Taken {
    /// Of the BPF programs, counting them included: it takes them some 20 ns a call.
    pub programs: f64,
    /// How often they were called in a second.
    pub calls: f64,
    /// Of whyslow itself.
    pub observer: f64,
}

/// What whyslow, started by `observe`, takes while a load runs.
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

/// Has the kernel count until dropped.
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
        // Nothing more can be done where the kernel refuses what it has just taken.
        let _ = fs::write(STATS, self.before.trim());
    }
}

/// What was spent since the start, seconds.
#[derive(Default)]
struct Spent {
    programs: f64,
    calls: f64,
    observer: f64,
}

impl Spent {
    fn of(observer: &mut Running) -> Result<Self> {
        let mut spent = Self { observer: observer.processor_time()?.as_secs_f64(), ..Self::default() };
        // A program can be held by several descriptors.
        let mut programs = BTreeMap::new();
        for descriptor in fs::read_dir(format!("/proc/{}/fdinfo", observer.pid()))? {
            // Descriptors come and go with the files that are read.
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
