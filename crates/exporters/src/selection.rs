//! Selection of the exported metrics, and of the number of entities.

use crate::names;
use std::fmt;
use whyslow_model::catalogue::{FamilyInfo, Metric, MetricKind, families};
use whyslow_model::key::KeyPartKind;
use whyslow_model::suggest::unknown;

/// Exported metrics, and their limits.
#[derive(Clone, Debug)]
pub struct Selection {
    pub(crate) families: Vec<SelectedFamily>,
    /// Maximum number of series, including those of findings and of whyslow itself.
    pub(crate) most_series: usize,
}

/// Selected metrics of a family.
#[derive(Clone, Debug)]
pub struct SelectedFamily {
    /// The family.
    pub info: FamilyInfo,
    /// Its metrics, as indices into `info.metrics`.
    pub columns: Vec<usize>,
    /// The entities to export.
    pub entities: Entities,
    /// Columns by whose sum entities are ranked, followed by alternatives in case those are unknown.
    pub rank: Vec<Vec<usize>>,
    /// Column with the text that names an entity instead of its key: tasks would otherwise be named by PID.
    pub named_by: Option<usize>,
    /// The rows to export.
    pub rows: RowSelection,
}

/// Entities of a family that get series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entities {
    /// The most active ones, up to this number.
    Most(usize),
    /// The most active ones, up to this number, and the sum of the others: they are parts of a whole.
    MostAndOthers(usize),
    /// Only the sum of all.
    Sum,
}

/// Rows of a family that are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowSelection {
    /// All rows.
    All,
    /// Rows with the kernel's own number, if any row has one: whole disks, but not partitions.
    Identified,
    /// Control groups without groups below them: the values of parent groups include theirs.
    Leaves,
    /// Each file system once, by its shortest mount point; overlays repeat the file system below them.
    FileSystems,
}

/// Properties of a family that the catalogue lacks.
struct FamilyTraits {
    family: &'static str,
    /// Metrics that are exported by default.
    metrics: &'static [&'static str],
    entities: Entities,
    /// As in [`SelectedFamily::rank`].
    rank: &'static [&'static [&'static str]],
    rows: RowSelection,
}

