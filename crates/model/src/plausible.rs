//! Impossible values: shares above 100 %, more in use than there is, negative sizes, rates beyond anything physical. In
//! the output of other programs they come from damage or a misreading, and are treated as missing.

use crate::catalogue::{EachFamily, Family, Metric, MetricKind, Unit};
use crate::human;
use crate::key::MachineKey;
use crate::origin::Origins;
use crate::snapshot::Snapshot;
use crate::value::{Counter, Gauge, Value};
use crate::window::Window;
use std::collections::{BTreeMap, BTreeSet};

/// Tolerance of a share above 1, for rounding.
const ROUNDING: f64 = 0.005;
/// Tolerance of a part above its whole, as a fraction: both are not read at the same instant.
const SLACK: f64 = 0.05;
/// Upper limit of any rate: no machine does more of anything in a second.
const MOST_PER_SECOND: f64 = 1e15;
/// Tolerance by which the kernel's clock for a device's busy time may run ahead, as a fraction.
const CLOCK_SLACK: f64 = 0.1;
/// Maximum number of values that are reported.
const MOST_REPORTED: usize = 20;

/// Gauges of unit ratio that may be above 1: family, metric.
const ABOVE_ONE: [(&str, &str); 2] = [
    // The rated endurance may be exceeded.
    ("drive", "wear"),
    // A tool with several threads uses more than one CPU.
    ("transfer", "cpu_share"),
];

/// Amounts used or free, and the whole that each is a part of: family, part, whole.
const PARTS: &[(&str, &str, &str)] = &[
    ("meminfo", "mem_free", "mem_total"),
    ("meminfo", "mem_available", "mem_total"),
    ("meminfo", "cached", "mem_total"),
    ("meminfo", "swap_free", "swap_total"),
    ("swap", "used", "size"),
    ("hugepages", "free", "total"),
    ("node", "mem_free", "mem_total"),
    ("mount", "free", "size"),
    ("mount", "available", "size"),
    ("mount", "inodes_free", "inodes"),
    ("limits", "files", "files_max"),
    ("limits", "aio", "aio_max"),
    ("ipc", "shm_segments", "shm_segments_max"),
    ("ipc", "sem_arrays", "sem_arrays_max"),
    ("ipc", "semaphores", "semaphores_max"),
    ("ipc", "msg_queues", "msg_queues_max"),
    ("conntrack", "count", "max"),
    ("namespace_conntrack", "count", "max"),
    ("ports_used", "used", "available"),
    ("link", "ring_rx", "ring_rx_max"),
    ("link", "ring_tx", "ring_tx_max"),
    ("link", "channels", "channels_max"),
    ("database", "connections", "connections_max"),
    ("group", "memory", "memory_max"),
];

/// Counters of time that grow by no more than the elapsed time.
const OF_WALL_TIME: [(&str, &str); 1] = [("disk", "busy_time")];

/// Returns whether more is in use, or free, than there is.
pub fn exceeds(part: f64, whole: f64) -> bool {
    part > whole * (1.0 + SLACK)
}

/// A value that was removed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImpossibleValue {
    /// The metric and its subject, with the location in the file if known.
    pub of: String,
    /// The value, and the reason why it is impossible.
    pub why: String,
}

/// Removes impossible levels from snapshots.
pub(crate) fn take_out_levels(snapshots: &mut [Snapshot], origins: &Origins) -> BTreeSet<ImpossibleValue> {
    let mut found = BTreeSet::new();
    for snapshot in snapshots {
        snapshot.each_family(&mut Levels { origins, found: &mut found });
    }
    found
}

/// Returns the counters that grow impossibly fast.
pub(crate) fn impossible_counters(window: &Window, found: &mut BTreeSet<ImpossibleValue>) -> Columns {
    let mut columns = Columns::new();
    Snapshot::default().each_family(&mut Rates { window, columns: &mut columns, found });
    columns
}

/// Removes counters from snapshots.
pub(crate) fn take_out_counters(snapshots: &mut [Snapshot], columns: &Columns) {
    if !columns.is_empty() {
        snapshots.iter_mut().for_each(|snapshot| snapshot.each_family(&mut Forget { columns }));
    }
}

