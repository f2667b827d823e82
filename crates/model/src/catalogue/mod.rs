//! The metric catalogue: every metric is described once, on one line, from which everything else is derived.
//!
//! `family_group!` turns a line such as
//!
//! ```text
//! reads: counter count "system.disk.operations" "reads completed";
//! ```
//!
//! It becomes the field of the row, its entry in [`families`], and its lookup by name. `counter32` is a counter that the kernel
//! keeps in 32 bits; `identity` is the kernel's own number of the entity, which distinguishes it from another of the same name.
//! Columns on disk, exporters, the documentation (`whyslow metrics`) and the screens read the entry; readers in `sense` and
//! `import` fill the field.
//!
//! A family declared `as events` has rows that happened once: they are in the sample after that, and do not stay valid until
//! the next reading.
//!
//! Raw time is kept in whole nanoseconds, so that nothing is rounded; results of a [`Window`](crate::window::Window) are in
//! seconds.

mod block;
mod cgroup;
mod declare;
mod describe;
mod kernel;
mod measure;
mod memory;
mod net;
mod processor;
mod task;

pub use block::*;
pub use cgroup::*;
use declare::{Declared, Field};
pub use describe::{FamilyInfo, Metric, MetricKind, Unit};
pub use kernel::*;
pub use measure::*;
pub use memory::*;
pub use net::*;
pub use processor::*;
pub use task::*;

use crate::key::Key;
use crate::snapshot::Snapshot;
use crate::value::Value;

/// A row type of the catalogue.
pub trait Family: Default + Clone + PartialEq + Send + 'static {
    /// What identifies a row.
    type Key: Key;
    /// The family's description.
    const INFO: FamilyInfo;

    /// A row with only its key set.
    fn keyed(key: Self::Key) -> Self;
    /// The row's key.
    fn key(&self) -> &Self::Key;
    /// The rows of this family in a Snapshot, sorted by key.
    fn rows(snapshot: &Snapshot) -> &[Self];
    /// The same rows, to be filled by a reader.
    fn rows_mut(snapshot: &mut Snapshot) -> &mut Vec<Self>;
    /// The value of the metric at `column` of `INFO.metrics`; `None` past the end.
    fn value(&self, column: usize) -> Option<Value>;
    /// Sets the metric at `column`. Returns false and sets nothing if there is none or its kind differs.
    fn put(&mut self, column: usize, value: Value) -> bool;
    /// Sets a counter or gauge by name, for readers of `name value` files. Returns false if there is no such metric.
    fn set(&mut self, name: &str, value: u64) -> bool;
    /// Changes the key: the row of another entity.
    fn set_key(&mut self, key: Self::Key);
    /// A row in which each counter that wraps holds the value at which it wraps, and everything else is absent.
    fn limits() -> Self {
        Self::default()
    }
    /// Whether a later row with the same key belongs to the same entity. It does not if the kernel's own number for it (an
    /// inode, an interface index) is known in both and differs, as for a cgroup that was removed and recreated under its name.
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

/// All families, in the catalogue's order.
pub fn families() -> Vec<FamilyInfo> {
    [
        Processor::FAMILIES,
        MemoryTables::FAMILIES,
        BlockTables::FAMILIES,
        NetTables::FAMILIES,
        CgroupTables::FAMILIES,
        TaskTables::FAMILIES,
        KernelTables::FAMILIES,
        MeasureTables::FAMILIES,
    ]
    .concat()
}