const fn one(family: &'static str, metrics: &'static [&'static str]) -> FamilyTraits {
    FamilyTraits { family, metrics, entities: Entities::Most(1), rank: &[], rows: RowSelection::All }
}

/// Families in the order in which they get their share of the series.
const TRAITS: [FamilyTraits; 15] = [
    one("pressure", &["cpu_some", "memory_some", "memory_full", "io_some", "io_full", "irq_full"]),
    one("system", &["context_switches", "interrupts", "forks", "running", "blocked", "load_1m", "uptime"]),
    FamilyTraits {
        entities: Entities::Sum,
        ..one("cpu", &["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"])
    },
    one("machine", &["processors"]),
    one("observer", &["cpu_time", "rss"]),
    one(
        "meminfo",
        &[
            "mem_total",
            "mem_available",
            "cached",
            "dirty",
            "writeback",
            "anon_pages",
            "shmem",
            "slab",
            "swap_total",
            "swap_free",
        ],
    ),
    one(
        "vmstat",
        &[
            "pswpin",
            "pswpout",
            "pgmajfault",
            "pgscan_direct",
            "allocstall",
            "compact_stall",
            "workingset_refault_anon",
            "workingset_refault_file",
            "oom_kill",
        ],
    ),
    one("limits", &["files", "files_max"]),
    one("conntrack", &["count", "max", "drops"]),
    one(
        "protocol",
        &[
            "tcp_curr_estab",
            "tcp_in_segs",
            "tcp_out_segs",
            "tcp_retrans_segs",
            "tcp_ext_listen_drops",
            "tcp_ext_listen_overflows",
            "udp_rcvbuf_errors",
        ],
    ),
    FamilyTraits {
        entities: Entities::Most(4),
        rank: &[&["weighted_time"], &["busy_time"], &["reads", "writes"]],
        rows: RowSelection::Identified,
        ..one(
            "disk",
            &[
                "reads",
                "writes",
                "read_bytes",
                "write_bytes",
                "read_time",
                "write_time",
                "busy_time",
                "weighted_time",
                "in_flight",
            ],
        )
    },
    FamilyTraits {
        entities: Entities::Most(4),
        rank: &[&["size"]],
        rows: RowSelection::FileSystems,
        ..one("mount", &["size", "available"])
    },
    FamilyTraits {
        entities: Entities::Most(3),
        rank: &[&["rx_bytes", "tx_bytes"]],
        ..one(
            "interface",
            &["rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors"],
        )
    },
    FamilyTraits {
        entities: Entities::MostAndOthers(4),
        // Controllers of version 1 may be missing individually.
        rank: &[&["cpu_usage"], &["faults"], &["memory"], &["pids"]],
        rows: RowSelection::Leaves,
        ..one("group", &["cpu_usage", "throttled_time", "memory", "oom_kills"])
    },
    FamilyTraits {
        entities: Entities::MostAndOthers(3),
        rank: &[&["user", "system"]],
        ..one("process", &["user", "system", "run_delay", "read_bytes", "write_bytes", "rss_anon"])
    },
];

/// Number of entities of any other family.
const MOST_ENTITIES: usize = 4;

/// Metrics of summed families whose sums are meaningful.
const SUMMABLE: [(&str, &[&str]); 2] = [
    (
        "group",
        &[
            "cpu_usage",
            "cpu_user",
            "cpu_system",
            "throttled_time",
            "memory",
            "swap",
            "anon",
            "file",
            "dirty",
            "shmem",
            "slab",
            "oom_kills",
            "faults",
            "major_faults",
            "pids",
        ],
    ),
    (
        "process",
        &[
            "user",
            "system",
            "run_delay",
            "block_delay",
            "swap_delay",
            "reclaim_delay",
            "minor_faults",
            "major_faults",
            "voluntary_switches",
            "involuntary_switches",
            "migrations",
            "threads",
            "rss_anon",
            "swap",
            "page_tables",
            "read_chars",
            "write_chars",
            "read_calls",
            "write_calls",
            "read_bytes",
            "write_bytes",
            "cancelled_write_bytes",
            "open_files",
        ],
    ),
];

/// A metric that cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionError(String);

impl fmt::Display for SelectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SelectionError {}

impl Selection {
    /// Default for the maximum number of series of a host.
    pub const MOST_SERIES: usize = 200;
    /// The word for the default metrics.
    pub const DEFAULT: &'static str = "default";

    /// Selects the metrics named by these words: `default`, a family (its default metrics, or all that are numbers), or
    /// `FAMILY.METRIC`. `top` is the number of entities of each family.
    ///
    /// # Errors
    /// Fails if a word names nothing, or something that is not exported.
    pub fn parse(words: &[String], top: Option<usize>, most_series: usize) -> Result<Self, SelectionError> {
        let mut selection = Self { families: Vec::new(), most_series };
        for word in words {
            if word == Self::DEFAULT {
                for traits in &TRAITS {
                    selection.add(traits.family, None)?;
                }
            } else {
                let (family, metric) = word.split_once('.').map_or((word.as_str(), None), |(f, m)| (f, Some(m)));
                selection.add(family, metric)?;
            }
        }
        for family in &mut selection.families {
            let is_one = family.info.key_columns.is_empty();
            family.entities = match (family.entities, top) {
                (Entities::Most(_), Some(top)) if !is_one => Entities::Most(top),
                (Entities::MostAndOthers(_), Some(top)) => Entities::MostAndOthers(top),
                (entities, _) => entities,
            };
        }
        Ok(selection)
    }

    /// Adapts the selection to a program that ends after one sample. Totals that are counted from sample to sample
    /// would restart each time, so sums over entities that come and go are left out.
    pub fn for_one_sample(mut self) -> Self {
        self.families.retain(|family| family.named_by.is_none());
        for family in &mut self.families {
            if let Entities::MostAndOthers(most) = family.entities {
                family.entities = Entities::Most(most);
            }
        }
        self
    }

    /// Returns the selected families.
    pub fn into_families(self) -> Vec<SelectedFamily> {
        self.families
    }

    /// Returns the Prometheus names of the selected metrics.
    pub fn metric_names(&self) -> impl Iterator<Item = String> {
        let names = |family: &SelectedFamily| -> Vec<String> {
            family.columns.iter().map(|column| names::prometheus(&family.info, &family.info.metrics[*column])).collect()
        };
        self.families.iter().flat_map(names)
    }

    fn add(&mut self, family: &str, metric: Option<&str>) -> Result<(), SelectionError> {
        let new = SelectedFamily::select(family, metric)?;
        match self.families.iter_mut().find(|known| known.info.name == new.info.name) {
            Some(known) => {
                known.columns.extend(new.columns);
                known.columns.sort_unstable();
                known.columns.dedup();
            }
            None => self.families.push(new),
        }
        Ok(())
    }
}

impl SelectedFamily {
    /// Returns the selected metrics.
    pub fn metrics(&self) -> impl Iterator<Item = &'static Metric> + use<> {
        let all = self.info.metrics;
        self.columns.clone().into_iter().filter_map(|column| all.get(column))
    }

    fn select(name: &str, metric: Option<&str>) -> Result<Self, SelectionError> {
        let all = families();
        let info = all.iter().find(|family| family.is_named(name)).cloned().ok_or_else(|| {
            let known = all.iter().map(|family| family.name);
            SelectionError(unknown("metric family", name, "whyslow metrics", known))
        })?;
        let column = |name: &str| info.metrics.iter().position(|metric| metric.name == name);
        let traits = TRAITS.iter().find(|traits| traits.family == info.name);
        let named_by = column("command").filter(|_| info.name == "process");
        if info.events || (named_by.is_none() && is_of_tasks(&info)) {
            return Err(SelectionError(format!(
                "{} cannot be exported: its rows are processes, sockets or events, too many and too short-lived for series",
                info.name
            )));
        }
        let entities = traits.map_or(Entities::Most(MOST_ENTITIES), |traits| traits.entities);
        let sums = SUMMABLE.iter().find(|(family, _)| *family == info.name).map(|(_, metrics)| *metrics);
        let fits = |column: &usize| {
            let metric = &info.metrics[*column];
            let is_number = names::kind(metric).is_some();
            is_number && sums.is_none_or(|sums| sums.contains(&metric.name))
        };
        let columns: Vec<usize> = match (metric, traits) {
            (Some(name), _) => {
                let known = || info.metrics.iter().map(|metric| metric.name);
                let found = column(name).ok_or_else(|| {
                    SelectionError(unknown("metric", name, &format!("whyslow metrics {}", info.name), known()))
                })?;
                vec![found]
            }
            (None, Some(traits)) => traits.metrics.iter().filter_map(|name| column(name)).collect(),
            (None, None) => (0..info.metrics.len()).filter(fits).collect(),
        };
        if let Some(wrong) = columns.iter().find(|column| !fits(column)) {
            let name = info.metrics[*wrong].name;
            return Err(SelectionError(format!(
                "{}.{name} cannot be exported: it is not a number, or its sum over entities means nothing",
                info.name
            )));
        }
        let named = |names: &&[&str]| names.iter().filter_map(|name| column(name)).collect();
        let mut rank: Vec<Vec<usize>> = traits.into_iter().flat_map(|traits| traits.rank).map(named).collect();
        if rank.is_empty() {
            let is_counter = |column: &&usize| info.metrics[**column].kind == MetricKind::Counter;
            rank.extend(columns.iter().find(is_counter).or(columns.first()).map(|column| vec![*column]));
        }
        let rows = traits.map_or(RowSelection::All, |traits| traits.rows);
        Ok(Self { info, columns, entities, rank, named_by, rows })
    }

    /// Returns the label of each column of its key.
    pub(crate) fn key_labels(&self) -> Vec<&'static str> {
        self.info.key_columns().map(|(name, _)| if name == "name" { self.info.key } else { name }).collect()
    }
}

