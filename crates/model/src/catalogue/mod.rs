//! The metric catalogue: every metric is described once, on one line, from which everything else is derived.
//!
//! `family_group!` turns a line such as
//!
//! ```text
//! reads: counter count "system.disk.operations" "reads completed";
//! ```
//!
//! It becomes the field of the row, its entry in [`families`], and its lookup by name. `counter32` is a counter that
//! the kernel keeps in 32 bits; `identity` is the kernel's own number of the entity, which distinguishes it from
//! another of the same name. Instead of a unit, a `state` declares what its text names ([`NameKind`]): `command: state
//! process`. So does each text column of a key: `by point: Name of path`. A line without that declaration does not
//! compile. Metrics that share an OpenTelemetry name have an attribute that distinguishes them:
//! `"system.cpu.time{cpu.mode=user}"`. Columns on disk, exporters, the documentation (`whyslow metrics`) and the
//! screens read the entry; readers in `sense` and `import` fill the field.
//!
//! A family declared `as events` has rows that happened once: each is in the first sample after the event, and does not
//! stay valid until the next reading. The counts of a family declared `since boot` or `since creation` are evidence
//! even when read once ([`since_boot`](crate::since_boot)). The counters of a family declared `in parts` add up to a
//! whole, and come from one tool.
//!
//! Raw time is kept in whole nanoseconds, so that nothing is rounded; results of a [`Window`](crate::window::Window) are in
//! seconds.

mod block;
mod cgroup;
mod declare;
mod describe;
mod guest;
mod kernel;
mod measure;
mod memory;
mod net;
mod processor;
mod report;
mod tables;
mod task;

pub use block::*;
pub use cgroup::*;
use declare::family_group;
pub use describe::{CountedSince, FamilyInfo, Metric, MetricKind, NameKind, Unit};
pub use guest::*;
pub use kernel::*;
pub use measure::*;
pub use memory::*;
pub use net::*;
pub use processor::*;
pub use report::{ReadOutcome, SourceReport};
pub use tables::{TableGroup, Tables};
pub use task::*;

use crate::key::Key;
use crate::value::Value;
use serde::{Deserialize, Serialize};

/// All readings of one instant: families with one row per entity. Values are raw, so that any interval can be computed
/// later and nothing is averaged away.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Wall-clock time at the start of reading, nanoseconds since 1970; 0 if unknown. Never used to compute rates.
    pub wall_ns: i64,
    /// Time since boot including suspend (CLOCK_BOOTTIME), nanoseconds. Rates are computed from it.
    pub boot_ns: u64,
    /// CPUs.
    pub processor: Tables<Processor>,
    /// Memory.
    pub memory: Tables<MemoryTables>,
    /// Storage.
    pub block: Tables<BlockTables>,
    /// Network.
    pub net: Tables<NetTables>,
    /// Control groups.
    pub cgroup: Tables<CgroupTables>,
    /// Processes and threads.
    pub task: Tables<TaskTables>,
    /// Virtual machines on this host.
    pub guest: Tables<GuestTables>,
    /// The kernel as a whole.
    pub kernel: Tables<KernelTables>,
    /// Measurements of other programs; never read live.
    pub measure: Tables<MeasureTables>,
    /// The outcome of each source.
    pub sources: Vec<SourceReport>,
}

impl Snapshot {
    /// Adds the rows that one source has read.
    pub fn absorb(&mut self, mut part: Self) {
        part.each_table(&mut Absorb(self));
        self.sources.append(&mut part.sources);
    }

    /// Clears the families for which `known` has rows: two readings of the same counters, each with its own clock and
    /// start, do not make a rate.
    pub fn forget(&mut self, known: &Self) {
        self.each_table(&mut Forget(known));
    }

    /// Sorts every table by key, as [`row`](Self::row) and the Window expect.
    pub fn sort(&mut self) {
        self.each_table(&mut Sort);
    }

    /// Clears all events: they happened before this snapshot.
    pub fn clear_events(&mut self) {
        self.each_table(&mut ClearEvents);
    }

    /// Adds the rows of families that this snapshot lacks and that stay valid: all but events.
    pub fn carry_over(&mut self, mut earlier: Self) {
        earlier.each_family(&mut CarryOver(self));
    }

    /// Passes the rows of every family to `each`, in the catalogue's order, followed by the reports of the sources.
    pub fn each_family(&mut self, each: &mut impl EachFamily) {
        self.each_table(each);
        each.family(&mut self.sources);
    }

    fn each_table(&mut self, each: &mut impl EachFamily) {
        self.processor.each_family(each);
        self.memory.each_family(each);
        self.block.each_family(each);
        self.net.each_family(each);
        self.cgroup.each_family(each);
        self.task.each_family(each);
        self.guest.each_family(each);
        self.kernel.each_family(each);
        self.measure.each_family(each);
    }

    /// Returns the row of a family with this key.
    pub fn row<F: Family>(&self, key: &F::Key) -> Option<&F> {
        let rows = F::rows(self);
        rows.binary_search_by(|r| r.key().cmp(key)).ok().map(|i| &rows[i])
    }

    /// Returns the row of a family that has only one.
    pub fn the<F: Family>(&self) -> Option<&F> {
        F::rows(self).first()
    }
}

struct Absorb<'s>(&'s mut Snapshot);

impl EachFamily for Absorb<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if rows.is_empty() {
            return;
        }
        let own = F::rows_mut(self.0);
        if own.is_empty() { *own = std::mem::take(rows) } else { own.append(rows) }
    }
}

struct Forget<'s>(&'s Snapshot);

impl EachFamily for Forget<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if !F::rows(self.0).is_empty() {
            rows.clear();
        }
    }
}

struct Sort;