fn add(found: &mut BTreeSet<ImpossibleValue>, of: String, why: String) {
    if found.len() < MOST_REPORTED {
        found.insert(ImpossibleValue { of, why });
    }
}

fn name<F: Family>(origins: &Origins, key: &F::Key, metric: &Metric) -> String {
    let key = key.to_string();
    let of = if key.is_empty() || key == MachineKey.to_string() { String::new() } else { format!(" of {key}") };
    let what = format!("{} {}{of}", F::INFO.name, metric.name);
    match origins.locations(F::INFO.name, &key).first() {
        Some(place) => format!("{place}: {what}"),
        None => what,
    }
}

fn in_words(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => human::quantity(value / 1e9, "s"),
        Unit::Bytes => human::quantity(value, "bytes"),
        Unit::Ratio => human::percent(value),
        Unit::BitsPerSecond => human::quantity(value, "bit/s"),
        Unit::Hertz => human::quantity(value, "Hz"),
        Unit::Count | Unit::Celsius | Unit::Text => human::quantity(value, "count"),
    }
}

/// Visitor that removes levels outside their bounds.
struct Levels<'s> {
    origins: &'s Origins,
    found: &'s mut BTreeSet<ImpossibleValue>,
}

impl EachFamily for Levels<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let column = |name: &str| F::INFO.metrics.iter().position(|metric| metric.name == name);
        let parts: Vec<(usize, usize)> = PARTS
            .iter()
            .filter(|(family, ..)| *family == F::INFO.name)
            .filter_map(|(_, part, whole)| Some((column(part)?, column(whole)?)))
            .collect();
        for row in rows {
            let level = |row: &F, column: usize| match row.value(column) {
                Some(Value::Gauge(gauge)) => gauge.get(),
                _ => None,
            };
            for (column, metric) in F::INFO.metrics.iter().enumerate().filter(|(_, m)| m.kind == MetricKind::Gauge) {
                let Some(value) = level(row, column) else { continue };
                let is_signed = matches!(metric.unit, Unit::Count | Unit::Celsius);
                let is_share = metric.unit == Unit::Ratio && !ABOVE_ONE.contains(&(F::INFO.name, metric.name));
                let why = match value {
                    value if value < 0.0 && !is_signed => Some("it cannot be negative".to_owned()),
                    value if value > 1.0 + ROUNDING && is_share => Some("a share is at most 100 %".to_owned()),
                    value => parts.iter().find(|(part, _)| *part == column).and_then(|(_, whole)| {
                        let whole = level(row, *whole).filter(|whole| *whole > 0.0)?;
                        exceeds(value, whole).then(|| format!("there are {}", in_words(whole, metric.unit)))
                    }),
                };
                if let Some(why) = why {
                    let of = name::<F>(self.origins, row.key(), metric);
                    add(self.found, of, format!("impossible value: {} ({why})", in_words(value, metric.unit)));
                    row.put(column, Value::Gauge(Gauge::default()));
                }
            }
        }
    }
}

/// Columns of entities that hold impossible values, by family and key.
pub(crate) type Columns = BTreeMap<(&'static str, String), BTreeSet<usize>>;

struct Rates<'s> {
    window: &'s Window,
    columns: &'s mut Columns,
    found: &'s mut BTreeSet<ImpossibleValue>,
}

impl EachFamily for Rates<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        for change in self.window.changes::<F>() {
            for (column, metric) in F::INFO.metrics.iter().enumerate().filter(|(_, m)| m.kind == MetricKind::Counter) {
                let count = |row: &F| match row.value(column) {
                    Some(Value::Counter(counter)) => counter,
                    _ => Counter::default(),
                };
                let most = match OF_WALL_TIME.contains(&(F::INFO.name, metric.name)) {
                    true => 1e9 * (1.0 + CLOCK_SLACK),
                    false => MOST_PER_SECOND,
                };
                let rates = change.steps(count).filter_map(|(seconds, grown)| Some(grown? / seconds));
                let Some(rate) = rates.filter(|rate| rate.is_finite() && *rate > most).reduce(f64::max) else {
                    continue;
                };
                let of = name::<F>(self.window.origins(), change.key(), metric);
                add(self.found, of, format!("impossible value: {} a second", in_words(rate, metric.unit)));
                self.columns.entry((F::INFO.name, change.key().to_string())).or_default().insert(column);
            }
        }
    }
}

