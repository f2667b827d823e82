//! CPU usage of a thread, and pinning to CPUs.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;
use std::fs;
use std::time::Instant;

/// Usage of a thread between two snapshots. Times are in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadUsage {
    pub(crate) wall: f64,
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// Voluntary and involuntary context switches.
    pub(super) switches: u64,
    /// Share of the time on a CPU.
    pub(super) busy: Option<f64>,
    /// Share of the time runnable but waiting for a CPU.
    pub(crate) waited: Option<f64>,
}

/// Usage of the calling thread so far.
pub(crate) struct UsageSnapshot {
    at: Instant,
    user: f64,
    system: f64,
    switches: u64,
    schedstat: Option<(u64, u64)>,
}

impl UsageSnapshot {
    pub(crate) fn take() -> Self {
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        // Fails only for an invalid `who`.
        let used = getrusage(UsageWho::RUSAGE_THREAD).ok();
        let switches = |used: Usage| used.voluntary_context_switches() + used.involuntary_context_switches();
        Self {
            at: Instant::now(),
            user: used.map_or(0.0, |used| seconds(used.user_time())),
            system: used.map_or(0.0, |used| seconds(used.system_time())),
            switches: used.map_or(0, |used| u64::try_from(switches(used)).unwrap_or(0)),
            schedstat: schedstat(),
        }
    }

    pub(crate) fn since(&self) -> ThreadUsage {
        let now = Self::take();
        let wall = now.at.duration_since(self.at).as_secs_f64().max(1e-9);
        let share = |of: fn(&(u64, u64)) -> u64| {
            let (then, now) = (self.schedstat.as_ref()?, now.schedstat.as_ref()?);
            Some(of(now).saturating_sub(of(then)) as f64 / 1e9 / wall)
        };
        ThreadUsage {
            wall,
            user: now.user - self.user,
            system: now.system - self.system,
            switches: now.switches - self.switches,
            busy: share(|(ran, _)| *ran),
            waited: share(|(_, waited)| *waited),
        }
    }
}

/// Returns the nanoseconds that the calling thread ran and waited to run (Documentation/scheduler/sched-stats.rst).
fn schedstat() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut words = text.split_ascii_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// Pins the calling thread to these CPUs; an empty list changes nothing.
pub(crate) fn pin_to(cpus: &[u32]) -> nix::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|&cpu| set.set(cpu as usize))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}
