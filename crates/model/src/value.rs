//! The kinds of metric values. Each value can be absent; the fourth kind is [`Histogram`].
//!
//! A kernel without a counter, a file that could not be read and a counter at zero are three different things. Absent is
//! encoded in-band (a sentinel), so that a metric stays eight bytes: ten thousand processes are read once a second.

use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A count that only grows, until it wraps or its entity is recreated. Absent until set.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter(u64);

impl Counter {
    /// An absent counter.
    pub const ABSENT: Self = Self(u64::MAX);

    /// Returns the count; `None` if absent.
    pub const fn get(self) -> Option<u64> {
        if self.0 == u64::MAX { None } else { Some(self.0) }
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::ABSENT
    }
}

impl From<u64> for Counter {
    /// Treats `u64::MAX` as absent: no kernel counter reaches it.
    fn from(value: u64) -> Self {
        Self(value)
    }
}

impl From<Option<u64>> for Counter {
    /// Treats `None` as absent.
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::ABSENT, Self)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(v) => write!(f, "{v}"),
            None => f.write_str("absent"),
        }
    }
}

/// A level that rises and falls. Absent until set; absent is `null` in JSON, which has no NaN.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(from = "Option<f64>", into = "Option<f64>")]
pub struct Gauge(f64);

impl From<Gauge> for Option<f64> {
    fn from(gauge: Gauge) -> Self {
        gauge.get()
    }
}

/// Treats two absent levels as equal, although the sentinel is a NaN.
impl PartialEq for Gauge {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Gauge {
    /// An absent level.
    pub const ABSENT: Self = Self(f64::NAN);

    /// Returns the level; `None` if absent.
    pub fn get(self) -> Option<f64> {
        if self.0.is_nan() { None } else { Some(self.0) }
    }
}

impl Default for Gauge {
    fn default() -> Self {
        Self::ABSENT
    }
}

impl From<f64> for Gauge {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl From<Option<f64>> for Gauge {
    /// Treats `None` as absent.
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::ABSENT, Self)
    }
}

impl From<u64> for Gauge {
    fn from(value: u64) -> Self {
        Self(value as f64)
    }
}

impl From<Option<u64>> for Gauge {
    /// Treats `None` as absent.
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::ABSENT, Self::from)
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(v) => write!(f, "{v}"),
            None => f.write_str("absent"),
        }
    }
}

/// A setting or condition as text (`mq-deadline`, `D`, `full`). Absent until set.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State(Option<Name>);

impl State {
    /// Returns the text; `None` if absent.
    pub fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns the text as a shared name.
    pub fn name(&self) -> Option<&Name> {
        self.0.as_ref()
    }
}

impl<T: Into<Name>> From<T> for State {
    fn from(value: T) -> Self {
        Self(Some(value.into()))
    }
}

impl<T: Into<Name>> From<Option<T>> for State {
    /// Treats `None` as absent.
    fn from(value: Option<T>) -> Self {
        Self(value.map(Into::into))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(v) => write!(f, "{v:?}"),
            None => f.write_str("absent"),
        }
    }
}

/// A name as the system spells it, cheap to clone. Untrusted: anything that displays it must escape it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Default for Name {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(value: &str) -> Self {
        Self(Arc::from(value))
    }
}

impl From<String> for Name {
    fn from(value: String) -> Self {
        Self(Arc::from(value))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// A value of any kind, for generic readers of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A counter's reading.
    Counter(Counter),
    /// A gauge's reading.
    Gauge(Gauge),
    /// A state's reading.
    State(State),
    /// A histogram's reading.
    Histogram(Histogram),
}

macro_rules! value_from {
    ($($Kind:ident)*) => { $(
        impl From<$Kind> for Value {
            fn from(value: $Kind) -> Self {
                Self::$Kind(value)
            }
        }
    )* };
}

value_from!(Counter Gauge State Histogram);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_not_zero() {
        assert_eq!(Counter::default().get(), None);
        assert_eq!(Counter::from(0).get(), Some(0));
        assert_eq!(Gauge::default().get(), None);
        assert_eq!(Gauge::default(), Gauge::ABSENT);
        assert_eq!(Gauge::from(0.0).get(), Some(0.0));
        assert_eq!(State::default().get(), None);
        assert_eq!(State::from("").get(), Some(""));
    }
}
