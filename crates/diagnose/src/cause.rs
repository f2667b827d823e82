//! Files of causes: what all variants of a cause share is stated once, and each variant states how it differs.
//!
//! A file gives a cause's keys, and a table `[[variant]]` for each way in which it is judged: on other entities, or by less than
//! live counters. A variant inherits every key of the cause that it does not set. A file without variants is judged in one way.
//!
//! In `evidence`, a name is that of a signal whose normal value is declared with it; in `culprits`, that of a set of candidates
//! that several causes share (`rules/culprits.toml`).

use crate::own;
use crate::rule::{Rule, RuleError, SourceText};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Sets of candidates to blame, by name.
#[derive(Debug, Default)]
pub(crate) struct CulpritSets(DeTable<'static>);

impl CulpritSets {
    /// Parses the file of sets. A set is checked where it is used.
    ///
    /// # Errors
    /// Fails if the text is not TOML.
    pub(crate) fn parse(file: &'static str, text: &'static str) -> Result<Self, RuleError> {
        SourceText::built_in(file, text).table().map(|sets| Self(sets.into_inner()))
    }

    /// Returns the set of this name.
    fn get(&self, name: &str) -> Result<&DeTable<'static>, String> {
        match self.0.get(name).map(Spanned::get_ref) {
            Some(DeValue::Table(set)) => Ok(set),
            _ => {
                let known: Vec<&str> = self.0.keys().map(|name| &**name.get_ref()).collect();
                Err(format!("there is no set of culprits {name:?}; there are {}", known.join(", ")))
            }
        }
    }
}

/// Parses a cause's file: a rule for each of its variants, in order.
///
/// # Errors
/// Returns what is wrong, and where.
pub(crate) fn parse(source: SourceText<'_>, sets: &CulpritSets) -> Result<Vec<Rule>, RuleError> {
    let cause = source.table()?;
    let whole = cause.span();
    rules(&source, whole, cause.into_inner(), sets)
}

/// Parses a user's file: a cause, quantities of the user's own (`[[quantity]]`), or both. Returns the rules of the cause, and
/// declares the quantities.
///
/// # Errors
/// Returns what is wrong, and where. Nothing is declared then.
pub(crate) fn parse_own(source: SourceText<'_>, sets: &CulpritSets) -> Result<Vec<Rule>, RuleError> {
    let cause = source.table()?;
    let whole = cause.span();
    let mut cause = cause.into_inner();
    let new = match cause.remove("quantity") {
        Some(quantities) => own::parse(&source, quantities)?,
        None => Vec::new(),
    };
    let earlier = own::declare(&new);
    if cause.is_empty() && !new.is_empty() {
        return Ok(Vec::new());
    }
    rules(&source, whole, cause, sets).inspect_err(|_| own::undo(&new, &earlier))
}

fn rules(
    source: &SourceText<'_>,
    whole: Range<usize>,
    mut cause: DeTable<'_>,
    sets: &CulpritSets,
) -> Result<Vec<Rule>, RuleError> {
    let variants = match cause.remove("variant").map(Spanned::into_inner) {
        None => vec![Spanned::new(whole, DeValue::Table(DeTable::new()))],
        Some(DeValue::Array(variants)) => variants.into_iter().collect(),
        Some(_) => return Err(source.error(whole.start, "variant is not a list of tables: [[variant]]")),
    };
    let mut names = BTreeSet::new();
    let rule = |variant: Spanned<DeValue<'_>>| {
        let span = variant.span();
        let DeValue::Table(own) = variant.into_inner() else {
            return Err(source.error(span.start, "a variant is a table: [[variant]]"));
        };
        let mut table = cause.clone();
        table.extend(own);
        let signal = |name: &str, span: Range<usize>| {
            let name = Spanned::new(span.clone(), DeValue::String(Cow::Owned(name.to_owned())));
            Ok([(Spanned::new(span, "signal".into()), name)].into_iter().collect())
        };
        source.expand(&mut table, "evidence", signal)?;
        source.expand(&mut table, "culprits", |name, span| Ok(at(&span, sets.get(name)?)))?;
        let rule = Rule::read(source, Spanned::new(span.clone(), table))?;
        if !names.insert(rule.variant.clone()) {
            return Err(source.error(span.start, format!("two variants have the name {:?}", rule.variant)));
        }
        Ok(rule)
    };
    variants.into_iter().map(rule).collect()
}