impl EachFamily for Sort {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        rows.sort_by(|a, b| a.key().cmp(b.key()));
    }
}

struct ClearEvents;

impl EachFamily for ClearEvents {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if F::INFO.events {
            rows.clear();
        }
    }
}

struct CarryOver<'s>(&'s mut Snapshot);

impl EachFamily for CarryOver<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        if !F::INFO.events && !rows.is_empty() && F::rows(self.0).is_empty() {
            *F::rows_mut(self.0) = std::mem::take(rows);
        }
    }
}

/// A row type of the catalogue.
pub trait Family: Default + Clone + PartialEq + Send + 'static {
    /// Type of the key, which identifies a row.
    type Key: Key;
    /// The family's description.
    const INFO: FamilyInfo;

    /// Creates a row with only its key set.
    fn keyed(key: Self::Key) -> Self;
    /// Returns the row's key.
    fn key(&self) -> &Self::Key;
    /// Returns the rows of this family in a Snapshot, sorted by key.
    fn rows(snapshot: &Snapshot) -> &[Self];
    /// Returns the same rows, to be filled by a reader.
    fn rows_mut(snapshot: &mut Snapshot) -> &mut Vec<Self>;
    /// Returns the value of the metric at `column` of `INFO.metrics`; `None` past the end.
    fn value(&self, column: usize) -> Option<Value>;
    /// Sets the metric at `column`. Returns false and sets nothing if there is no such column or its kind differs.
    fn put(&mut self, column: usize, value: Value) -> bool;
    /// Sets a counter or gauge by name, for readers of `name value` files. Returns false if there is no such metric.
    fn set(&mut self, name: &str, value: u64) -> bool;
    /// Changes the key, which makes this the row of another entity.
    fn set_key(&mut self, key: Self::Key);
    /// Returns a row in which each counter that wraps holds the value at which it wraps, and everything else is absent.
    fn limits() -> Self {
        Self::default()
    }
    /// Returns whether a later row with the same key belongs to the same entity. It does not if both rows have the
    /// kernel's own number for the entity (an inode, an interface index) and the numbers differ: the cgroup was removed
    /// and recreated, for example.
    fn is_same_entity(&self, _other: &Self) -> bool {
        true
    }
    /// Fills absent metrics from another row of the same entity.
    fn fill(&mut self, other: &Self);
}

/// An operation on the rows of every family, whatever their type.
pub trait EachFamily {
    /// Visits the rows of one family.
    fn family<F: Family>(&mut self, rows: &mut Vec<F>);
}

/// Returns all families, in the catalogue's order.
pub fn families() -> Vec<FamilyInfo> {
    [
        Processor::FAMILIES,
        MemoryTables::FAMILIES,
        BlockTables::FAMILIES,
        NetTables::FAMILIES,
        CgroupTables::FAMILIES,
        TaskTables::FAMILIES,
        GuestTables::FAMILIES,
        KernelTables::FAMILIES,
        MeasureTables::FAMILIES,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_described() {
        let mut families_seen = HashSet::new();
        for family in families() {
            for name in family.former_names.iter().chain([&family.name]) {
                assert!(families_seen.insert(*name), "family {name} twice");
                assert!(family.is_named(name));
            }
            assert!(!family.help.is_empty() && !family.source.is_empty());
            let mut seen: HashSet<_> = family.key_columns().map(|(name, _)| name).collect();
            assert_eq!(seen.len(), family.key_columns.len(), "{}", family.name);
            assert!(seen.insert("at"), "{}: on disk that is when a row was read", family.name);
            for m in family.metrics {
                assert!(seen.insert(m.name), "{}.{} twice", family.name, m.name);
                assert!(!m.help.is_empty() && !m.otel.is_empty(), "{}.{}", family.name, m.name);
                assert!(!m.otel.contains(['{', '}']), "{}.{}: {}", family.name, m.name, m.otel);
                let has_attribute =
                    m.otel_attribute.split_once('=').is_some_and(|(key, value)| key.contains('.') && !value.is_empty());
                assert!(
                    m.otel_attribute.is_empty() || has_attribute,
                    "{}.{}: {}",
                    family.name,
                    m.name,
                    m.otel_attribute
                );
                assert_eq!(m.kind == MetricKind::State, m.unit == Unit::Text, "{}.{}", family.name, m.name);
                assert_eq!(m.names.is_some(), m.unit == Unit::Text, "{}.{}", family.name, m.name);
            }
        }
    }

    struct Names(Vec<&'static str>);

    impl EachFamily for Names {
        fn family<F: Family>(&mut self, _: &mut Vec<F>) {
            self.0.push(F::INFO.name);
        }
    }

    /// Recordings refer to families by their position in this order.
    #[test]
    fn families_are_in_the_order_of_snapshots() {
        let mut names = Names(Vec::new());
        Snapshot::default().each_table(&mut names);
        assert_eq!(names.0, families().iter().map(|family| family.name).collect::<Vec<_>>());
    }

    #[test]
    fn a_row_is_read_by_column_and_set_by_name() {
        let mut row = Cpu::new(0);
        assert!(row.set("user", 7));
        assert!(!row.set("no_such_metric", 7));
        let column = Cpu::INFO.metrics.iter().position(|m| m.name == "user").unwrap();
        assert_eq!(row.value(column), Some(Value::Counter(7.into())));
        assert_eq!(row.value(Cpu::INFO.metrics.len()), None);
        assert!(row.put(column, Value::Counter(8.into())));
        assert_eq!(row.user.get(), Some(8));
        assert!(!row.put(column, Value::Gauge(9.0.into())));
        assert!(!row.put(Cpu::INFO.metrics.len(), Value::Counter(9.into())));
    }
}
