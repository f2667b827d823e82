//! The files of a group in the hierarchies of version 1 (Documentation/admin-guide/cgroup-v1/, scheduler/sched-bwc.rst).

use super::files::Folder;
use super::parse::{self, Field, US};
use super::rows::{Book, Devices};
use whyslow_model::catalogue::{Family, Group};
use whyslow_model::value::Gauge;

/// Nanoseconds in a clock tick of user space: USER_HZ is 100 wherever Linux runs but on Alpha.
const TICK: u64 = 10_000_000;

/// Limits at or above this stand for no limit: the kernel's largest is 2^63 less a page.
const UNLIMITED: u64 = 1 << 62;

const CPU_STAT: &[Field] =
    &[("nr_periods", "periods", 1), ("nr_throttled", "throttled_periods", 1), ("throttled_time", "throttled_time", 1)];

const CPUACCT_STAT: &[Field] = &[("user", "cpu_user", TICK), ("system", "cpu_system", TICK)];

/// The figures that include the groups below, as those of version 2 do.
const MEMORY_STAT: &[Field] = &[
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

const OOM_CONTROL: &[Field] = &[("oom_kill", "oom_kills", 1)];

const PIDS_EVENTS: &[Field] = &[("max", "pids_events", 1)];

/// Use of devices: the file, its older form that leaves the groups below out, and what its lines fill.
const IO_USE: &[(&str, &str, &[Field])] = &[
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

/// Limits by device: the file, and the metric.
const IO_LIMITS: &[(&str, &str)] = &[
    ("blkio.throttle.read_bps_device", "read_bytes_limit"),
    ("blkio.throttle.write_bps_device", "write_bytes_limit"),
    ("blkio.throttle.read_iops_device", "reads_limit"),
    ("blkio.throttle.write_iops_device", "writes_limit"),
];

/// Processor time used in the group, where one of these controllers tells it.
pub(super) fn sign_of_life(controllers: &[&str], folder: &mut Folder<'_>) -> Option<u64> {
    if controllers.contains(&"cpuacct") { folder.number("cpuacct.usage") } else { None }
}

/// What moves when a task of a group runs that no hierarchy knows but that of memory.
pub(super) fn signs_of_memory(folder: &mut Folder<'_>, signs: &mut Vec<u64>) {
    signs.extend(["memory.usage_in_bytes", "memory.failcnt"].into_iter().filter_map(|file| folder.number(file)));
}

/// Whether the group is the top of its hierarchy, which stands for the whole machine (CFTYPE_ONLY_ON_ROOT).
pub(super) fn is_the_machine(folder: &mut Folder<'_>) -> bool {
    folder.text("release_agent").is_some()
}

/// Fills a group's rows with the limits that the controllers of one hierarchy have.
pub(super) fn limits(controllers: &[&str], folder: &mut Folder<'_>, book: &mut Book, devices: &mut Devices<'_>) {
    let group = &mut book.group;
    for controller in controllers {
        match *controller {
            "cpu" => cpu_limits(group, folder),
            "memory" => memory_limits(group, folder),
            "pids" => group.pids_max = folder.gauge("pids.max", 1),
            _ => {}
        }
    }
    if controllers.contains(&"blkio") {
        for (file, metric) in IO_LIMITS {
            let Some(text) = folder.text(file) else { continue };
            for (number, limit) in parse::keyed(&text) {
                book.io(devices.name(number)).set(metric, limit);
            }
        }
    }
}

/// Fills a group's rows with what it uses, as far as the controllers of one hierarchy know it.
pub(super) fn usage(controllers: &[&str], folder: &mut Folder<'_>, book: &mut Book, devices: &mut Devices<'_>) {
    for controller in controllers {
        match *controller {
            "cpu" => folder.fill(&mut book.group, "cpu.stat", CPU_STAT),
            "cpuacct" => cpuacct(&mut book.group, folder),
            "memory" => memory(&mut book.group, folder),
            "pids" => pids(&mut book.group, folder),
            "blkio" => blkio(folder, book, devices),
            _ => {}
        }
    }
}

fn cpu_limits(group: &mut Group, folder: &mut Folder<'_>) {
    group.quota = folder.gauge("cpu.cfs_quota_us", US);
    group.period = folder.gauge("cpu.cfs_period_us", US);
    group.weight = folder.gauge("cpu.shares", 1);
}

fn memory_limits(group: &mut Group, folder: &mut Folder<'_>) {
    let limit = folder.number("memory.limit_in_bytes").filter(|&n| n < UNLIMITED);
    let with_swap = folder.number("memory.memsw.limit_in_bytes").filter(|&n| n < UNLIMITED);
    group.memory_max = gauge(limit);
    // Version 1 limits memory and swap together; what a group at its memory limit can swap is the difference.
    group.swap_max = gauge(limit.zip(with_swap).and_then(|(memory, both)| both.checked_sub(memory)));
}

fn cpuacct(group: &mut Group, folder: &mut Folder<'_>) {
    if let Some(ns) = folder.number("cpuacct.usage") {
        group.cpu_usage = ns.into();
    }
    folder.fill(group, "cpuacct.stat", CPUACCT_STAT);
}

fn memory(group: &mut Group, folder: &mut Folder<'_>) {
    group.memory = folder.gauge("memory.usage_in_bytes", 1);
    if let Some(failures) = folder.number("memory.failcnt") {
        group.limit_events = failures.into();
    }
    folder.fill(group, "memory.stat", MEMORY_STAT);
    folder.fill(group, "memory.oom_control", OOM_CONTROL);
}

fn pids(group: &mut Group, folder: &mut Folder<'_>) {
    group.pids = folder.gauge("pids.current", 1);
    folder.fill(group, "pids.events", PIDS_EVENTS);
}

fn blkio(folder: &mut Folder<'_>, book: &mut Book, devices: &mut Devices<'_>) {
    for (file, older, fields) in IO_USE {
        let Some(text) = folder.text(file).or_else(|| folder.text(older)) else { continue };
        for (number, figure) in parse::by_device(&text) {
            parse::fill(book.io(devices.name(number)), parse::keyed(figure), fields);
        }
    }
}

fn gauge(value: Option<u64>) -> Gauge {
    value.map_or(Gauge::ABSENT, Gauge::from)
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
        let usage = IO_USE.iter().flat_map(|(_, _, fields)| *fields).map(|(_, metric, _)| metric);
        for metric in usage.chain(IO_LIMITS.iter().map(|(_, metric)| metric)) {
            assert!(GroupIo::default().set(metric, 1), "{metric}");
        }
    }
}
