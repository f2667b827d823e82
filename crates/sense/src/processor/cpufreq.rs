//! Clock frequency and its limits by CPU: cpufreq and thermal_throttle under /sys/devices/system/cpu
//! (Documentation/admin-guide/pm/cpufreq.rst; Documentation/ABI/testing/sysfs-devices-system-cpu). Also the temperatures that
//! cause throttling: /sys/class/thermal (Documentation/driver-api/thermal/sysfs-api.rst).

use crate::text::numbered;
use crate::{Root, SourceError, SourceInfo};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{Frequency, Thermal};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;

const PATH: &str = "sys/devices/system/cpu";
const ZONES: &str = "sys/class/thermal";

/// Time limit for reading current frequencies. Linux 4.13 to 5.17 sleep 10 ms to measure an idle x86 CPU, which adds up to
/// seconds on a large machine; the CPUs beyond the limit are absent.
const BUDGET: Duration = Duration::from_millis(200);

pub(super) const FREQUENCY: SourceInfo =
    SourceInfo::new("sys/devices/system/cpu/cpufreq", "clock frequency, its limits, and thermal throttling");
pub(super) const THERMAL: SourceInfo = SourceInfo::new(ZONES, "temperatures");

pub(super) fn read_frequencies(cpus: &[u32], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let rows = &mut out.processor.frequency;
    let started = Instant::now();
    for &cpu in cpus {
        let mut row = limits(root, cpu);
        if row.limit.get().is_some() && started.elapsed() < BUDGET {
            row.current = hertz(root, cpu, "scaling_cur_freq");
        }
        if has_values(&row) {
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Err(SourceError::Absent(
            "no cpufreq driver: firmware or hypervisor sets the clock without reporting it".into(),
        ));
    }
    Ok(())
}

/// Lists the CPUs that have files to read: none on most guests.
pub(super) fn cpus(root: &Root) -> Vec<u32> {
    let mut cpus: BTreeSet<u32> = root.list(PATH).iter().filter_map(|name| numbered(name, "cpu")).collect();
    if !root.is_live() {
        cpus.extend(root.list(&format!("{PATH}/cpufreq")).iter().filter_map(|name| numbered(name, "policy")));
    }
    cpus.into_iter().filter(|&cpu| has_values(&limits(root, cpu))).collect()
}

fn has_values(row: &Frequency) -> bool {
    row.limit.get().is_some() || row.core_throttles.get().is_some()
}

/// Builds a row without the current frequency.
fn limits(root: &Root, cpu: u32) -> Frequency {
    let throttles = |file: &str| root.polled_number(&format!("{PATH}/cpu{cpu}/thermal_throttle/{file}")).into();
    Frequency {
        limit: limit(root, cpu),
        hardware_max: hertz(root, cpu, "cpuinfo_max_freq"),
        hardware_min: hertz(root, cpu, "cpuinfo_min_freq"),
        governor: root.polled_word(&cpufreq(root, cpu, "scaling_governor")).into(),
        core_throttles: throttles("core_throttle_count"),
        package_throttles: throttles("package_throttle_count"),
        ..Frequency::new(cpu)
    }
}

/// Reads the frequency limit. The governor's limit follows that of the firmware; in a captured tree either may be missing or
/// older.
fn limit(root: &Root, cpu: u32) -> Gauge {
    let limit = hertz(root, cpu, "scaling_max_freq");
    if root.is_live() {
        return limit;
    }
    let of_firmware = hertz(root, cpu, "bios_limit");
    [limit, of_firmware].iter().filter_map(|limit| limit.get()).reduce(f64::min).into()
}

/// Reads a cpufreq file, which is in kHz.
fn hertz(root: &Root, cpu: u32, file: &str) -> Gauge {
    root.polled_number(&cpufreq(root, cpu, file)).map(|khz| khz as f64 * 1000.0).into()
}

/// Returns the path of a cpufreq file. The kernel links each CPU's folder to that of its policy; a captured tree may lack the
/// links.
fn cpufreq(root: &Root, cpu: u32, file: &str) -> String {
    let own = format!("{PATH}/cpu{cpu}/cpufreq");
    if root.is_live() || root.at(&own).exists() {
        format!("{own}/{file}")
    } else {
        format!("{PATH}/cpufreq/policy{cpu}/{file}")
    }
}

pub(super) fn zones(root: &Root) -> Vec<String> {
    root.list(ZONES).into_iter().filter(|name| name.starts_with("thermal_zone")).collect()
}

pub(super) fn read_zones(zones: &[String], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    out.processor.thermal.extend(zones.iter().map(|zone| temperature(root, zone)));
    if zones.is_empty() { Err(SourceError::Absent("no thermal zones".into())) } else { Ok(()) }
}

/// Reads a zone. The file is in thousandths of a degree, and unreadable while the sensor sleeps.
fn temperature(root: &Root, zone: &str) -> Thermal {
    let millidegrees = root.polled_word(&format!("{ZONES}/{zone}/temp")).and_then(|t| t.parse::<i32>().ok());
    Thermal {
        temperature: millidegrees.map(|t| f64::from(t) / 1000.0).into(),
        kind: root.polled_word(&format!("{ZONES}/{zone}/type")).into(),
        zone: zone.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::listed;
    use crate::testing::CapturedTree;

    #[test]
    fn frequencies_are_in_hertz_and_cpus_without_files_have_no_row() {
        let tree = CapturedTree::with_files(&[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "800000\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "3600000\n"),
            ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "7\n"),
            ("sys/devices/system/cpu/cpu1/online", "1\n"),
        ]);
        let (outcome, out) = tree.read(&mut *listed(FREQUENCY, cpus, read_frequencies));
        let [row] = &out.processor.frequency[..] else { panic!("{:?}", out.processor.frequency) };
        assert_eq!((outcome, row.current.get(), row.limit.get()), (Ok(()), Some(8e8), Some(3.6e9)));
        assert_eq!((row.core_throttles.get(), row.hardware_max.get()), (Some(7), None));
    }

    #[test]
    fn a_copy_of_policies_stands_for_the_first_cpu_of_each() {
        let tree = CapturedTree::with_files(&[
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "3600000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/bios_limit", "1200000\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "3600000\n"),
            ("sys/devices/system/cpu/cpufreq/policy8/bios_limit", "2000000\n"),
        ]);
        let (_, out) = tree.read(&mut *listed(FREQUENCY, cpus, read_frequencies));
        let of = |row: &Frequency| (row.cpu, row.limit.get(), row.hardware_max.get());
        let seen: Vec<_> = out.processor.frequency.iter().map(of).collect();
        assert_eq!(seen, [(0, Some(1.2e9), Some(3.6e9)), (8, Some(2e9), None)]);
    }

    #[test]
    fn a_sleeping_sensor_has_no_temperature() {
        let tree = CapturedTree::with_files(&[
            ("sys/class/thermal/thermal_zone0/temp", "-5500\n"),
            ("sys/class/thermal/thermal_zone0/type", "acpitz\n"),
            ("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n"),
            ("sys/class/thermal/cooling_device0/type", "Fan\n"),
        ]);
        let (outcome, out) = tree.read(&mut *listed(THERMAL, zones, read_zones));
        let seen: Vec<_> = out.processor.thermal.iter().map(|t| (t.temperature.get(), t.kind.get())).collect();
        assert_eq!((outcome, seen), (Ok(()), vec![(Some(-5.5), Some("acpitz")), (None, Some("x86_pkg_temp"))]));
    }
}
