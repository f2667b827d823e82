//! The files of a cgroup in the unified hierarchy (Documentation/admin-guide/cgroup-v2.rst).

use super::files::{self, CgroupDir, KeyMetric, US};
use super::rows::{DeviceNames, GroupRows};
use whyslow_model::catalogue::Group;

const CPU_STAT: &[KeyMetric] = &[
    ("usage_usec", "cpu_usage", US),
    ("user_usec", "cpu_user", US),
    ("system_usec", "cpu_system", US),
    ("nr_periods", "periods", 1),
    ("nr_throttled", "throttled_periods", 1),
    ("throttled_usec", "throttled_time", US),
];

/// Before Linux 5.9 `workingset_refault` counted only file pages.
const MEMORY_STAT: &[KeyMetric] = &[
    ("anon", "anon", 1),
    ("file", "file", 1),
    ("file_dirty", "dirty", 1),
    ("shmem", "shmem", 1),
    ("slab", "slab", 1),
    ("pgfault", "faults", 1),
    ("pgmajfault", "major_faults", 1),
    ("workingset_refault", "refault_file", 1),
    ("workingset_refault_file", "refault_file", 1),
    ("workingset_refault_anon", "refault_anon", 1),
    ("pgscan", "scanned", 1),
    ("pgsteal", "reclaimed", 1),
    ("pswpin", "swap_in", 1),
    ("pswpout", "swap_out", 1),
];

const MEMORY_EVENTS: &[KeyMetric] =
    &[("high", "high_events", 1), ("max", "limit_events", 1), ("oom", "oom_events", 1), ("oom_kill", "oom_kills", 1)];

const PIDS_EVENTS: &[KeyMetric] = &[("max", "pids_events", 1)];

const PRESSURE: &[(&str, &[KeyMetric])] = &[
    ("cpu.pressure", &[("some", "psi_cpu_some", US), ("full", "psi_cpu_full", US)]),
    ("memory.pressure", &[("some", "psi_memory_some", US), ("full", "psi_memory_full", US)]),
    ("io.pressure", &[("some", "psi_io_some", US), ("full", "psi_io_full", US)]),
];

const IO_STAT: &[KeyMetric] =
    &[("rbytes", "read_bytes", 1), ("wbytes", "write_bytes", 1), ("rios", "reads", 1), ("wios", "writes", 1)];

const IO_MAX: &[KeyMetric] = &[
    ("rbps", "read_bytes_limit", 1),
    ("wbps", "write_bytes_limit", 1),
    ("riops", "reads_limit", 1),
    ("wiops", "writes_limit", 1),
];

/// Adds the CPU time used in the cgroup and the stall time of its tasks.
pub(super) fn activity(dir: &mut CgroupDir<'_>, activity: &mut Vec<u64>) {
    if let Some(text) = dir.text("cpu.stat") {
        activity.extend(files::flat_keyed(&text).next().map(|(_, usage)| usage));
    }
    for (file, _) in PRESSURE {
        if let Some(text) = dir.text(file) {
            activity.extend(files::pressure(&text).map(|(_, total)| total));
        }
    }
}

/// Whether this is the root of the hierarchy: every other cgroup has a type.
pub(super) fn is_root(dir: &mut CgroupDir<'_>) -> bool {
    dir.text("cgroup.type").is_none()
}

/// Reads the limits. Returns the enabled controllers.
pub(super) fn limits(dir: &mut CgroupDir<'_>, rows: &mut GroupRows, devices: &mut DeviceNames<'_>) -> Controllers {
    let on = Controllers::read(dir);
    let group = &mut rows.group;
    if on.has("cpu") {
        cpu_limits(group, dir);
    }
    if on.has("memory") {
        group.memory_max = dir.gauge("memory.max", 1);
        group.memory_high = dir.gauge("memory.high", 1);
        group.swap_max = dir.gauge("memory.swap.max", 1);
    }
    if on.has("pids") {
        group.pids_max = dir.gauge("pids.max", 1);
    }
    if on.has("io") {
        io("io.max", IO_MAX, dir, rows, devices);
    }
    on
}

pub(super) fn usage(on: &Controllers, dir: &mut CgroupDir<'_>, rows: &mut GroupRows, devices: &mut DeviceNames<'_>) {
    let group = &mut rows.group;
    dir.fill(group, "cpu.stat", CPU_STAT);
    for (file, fields) in PRESSURE {
        if let Some(text) = dir.text(file) {
            files::fill(group, files::pressure(&text), fields);
            // A file that was captured once shows the current level only through the kernel's own averages.
            if dir.is_captured() {
                average(group, file, &text);
            }
        }
    }
    if on.has("memory") {
        group.memory = dir.gauge("memory.current", 1);
        group.swap = dir.gauge("memory.swap.current", 1);
        dir.fill(group, "memory.stat", MEMORY_STAT);
        dir.fill(group, "memory.events", MEMORY_EVENTS);
    }
    if on.has("pids") {
        group.pids = dir.gauge("pids.current", 1);
        dir.fill(group, "pids.events", PIDS_EVENTS);
    }
    if on.has("io") {
        io("io.stat", IO_STAT, dir, rows, devices);
    }
}

fn average(group: &mut Group, file: &str, text: &str) {
    let minute = files::pressure_average(text).into();
    match file {
        "cpu.pressure" => group.psi_cpu_avg60 = minute,
        "memory.pressure" => group.psi_memory_avg60 = minute,
        _ => group.psi_io_avg60 = minute,
    }
}

fn cpu_limits(group: &mut Group, dir: &mut CgroupDir<'_>) {
    if let Some(text) = dir.text("cpu.max") {
        let (quota, period) = files::cpu_max(&text);
        group.quota = quota.map(|us: u64| us.saturating_mul(US)).into();
        group.period = period.map(|us: u64| us.saturating_mul(US)).into();
    }
    group.weight = dir.gauge("cpu.weight", 1);
}

fn io(file: &str, fields: &[KeyMetric], dir: &mut CgroupDir<'_>, rows: &mut GroupRows, devices: &mut DeviceNames<'_>) {
    let Some(text) = dir.text(file) else { return };
    for (number, figures) in files::by_device(&text) {
        files::fill(rows.io(devices.get(number)), files::nested_keyed(figures), fields);
    }
}

/// The enabled controllers of a cgroup: the files of the others do not exist.
#[derive(Default)]
pub(super) struct Controllers(String);

impl Controllers {
    fn read(dir: &mut CgroupDir<'_>) -> Self {
        // A captured tree may lack it; then the existing files show which controllers are enabled.
        Self(dir.text("cgroup.controllers").unwrap_or_else(|| "cpu io memory pids".to_owned()))
    }

    fn has(&self, controller: &str) -> bool {
        self.0.split_ascii_whitespace().any(|c| c == controller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::{Family, GroupIo};

    #[test]
    fn every_field_names_a_metric() {
        let pressure = PRESSURE.iter().flat_map(|(_, fields)| *fields);
        let fields = [CPU_STAT, MEMORY_STAT, MEMORY_EVENTS, PIDS_EVENTS].into_iter().flatten().chain(pressure);
        for (_, metric, _) in fields {
            assert!(Group::default().set(metric, 1), "{metric}");
        }
        for (_, metric, _) in IO_STAT.iter().chain(IO_MAX) {
            assert!(GroupIo::default().set(metric, 1), "{metric}");
        }
    }
}
