//! A value in a Parquet column.

use whyslow_model::catalogue::MetricKind;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::KeyPart;
use whyslow_model::value::{Name, State, Value};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Absent,
    Number(i64),
    Level(f64),
    Text(Name),
}

impl Cell {
    /// Returns whether both are stored alike: unlike `==`, this distinguishes 0.0 from -0.0.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Level(a), Self::Level(b)) => a.to_bits() == b.to_bits(),
            _ => self == other,
        }
    }

    /// Returns the cell as part of a key, if it can be one.
    pub(crate) fn key_part(&self) -> Option<KeyPart> {
        match self {
            Self::Number(number) => Some(KeyPart::Number(*number as u64)),
            Self::Text(text) => Some(KeyPart::Text(text.clone())),
            Self::Level(_) | Self::Absent => None,
        }
    }

    /// Returns the cell as a metric of this kind; `None` if it is absent or of another kind. A histogram's buckets are
    /// in a file of their own.
    pub(crate) fn metric(&self, kind: MetricKind) -> Option<Value> {
        match (kind, self) {
            (MetricKind::Counter, Self::Number(number)) => Some(Value::Counter((*number as u64).into())),
            (MetricKind::Gauge, Self::Level(level)) => Some(Value::Gauge((*level).into())),
            (MetricKind::State, Self::Text(text)) => Some(Value::State(State::from(text.clone()))),
            (MetricKind::Histogram, Self::Number(_)) => Some(Value::Histogram(Histogram::from_counts([]))),
            _ => None,
        }
    }
}

impl From<&KeyPart> for Cell {
    fn from(part: &KeyPart) -> Self {
        match part {
            KeyPart::Number(number) => Self::Number(*number as i64),
            KeyPart::Text(text) => Self::Text(text.clone()),
        }
    }
}

impl From<&Value> for Cell {
    fn from(value: &Value) -> Self {
        let number = |number: Option<u64>| number.map_or(Self::Absent, |number| Self::Number(number as i64));
        match value {
            Value::Counter(counter) => number(counter.get()),
            Value::Gauge(gauge) => gauge.get().map_or(Self::Absent, Self::Level),
            Value::State(state) => state.name().map_or(Self::Absent, |name| Self::Text(name.clone())),
            Value::Histogram(histogram) => number(histogram.count()),
        }
    }
}
