//! The files of a cgroup in hierarchies of version 1 (Documentation/admin-guide/cgroup-v1/, scheduler/sched-bwc.rst).

use super::files::{self, CgroupDir, KeyMetric, US};
use super::rows::{DeviceNames, GroupRows};
use whyslow_model::catalogue::{Family, Group};

/// Nanoseconds per clock tick of user space: USER_HZ is 100 everywhere except on Alpha.
const TICK: u64 = 10_000_000;

/// Limits at or above this mean no limit: the kernel's largest is 2^63 minus a page.
const UNLIMITED: u64 = 1 << 62;

const CPU_STAT: &[KeyMetric] =
    &[("nr_periods", "periods", 1), ("nr_throttled", "throttled_periods", 1), ("throttled_time", "throttled_time", 1)];

const CPUACCT_STAT: &[KeyMetric] = &[("user", "cpu_user", TICK), ("system", "cpu_system", TICK)];

/// Keys whose values include descendants, as those of version 2 do.
const MEMORY_STAT: &[KeyMetric] = &[
    ("total_rss", "anon", 1),
    ("total_cache", "file", 1),
    ("total_dirty", "dirty", 1),
    ("total_shmem", "shmem", 1),
    ("total_swap", "swap", 1),
    ("total_pgfault", "faults", 1),
    ("total_pgmajfault", "major_faults", 1),
    ("total_workingset_refault", "refault_file", 1),
    ("total_workingset_refault_file", "refault_file", 1),
    ("total_workingset_refault_anon", "refault_anon", 1),
    ("total_pgpgin", "pages_in", 1),
    ("total_pgpgout", "pages_out", 1),
    ("total_pswpin", "swap_in", 1),
    ("total_pswpout", "swap_out", 1),
];

const OOM_CONTROL: &[KeyMetric] = &[("oom_kill", "oom_kills", 1)];

const PIDS_EVENTS: &[KeyMetric] = &[("max", "pids_events", 1)];

/// Each entry has the file, its older form without descendants, and its fields.
const IO_USAGE: &[(&str, &str, &[KeyMetric])] = &[
    (
        "blkio.throttle.io_service_bytes_recursive",
        "blkio.throttle.io_service_bytes",
        &[("Read", "read_bytes", 1), ("Write", "write_bytes", 1)],
    ),
    (
        "blkio.throttle.io_serviced_recursive",
        "blkio.throttle.io_serviced",
        &[("Read", "reads", 1), ("Write", "writes", 1)],
    ),
];

const IO_LIMITS: &[(&str, &str)] = &[
    ("blkio.throttle.read_bps_device", "read_bytes_limit"),
    ("blkio.throttle.write_bps_device", "write_bytes_limit"),
    ("blkio.throttle.read_iops_device", "reads_limit"),
    ("blkio.throttle.write_iops_device", "writes_limit"),
];

/// Reads the CPU time used in the cgroup, if one of these controllers counts it.
pub(super) fn cpu_usage(controllers: &[&str], dir: &mut CgroupDir<'_>) -> Option<u64> {
    if controllers.contains(&"cpuacct") { dir.number("cpuacct.usage") } else { None }
}

/// Adds values that change as tasks run, for a cgroup that exists only in the memory hierarchy.
pub(super) fn memory_activity(dir: &mut CgroupDir<'_>, activity: &mut Vec<u64>) {
    activity.extend(["memory.usage_in_bytes", "memory.failcnt"].into_iter().filter_map(|file| dir.number(file)));
}

/// Whether this is the root of its hierarchy (CFTYPE_ONLY_ON_ROOT).
pub(super) fn is_root(dir: &mut CgroupDir<'_>) -> bool {
    dir.text("release_agent").is_some()
}

pub(super) fn limits(
    controllers: &[&str],
    dir: &mut CgroupDir<'_>,
    rows: &mut GroupRows,
    devices: &mut DeviceNames<'_>,
) {
    let group = &mut rows.group;
    for controller in controllers {
        match *controller {
            "cpu" => cpu_limits(group, dir),
            "memory" => memory_limits(group, dir),
            "pids" => group.pids_max = dir.gauge("pids.max", 1),
            _ => {}
        }
    }
    if controllers.contains(&"blkio") {
        for (file, metric) in IO_LIMITS {
            let Some(text) = dir.text(file) else { continue };
            for (number, limit) in files::flat_keyed(&text) {
                rows.io(devices.get(number)).set(metric, limit);
            }
        }
    }
}

