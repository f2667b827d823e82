//! Declarations of quantities.

use crate::expression::{Expression, StepAmount, Sum};
use std::marker::PhantomData;
use whyslow_model::catalogue::{FamilyInfo, Unit};
use whyslow_model::normal::Better;
use whyslow_model::normal::Normal;

/// Declaration of a quantity.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// Public name, used in rules, documents and baselines.
    pub name: &'static str,
    /// Unit: `s`, `bytes`, `bytes/s`, `bit/s`, `1/s`, `count`, `ratio`.
    pub unit: &'static str,
    /// One phrase on what it is.
    pub meaning: &'static str,
    /// Formula as printed.
    pub formula: &'static str,
    /// Source of its counters.
    pub source: &'static str,
    /// Values at which nobody would look twice.
    pub normal: Normal,
    /// Direction that is better, unless that depends on the amount of work.
    pub better: Option<Better>,
    /// True if baselines keep it.
    pub baseline: bool,
    /// The same flow one layer down.
    pub passes_to: Option<&'static Declaration>,
    /// Family of the catalogue whose columns it is computed from.
    pub family: &'static FamilyInfo,
    /// Computation.
    pub expression: Expression,
    /// Upper limit of meaningful values. Larger values occur because dividend and divisor are measured by different clocks.
    pub at_most: Option<f64>,
}

impl Declaration {
    /// Returns how many of the column's units make one unit of quantities. The catalogue has times in nanoseconds and traffic in
    /// bytes; quantities have seconds and bits.
    pub fn scale(&self, column: usize) -> f64 {
        match self.family.metrics[column].unit {
            Unit::Nanoseconds => 1e9,
            Unit::Bytes if self.unit == BITS => 0.125,
            _ => 1.0,
        }
    }

    /// Returns what a step of `seconds` seconds adds, in the units of quantities. `grown` returns the growth of the counter in a
    /// column, also in those units.
    pub fn step(&self, seconds: f64, grown: impl Fn(usize) -> Option<f64>) -> Option<StepAmount> {
        let step = self.expression.step(seconds, grown)?;
        Some(StepAmount { amount: self.at_most.map_or(step.amount, |most| step.amount.min(most * step.units)), ..step })
    }

    /// Returns the value of a sum of steps in the units of the catalogue. Converts the sum rather than each step, so that whole
    /// numbers stay exact.
    pub(crate) fn value(&self, steps: StepAmount) -> Option<f64> {
        let value = steps.value()? / self.scale_of_amounts();
        Some(self.at_most.map_or(value, |most| value.min(most)))
    }

    /// Returns how many of the catalogue's amounts per unit make one of the quantity's.
    fn scale_of_amounts(&self) -> f64 {
        let scale = |of: Sum| of.first().and_then(|terms| terms.first()).map_or(1.0, |term| self.scale(term.column));
        match &self.expression {
            Expression::Rate(of) => scale(of),
            Expression::Quotient { pairs, .. } => pairs.first().map_or(1.0, |pair| scale(pair.of) / scale(pair.per)),
        }
    }
}

/// Unit of network traffic.
pub(crate) const BITS: &str = "bit/s";

/// A quantity of the rows of a family.
#[derive(Debug)]
pub struct Quantity<F> {
    /// Its declaration.
    pub declaration: Declaration,
    family: PhantomData<fn(&F)>,
}

impl<F> Quantity<F> {
    /// Creates a quantity from its declaration.
    pub const fn from_declaration(declaration: Declaration) -> Self {
        Self { declaration, family: PhantomData }
    }
}

/// Returns the position of a metric in its family. Evaluated at compile time, so that a name that is not in the catalogue does
/// not compile.
pub const fn column(family: &FamilyInfo, name: &str) -> usize {
    let mut at = 0;
    while at < family.metrics.len() {
        if is_same(family.metrics[at].name.as_bytes(), name.as_bytes()) {
            return at;
        }
        at += 1;
    }
    panic!("the catalogue has no such metric")
}

