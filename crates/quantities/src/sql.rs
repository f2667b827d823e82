//! Value of a quantity over a table of growth, in ANSI SQL.

use crate::declare::Declaration;
use crate::expression::{Expression, Pair, Sum, Term};

impl Declaration {
    /// Returns an expression for the value over the rows of a group. Each row is a step: its columns have the growth of the
    /// counters, null if unknown, and `seconds` has its length.
    ///
    /// Counters are summed as doubles: those of an untrusted host may be so large that a sum overflows a 64-bit integer.
    pub fn sql(&self) -> String {
        let (amount, units) = match &self.expression {
            Expression::Rate(of) => {
                let amount = self.sum(of);
                (amount.clone(), format!("CASE WHEN {amount} IS NOT NULL THEN seconds END"))
            }
            Expression::Quotient { pairs, or } => self.quotient(pairs, or.as_ref()),
        };
        let value = format!("SUM({amount}) / NULLIF(SUM({units}), 0)");
        match self.at_most {
            Some(most) => format!("CASE WHEN {value} > {most:e} THEN {most:e} ELSE {value} END"),
            None => value,
        }
    }

    fn quotient(&self, pairs: &[Pair], or: Option<&Pair>) -> (String, String) {
        let of_pair = |pair: &Pair| (self.sum(pair.of), self.sum(pair.per));
        let parts: Vec<(String, String)> = pairs.iter().map(of_pair).collect();
        let or = or.map(of_pair);
        let both = |(of, per): &(String, String)| format!("{of} IS NOT NULL AND {per} IS NOT NULL");
        let is_whole = |(of, per): &(String, String)| {
            format!(
                "({of} IS NULL OR {per} IS NOT NULL OR {of} = 0) AND ({per} IS NULL OR {of} IS NOT NULL OR {per} = 0)"
            )
        };
        let any: Vec<String> = parts.iter().map(|part| format!("({})", both(part))).collect();
        let whole: Vec<String> = parts.iter().map(is_whole).collect();
        let is_paired = format!("({}) AND {}", any.join(" OR "), whole.join(" AND "));
        let pooled = |pick: fn(&(String, String)) -> &String| {
            let sums = parts.iter().map(|part| format!("CASE WHEN {} THEN {} ELSE 0 END", both(part), pick(part)));
            let pooled = sums.collect::<Vec<_>>().join(" + ");
            let or = or.as_ref().map_or_else(String::new, |or| format!(" WHEN {} THEN {}", both(or), pick(or)));
            format!("CASE WHEN {is_paired} THEN {pooled}{or} END")
        };
        (pooled(|part| &part.0), pooled(|part| &part.1))
    }

    /// Returns the first group that is known.
    fn sum(&self, groups: Sum) -> String {
        let groups: Vec<String> = groups.iter().map(|terms| self.group(terms)).collect();
        if let [group] = &groups[..] { group.clone() } else { format!("COALESCE({})", groups.join(", ")) }
    }

    /// Returns the sum of counters. It is null if a counter is null that is not optional, or if all are.
    fn group(&self, terms: &[Term]) -> String {
        let term = |term: &Term| {
            let sql = self.term(term.column);
            if term.is_optional { format!("COALESCE({sql}, 0)") } else { sql }
        };
        let sum = terms.iter().map(term).collect::<Vec<_>>().join(" + ");
        if terms.iter().any(|term| !term.is_optional) {
            return format!("({sum})");
        }
        let nothing: Vec<String> = terms.iter().map(|term| format!("{} IS NULL", self.term(term.column))).collect();
        format!("CASE WHEN {} THEN NULL ELSE {sum} END", nothing.join(" AND "))
    }

    fn term(&self, column: usize) -> String {
        format!("{:e} * \"{}\"", 1.0 / self.scale(column), self.family.metrics[column].name)
    }
}
