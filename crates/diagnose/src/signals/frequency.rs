//! Frequency of the CPUs, compared with what they could reach.

use crate::signal::over;
use whyslow_model::catalogue::{Family, Frequency, MachineInfo, Observer, Thermal};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Sums over the CPUs, each weighted by its busy time.
pub struct Clock {
    cpus: f64,
    busy_share: f64,
    /// Cycles per second while busy, and what they would be at the base frequency.
    cycles: f64,
    base_cycles: f64,
}

impl Clock {
    /// Sums up the newest report; `None` if no CPU's frequency is known.
    pub fn from_window(window: &Window) -> Option<Self> {
        let mut clock = Self { cpus: 0.0, busy_share: 0.0, cycles: 0.0, base_cycles: 0.0 };
        for row in window.newest::<Frequency>().values() {
            let known = row.busy_share.get().zip(row.busy.get()).zip(row.base.get());
            let Some(((share, busy), base)) = known else { continue };
            clock.cpus += 1.0;
            clock.busy_share += share;
            clock.cycles += share * busy;
            clock.base_cycles += share * base;
        }
        (clock.cpus > 0.0).then_some(clock)
    }

    /// Returns the mean busy share of the CPUs.
    pub fn busy(&self) -> f64 {
        self.busy_share / self.cpus
    }

    pub fn hertz(&self) -> Option<f64> {
        over(Some(self.cycles), Some(self.busy_share))
    }

    pub fn of_base(&self) -> Option<f64> {
        over(Some(self.cycles), Some(self.base_cycles))
    }
}

/// Returns the limit and the hardware maximum of the CPU that its policy limits most.
pub fn policy(window: &Window) -> Option<(f64, f64)> {
    most_limited(window.newest::<Frequency>().into_values())
}

fn most_limited<'w>(rows: impl Iterator<Item = &'w Frequency>) -> Option<(f64, f64)> {
    let limits = rows.filter_map(|row| row.limit.get().zip(row.hardware_max.get()));
    limits.filter(|(_, most)| *most > 0.0).min_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))
}

/// Returns the highest frequency that CPUs can be set to.
fn limit_of(rows: &[Frequency]) -> Option<f64> {
    most_limited(rows.iter()).map(|(limit, _)| limit).or_else(|| highest(rows))
}

/// Returns the highest such limit in another reading of a CPU of this model. Compares captures only, which were chosen to be
/// compared: on a live machine the policy follows the load and the battery.
pub fn limit_elsewhere(window: &Window) -> Option<f64> {
    if window.the::<Observer>().is_some() {
        return None;
    }
    let model = |machine: Option<&MachineInfo>| machine.and_then(|m| m.processor.get().map(str::to_owned));
    let newest = model(window.the::<MachineInfo>());
    let is_same = |s: &&Snapshot| model(s.the::<MachineInfo>()).is_none_or(|model| newest.as_ref() == Some(&model));
    let limits = window.snapshots().iter().filter(is_same).map(|s| limit_of(Frequency::rows(s)));
    let limits: Vec<f64> = limits.flatten().collect();
    limits.iter().copied().reduce(f64::max).filter(|_| limits.len() > 1)
}

/// Returns the highest frequency of the hardware, from the newest reading that shows one: not every tool does.
pub fn hardware_limit(window: &Window) -> Option<f64> {
    let newest = || window.snapshots().iter().rev().find_map(|s| highest(Frequency::rows(s)));
    policy(window).map(|(_, most)| most).or_else(newest)
}

fn highest(rows: &[Frequency]) -> Option<f64> {
    rows.iter().filter_map(|row| row.hardware_max.get()).reduce(f64::max)
}

/// Returns the frequency as a share of the hardware maximum, of the CPU nearest to it.
pub fn fastest_share(window: &Window) -> Option<f64> {
    let rows = window.newest::<Frequency>();
    rows.values().filter_map(|row| over(row.current.get(), row.hardware_max.get())).reduce(f64::max)
}

/// Returns the governor of the CPUs; the first, if they differ.
pub fn governor(window: &Window) -> Option<&str> {
    window.newest::<Frequency>().into_values().find_map(|row| row.governor.get())
}

