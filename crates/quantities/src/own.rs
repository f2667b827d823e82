//! Quantities that users declare beside their rules.
//!
//! They are part of the program's configuration, as the catalogue is, and hold for the whole process: rules, charts and exports
//! ask for them by name.

use crate::declare::{Declaration, Quantity, units_of};
use crate::expression::{Expression, Pair, Sum, Term};
use crate::formula::Formula;
use std::sync::{PoisonError, RwLock};
use whyslow_model::catalogue::{EachFamily, Family, FamilyInfo, MetricKind, Snapshot, families};
use whyslow_model::normal::Better;
use whyslow_model::normal::{Normal, Range, Words};
use whyslow_model::window::{Change, Window};

/// Maximum length of the names of its counters together, in bytes: its formula is to be read.
const LONGEST: usize = 160;
/// Maximum number of its counters.
const MOST_TERMS: usize = 12;

/// Quantity as its author writes it.
#[derive(Clone, Debug, Default)]
pub struct OwnQuantity<'t> {
    /// Public name, `SUBJECT.NAME`.
    pub name: &'t str,
    /// Family of the catalogue.
    pub family: &'t str,
    /// Unit, as in [`Declaration::unit`].
    pub unit: &'t str,
    /// One phrase on what it is.
    pub meaning: &'t str,
    /// Counters that make the amount: `read_time + write_time | transfer_time`, with `[reads]` for one that may be unknown.
    pub of: &'t str,
    /// Counters that make the units, in the same form; without them, the amount is per second.
    pub per: Option<&'t str>,
    /// Values at which nobody would look twice.
    pub range: Option<Range>,
    /// Why these are normal, or what is where no number holds for all.
    pub words: &'t str,
    /// Direction that is better.
    pub better: Option<Better>,
    /// True if baselines keep it.
    pub baseline: bool,
    /// Title of its chart, if it has one.
    pub chart: Option<&'t str>,
}

/// Declared quantity of a user.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its declaration.
    pub declaration: &'static Declaration,
    /// Title of its chart, if it has one.
    pub chart: Option<&'static str>,
}

static DECLARED: RwLock<Vec<Own>> = RwLock::new(Vec::new());

/// Makes a quantity of what its author writes. Its texts are never freed: files of rules are read once.
///
/// # Errors
/// Returns what is wrong with it.
pub fn parse(own: &OwnQuantity<'_>) -> Result<Own, String> {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    if own.name.split('.').count() != 2 || !own.name.split('.').all(is_word) {
        return Err(format!("{:?} is no name: write SUBJECT.NAME in lower case, such as site.read_cost", own.name));
    }
    if crate::all().any(|known| known.name == own.name) {
        return Err(format!("whyslow itself has a quantity {:?}", own.name));
    }
    let family = family(own.family)?;
    let of = sum(own.of, family)?;
    let expression = match own.per {
        None => Expression::Rate(of),
        Some(per) => Expression::Quotient { pairs: leak(vec![Pair { of, per: sum(per, family)? }]), or: None },
    };
    let names = expression.columns().map(|column| family.metrics[column].name.len());
    if expression.columns().count() > MOST_TERMS || names.sum::<usize>() > LONGEST {
        return Err(format!("{} has more than {MOST_TERMS} counters, or their names are too long", own.name));
    }
    let text = |text: &str| -> &'static str { String::from(text).leak() };
    let unit = text(own.unit);
    let formula: &'static Formula = Box::leak(Box::new(Formula::from_expression(&expression, family, unit)));
    let declaration = Declaration {
        name: text(own.name),
        unit,
        meaning: text(own.meaning),
        formula: formula.text(),
        source: family.source,
        normal: Normal {
            unit,
            range: own.range,
            words: if own.range.is_some() { Words::Why(text(own.words)) } else { Words::Instead(text(own.words)) },
        },
        better: own.better,
        baseline: own.baseline,
        passes_to: None,
        family,
        expression,
        at_most: None,
    };
    let units = units_of(&declaration)?;
    if !units.contains(&unit) {
        return Err(format!("the unit of {} is {}, not {unit:?}", own.name, units.join(" or ")));
    }
    Ok(Own { declaration: Box::leak(Box::new(declaration)), chart: own.chart.map(text) })
}

/// Declares quantities. Returns earlier ones of the same names, which they replace.
pub fn declare(new: &[Own]) -> Vec<Own> {
    let earlier = withdraw(new);
    DECLARED.write().unwrap_or_else(PoisonError::into_inner).extend(new);
    earlier
}

/// Removes and returns the quantities that have the names of these.
pub fn withdraw(these: &[Own]) -> Vec<Own> {
    let is_one = |known: &mut Own| these.iter().any(|one| one.declaration.name == known.declaration.name);
    DECLARED.write().unwrap_or_else(PoisonError::into_inner).extract_if(.., is_one).collect()
}

