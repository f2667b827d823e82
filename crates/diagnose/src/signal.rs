//! Signals: named physical quantities over a Window, each with its formula.

use std::collections::BTreeMap;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::diagnosis::{Reading, Subject};
pub use whyslow_model::listing::Signal;
use whyslow_model::window::Window;
use whyslow_quantities::Declaration;

/// What the signals of a scope are computed from.
pub trait HasSignals {
    /// The signals' descriptions.
    const SIGNALS: &'static [Signal];

    /// The signals' values, in the same order.
    fn values(&self) -> Vec<Option<Reading>>;
}

/// One thing with its signals over the window.
#[derive(Clone, Debug)]
pub struct Entity {
    /// What it is, named as the system spells it.
    pub subject: Subject,
    /// The control groups it belongs to, one a line, the deepest first.
    pub cgroup: Option<String>,
    /// True if it did nothing in the window and is near no limit: no rule is judged on it, but it can be a culprit.
    pub idle: bool,
    /// The descriptions of its signals.
    pub signals: &'static [Signal],
    /// Their values, in the same order.
    pub values: Vec<Option<Reading>>,
    /// The keys of the rows it was put together from, where its name is not their key: lines of the kernel's log.
    pub rows: Vec<String>,
    /// Other names it goes by, or whose trouble is also its own: the disk behind an address, the members of an array that failed,
    /// the other ports of a bond.
    pub aliases: Vec<String>,
    /// What its signals usually are, by name, where a baseline knows it.
    pub usual: BTreeMap<String, Reading>,
}

impl Entity {
    /// A thing that is not idle, with the signals computed from `source`.
    pub fn of<S: HasSignals>(subject: Subject, source: &S) -> Self {
        Self { signals: S::SIGNALS, values: source.values(), ..Self::unknown(subject) }
    }

    /// A thing without any known signal.
    pub fn unknown(subject: Subject) -> Self {
        Self {
            subject,
            cgroup: None,
            idle: false,
            signals: &[],
            values: Vec::new(),
            rows: Vec::new(),
            aliases: Vec::new(),
            usual: BTreeMap::new(),
        }
    }

    /// A signal's value, if it is known.
    pub fn reading(&self, signal: &str) -> Option<&Reading> {
        let at = self.signals.iter().position(|s| s.name == signal)?;
        self.values.get(at)?.as_ref()
    }

    /// Like [`reading`](Self::reading), if it is a number.
    pub fn number(&self, signal: &str) -> Option<f64> {
        match self.reading(signal)? {
            Reading::Number(number) => Some(*number),
            Reading::Text(_) => None,
        }
    }

    /// Sets a number that is known only after the other signals.
    pub(crate) fn set(&mut self, signal: &str, number: Option<f64>) {
        let at = self.signals.iter().position(|s| s.name == signal);
        if let Some(value) = at.and_then(|at| self.values.get_mut(at)) {
            *value = number.into_reading();
        }
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

/// Declares the signals computed from a type: the quantities of the entity whose change is given, and others, each on one entry: name,
/// unit, sentence, formula, source, and the formula in Rust.
macro_rules! signals {
    ($of:ident : $Type:ty; $( quantities of $change:expr => $( $quantity:path ),+ ; )* $( $name:literal $unit:literal $help:literal, $how:literal, $source:literal $(, normal $normal:literal)? => $value:expr; )*) => {
        impl $crate::signal::HasSignals for $Type {
            const SIGNALS: &'static [$crate::signal::Signal] = &[
                $( $( $crate::signal::of_quantity(&$quantity.declaration), )+ )*
                $( $crate::signal::Signal {
                    name: $name, unit: $unit, help: $help, how: $how, source: $source, normal: concat!($($normal)?),
                } ),*
            ];

            fn values(&self) -> Vec<Option<whyslow_model::diagnosis::Reading>> {
                use $crate::signal::IntoReading;
                let $of = self;
                vec![
                    $( $( $quantity.over($change).into_reading(), )+ )*
                    $( $value.into_reading() ),*
                ]
            }
        }
    };
}

pub(crate) use signals;

/// The signal that a quantity is.
pub(crate) const fn of_quantity(declaration: &Declaration) -> Signal {
    let Declaration { name, unit, meaning: help, formula: how, source, normal, .. } = *declaration;
    Signal { name, unit, help, how, source, normal }
}

/// `a / b`, unknown where nothing is there to divide by.
pub(crate) fn over(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a?, b?) {
        (_, 0.0) => None,
        (a, b) => Some(a / b),
    }
}

/// The sum of the known ones; unknown if none is known.
pub(crate) fn sum<const N: usize>(parts: [Option<f64>; N]) -> Option<f64> {
    parts.into_iter().flatten().reduce(|a, b| a + b)
}

/// Nanoseconds per second, as a ratio of wall time.
pub(crate) fn ratio(ns_per_second: Option<f64>) -> Option<f64> {
    ns_per_second.map(|v| v / 1e9)
}

/// The share of these that are true; unknown if there are none.
pub(crate) fn share_of_true(all: impl Iterator<Item = bool>) -> Option<f64> {
    mean(all.map(|one| f64::from(u8::from(one))))
}

/// The mean; unknown if there are no numbers.
pub(crate) fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = numbers.fold((0.0, 0.0), |(count, sum), number| (count + 1.0, sum + number));
    over(Some(sum), Some(count))
}

/// A network namespace as a subject names it: `None` for the observer's own.
pub(crate) fn netns(ns: &str) -> Option<String> {
    (!ns.is_empty()).then(|| ns.to_owned())
}

/// Bytes of a page, in which the kernel counts memory events; 4 KiB, as on most machines, where it was not read.
pub(crate) fn page_size(window: &Window) -> f64 {
    window.the::<MachineInfo>().and_then(|m| m.page_size.get()).unwrap_or(4096.0)
}
