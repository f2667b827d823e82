//! Clock frequency and its limits by processor: cpufreq and thermal_throttle under /sys/devices/system/cpu.
//! Documentation/admin-guide/pm/cpufreq.rst; Documentation/ABI/testing/sysfs-devices-system-cpu.

use crate::text::numbered;
use crate::ttl_cache::Seldom;
use crate::{Miss, Root, Source};
use std::time::{Duration, Instant};
use whyslow_model::catalogue::Frequency;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Gauge, State};

const PATH: &str = "sys/devices/system/cpu";

/// How long to go on asking for frequencies. Linux 4.13 to 5.17 sleep 10 ms to measure an idle x86 processor, which is
/// seconds on a large machine; the processors not asked are left absent.
const ASKING_FOR: Duration = Duration::from_millis(200);

/// Reads cpufreq and thermal_throttle of every processor.
#[derive(Default)]
pub(super) struct CpuFrequency {
    /// Processors that have something to read: on most guests there are none.
    processors: Seldom<Vec<u32>>,
}

impl Source for CpuFrequency {
    fn name(&self) -> &'static str {
        "sys/devices/system/cpu/cpufreq"
    }

    fn tells(&self) -> &'static str {
        "clock frequency, its limits, and throttling for heat"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let rows = &mut out.processor.frequency;
        let started = Instant::now();
        for &cpu in self.processors.get(|| readable(root)) {
            let mut row = limits(root, cpu);
            if row.limit.get().is_some() && started.elapsed() < ASKING_FOR {
                row.current = hertz(root, cpu, "scaling_cur_freq");
            }
            if tells(&row) {
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return Err(Miss::Absent("no cpufreq driver: firmware or hypervisor governs the clock unseen".into()));
        }
        Ok(())
    }
}

fn readable(root: &Root) -> Vec<u32> {
    let processors = root.list(PATH).into_iter().filter_map(|name| numbered(&name, "cpu"));
    processors.filter(|&cpu| tells(&limits(root, cpu))).collect()
}

/// Whether a row tells anything.
fn tells(row: &Frequency) -> bool {
    row.limit.get().is_some() || row.core_throttles.get().is_some()
}

/// All of a row but the frequency now.
fn limits(root: &Root, cpu: u32) -> Frequency {
    let throttles = |file: &str| {
        let count = root.kept_number(&format!("{PATH}/cpu{cpu}/thermal_throttle/{file}"));
        count.map(Counter::from).unwrap_or_default()
    };
    Frequency {
        limit: hertz(root, cpu, "scaling_max_freq"),
        hardware_max: hertz(root, cpu, "cpuinfo_max_freq"),
        governor: root.kept_word(&cpufreq(cpu, "scaling_governor")).map(State::from).unwrap_or_default(),
        core_throttles: throttles("core_throttle_count"),
        package_throttles: throttles("package_throttle_count"),
        ..Frequency::new(cpu)
    }
}

/// A frequency, which cpufreq says in kHz.
fn hertz(root: &Root, cpu: u32, file: &str) -> Gauge {
    root.kept_number(&cpufreq(cpu, file)).map(|khz| Gauge::from(khz as f64 * 1000.0)).unwrap_or_default()
}

fn cpufreq(cpu: u32, file: &str) -> String {
    format!("{PATH}/cpu{cpu}/cpufreq/{file}")
}