/// Returns the frequency as a share of the hardware minimum, of the CPU furthest below it.
pub fn slowest_share(window: &Window) -> Option<f64> {
    let rows = window.newest::<Frequency>();
    rows.values().filter_map(|row| over(row.current.get(), row.hardware_min.get())).reduce(f64::min)
}

/// Returns how often heat throttled the most throttled CPU since boot; `None` over a period, where only the increase counts.
pub fn heat_throttles(window: &Window) -> Option<f64> {
    if window.snapshots().len() > 1 {
        return None;
    }
    let rows = window.newest::<Frequency>();
    let counts = rows.values().flat_map(|row| [row.core_throttles.get(), row.package_throttles.get()]);
    counts.flatten().max().map(|count| count as f64)
}

/// Returns how often heat throttled the most throttled CPU, per second.
pub fn heat_throttle_rate(window: &Window) -> Option<f64> {
    let changes = window.changes::<Frequency>();
    let rates = changes.iter().flat_map(|cpu| [cpu.rate(|f| f.core_throttles), cpu.rate(|f| f.package_throttles)]);
    rates.flatten().reduce(f64::max)
}

/// Returns the temperature of the hottest thermal zone, in degrees Celsius.
pub fn hottest(window: &Window) -> Option<f64> {
    window.newest::<Thermal>().values().filter_map(|zone| zone.temperature.get()).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cpus_do_not_count() {
        let row = |cpu: u32, share: f64, mhz: f64| Frequency {
            busy: (mhz * 1e6).into(),
            base: 2.6e9.into(),
            busy_share: share.into(),
            limit: (f64::from(cpu + 1) * 1e9).into(),
            hardware_max: 3e9.into(),
            ..Frequency::new(cpu)
        };
        let mut snapshot = Snapshot { boot_ns: 1, ..Snapshot::default() };
        snapshot.processor.frequency = vec![row(0, 1.0, 1300.0), row(1, 0.0, 2600.0)];
        let window = Window::new(vec![snapshot]);
        let clock = Clock::from_window(&window).unwrap();
        assert_eq!((clock.busy(), clock.hertz(), clock.of_base()), (0.5, Some(1.3e9), Some(0.5)));
        assert_eq!(policy(&window), Some((1e9, 3e9)));
    }

    #[test]
    fn the_slowest_cpu_counts_and_the_limit_of_the_hardware_needs_no_policy() {
        let row = |cpu: u32, mhz: f64| Frequency {
            current: (mhz * 1e6).into(),
            hardware_min: 8e8.into(),
            hardware_max: 3.5e9.into(),
            ..Frequency::new(cpu)
        };
        let mut snapshot = Snapshot { boot_ns: 1, ..Snapshot::default() };
        snapshot.processor.frequency = vec![row(0, 2000.0), row(1, 600.0)];
        let window = Window::new(vec![snapshot]);
        assert_eq!((slowest_share(&window), hardware_limit(&window)), (Some(0.75), Some(3.5e9)));
        assert_eq!((slowest_share(&Window::default()), hardware_limit(&Window::default())), (None, None));
    }

    #[test]
    fn counts_since_boot_are_of_one_reading() {
        let row = |cpu: u32, count: u64| Frequency { core_throttles: count.into(), ..Frequency::new(cpu) };
        let mut snapshot = Snapshot { boot_ns: 1, ..Snapshot::default() };
        snapshot.processor.frequency = vec![row(0, 7), row(1, 9)];
        assert_eq!(heat_throttles(&Window::new(vec![snapshot.clone()])), Some(9.0));
        let later = Snapshot { boot_ns: 2, ..snapshot.clone() };
        assert_eq!(heat_throttles(&Window::new(vec![snapshot, later])), None);
        assert_eq!(heat_throttles(&Window::new(vec![Snapshot::default()])), None);
    }

    #[test]
    fn throttling_that_goes_on_is_a_rate() {
        let window = crate::testing::window([0, 4], |t, s| {
            let row = |cpu: u32, count: u64| Frequency { core_throttles: count.into(), ..Frequency::new(cpu) };
            s.processor.frequency = vec![row(0, 7), row(1, 9 + 3 * t)];
        });
        assert_eq!((heat_throttle_rate(&window), heat_throttles(&window)), (Some(3.0), None));
    }
}