/// Declares a row type: the metrics themselves, or a [`Shared`](crate::shared::Shared) of them.
macro_rules! row_type {
    ($Row:ident shares $Fields:ident $docs:tt { $key:ident: $Key:ty $(, $metrics:tt)* }) => {
        $crate::catalogue::row_type! { $Fields $docs { $key: $Key $(, $metrics)* } }

        #[doc = concat!("[`", stringify!($Fields), "`], shared by the Snapshots in which it is the same.")]
        pub type $Row = $crate::shared::Shared<$Fields>;

        impl $Row {
            /// A row with only its key set.
            pub fn new($key: $Key) -> Self {
                $Fields::new($key).into()
            }
        }
    };
    (
        $Row:ident
        { $(#[doc = $doc:literal])+ }
        { $key:ident: $Key:ty $(, ($field:ident: $kind:ident $help:literal))* }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $Row {
            /// What identifies the row.
            pub $key: $Key,
            $(
                #[doc = $help]
                #[serde(default)]
                pub $field: $crate::catalogue::declare::field::$kind,
            )*
        }

        impl Default for $Row {
            fn default() -> Self {
                Self::new($crate::key::unset())
            }
        }

        impl $Row {
            /// A row with only its key set.
            pub fn new($key: $Key) -> Self {
                Self { $key, $( $field: Default::default(), )* }
            }
        }
    };
}

/// Declares a group of families: its tables, its row types and their entries in the catalogue.
macro_rules! family_group {
    (
        $(#[doc = $group_doc:literal])* $group_field:ident : $Group:ident
        $(
            $(#[doc = $doc:literal])+
            $table:ident $((once $former:literal))? : $Row:ident $(shares $Fields:ident)? by $key:ident : $Key:ty, from $source:literal $(as $events:ident)? {
                $( $field:ident : $kind:ident $unit:ident $otel:literal $help:literal; )*
            }
        )*
    ) => {
        $(#[doc = $group_doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $Group {
            $( $(#[doc = $doc])+ $(#[serde(alias = $former)])? pub $table: Vec<$Row>, )*
        }

        impl $Group {
            /// The families of this group.
            pub const FAMILIES: &'static [$crate::catalogue::FamilyInfo] =
                &[ $( <$Row as $crate::catalogue::Family>::INFO ),* ];

            /// Takes over the rows of `other`; tables without rows there are unchanged.
            pub(crate) fn absorb(&mut self, other: Self) {
                $( if !other.$table.is_empty() {
                    if self.$table.is_empty() { self.$table = other.$table } else { self.$table.extend(other.$table) }
                } )*
            }

            /// Clears the tables that `known` has rows of.
            pub(crate) fn forget(&mut self, known: &Self) {
                $( if !known.$table.is_empty() { self.$table.clear(); } )*
            }

            /// Sorts every table by key.
            pub(crate) fn sort(&mut self) {
                $( self.$table.sort_by(|a, b| a.$key.cmp(&b.$key)); )*
            }

            /// Passes every table to `each`, in the catalogue's order.
            pub(crate) fn each_family(&mut self, each: &mut impl $crate::catalogue::EachFamily) {
                $( each.family(&mut self.$table); )*
            }
        }

        $(
            $crate::catalogue::row_type! {
                $Row $(shares $Fields)?
                { $(#[doc = $doc])+ }
                { $key: $Key $(, ($field: $kind $help))* }
            }

            impl $crate::catalogue::Family for $Row {
                type Key = $Key;
                const INFO: $crate::catalogue::FamilyInfo = $crate::catalogue::FamilyInfo {
                    name: stringify!($table),
                    former_names: &[ $( $former )? ],
                    key: stringify!($key),
                    key_columns: <$Key as $crate::key::Key>::COLUMNS,
                    source: $source,
                    help: concat!($($doc),+).trim_ascii(),
                    events: $( !stringify!($events).is_empty() || )? false,
                    metrics: &[ $( $crate::catalogue::Metric {
                        name: stringify!($field),
                        kind: $crate::catalogue::Declared::$kind.kind(),
                        unit: $crate::catalogue::declare::unit::$unit,
                        otel: $otel,
                        help: $help,
                        wraps_at: $crate::catalogue::Declared::$kind.wraps_at(),
                        identifies: $crate::catalogue::Declared::$kind.identifies(),
                    } ),* ],
                };

                fn keyed(key: $Key) -> Self {
                    Self::new(key)
                }

                fn key(&self) -> &$Key {
                    &self.$key
                }

                fn rows(snapshot: &$crate::snapshot::Snapshot) -> &[Self] {
                    &snapshot.$group_field.$table
                }

                fn rows_mut(snapshot: &mut $crate::snapshot::Snapshot) -> &mut Vec<Self> {
                    &mut snapshot.$group_field.$table
                }

                fn value(&self, column: usize) -> Option<$crate::value::Value> {
                    let mut _at = 0;
                    $(
                        if column == _at { return Some(self.$field.clone().into()); }
                        _at += 1;
                    )*
                    None
                }

                fn put(&mut self, column: usize, _value: $crate::value::Value) -> bool {
                    let mut _at = 0;
                    $(
                        if column == _at { return $crate::catalogue::Field::put(&mut self.$field, _value); }
                        _at += 1;
                    )*
                    false
                }

                fn set(&mut self, name: &str, _value: u64) -> bool {
                    match name {
                        $( stringify!($field) => $crate::catalogue::Field::set(&mut self.$field, _value), )*
                        _ => false,
                    }
                }

                fn set_key(&mut self, key: $Key) {
                    self.$key = key;
                }

                fn limits() -> Self {
                    let mut _row = Self::default();
                    $( if let Some(limit) = $crate::catalogue::Declared::$kind.wraps_at() {
                        $crate::catalogue::Field::set(&mut _row.$field, limit);
                    } )*
                    _row
                }

                fn is_same_entity(&self, _other: &Self) -> bool {
                    $( !($crate::catalogue::Declared::$kind.identifies()
                        && $crate::catalogue::Field::differs_from(&self.$field, &_other.$field)) && )* true
                }

                fn fill(&mut self, _other: &Self) {
                    $( if self.$field == Default::default() { self.$field = _other.$field.clone(); } )*
                }
            }
        )*
    };
}

use {family_group, row_type};

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
                assert_eq!(m.kind == MetricKind::State, m.unit == Unit::Text, "{}.{}", family.name, m.name);
            }
        }
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
