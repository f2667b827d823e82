//! The files of a group in the unified hierarchy (Documentation/admin-guide/cgroup-v2.rst).

use super::files::Folder;
use super::parse::{self, Field, US};
use super::rows::{Book, Devices};
use whyslow_model::catalogue::Group;
use whyslow_model::value::Gauge;

const CPU_STAT: &[Field] = &[
    ("usage_usec", "cpu_usage", US),
    ("user_usec", "cpu_user", US),
    ("system_usec", "cpu_system", US),
    ("nr_periods", "periods", 1),
    ("nr_throttled", "throttled_periods", 1),
    ("throttled_usec", "throttled_time", US),
];

/// Before 5.9 refaults were counted for files alone, under the name without a suffix.
const MEMORY_STAT: &[Field] = &[
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
    ("pswpin", "swap_in", 1),
    ("pswpout", "swap_out", 1),
];

const MEMORY_EVENTS: &[Field] =
    &[("high", "high_events", 1), ("max", "limit_events", 1), ("oom", "oom_events", 1), ("oom_kill", "oom_kills", 1)];

const PIDS_EVENTS: &[Field] = &[("max", "pids_events", 1)];

/// Pressure files, and what their lines fill.
const PRESSURE: &[(&str, &[Field])] = &[
    ("cpu.pressure", &[("some", "psi_cpu_some", US), ("full", "psi_cpu_full", US)]),
    ("memory.pressure", &[("some", "psi_memory_some", US), ("full", "psi_memory_full", US)]),
    ("io.pressure", &[("some", "psi_io_some", US), ("full", "psi_io_full", US)]),
];

const IO_STAT: &[Field] =
    &[("rbytes", "read_bytes", 1), ("wbytes", "write_bytes", 1), ("rios", "reads", 1), ("wios", "writes", 1)];

const IO_MAX: &[Field] = &[
    ("rbps", "read_bytes_limit", 1),
    ("wbps", "write_bytes_limit", 1),
    ("riops", "reads_limit", 1),
    ("wiops", "writes_limit", 1),
];

/// Adds processor time used in the group, and time its tasks were held up.
pub(super) fn signs_of_life(folder: &mut Folder<'_>, signs: &mut Vec<u64>) {
    if let Some(text) = folder.text("cpu.stat") {
        signs.extend(parse::keyed(&text).next().map(|(_, usage)| usage));
    }
    for (file, _) in PRESSURE {
        if let Some(text) = folder.text(file) {
            signs.extend(parse::pressure(&text).map(|(_, total)| total));
        }
    }
}

/// Whether the group is the top of the hierarchy, which stands for the whole machine: every other one has a type.
pub(super) fn is_the_machine(folder: &mut Folder<'_>) -> bool {
    folder.text("cgroup.type").is_none()
}

/// Fills a group's rows with its limits; gives the controllers that are on.
pub(super) fn limits(folder: &mut Folder<'_>, book: &mut Book, devices: &mut Devices<'_>) -> Controllers {
    let on = Controllers::of(folder);
    let group = &mut book.group;
    if on.has("cpu") {
        cpu_limits(group, folder);
    }
    if on.has("memory") {
        group.memory_max = folder.gauge("memory.max", 1);
        group.memory_high = folder.gauge("memory.high", 1);
        group.swap_max = folder.gauge("memory.swap.max", 1);
    }
    if on.has("pids") {
        group.pids_max = folder.gauge("pids.max", 1);
    }
    if on.has("io") {
        io("io.max", IO_MAX, folder, book, devices);
    }
    on
}

/// Fills a group's rows with what it uses.
pub(super) fn usage(on: &Controllers, folder: &mut Folder<'_>, book: &mut Book, devices: &mut Devices<'_>) {
    let group = &mut book.group;
    folder.fill(group, "cpu.stat", CPU_STAT);
    for (file, fields) in PRESSURE {
        if let Some(text) = folder.text(file) {
            parse::fill(group, parse::pressure(&text), fields);
        }
    }
    if on.has("memory") {
        group.memory = folder.gauge("memory.current", 1);
        group.swap = folder.gauge("memory.swap.current", 1);
        folder.fill(group, "memory.stat", MEMORY_STAT);
        folder.fill(group, "memory.events", MEMORY_EVENTS);
    }
    if on.has("pids") {
        group.pids = folder.gauge("pids.current", 1);
        folder.fill(group, "pids.events", PIDS_EVENTS);
    }
    if on.has("io") {
        io("io.stat", IO_STAT, folder, book, devices);
    }
}

fn cpu_limits(group: &mut Group, folder: &mut Folder<'_>) {
    if let Some(text) = folder.text("cpu.max") {
        let (quota, period) = parse::cpu_max(&text);
        group.quota = scaled(quota);
        group.period = scaled(period);
    }
    group.weight = folder.gauge("cpu.weight", 1);
}

fn io(file: &str, fields: &[Field], folder: &mut Folder<'_>, book: &mut Book, devices: &mut Devices<'_>) {
    let Some(text) = folder.text(file) else { return };
    for (number, figures) in parse::by_device(&text) {
        parse::fill(book.io(devices.name(number)), parse::assigned(figures), fields);
    }
}

/// The controllers that are on for a group: the files of the others do not exist, and need not be tried.
#[derive(Default)]
pub(super) struct Controllers(String);

impl Controllers {
    fn of(folder: &mut Folder<'_>) -> Self {
        Self(folder.text("cgroup.controllers").unwrap_or_default())
    }

    fn has(&self, controller: &str) -> bool {
        self.0.split_ascii_whitespace().any(|c| c == controller)
    }
}

/// Microseconds as a level in nanoseconds.
fn scaled(us: Option<u64>) -> Gauge {
    us.map_or(Gauge::ABSENT, |n| n.saturating_mul(US).into())
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
