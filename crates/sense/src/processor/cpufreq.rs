//! Clock frequency and its limits by CPU: cpufreq and thermal_throttle under /sys/devices/system/cpu.
//! Documentation/admin-guide/pm/cpufreq.rst; Documentation/ABI/testing/sysfs-devices-system-cpu.

use crate::text::numbered;
use crate::ttl_cache::TtlCache;
use crate::{Root, Source, SourceError, SourceInfo};
use std::time::{Duration, Instant};
use whyslow_model::catalogue::Frequency;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;

const PATH: &str = "sys/devices/system/cpu";

/// Time limit for reading current frequencies. Linux 4.13 to 5.17 sleep 10 ms to measure an idle x86 CPU, which adds up to
/// seconds on a large machine; the CPUs beyond the limit are absent.
const BUDGET: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct CpuFrequency {
    /// CPUs that have something to read: none on most guests.
    cpus: TtlCache<Vec<u32>>,
}

impl Source for CpuFrequency {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("sys/devices/system/cpu/cpufreq", "clock frequency, its limits, and thermal throttling")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let rows = &mut out.processor.frequency;
        let started = Instant::now();
        for &cpu in self.cpus.get(|| readable(root)) {
            let mut row = limits(root, cpu);
            if row.limit.get().is_some() && started.elapsed() < BUDGET {
                row.current = hertz(root, cpu, "scaling_cur_freq");
            }
            if has_values(&row) {
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return Err(SourceError::Absent("no cpufreq driver: firmware or hypervisor sets the clock unseen".into()));
        }
        Ok(())
    }
}

fn readable(root: &Root) -> Vec<u32> {
    let cpus = root.list(PATH).into_iter().filter_map(|name| numbered(&name, "cpu"));
    cpus.filter(|&cpu| has_values(&limits(root, cpu))).collect()
}

fn has_values(row: &Frequency) -> bool {
    row.limit.get().is_some() || row.core_throttles.get().is_some()
}

/// A row without the current frequency.
fn limits(root: &Root, cpu: u32) -> Frequency {
    let throttles = |file: &str| root.polled_number(&format!("{PATH}/cpu{cpu}/thermal_throttle/{file}")).into();
    Frequency {
        limit: hertz(root, cpu, "scaling_max_freq"),
        hardware_max: hertz(root, cpu, "cpuinfo_max_freq"),
        governor: root.polled_word(&cpufreq(cpu, "scaling_governor")).into(),
        core_throttles: throttles("core_throttle_count"),
        package_throttles: throttles("package_throttle_count"),
        ..Frequency::new(cpu)
    }
}

/// cpufreq files hold kHz.
fn hertz(root: &Root, cpu: u32, file: &str) -> Gauge {
    root.polled_number(&cpufreq(cpu, file)).map(|khz| khz as f64 * 1000.0).into()
}

fn cpufreq(cpu: u32, file: &str) -> String {
    format!("{PATH}/cpu{cpu}/cpufreq/{file}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn frequencies_are_in_hertz_and_cpus_without_files_have_no_row() {
        let tree = CapturedTree::of(&[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "800000\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3600000\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n"),
            ("sys/devices/system/cpu/cpu1/online", "1\n"),
        ]);
        let (outcome, out) = tree.read(&mut CpuFrequency::default());
        let [row] = &out.processor.frequency[..] else { panic!("{:?}", out.processor.frequency) };
        assert_eq!((outcome, row.current.get(), row.limit.get()), (Ok(()), Some(8e8), Some(3.6e9)));
        assert_eq!((row.core_throttles.get(), row.hardware_max.get()), (Some(7), None));
    }
}