pub(crate) const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Declares the quantities of a family, and a list of all of them: constant, name, unit, meaning, source, the normal value if
/// that does not depend on the cause, the direction that is better, whether baselines keep it, the same flow one layer down, and
/// the computation.
///
/// ```text
/// quantities! { Disk;
///     READS = "disk.reads" "1/s" "reads completed", "/proc/diskstats field 1" = rate(reads);
///     REQUEST_SIZE = "disk.request_size" "bytes" "mean size of a read or write", "/proc/diskstats"
///         = each(read_bytes / reads, write_bytes / writes; else read_bytes + write_bytes / transfers);
/// }
/// ```
///
/// `a + b | c` is the sum of `a` and `b`, or `c` if the sum is unknown. `a + [b]` is `a` if `b` is unknown. `(SUM)` is a sum that
/// several quantities share.
macro_rules! quantities {
    ($Family:ident; $(
        $(#[$doc:meta])*
        $NAME:ident = $name:literal $unit:literal $meaning:literal, $source:literal $(, normal $normal:tt)? $(, better $better:ident)? $(, baseline $baseline:literal)? $(, passes to $next:path)?
            = $how:ident($($terms:tt)+) $(at most $most:literal)?;
    )+) => {
        $(
            #[doc = concat!("`", $name, "`: ", $meaning, ".")]
            $(#[$doc])*
            pub static $NAME: $crate::Quantity<$Family> = {
                const FAMILY: &whyslow_model::catalogue::FamilyInfo =
                    &<$Family as whyslow_model::catalogue::Family>::INFO;
                const EXPRESSION: $crate::Expression = $crate::declare::expression!(FAMILY $how $($terms)+);
                static FORMULA: $crate::Formula = $crate::Formula::from_expression(&EXPRESSION, FAMILY, $unit);
                $crate::Quantity::from_declaration($crate::Declaration {
                    name: $name,
                    unit: $unit,
                    meaning: $meaning,
                    formula: FORMULA.text(),
                    source: $source,
                    normal: $crate::normal!($unit $(, $normal)?),
                    better: $crate::better!($($better)?),
                    baseline: $($baseline ||)? false,
                    passes_to: $crate::declare::passes_to!($($next)?),
                    family: FAMILY,
                    expression: EXPRESSION,
                    at_most: $crate::declare::at_most!($($most)?),
                })
            };
        )+

        /// All quantities of this family.
        pub static ALL: &[&$crate::Declaration] = &[ $( &$NAME.declaration ),+ ];
    };
}

/// Values that are normal: a range (`below`, `above`, or `near` zero, with the largest value that is as good as zero), and words.
///
/// ```text
/// normal "words where no number holds for all"
/// normal (below 0.8)
/// normal (below 0.8, "why")
/// normal (near 10.0 as "words instead of the range")
/// normal (below 0.005, 0.025 on rotational disks, "why")
/// ```
#[macro_export]
macro_rules! normal {
    ($unit:literal) => {
        $crate::Normal::unknown($unit)
    };
    ($unit:literal, (below $below:literal, $rotational:literal on rotational disks, $why:literal)) => {
        $crate::Normal {
            unit: $unit,
            range: Some($crate::Range::BelowOnDisks { rotational: $rotational, others: $below }),
            words: $crate::Words::Why($why),
        }
    };
    ($unit:literal, ($how:ident $number:literal $(, $why:literal)?)) => {
        $crate::Normal { unit: $unit, range: Some($crate::range!($how $number)), words: $crate::Words::Why(concat!($($why)?)) }
    };
    ($unit:literal, ($how:ident $number:literal as $words:literal)) => {
        $crate::Normal { unit: $unit, range: Some($crate::range!($how $number)), words: $crate::Words::Instead($words) }
    };
    ($unit:literal, $words:literal) => {
        $crate::Normal { unit: $unit, range: None, words: $crate::Words::Instead($words) }
    };
}

/// A range of [`normal!`].
#[macro_export]
macro_rules! range {
    (below $number:literal) => {
        $crate::Range::Below($number)
    };
    (above $number:literal) => {
        $crate::Range::Above($number)
    };
    (near $number:literal) => {
        $crate::Range::NearZero($number)
    };
}

/// Direction that is better: `lower`, `higher`, or nothing.
#[macro_export]
macro_rules! better {
    () => {
        None
    };
    (lower) => {
        Some($crate::Better::Lower)
    };
    (higher) => {
        Some($crate::Better::Higher)
    };
}

macro_rules! passes_to {
    () => {
        None
    };
    ($next:path) => {
        Some(&$next.declaration)
    };
}

macro_rules! at_most {
    () => {
        None
    };
    ($most:literal) => {
        Some($most)
    };
}

macro_rules! expression {
    ($family:ident rate $( $of:tt $(+ $of_more:tt)* )|+) => {
        $crate::Expression::Rate($crate::declare::sum!($family $( $of $(+ $of_more)* )|+))
    };
    ($family:ident each $( $( $of:tt $(+ $of_more:tt)* )|+ / $( $per:tt $(+ $per_more:tt)* )|+ ),+
        $(; else $( $or_of:tt $(+ $or_of_more:tt)* )|+ / $( $or_per:tt $(+ $or_per_more:tt)* )|+ )?) => {
        $crate::Expression::Quotient {
            pairs: &[ $( $crate::Pair {
                of: $crate::declare::sum!($family $( $of $(+ $of_more)* )|+),
                per: $crate::declare::sum!($family $( $per $(+ $per_more)* )|+),
            } ),+ ],
            or: $crate::declare::or!($family $( $( $or_of $(+ $or_of_more)* )|+ / $( $or_per $(+ $or_per_more)* )|+ )?),
        }
    };
}

macro_rules! or {
    ($family:ident) => { None };
    ($family:ident $( $of:tt $(+ $of_more:tt)* )|+ / $( $per:tt $(+ $per_more:tt)* )|+) => {
        Some($crate::Pair {
            of: $crate::declare::sum!($family $( $of $(+ $of_more)* )|+),
            per: $crate::declare::sum!($family $( $per $(+ $per_more)* )|+),
        })
    };
}

macro_rules! sum {
    ($family:tt ($SUM:ident)) => { $SUM };
    ($family:tt $( $of:tt $(+ $of_more:tt)* )|+) => {
        &[ $( &[ $crate::declare::term!($family $of) $(, $crate::declare::term!($family $of_more) )* ] ),+ ]
    };
}

macro_rules! term {
    ($family:tt [ $of:ident ]) => {
        $crate::Term { column: $crate::column($family, stringify!($of)), is_optional: true }
    };
    ($family:tt $of:ident) => {
        $crate::Term { column: $crate::column($family, stringify!($of)), is_optional: false }
    };
}

pub(crate) use {at_most, expression, or, passes_to, quantities, sum, term};

/// Returns the units that a quantity can have, which follow from those of its counters.
///
/// # Errors
/// Returns what does not fit together.
pub(crate) fn units_of(quantity: &Declaration) -> Result<&'static [&'static str], String> {
    match &quantity.expression {
        Expression::Rate(of) => match unit_of(quantity, std::iter::once(*of))? {
            "" => Ok(&["1/s"]),
            "s" => Ok(&["ratio", "count"]),
            _ => Ok(&["bytes/s", BITS]),
        },
        Expression::Quotient { pairs, or } => {
            let all = || pairs.iter().chain(or);
            let of = unit_of(quantity, all().map(|pair| pair.of))?;
            match (of, unit_of(quantity, all().map(|pair| pair.per))?) {
                (of, per) if of == per => Ok(&["ratio", "count"]),
                ("", "s") => Ok(&["1/s"]),
                ("s", "") => Ok(&["s"]),
                ("bytes", "") => Ok(&["bytes"]),
                (of, per) => Err(format!("{}: there is no unit for {of:?} per {per:?}", quantity.name)),
            }
        }
    }
}

/// Returns the unit of counters that are added.
fn unit_of(quantity: &Declaration, sums: impl Iterator<Item = Sum>) -> Result<&'static str, String> {
    let mut units = sums.flat_map(|sum| sum.iter().copied().flatten()).map(|term| {
        match quantity.family.metrics[term.column].unit {
            Unit::Nanoseconds => Ok("s"),
            Unit::Bytes => Ok("bytes"),
            Unit::Count => Ok(""),
            other => Err(format!("{}: {other:?} do not add up", quantity.name)),
        }
    });
    let first = units.next().unwrap_or(Ok(""))?;
    match units.find(|unit| *unit != Ok(first)) {
        Some(other) => other.and(Err(format!("{}: counters of different units are added", quantity.name))),
        None => Ok(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_from_those_of_the_catalogue() {
        for quantity in crate::all() {
            let units = units_of(quantity).unwrap();
            assert!(units.contains(&quantity.unit), "{}: {} is none of {units:?}", quantity.name, quantity.unit);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<&str> = crate::all().map(|quantity| quantity.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
