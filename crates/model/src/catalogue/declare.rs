//! Declaration of families: the macro `family_group!` and the words of its lines, which are kinds of metric and units.
#![expect(non_camel_case_types, non_upper_case_globals, reason = "they are words of the catalogue")]

use super::{CountedSince, MetricKind, NameKind, Unit};
use crate::histogram::Histogram;
use crate::key::{KeyColumn, KeyPartKind};
use crate::value::{Counter, Gauge, State, Value};

/// Kind of a metric, as declared in its line.
#[derive(Clone, Copy)]
pub(crate) enum Declared {
    counter,
    /// A counter that the kernel keeps in 32 bits.
    counter32,
    /// A 32-bit counter of milliseconds.
    counter32_ms,
    gauge,
    state,
    /// The kernel's own number for the entity.
    identity,
    histogram,
}

/// Field type of each kind of metric.
pub(crate) mod field {
    use super::*;

    pub(crate) type counter = Counter;
    pub(crate) type counter32 = Counter;
    pub(crate) type counter32_ms = Counter;
    pub(crate) type gauge = Gauge;
    pub(crate) type state = State;
    pub(crate) type identity = State;
    pub(crate) type histogram = Histogram;
}

/// The words after `since`: when counting starts.
pub(crate) mod since {
    use super::CountedSince;

    pub(crate) const boot: CountedSince = CountedSince::Boot;
    pub(crate) const creation: CountedSince = CountedSince::Creation;
}

/// Unit of a metric, or for text what the text names; one word of the metric's line.
#[derive(Clone, Copy)]
pub(crate) struct DeclaredUnit {
    pub(crate) unit: Unit,
    pub(crate) names: Option<NameKind>,
}

/// Units by name, and for text metrics what the text names.
pub(crate) mod unit {
    use super::{DeclaredUnit, NameKind, Unit};

    macro_rules! units {
        ($($name:ident $Unit:ident)*) => {
            $( pub(crate) const $name: DeclaredUnit = DeclaredUnit { unit: Unit::$Unit, names: None }; )*
        };
    }

    macro_rules! words {
        ($($name:ident $Kind:ident)*) => {
            $(
                #[allow(dead_code, reason = "some are words of keys only")]
                pub(crate) const $name: DeclaredUnit =
                    DeclaredUnit { unit: Unit::Text, names: Some(NameKind::$Kind) };
            )*

            /// Kinds of names in the text columns of keys.
            pub(crate) mod named {
                use super::NameKind;

                $(
                    #[allow(dead_code, reason = "most are words of columns only")]
                    pub(crate) const $name: NameKind = NameKind::$Kind;
                )*
            }
        };
    }

    units! {
        ns Nanoseconds
        bytes Bytes
        count Count
        ratio Ratio
        bps BitsPerSecond
        hz Hertz
        celsius Celsius
    }

    words! {
        word Word
        device Device
        volume Volume
        interface Interface
        interface_detail InterfaceDetail
        namespace Namespace
        process Process
        cgroup Cgroup
        path Path
        source Source
        options Options
        host Host
        endpoint Endpoint
        uuid Uuid
        id Id
        label Label
        text Text
        log Log
        item Item
        subject Subject
        finding_key FindingKey
    }
}

/// Checks at compile time that the catalogue declares a kind of name for each text column of a key.
pub(crate) const fn names_of_key<const N: usize>(columns: &[KeyColumn], names: [NameKind; N]) -> [NameKind; N] {
    let (mut texts, mut at) = (0, 0);
    while at < columns.len() {
        if matches!(columns[at].kind, KeyPartKind::Text) {
            texts += 1;
        }
        at += 1;
    }
    assert!(texts == N, "say what each text column of the key names: `by mount: Name of path`");
    names
}

impl Declared {
    pub(crate) const fn kind(self) -> MetricKind {
        match self {
            Self::counter | Self::counter32 | Self::counter32_ms => MetricKind::Counter,
            Self::gauge => MetricKind::Gauge,
            Self::state | Self::identity => MetricKind::State,
            Self::histogram => MetricKind::Histogram,
        }
    }

    /// Returns the value at which the kernel's counter wraps, in the unit of the readings.
    pub(crate) const fn wraps_at(self) -> Option<u64> {
        match self {
            Self::counter32 => Some(1 << 32),
            // The kernel casts these to an unsigned int of milliseconds (block/genhd.c: diskstats_show).
            Self::counter32_ms => Some((1 << 32) * 1_000_000),
            _ => None,
        }
    }

    pub(crate) const fn identifies(self) -> bool {
        matches!(self, Self::identity)
    }
}

