//! Signals: named physical quantities over a Window, each with its formula.

use std::collections::BTreeMap;
use whyslow_documents::diagnosis::{Reading, Subject};
pub use whyslow_documents::listing::Signal;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::window::Window;
use whyslow_quantities::Declaration;

/// Inputs of the signals of a scope.
pub trait HasSignals {
    /// Descriptions of the signals.
    const SIGNALS: &'static [Signal];

    /// Returns the signals' values, in the same order.
    fn values(&self) -> Vec<Option<Reading>>;
}

/// One entity with its signals over the window.
#[derive(Clone, Debug)]
pub struct Entity {
    /// The entity, named as the system spells it.
    pub subject: Subject,
    /// Control groups that it belongs to, one per line, deepest first.
    pub cgroup: Option<String>,
    /// True if it did nothing in the window and is near no limit: no rule is judged on it, but it can be a culprit.
    pub idle: bool,
    /// Descriptions of its signals.
    pub signals: &'static [Signal],
    /// Values of its signals, in the same order.
    pub values: Vec<Option<Reading>>,
    /// Keys of the rows it was built from, where its name is not their key: lines of the kernel log.
    pub rows: Vec<String>,
    /// Other names for it, or names of entities whose trouble is also its own: the disk behind an address, the failed members of
    /// an array, the other ports of a bond.
    pub aliases: Vec<String>,
    /// Usual values of its signals, by name, where a baseline has them.
    pub usual: BTreeMap<String, Reading>,
}

impl Entity {
    /// Creates an entity that is not idle, with the signals computed from `source`.
    pub fn from_subject<S: HasSignals>(subject: Subject, source: &S) -> Self {
        Self { signals: S::SIGNALS, values: source.values(), ..Self::unknown(subject) }
    }

    /// Creates an entity without any known signal.
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

    /// Returns a signal's value, if it is known.
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

    /// Sets the control groups that the entity belongs to.
    pub fn within(self, cgroup: Option<String>) -> Self {
        Self { cgroup, ..self }
    }

    /// Sets the keys of the rows that the entity was built from.
    pub fn of_rows(self, keys: impl IntoIterator<Item = u64>) -> Self {
        Self { rows: keys.into_iter().map(|key| key.to_string()).collect(), ..self }
    }

    /// Adds aliases to the entity.
    pub fn also_named(self, aliases: Vec<String>) -> Self {
        Self { aliases, ..self }
    }

    /// Returns the deepest of its control groups.
    pub fn deepest_cgroup(&self) -> Option<&str> {
        self.cgroup.as_deref()?.lines().next()
    }
}

/// Possible result of a signal's formula.
pub(crate) trait IntoReading {
    fn into_reading(self) -> Option<Reading>;
}

impl IntoReading for Option<f64> {
    fn into_reading(self) -> Option<Reading> {
        // The sum of no numbers is -0.0.
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

/// Declares the signals computed from a type: the quantities of the entity whose change is given; quantities of several entities
/// or families, with the value in Rust; and further signals, one per entry: name, unit, sentence, formula, source, and the formula
/// in Rust.
macro_rules! signals {
    ($of:ident : $Type:ty; $( quantities of $change:expr => $( $quantity:path ),+ ; )* $( as $declared:path => $computed:expr; )* $( $name:literal $unit:literal $help:literal, $how:literal, $source:literal $(, normal $normal:tt)? $(, better $better:ident)? $(, baseline $baseline:literal)? => $value:expr; )*) => {
        impl $crate::signal::HasSignals for $Type {
            const SIGNALS: &'static [$crate::signal::Signal] = &[
                $( $( $crate::signal::of_quantity(&$quantity.declaration), )+ )*
                $( $crate::signal::of_quantity(&$declared.declaration), )*
                $( $crate::signal::Signal {
                    name: $name, unit: $unit, help: $help, how: $how, source: $source, normal: whyslow_quantities::normal!($unit $(, $normal)?),
                    better: whyslow_quantities::better!($($better)?), baseline: $($baseline ||)? false,
                } ),*
            ];

            fn values(&self) -> Vec<Option<whyslow_documents::diagnosis::Reading>> {
                use $crate::signal::IntoReading;
                let $of = self;
                vec![
                    $( $( $quantity.over($change).into_reading(), )+ )*
                    $( $computed.into_reading(), )*
                    $( $value.into_reading() ),*
                ]
            }
        }
    };
}

pub(crate) use signals;

/// Converts the declaration of a quantity to a signal.
pub(crate) const fn of_quantity(declaration: &Declaration) -> Signal {
    let Declaration { name, unit, meaning: help, formula: how, source, normal, better, baseline, .. } = *declaration;
    Signal { name, unit, help, how, source, normal, better, baseline }
}

/// Returns `a / b`; `None` if either is unknown or `b` is 0.
pub(crate) fn over(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a?, b?) {
        (_, 0.0) => None,
        (a, b) => Some(a / b),
    }
}

/// Returns the sum of the known values; `None` if none is known.
pub(crate) fn sum<const N: usize>(parts: [Option<f64>; N]) -> Option<f64> {
    parts.into_iter().flatten().reduce(|a, b| a + b)
}

/// Converts nanoseconds per second to a ratio of wall time.
pub(crate) fn ratio(ns_per_second: Option<f64>) -> Option<f64> {
    ns_per_second.map(|v| v / 1e9)
}

/// Returns the share of values that are true; `None` if there are none.
pub(crate) fn share_of_true(all: impl Iterator<Item = bool>) -> Option<f64> {
    mean(all.map(|one| f64::from(u8::from(one))))
}

/// Returns the mean; `None` if there are no numbers.
pub(crate) fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = numbers.fold((0.0, 0.0), |(count, sum), number| (count + 1.0, sum + number));
    over(Some(sum), Some(count))
}

/// Returns the network namespace as a subject names it: `None` for the observer's own.
pub(crate) fn netns(ns: &str) -> Option<String> {
    (!ns.is_empty()).then(|| ns.to_owned())
}

/// Returns the bytes of a page, the unit in which the kernel counts memory events; 4 KiB, as on most machines, where it was not
/// read.
pub(crate) fn page_size(window: &Window) -> f64 {
    window.the::<MachineInfo>().and_then(|m| m.page_size.get()).unwrap_or(4096.0)
}