/// Returns whether a family's rows are tasks or sockets, identified by numbers in its key.
fn is_of_tasks(info: &FamilyInfo) -> bool {
    info.key_columns().any(|(name, kind)| {
        kind == KeyPartKind::Number && matches!(name, "pid" | "tid" | "parent_pid" | "inode" | "sequence")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(words: &[&str]) -> Result<Selection, SelectionError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Selection::parse(&words, None, Selection::MOST_SERIES)
    }

    #[test]
    fn what_is_exported_by_default_is_in_the_catalogue() {
        for traits in &TRAITS {
            let family = families().into_iter().find(|family| family.name == traits.family).unwrap();
            for name in traits.metrics.iter().chain(traits.rank.iter().copied().flatten()) {
                assert!(family.metrics.iter().any(|metric| metric.name == *name), "{}.{name}", traits.family);
            }
        }
        for (name, sums) in SUMMABLE {
            let family = families().into_iter().find(|family| family.name == name).unwrap();
            assert!(sums.iter().all(|sum| family.metrics.iter().any(|metric| metric.name == *sum)), "{name}");
        }
        assert_eq!(selected(&["default"]).unwrap().families.len(), TRAITS.len());
    }

    #[test]
    fn a_family_and_single_metrics_add_up() {
        let selection = selected(&["disk.reads", "disk.flushes", "disk.reads", "frequency"]).unwrap();
        let names = |family: &SelectedFamily| -> Vec<&str> {
            family.columns.iter().map(|column| family.info.metrics[*column].name).collect()
        };
        assert_eq!(names(&selection.families[0]), ["reads", "flushes"]);
        assert_eq!(
            names(&selection.families[1]),
            [
                "current",
                "limit",
                "hardware_max",
                "hardware_min",
                "busy",
                "base",
                "busy_share",
                "core_throttles",
                "package_throttles"
            ]
        );
    }

    #[test]
    fn what_has_a_pid_for_a_key_is_refused() {
        for family in
            ["thread", "connection", "requester", "page_cache", "writer", "exited_children", "log", "listener"]
        {
            let refused = selected(&[family]).unwrap_err().to_string();
            assert!(refused.contains("cannot be exported"), "{refused}");
        }
    }

    #[test]
    fn what_cannot_be_summed_or_is_no_number_is_refused() {
        for metric in ["process.nice", "group.psi_io_some", "disk.number", "queue.scheduler"] {
            let refused = selected(&[metric]).unwrap_err().to_string();
            assert!(refused.contains(metric), "{refused}");
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_closest() {
        assert!(selected(&["dsk"]).unwrap_err().to_string().contains("disk"));
        assert!(selected(&["disk.read"]).unwrap_err().to_string().contains("reads"));
    }

    #[test]
    fn one_sample_has_no_sums_over_what_comes_and_goes() {
        let selection = selected(&["default"]).unwrap().for_one_sample();
        let entities =
            |name: &str| selection.families.iter().find(|family| family.info.name == name).map(|f| f.entities);
        assert_eq!(entities("process"), None);
        assert_eq!(entities("group"), Some(Entities::Most(4)));
        assert_eq!(entities("cpu"), Some(Entities::Sum));
    }
}
