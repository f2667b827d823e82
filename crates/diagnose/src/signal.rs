//! Signals: named physical quantities over a Window, each with its formula.

use whyslow_model::diagnosis::{Reading, Subject};
use whyslow_model::rule::SignalInfo;

/// A signal's description.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// Its name, `disk.queue`.
    pub name: &'static str,
    /// Its unit, as in the diagnosis document.
    pub unit: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Its formula.
    pub how: &'static str,
    /// Where its counters come from.
    pub source: &'static str,
}

impl Signal {
    /// As people see it.
    pub fn info(&self) -> SignalInfo {
        SignalInfo {
            name: self.name.into(),
            unit: self.unit.into(),
            help: self.help.into(),
            how: self.how.into(),
            source: self.source.into(),
        }
    }
}

/// One thing with its signals over the window.
#[derive(Clone, Debug)]
pub struct Entity {
    /// What it is, named as the system spells it.
    pub subject: Subject,
    /// The control groups it belongs to, one a line, the deepest first, where it belongs to any.
    pub cgroup: Option<String>,
    /// True where it did nothing in the window and stands near no limit: no rule is asked of it, but it can be to blame.
    pub idle: bool,
    /// Its signals' values, in the order of its scope's table.
    pub values: Vec<Option<Reading>>,
    /// The keys of the rows it was put together from, where its name is not their key: lines of the kernel's log.
    pub rows: Vec<String>,
    /// Other names it goes by: the disk behind an address, the members of an array that failed.
    pub aliases: Vec<String>,
}

impl Entity {
    /// A thing that takes part.
    pub fn new(subject: Subject, values: Vec<Option<Reading>>) -> Self {
        Self { subject, cgroup: None, idle: false, values, rows: Vec::new(), aliases: Vec::new() }
    }

    /// The same as a member of control groups.
    pub fn within(self, cgroup: Option<String>) -> Self {
        Self { cgroup, ..self }
    }

    /// The same, put together from rows with these keys.
    pub fn of_rows(self, keys: impl IntoIterator<Item = u64>) -> Self {
        Self { rows: keys.into_iter().map(|key| key.to_string()).collect(), ..self }
    }

    /// The same, with other names it goes by.
    pub fn also_named(self, aliases: Vec<String>) -> Self {
        Self { aliases, ..self }
    }

    /// The deepest of its control groups.
    pub fn deepest_cgroup(&self) -> Option<&str> {
        self.cgroup.as_deref()?.lines().next()
    }
}

/// Whether one of these control groups, one a line, is `group` or lies in it.
pub(crate) fn in_group(cgroups: Option<&str>, group: &str) -> bool {
    let inside = |path: &str| path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    cgroups.is_some_and(|all| all.lines().any(inside))
}

/// What a signal's formula may come to.
pub(crate) trait IntoReading {
    fn into_reading(self) -> Option<Reading>;
}

impl IntoReading for Option<f64> {
    fn into_reading(self) -> Option<Reading> {
        // The sum of nothing is -0.0.
        self.filter(|v| v.is_finite()).map(|v| Reading::Number(v + 0.0))
    }
}

impl IntoReading for f64 {
    fn into_reading(self) -> Option<Reading> {
        Some(self).into_reading()
    }
}

impl IntoReading for bool {
    fn into_reading(self) -> Option<Reading> {
        Some(Reading::Number(f64::from(u8::from(self))))
    }
}

impl IntoReading for Option<bool> {
    fn into_reading(self) -> Option<Reading> {
        self.and_then(bool::into_reading)
    }
}

impl IntoReading for Option<&str> {
    fn into_reading(self) -> Option<Reading> {
        self.map(|t| Reading::Text(t.to_owned()))
    }
}

impl IntoReading for &str {
    fn into_reading(self) -> Option<Reading> {
        Some(self).into_reading()
    }
}

/// Declares a scope's signals, each on one entry: name, unit, sentence, formula, source, and the formula in Rust.
macro_rules! signals {
    ($of:ident : $Type:ty; $( $name:literal $unit:literal $help:literal, $how:literal, $source:literal => $value:expr; )*) => {
        /// The signals' descriptions.
        pub const SIGNALS: &[$crate::signal::Signal] = &[ $( $crate::signal::Signal {
            name: $name, unit: $unit, help: $help, how: $how, source: $source,
        } ),* ];

        /// The signals' values, in the same order.
        pub fn read($of: $Type) -> Vec<Option<whyslow_model::diagnosis::Reading>> {
            use $crate::signal::IntoReading;
            vec![ $( $value.into_reading() ),* ]
        }
    };
}

pub(crate) use signals;

/// `a / b`, unknown where nothing is there to divide by.
pub(crate) fn over(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a?, b?) {
        (_, 0.0) => None,
        (a, b) => Some(a / b),
    }
}

/// The sum of those that are known; unknown where none is.
pub(crate) fn sum<const N: usize>(parts: [Option<f64>; N]) -> Option<f64> {
    parts.into_iter().flatten().reduce(|a, b| a + b)
}

/// Nanoseconds per second, as a ratio of wall time.
pub(crate) fn ratio(ns_per_second: Option<f64>) -> Option<f64> {
    ns_per_second.map(|v| v / 1e9)
}