/// Returns the quantities that users declared.
pub fn declared() -> Vec<Own> {
    DECLARED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the value of a quantity over a window for each entity, by key.
pub fn values(declaration: &'static Declaration, window: &Window) -> Vec<(String, f64)> {
    let mut values = Values { declaration, window, found: Vec::new() };
    Snapshot::default().each_family(&mut values);
    values.found
}

struct Values<'w> {
    declaration: &'static Declaration,
    window: &'w Window,
    found: Vec<(String, f64)>,
}

impl EachFamily for Values<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        if F::INFO.name == self.declaration.family.name {
            let quantity = Quantity::<F>::from_declaration(*self.declaration);
            let value = |change: &Change<'_, F>| Some((change.key().to_string(), quantity.over(change)?));
            self.found.extend(self.window.changes::<F>().iter().filter_map(value));
        }
    }
}

fn family(name: &str) -> Result<&'static FamilyInfo, String> {
    let known = families();
    let found = known.into_iter().find(|family| family.is_named(name));
    found
        .map(|family| &*Box::leak(Box::new(family)))
        .ok_or_else(|| format!("there is no family {name:?}: 'whyslow metrics' lists them"))
}

/// Parses `read_time + write_time | transfer_time`.
fn sum(text: &str, family: &'static FamilyInfo) -> Result<Sum, String> {
    let term = |word: &str| {
        let word = word.trim();
        let inner = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        let name = inner.unwrap_or(word).trim();
        let is_counter = |column: &usize| family.metrics[*column].kind == MetricKind::Counter;
        let column = family.metrics.iter().position(|metric| metric.name == name).filter(is_counter);
        let unknown = || format!("{} has no counter {name:?}: see 'whyslow metrics {0}'", family.name);
        Ok(Term { column: column.ok_or_else(unknown)?, is_optional: inner.is_some() })
    };
    let group = |text: &str| {
        let terms: Result<Vec<Term>, String> = text.split('+').map(term).collect();
        terms.map(|terms| -> &'static [Term] { leak(terms) })
    };
    let groups: Result<Vec<&'static [Term]>, String> = text.split('|').map(group).collect();
    groups.map(|groups| -> Sum { leak(groups) })
}

fn leak<T>(values: Vec<T>) -> &'static [T] {
    values.leak()
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::Disk;

    fn quantity<'t>(name: &'t str, of: &'t str, per: Option<&'t str>, unit: &'t str) -> OwnQuantity<'t> {
        OwnQuantity { name, family: "disk", unit, meaning: "as the test says", of, per, ..OwnQuantity::default() }
    }

    #[test]
    fn a_quantity_is_computed_as_it_is_written() {
        let own = parse(&quantity("test.time_of_io", "read_time + [write_time] | transfer_time", Some("reads"), "s"));
        let new = own.unwrap();
        let own = new.declaration;
        assert_eq!(own.formula, "(Δ(read_time + write_time) or Δtransfer_time) / Δreads");
        let sample = |t: u64| {
            let disk = Disk { reads: (10 * t).into(), read_time: (t * 20_000_000).into(), ..Disk::new("sda".into()) };
            let mut sample = Snapshot { boot_ns: (t + 1) * 1_000_000_000, ..Snapshot::default() };
            sample.block.disk.push(disk);
            sample
        };
        let window = Window::new((0..3).map(sample).collect());
        assert_eq!(values(own, &window), [("sda".to_owned(), 0.002)]);
        let formulas = || -> Vec<&str> {
            let mine = declared().into_iter().filter(|known| known.declaration.name == "test.time_of_io");
            mine.map(|known| known.declaration.formula).collect()
        };
        assert!(declare(&[new]).is_empty());
        let other = parse(&quantity("test.time_of_io", "read_time", Some("reads"), "s")).unwrap();
        let earlier = declare(&[other]);
        assert_eq!(formulas(), ["Δread_time / Δreads"]);
        withdraw(&[other]);
        assert!(formulas().is_empty());
        declare(&earlier);
        assert_eq!(formulas(), [own.formula]);
        withdraw(&earlier);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |own: &OwnQuantity<'_>| parse(own).unwrap_err();
        assert!(error(&quantity("Nonsense", "reads", None, "1/s")).contains("is no name"));
        assert!(error(&quantity("disk.reads", "reads", None, "1/s")).contains("whyslow itself"));
        assert!(error(&quantity("test.a", "raeds", None, "1/s")).contains("disk has no counter \"raeds\""));
        assert!(error(&quantity("test.a", "in_flight", None, "1/s")).contains("no counter"), "a level");
        assert_eq!(error(&quantity("test.a", "reads", None, "bytes")), "the unit of test.a is 1/s, not \"bytes\"");
        assert!(error(&quantity("test.a", "reads + read_bytes", None, "1/s")).contains("different units"));
        let many = vec!["reads"; 13].join("+");
        assert!(error(&quantity("test.a", &many, None, "1/s")).contains("more than 12"));
        assert!(
            error(&OwnQuantity { family: "discs", ..quantity("test.a", "reads", None, "1/s") }).contains("no family")
        );
    }
}
