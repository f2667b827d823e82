//! Hardware and settings of a machine: everything in a window that does not change with use.

use std::collections::BTreeMap;
use whyslow_documents::baseline::Inventory;
use whyslow_model::catalogue::{
    Array, Family, Frequency, Hugepages, Layer, Link, MachineInfo, Meminfo, MetricKind, Mount, Node, Partition, Queue,
    Setting, Sharing, Swap,
};
use whyslow_model::value::Value;
use whyslow_model::window::Window;

/// Virtual file systems, and those whose content does not survive a restart.
const MADE_UP: [&str; 14] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "tmpfs",
    "cgroup",
    "cgroup2",
    "bpf",
    "tracefs",
    "debugfs",
    "securityfs",
    "mqueue",
    "hugetlbfs",
    "configfs",
];

/// Kinds of items that only a recorder lists: `package bash`.
pub const OF_THE_RECORDER: [&str; 3] = ["driver", "kernel", "package"];

/// Returns the inventory according to the window's newest readings.
pub fn inventory(window: &Window) -> Inventory {
    let mut all = Inventory::new();
    let mut take = Take { window, all: &mut all };
    take.columns::<MachineInfo>(
        "machine",
        &["release", "product", "firmware", "processor", "microcode", "processors", "virtualization", "clock_source"],
    );
    take.columns::<Meminfo>("memory", &["mem_total", "swap_total"]);
    take.columns::<Sharing>("memory", &["thp_enabled", "thp_defrag", "ksm_run"]);
    take.columns::<Hugepages>("huge pages of", &["total"]);
    take.columns::<Node>("node", &["mem_total", "cpus"]);
    take.columns::<Swap>("swap", &["size", "kind", "priority"]);
    take.columns::<Frequency>("processor", &["governor", "limit", "hardware_max"]);
    take.columns::<Setting>("setting", &["value"]);
    take.disks();
    take.columns::<Partition>("partition", &["start"]);
    take.columns::<Layer>("layer", &["kind"]);
    take.columns::<Array>("array", &["level", "members"]);
    take.mounts();
    take.links();
    all
}

struct Take<'w> {
    window: &'w Window,
    all: &'w mut Inventory,
}

/// Predicate that selects the rows of a family that belong to the inventory.
type Belongs<'f, F> = &'f dyn Fn(&F) -> bool;

impl Take<'_> {
    /// Adds these columns of every row.
    fn columns<F: Family>(&mut self, what: &str, columns: &[&str]) {
        self.columns_of::<F>(what, columns, &|_| true);
    }

    fn columns_of<F: Family>(&mut self, what: &str, columns: &[&str], belongs: Belongs<'_, F>) {
        let rows: BTreeMap<F::Key, &F> = self.window.newest();
        // The machine's own rows need no name.
        let named = !F::INFO.key_columns.is_empty();
        for (key, row) in rows.into_iter().filter(|(_, row)| belongs(row)) {
            let subject = if named { format!("{what} {key}") } else { what.to_owned() };
            for (at, metric) in F::INFO.metrics.iter().enumerate().filter(|(_, m)| columns.contains(&m.name)) {
                if let Some(words) = row.value(at).and_then(|value| in_words(metric.kind, value)) {
                    self.all.insert(format!("{subject}: {}", metric.name), words);
                }
            }
        }
    }

    /// Adds disks with a size: unused loop devices have none.
    fn disks(&mut self) {
        const OF_A_QUEUE: [&str; 13] = [
            "size",
            "model",
            "firmware",
            "scheduler",
            "rotational",
            "nr_requests",
            "max_request",
            "read_ahead",
            "logical_block",
            "physical_block",
            "write_cache",
            "wbt_latency",
            "device_depth",
        ];
        self.columns_of::<Queue>("disk", &OF_A_QUEUE, &|queue| queue.size.get().is_some_and(|size| size > 0.0));
    }

    fn mounts(&mut self) {
        let kept = |mount: &Mount| mount.kind.get().is_some_and(|kind| !MADE_UP.contains(&kind));
        self.columns_of::<Mount>("mount", &["device", "kind", "options", "size"], &kept);
    }

    /// Adds network cards; virtual interfaces come and go with containers.
    fn links(&mut self) {
        const OF_A_CARD: [&str; 10] = [
            "speed",
            "duplex",
            "mtu",
            "driver",
            "tx_queue_length",
            "ring_rx",
            "ring_tx",
            "coalesce_rx",
            "coalesce_tx",
            "offloads",
        ];
        let card =
            |link: &Link| link.kind.get().is_none() && link.interface.ns.is_empty() && &*link.interface.name != "lo";
        self.columns_of::<Link>("interface", &OF_A_CARD, &card);
    }
}

/// Formats a level or a state; `None` if it was not read.
fn in_words(kind: MetricKind, value: Value) -> Option<String> {
    match (kind, value) {
        (MetricKind::State, Value::State(words)) => words.get().map(str::to_owned),
        (MetricKind::Gauge, Value::Gauge(level)) => level.get().map(|level| level.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::key::MachineKey;
    use whyslow_model::snapshot::Snapshot;

    #[test]
    fn what_does_not_change_by_use_is_told_by_name() {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        s.kernel.machine.push(MachineInfo {
            release: "6.18".into(),
            boot: "changes every time".into(),
            processors: 2.0.into(),
            ..MachineInfo::new(MachineKey)
        });
        s.kernel.setting.push(Setting { value: "60".into(), ..Setting::new("vm.swappiness".into()) });
        s.block.queue.push(Queue { size: 4096.0.into(), scheduler: "none".into(), ..Queue::new("vda".into()) });
        s.block.queue.push(Queue { size: 0.0.into(), scheduler: "none".into(), ..Queue::new("loop0".into()) });
        for (point, kind) in [("/", "ext4"), ("/proc", "proc")] {
            let mount = Mount { kind: kind.into(), free: 7.0.into(), ..Mount::new(point.into()) };
            s.block.mount.push(mount);
        }
        let listed: Vec<(String, String)> = inventory(&Window::new(vec![s])).into_iter().collect();
        let expected = [
            ("disk vda: scheduler", "none"),
            ("disk vda: size", "4096"),
            ("machine: processors", "2"),
            ("machine: release", "6.18"),
            ("mount /: kind", "ext4"),
            ("setting vm.swappiness: value", "60"),
        ];
        assert_eq!(listed, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn every_column_asked_for_is_one() {
        // A name that is not in the catalogue would be left out silently.
        let has = |family: &str, column: &str| {
            let family = whyslow_model::catalogue::families().into_iter().find(|f| f.name == family).unwrap();
            family.metrics.iter().any(|metric| metric.name == column)
        };
        for column in ["product", "firmware", "processor", "microcode"] {
            assert!(has("machine", column), "{column}");
        }
        assert!(has("queue", "firmware"));
    }
}
