//! The words that lines of the catalogue are written in: kinds of metric, and units.
#![expect(non_camel_case_types, non_upper_case_globals, reason = "they are words of the catalogue")]

use super::{MetricKind, Unit};
use crate::histogram::Histogram;
use crate::value::{Counter, Gauge, State, Value};

/// The kind of a metric, as its line declares it.
#[derive(Clone, Copy)]
pub(crate) enum Declared {
    counter,
    /// A counter that the kernel keeps in 32 bits.
    counter32,
    /// The same, in milliseconds.
    counter32_ms,
    gauge,
    state,
    /// The kernel's own number of the entity.
    identity,
    histogram,
}

/// The type of the field, by kind.
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

/// Units, by name.
pub(crate) mod unit {
    use super::Unit;

    pub(crate) const ns: Unit = Unit::Nanoseconds;
    pub(crate) const bytes: Unit = Unit::Bytes;
    pub(crate) const count: Unit = Unit::Count;
    pub(crate) const ratio: Unit = Unit::Ratio;
    pub(crate) const bps: Unit = Unit::BitsPerSecond;
    pub(crate) const hz: Unit = Unit::Hertz;
    pub(crate) const celsius: Unit = Unit::Celsius;
    pub(crate) const text: Unit = Unit::Text;
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

    /// The value at which the kernel's counter wraps, in the unit of the readings.
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

/// What rows do with a field, whatever its kind.
pub(crate) trait Field {
    /// Sets it. Returns false if the value is of another kind.
    fn put(&mut self, value: Value) -> bool;

    /// Sets a counter or gauge. Returns false for other kinds.
    fn set(&mut self, _number: u64) -> bool {
        false
    }

    /// Whether both are known and differ.
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
    // Recordings of older versions lack it.
    fn differs_from(&self, other: &Self) -> bool {
        matches!((self.get(), other.get()), (Some(a), Some(b)) if a != b)
    }
} }
field! { Histogram {} }