pub(super) fn usage(
    controllers: &[&str],
    dir: &mut CgroupDir<'_>,
    rows: &mut GroupRows,
    devices: &mut DeviceNames<'_>,
) {
    for controller in controllers {
        match *controller {
            "cpu" => dir.fill(&mut rows.group, "cpu.stat", CPU_STAT),
            "cpuacct" => cpuacct(&mut rows.group, dir),
            "memory" => memory(&mut rows.group, dir),
            "pids" => pids(&mut rows.group, dir),
            "blkio" => blkio(dir, rows, devices),
            _ => {}
        }
    }
}

fn cpu_limits(group: &mut Group, dir: &mut CgroupDir<'_>) {
    group.quota = dir.gauge("cpu.cfs_quota_us", US);
    group.period = dir.gauge("cpu.cfs_period_us", US);
    group.weight = dir.gauge("cpu.shares", 1);
}

fn memory_limits(group: &mut Group, dir: &mut CgroupDir<'_>) {
    // A captured tree may lack the limit itself; memory.stat has the lowest of it and those above.
    let of_statistics = |dir: &mut CgroupDir<'_>| {
        let text = dir.text("memory.stat")?;
        files::flat_keyed(&text).find(|(key, _)| *key == "hierarchical_memory_limit").map(|(_, limit)| limit)
    };
    let limit = dir.number("memory.limit_in_bytes").or_else(|| of_statistics(dir)).filter(|&n| n < UNLIMITED);
    let with_swap = dir.number("memory.memsw.limit_in_bytes").filter(|&n| n < UNLIMITED);
    group.memory_max = limit.into();
    // Version 1 limits memory plus swap; a cgroup at its memory limit can swap the difference.
    group.swap_max = limit.zip(with_swap).and_then(|(memory, both)| both.checked_sub(memory)).into();
}

fn cpuacct(group: &mut Group, dir: &mut CgroupDir<'_>) {
    if let Some(ns) = dir.number("cpuacct.usage") {
        group.cpu_usage = ns.into();
    }
    dir.fill(group, "cpuacct.stat", CPUACCT_STAT);
}

fn memory(group: &mut Group, dir: &mut CgroupDir<'_>) {
    group.memory = dir.gauge("memory.usage_in_bytes", 1);
    if let Some(failures) = dir.number("memory.failcnt") {
        group.limit_events = failures.into();
    }
    dir.fill(group, "memory.stat", MEMORY_STAT);
    dir.fill(group, "memory.oom_control", OOM_CONTROL);
}

fn pids(group: &mut Group, dir: &mut CgroupDir<'_>) {
    group.pids = dir.gauge("pids.current", 1);
    dir.fill(group, "pids.events", PIDS_EVENTS);
}

fn blkio(dir: &mut CgroupDir<'_>, rows: &mut GroupRows, devices: &mut DeviceNames<'_>) {
    for (file, older, fields) in IO_USAGE {
        let Some(text) = dir.text(file).or_else(|| dir.text(older)) else { continue };
        for (number, figure) in files::by_device(&text) {
            files::fill(rows.io(devices.get(number)), files::flat_keyed(figure), fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::GroupIo;

    #[test]
    fn every_field_names_a_metric() {
        for (_, metric, _) in [CPU_STAT, CPUACCT_STAT, MEMORY_STAT, OOM_CONTROL, PIDS_EVENTS].into_iter().flatten() {
            assert!(Group::default().set(metric, 1), "{metric}");
        }
        let usage = IO_USAGE.iter().flat_map(|(_, _, fields)| *fields).map(|(_, metric, _)| metric);
        for metric in usage.chain(IO_LIMITS.iter().map(|(_, metric)| metric)) {
            assert!(GroupIo::default().set(metric, 1), "{metric}");
        }
    }
}
