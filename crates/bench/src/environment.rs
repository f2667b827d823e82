//! The machine a benchmark ran on, and other load on it during the benchmark.

use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Instant;
use whyslow_documents::bench::{Environment, OtherProcess, TargetInfo};
use whyslow_documents::diagnosis::Host;
use whyslow_model::catalogue::{Cpu, MachineInfo, Meminfo, Process};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, State};
use whyslow_model::window::{Change, Window};
use whyslow_quantities::cpu;
use whyslow_sense::{Root, Sampler};

const SETTINGS: [&str; 8] = [
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/dirty_bytes",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/vm/dirty_background_bytes",
    "proc/sys/vm/swappiness",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/kernel/mm/transparent_hugepage/enabled",
];
const QUEUE_SETTINGS: [&str; 8] = [
    "scheduler",
    "nr_requests",
    "max_sectors_kb",
    "read_ahead_kb",
    "write_cache",
    "rotational",
    "wbt_lat_usec",
    "nomerges",
];
/// Minimum I/O of another process to be listed.
const MIN_OTHER_IO: u64 = 1 << 20;
const MAX_OTHERS: usize = 5;

/// Samples the machine at the beginning and the end of a benchmark.
pub(crate) struct EnvironmentMonitor {
    root: Root,
    sampler: Sampler,
    before: Snapshot,
    began: Instant,
}

impl EnvironmentMonitor {
    pub(crate) fn begin(root: Root) -> Self {
        let mut sampler = Sampler::new(root.clone().without_bpf());
        let before = sampler.sample();
        Self { root, sampler, before, began: Instant::now() }
    }

    /// Returns the start time in RFC 3339 and in milliseconds since 1970.
    pub(crate) fn started(&self) -> Option<(String, i64)> {
        let time = Timestamp::from_nanosecond(self.before.wall_ns.into()).ok()?;
        Some((time.to_string(), time.as_millisecond()))
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Returns a caveat about buffered I/O on this machine, if there is one.
    pub(crate) fn page_cache_caveat(&self) -> Option<&'static str> {
        const FREE_PAGE_REPORTING: &str = "this virtual machine returns free memory to its host (virtio_balloon): growing the page \
            cache may wait for the host instead of the disk, in one run and not in the next; the CPU time shows which";
        reports_free_pages(&self.root).then_some(FREE_PAGE_REPORTING)
    }

    pub(crate) fn end(mut self, targets: &[TargetInfo]) -> Environment {
        let settings = settings(&self.root, targets);
        let window = Window::new(vec![self.before, self.sampler.sample()]);
        Environment { host: host(&window), settings, others_cpus: others_cpus(&window), others: others(&window) }
    }
}

/// Returns the CPU seconds used in a window on all CPUs, without idle and steal.
pub(crate) fn busy_seconds(window: &Window) -> Option<f64> {
    cpu::BUSY_TIME.total(&window.changes::<Cpu>()).map(|cpus| cpus * window.seconds())
}

/// Returns whether free memory goes back to the host until it is touched again
/// (Documentation/mm/free_page_reporting.rst).
fn reports_free_pages(root: &Root) -> bool {
    const BALLOON: &str = "sys/bus/virtio/drivers/virtio_balloon";
    /// VIRTIO_BALLOON_F_REPORTING (include/uapi/linux/virtio_balloon.h); one digit per feature, from the lowest bit on.
    const REPORTING: usize = 5;
    let reports = |device: &String| {
        let features = root.word(&format!("{BALLOON}/{device}/features"));
        features.is_some_and(|digits| digits.as_bytes().get(REPORTING) == Some(&b'1'))
    };
    root.list(BALLOON).iter().any(reports)
}

fn host(window: &Window) -> Host {
    let machine = window.the::<MachineInfo>();
    let words = |state: Option<&State>| state.and_then(|state| state.get()).map(str::to_owned);
    Host {
        name: words(machine.map(|m| &m.name)),
        kernel: words(machine.map(|m| &m.release)),
        cpus: machine.and_then(|m| m.processors.get()).map(|n| n as u32),
        memory_bytes: window.the::<Meminfo>().and_then(|m| m.mem_total.get()).map(|n| n as u64),
        virtualization: words(machine.map(|m| &m.virtualization)),
    }
}

fn settings(root: &Root, targets: &[TargetInfo]) -> BTreeMap<String, String> {
    let devices = targets.iter().flat_map(|target| target.device.iter().chain(&target.below));
    let of_disks = devices.flat_map(|device| {
        let folder = format!("sys/block/{}/queue", device.replace('/', "!"));
        QUEUE_SETTINGS.map(|file| format!("{folder}/{file}"))
    });
    let paths = SETTINGS.iter().map(|&path| path.to_owned()).chain(of_disks);
    paths.filter_map(|path| Some((format!("/{path}"), root.word(&path)?))).collect()
}

/// Returns the average number of CPUs used by other processes.
fn others_cpus(window: &Window) -> Option<f64> {
    let machine = busy_seconds(window)?;
    let processes = window.changes::<Process>();
    let own = processes.iter().find(|change| change.key().pid == std::process::id())?;
    let own = (own.grown(|p| p.user)? + own.grown(|p| p.system)?) / 1e9;
    Some(((machine - own) / window.seconds()).max(0.0))
}

/// Returns other processes that did I/O, the largest first.
fn others(window: &Window) -> Vec<OtherProcess> {
    let other = |change: Change<'_, Process>| {
        let grown = |counter: fn(&Process) -> Counter| change.grown(counter).unwrap_or(0.0) as u64;
        OtherProcess {
            pid: change.key().pid,
            name: change.last().command.get().unwrap_or_default().to_owned(),
            read_bytes: grown(|p| p.read_bytes),
            write_bytes: grown(|p| p.write_bytes),
        }
    };
    let moved = |other: &OtherProcess| other.read_bytes + other.write_bytes;
    let all = window.changes::<Process>().into_iter().map(other);
    let mut others: Vec<OtherProcess> =
        all.filter(|other| other.pid != std::process::id() && moved(other) >= MIN_OTHER_IO).collect();
    others.sort_by_key(|other| std::cmp::Reverse(moved(other)));
    others.truncate(MAX_OTHERS);
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_topology::tests::machine;

    #[test]
    fn free_page_reporting_is_read_from_the_balloons_features() {
        let balloon = "sys/bus/virtio/drivers/virtio_balloon/virtio0/features";
        let (_folder, root) = machine(&[(balloon, "0110010100\n")]);
        assert!(reports_free_pages(&root));
        let (_folder, root) = machine(&[(balloon, "0110000100\n")]);
        assert!(!reports_free_pages(&root));
        let (_folder, root) = machine(&[]);
        assert!(!reports_free_pages(&root));
    }
}