/// Returns the name in `name{key=value}`.
pub(crate) const fn otel_name(text: &'static str) -> &'static str {
    match find(text, b'{') {
        Some(brace) => text.split_at(brace).0,
        None => text,
    }
}

/// Returns the attribute in `name{key=value}`; empty without one.
pub(crate) const fn otel_attribute(text: &'static str) -> &'static str {
    match find(text, b'{') {
        Some(brace) => text.split_at(brace + 1).1.split_at(text.len() - brace - 2).0,
        None => "",
    }
}

const fn find(text: &str, wanted: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == wanted {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// Operations on a field of any kind.
pub(crate) trait Field {
    /// Sets the field. Returns false if the value is of another kind.
    fn put(&mut self, value: Value) -> bool;

    /// Sets a counter or gauge. Returns false for other kinds.
    fn set(&mut self, _number: u64) -> bool {
        false
    }

    /// Returns whether both are known and differ.
    fn differs_from(&self, _other: &Self) -> bool {
        false
    }
}

macro_rules! field {
    ($Kind:ident { $($methods:tt)* }) => {
        impl Field for $Kind {
            fn put(&mut self, value: Value) -> bool {
                let Value::$Kind(value) = value else { return false };
                *self = value;
                true
            }

            $($methods)*
        }
    };
}

field! { Counter {
    fn set(&mut self, number: u64) -> bool {
        *self = number.into();
        true
    }
} }
field! { Gauge {
    fn set(&mut self, number: u64) -> bool {
        *self = number.into();
        true
    }
} }
field! { State {
    // Recordings of older versions lack the state: absent does not differ from any state.
    fn differs_from(&self, other: &Self) -> bool {
        matches!((self.get(), other.get()), (Some(a), Some(b)) if a != b)
    }
} }
field! { Histogram {} }

/// Declares a row type: the metrics themselves, or a [`Shared`](crate::shared::Shared) of them.
macro_rules! row_type {
    ($Row:ident shares $Fields:ident $docs:tt { $key:ident: $Key:ty $(, $metrics:tt)* }) => {
        $crate::catalogue::declare::row_type! { $Fields $docs { $key: $Key $(, $metrics)* } }

        #[doc = concat!("[`", stringify!($Fields), "`], shared by the Snapshots in which it is the same.")]
        pub type $Row = $crate::shared::Shared<$Fields>;

        impl $Row {
            /// Creates a row with only its key set.
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
            /// Key of the row.
            pub $key: $Key,
            $(
                #[doc = $help]
                #[serde(default)]
                pub $field: $crate::catalogue::declare::field::$kind,
            )*
        }

        impl Default for $Row {
            fn default() -> Self {
                Self::new(<$Key>::default())
            }
        }

        impl $Row {
            /// Creates a row with only its key set.
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
            $table:ident $((once $former:literal))? : $Row:ident $(shares $Fields:ident)? by $key:ident : $Key:ident $(of $($named:ident)+)?, from $source:literal $(as $events:ident)? $(since $since:ident)? $(in $parts:ident)? $(only $captured:ident)? {
                $( $field:ident : $kind:ident $unit:ident $otel:literal $help:literal $(only $captured_metric:ident)?; )*
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
        }

        impl $crate::catalogue::TableGroup for $Group {
            const EMPTY: &'static Self = &Self { $( $table: Vec::new(), )* };

            fn each_family(&mut self, each: &mut impl $crate::catalogue::EachFamily) {
                $( each.family(&mut self.$table); )*
            }
        }

        $(
            $crate::catalogue::declare::row_type! {
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
                    key_names: &$crate::catalogue::declare::names_of_key(
                        <$Key as $crate::key::Key>::COLUMNS,
                        [$( $( $crate::catalogue::declare::unit::named::$named ),+ )?],
                    ),
                    source: $source,
                    help: concat!($($doc),+).trim_ascii(),
                    events: $( !stringify!($events).is_empty() || )? false,
                    counted_since: [$( Some($crate::catalogue::declare::since::$since), )? None][0],
                    parts: $( !stringify!($parts).is_empty() || )? false,
                    only_captures: $( !stringify!($captured).is_empty() || )? false,
                    metrics: &[ $( $crate::catalogue::Metric {
                        name: stringify!($field),
                        kind: $crate::catalogue::declare::Declared::$kind.kind(),
                        unit: $crate::catalogue::declare::unit::$unit.unit,
                        names: $crate::catalogue::declare::unit::$unit.names,
                        otel: $crate::catalogue::declare::otel_name($otel),
                        otel_attribute: $crate::catalogue::declare::otel_attribute($otel),
                        help: $help,
                        only_captures: $( !stringify!($captured_metric).is_empty() || )? false,
                        wraps_at: $crate::catalogue::declare::Declared::$kind.wraps_at(),
                        identifies: $crate::catalogue::declare::Declared::$kind.identifies(),
                    } ),* ],
                };

                fn keyed(key: $Key) -> Self {
                    Self::new(key)
                }

                fn key(&self) -> &$Key {
                    &self.$key
                }

                fn rows(snapshot: &$crate::catalogue::Snapshot) -> &[Self] {
                    &snapshot.$group_field.$table
                }

                fn rows_mut(snapshot: &mut $crate::catalogue::Snapshot) -> &mut Vec<Self> {
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
                        if column == _at { return $crate::catalogue::declare::Field::put(&mut self.$field, _value); }
                        _at += 1;
                    )*
                    false
                }

                fn set(&mut self, name: &str, _value: u64) -> bool {
                    match name {
                        $( stringify!($field) => $crate::catalogue::declare::Field::set(&mut self.$field, _value), )*
                        _ => false,
                    }
                }

                fn set_key(&mut self, key: $Key) {
                    self.$key = key;
                }

                fn limits() -> Self {
                    let mut _row = Self::default();
                    $( if let Some(limit) = $crate::catalogue::declare::Declared::$kind.wraps_at() {
                        $crate::catalogue::declare::Field::set(&mut _row.$field, limit);
                    } )*
                    _row
                }

                fn is_same_entity(&self, _other: &Self) -> bool {
                    $( !($crate::catalogue::declare::Declared::$kind.identifies()
                        && $crate::catalogue::declare::Field::differs_from(&self.$field, &_other.$field)) && )* true
                }

                fn fill(&mut self, _other: &Self) {
                    $( if self.$field == Default::default() { self.$field = _other.$field.clone(); } )*
                }
            }
        )*
    };
}

pub(crate) use {family_group, row_type};
