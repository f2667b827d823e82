//! On what machine numbers were measured, and who else used it meanwhile.

use crate::busy::busy_seconds;
use crate::target::Target;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Instant;
use whyslow_model::bench::{Environment, Other};
use whyslow_model::catalogue::{MachineInfo, Meminfo, Process};
use whyslow_model::diagnosis::Host;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, State};
use whyslow_model::window::{Change, Window};
use whyslow_sense::{Root, Sampler};

/// Settings of the machine that bear on what storage does.
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
/// Settings of a disk.
const OF_DISK: [&str; 8] = [
    "scheduler",
    "nr_requests",
    "max_sectors_kb",
    "read_ahead_kb",
    "write_cache",
    "rotational",
    "wbt_lat_usec",
    "nomerges",
];
/// Processes that moved less than this are not worth a line.
const LITTLE: u64 = 1 << 20;
/// How many are named.
const MOST_OTHERS: usize = 5;

/// Watches the machine from the beginning of a benchmark to its end.
pub(crate) struct Surroundings {
    root: Root,
    sampler: Sampler,
    before: Snapshot,
    began: Instant,
}

impl Surroundings {
    pub(crate) fn begin(root: Root) -> Self {
        let mut sampler = Sampler::new(root.clone().without_bpf());
        let before = sampler.sample();
        Self { root, sampler, before, began: Instant::now() }
    }

    /// When it began: RFC 3339, and milliseconds since 1970.
    pub(crate) fn started(&self) -> Option<(String, i64)> {
        let time = Timestamp::from_nanosecond(self.before.wall_ns.into()).ok()?;
        Some((time.to_string(), time.as_millisecond()))
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// What is to be borne in mind wherever the page cache is filled.
    pub(crate) fn caveat_of_page_cache(&self) -> Option<&'static str> {
        const WHY: &str = "this machine gives free memory back to its host (virtio_balloon): a request that makes the page cache \
            larger may wait for the host and not for the disk, in one run and not in the next; its processor time tells which";
        gives_back_memory(&self.root).then_some(WHY)
    }

    /// What there is to tell of the machine, and of what lies below these targets.
    pub(crate) fn end(mut self, targets: &[Target]) -> Environment {
        let settings = settings(&self.root, targets);
        let window = Window::new(vec![self.before, self.sampler.sample()]);
        Environment { host: host(&window), settings, others_cpus: others_cpus(&window), others: others(&window) }
    }
}

/// Whether a host takes memory that is free from this machine, and gives it again when it is next touched
/// (Documentation/mm/free_page_reporting.rst).
fn gives_back_memory(root: &Root) -> bool {
    const BALLOON: &str = "sys/bus/virtio/drivers/virtio_balloon";
    /// VIRTIO_BALLOON_F_REPORTING (include/uapi/linux/virtio_balloon.h): features are a digit each, from the lowest bit on.
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

fn settings(root: &Root, targets: &[Target]) -> BTreeMap<String, String> {
    let devices = targets.iter().flat_map(|target| target.about.device.iter().chain(&target.about.below));
    let of_disks = devices.flat_map(|device| {
        let folder = format!("sys/block/{}/queue", device.replace('/', "!"));
        OF_DISK.map(|file| format!("{folder}/{file}"))
    });
    let paths = SETTINGS.iter().map(|&path| path.to_owned()).chain(of_disks);
    paths.filter_map(|path| Some((format!("/{path}"), root.word(&path)?))).collect()
}

/// Processors that others kept busy on average: what the machine used, less what this process did.
fn others_cpus(window: &Window) -> Option<f64> {
    let machine = busy_seconds(window)?;
    let processes = window.changes::<Process>();
    let own = processes.iter().find(|change| change.key().pid == std::process::id())?;
    let own = (own.grown(|p| p.user)? + own.grown(|p| p.system)?) / 1e9;
    Some(((machine - own) / window.seconds()).max(0.0))
}

/// Who else read or wrote, the largest first.
fn others(window: &Window) -> Vec<Other> {
    let other = |change: Change<'_, Process>| {
        let grown = |counter: fn(&Process) -> Counter| change.grown(counter).unwrap_or(0.0) as u64;
        Other {
            pid: change.key().pid,
            name: change.last().command.get().unwrap_or_default().to_owned(),
            read_bytes: grown(|p| p.read_bytes),
            write_bytes: grown(|p| p.write_bytes),
        }
    };
    let moved = |other: &Other| other.read_bytes + other.write_bytes;
    let all = window.changes::<Process>().into_iter().map(other);
    let mut others: Vec<Other> =
        all.filter(|other| other.pid != std::process::id() && moved(other) >= LITTLE).collect();
    others.sort_by_key(|other| std::cmp::Reverse(moved(other)));
    others.truncate(MOST_OTHERS);
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::tests::machine;

    #[test]
    fn a_host_that_takes_memory_back_is_known_by_its_balloon() {
        let balloon = "sys/bus/virtio/drivers/virtio_balloon/virtio0/features";
        let (_folder, root) = machine(&[(balloon, "0110010100\n")]);
        assert!(gives_back_memory(&root));
        let (_folder, root) = machine(&[(balloon, "0110000100\n")]);
        assert!(!gives_back_memory(&root));
        let (_folder, root) = machine(&[]);
        assert!(!gives_back_memory(&root));
    }
}
