//! The frequency of the CPUs against what they could run at.

use crate::signal::over;
use whyslow_model::catalogue::{Frequency, Thermal};
use whyslow_model::window::Window;

/// Sums over the CPUs, each weighted by the time it was busy.
pub struct Clock {
    cpus: f64,
    busy_share: f64,
    /// Cycles a second that they made while busy, and that they would have made at the base frequency.
    cycles: f64,
    base_cycles: f64,
}

impl Clock {
    /// Of the newest report; `None` if no CPU's is known.
    pub fn of(window: &Window) -> Option<Self> {
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

    /// How busy the CPUs were.
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

/// Of the CPU that its policy limits most, the limit and what the hardware can do.
pub fn policy(window: &Window) -> Option<(f64, f64)> {
    let rows = window.newest::<Frequency>();
    let limits = rows.values().filter_map(|row| row.limit.get().zip(row.hardware_max.get()));
    limits.filter(|(_, most)| *most > 0.0).min_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))
}

/// How often heat throttled the CPU that it throttled most, since boot; `None` over a period, in which only what was added counts.
pub fn heat_throttles(window: &Window) -> Option<f64> {
    if window.snapshots().len() > 1 {
        return None;
    }
    let rows = window.newest::<Frequency>();
    let counts = rows.values().flat_map(|row| [row.core_throttles.get(), row.package_throttles.get()]);
    counts.flatten().max().map(|count| count as f64)
}

/// The hottest thermal zone, in degrees Celsius.
pub fn hottest(window: &Window) -> Option<f64> {
    window.newest::<Thermal>().values().filter_map(|zone| zone.temperature.get()).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::snapshot::Snapshot;

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
        let clock = Clock::of(&window).unwrap();
        assert_eq!((clock.busy(), clock.hertz(), clock.of_base()), (0.5, Some(1.3e9), Some(0.5)));
        assert_eq!(policy(&window), Some((1e9, 3e9)));
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
}