struct Forget<'s> {
    columns: &'s Columns,
}

impl EachFamily for Forget<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if !self.columns.keys().any(|(family, _)| *family == F::INFO.name) {
            return;
        }
        for row in rows {
            let Some(columns) = self.columns.get(&(F::INFO.name, row.key().to_string())) else { continue };
            for column in columns.iter().copied().collect::<Vec<_>>() {
                row.put(column, Value::Counter(Counter::default()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Conntrack, Disk, Mount, Pressure, families};
    use crate::key::MachineKey;

    #[test]
    fn the_tables_name_columns_of_the_catalogue() {
        let families = families();
        let has = |family: &str, metric: &str| {
            families.iter().any(|f| f.name == family && f.metrics.iter().any(|m| m.name == metric))
        };
        let pairs = PARTS.iter().flat_map(|(family, part, whole)| [(*family, *part), (*family, *whole)]);
        for (family, metric) in pairs.chain(ABOVE_ONE).chain(OF_WALL_TIME) {
            assert!(has(family, metric), "{family} {metric}");
        }
    }

    #[test]
    fn what_cannot_be_is_unknown_and_said() {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        s.net.conntrack.push(Conntrack { count: 719.0.into(), max: 123.0.into(), ..Conntrack::new(MachineKey) });
        s.block.mount.push(Mount { size: 100.0.into(), free: (-5.0).into(), ..Mount::new("/srv".into()) });
        s.processor.pressure.push(Pressure {
            cpu_avg60: 1.01.into(),
            io_avg60: 1.0.into(),
            ..Pressure::new(MachineKey)
        });
        let (window, found) = Window::new(vec![s]).without_impossible_values();
        let s = &window.snapshots()[0];
        assert_eq!((s.net.conntrack[0].count.get(), s.net.conntrack[0].max.get()), (None, Some(123.0)));
        assert_eq!((s.block.mount[0].free.get(), s.block.mount[0].size.get()), (None, Some(100.0)));
        assert_eq!(
            (s.processor.pressure[0].cpu_avg60.get(), s.processor.pressure[0].io_avg60.get()),
            (None, Some(1.0))
        );
        let found: Vec<String> = found.into_iter().map(|value| format!("{}: {}", value.of, value.why)).collect();
        let expected = [
            "conntrack count: impossible value: 719 (there are 123)",
            "mount free of /srv: impossible value: -5 B (it cannot be negative)",
            "pressure cpu_avg60: impossible value: 101 % (a share is at most 100 %)",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_rate_beyond_anything_physical_takes_the_counter_out() {
        let disk = |at: u64, bytes: u64, busy: u64| {
            let mut s = Snapshot { boot_ns: at * 1_000_000_000, ..Snapshot::default() };
            let counts = (bytes.into(), busy.into(), (at * 10).into());
            let (read_bytes, busy_time, reads) = counts;
            s.block.disk.push(Disk { read_bytes, busy_time, reads, ..Disk::new("sda".into()) });
            s
        };
        let all = vec![disk(1, 0, 0), disk(2, 1 << 62, 900_000_000), disk(3, 1 << 62, 1_800_000_000)];
        let (window, found) = Window::new(all).without_impossible_values();
        let change = window.change::<Disk>().unwrap();
        assert_eq!((change.grown(|d| d.read_bytes), change.grown(|d| d.reads)), (None, Some(20.0)));
        assert_eq!(change.grown(|d| d.busy_time), Some(1.8e9));
        assert_eq!(found.len(), 1, "{found:?}");
        let (window, _) = Window::new(vec![disk(1, 0, 0), disk(2, 0, 7_190_000_000)]).without_impossible_values();
        assert_eq!(window.change::<Disk>().unwrap().grown(|d| d.busy_time), None);
    }
}