impl SourceText<'_> {
    /// Replaces each name in an array of a table by the table that it stands for.
    fn expand<'t>(
        &self,
        table: &mut DeTable<'t>,
        key: &str,
        stands_for: impl Fn(&str, Range<usize>) -> Result<DeTable<'t>, String>,
    ) -> Result<(), RuleError> {
        let Some(DeValue::Array(items)) = table.get_mut(key).map(Spanned::get_mut) else { return Ok(()) };
        for item in items.iter_mut() {
            let span = item.span();
            if let DeValue::String(name) = item.get_ref() {
                let table = stands_for(name, span.clone()).map_err(|what| self.error(span.start, what))?;
                *item.get_mut() = DeValue::Table(table);
            }
        }
        Ok(())
    }
}

/// Copies a table of another file with all locations set to `here`, so that an error in it has the line of the file being read.
fn at(here: &Range<usize>, table: &DeTable<'static>) -> DeTable<'static> {
    let value = |value: &DeValue<'static>| match value {
        DeValue::Table(table) => DeValue::Table(at(here, table)),
        value => value.clone(),
    };
    table.iter().map(|(key, of)| (key.clone(), Spanned::new(here.clone(), value(of.get_ref())))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAUSE: &str = r#"
id = "site.queue"
scope = "disk"
means = "our array's queue is longer than we want"
summary = "{subject} has {disk.queue} requests in flight"
explains = ["db.log_sync"]
evidence = ["disk.stall"]

[[look_alikes]]
text = "a backup at night"

[[variant]]
when = "disk.queue > 32.0"
impact = "disk.stall"
culprits = ["disk_io"]

[[variant]]
name = "host"
scope = "host"
when = "stall.io > 0.5"
severity = "0.5"
summary = "storage is slow"
explains = []
evidence = [{ signal = "stall.io", expected = "near 0" }]
"#;

    fn sets() -> CulpritSets {
        let set = "[disk_io]\nscope = \"io\"\nby = \"io.rate\"\ntotal = \"disk.rate\"\nof = \"disk I/O\"\n";
        CulpritSets::parse("culprits.toml", set).unwrap()
    }

    fn error(text: &str) -> String {
        parse(SourceText::checked("own.toml", text), &sets()).unwrap_err().to_string()
    }

    #[test]
    fn a_variant_has_what_the_cause_says_and_it_does_not() {
        let rules = parse(SourceText::checked("own.toml", CAUSE), &sets()).unwrap();
        let [own, host] = &rules[..] else { panic!("{} rules", rules.len()) };
        assert_eq!((&*own.variant, &*own.explains), ("", &["db.log_sync".to_owned()][..]));
        assert_eq!((&*host.variant, &*host.explains), ("host", &[][..]));
        assert_eq!([own.look_alikes.len(), host.look_alikes.len()], [1, 1]);
        assert_eq!([own.culprits.len(), host.culprits.len()], [1, 0]);
        assert_eq!(own.info().evidence[0].expected, "below 10 %", "as declared with the signal");
        assert_eq!(host.info().evidence[0].expected, "near 0");
    }

    #[test]
    fn an_error_has_the_line_of_the_variant() {
        assert_eq!(
            error(&CAUSE.replace("stall.io > 0.5", "stall.no > 0.5")),
            "own.toml:20: there is no signal \"stall.no\" in scope host"
        );
        assert_eq!(
            error(&CAUSE.replace("\"disk_io\"", "\"disc_io\"")),
            "own.toml:15: there is no set of culprits \"disc_io\"; there are disk_io"
        );
        let elsewhere = CAUSE.replace("severity = \"0.5\"", "severity = \"0.5\"\nculprits = [\"disk_io\"]");
        assert!(
            error(&elsewhere).starts_with("own.toml:22: there is no signal \"disk.rate\""),
            "{}",
            error(&elsewhere)
        );
        assert!(error(&CAUSE.replace("name = \"host\"", "")).starts_with("own.toml:17: two variants"));
        assert!(error(&CAUSE.replace("[[variant]]", "[variant]")).starts_with("own.toml:"));
        let unstated = CAUSE.replace("[\"disk.stall\"]", "[\"disk.wait_share\"]");
        assert!(error(&unstated).contains("disk.wait_share"), "{}", error(&unstated));
    }
}
