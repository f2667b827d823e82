//! Formula printed next to a value. Built from the expression at compile time.

use crate::declare::{BITS, is_same};
use crate::expression::{Expression, Pair, Sum, Term};
use whyslow_model::catalogue::FamilyInfo;

/// Maximum length of a formula, in bytes.
const MOST: usize = 240;

/// A formula in words: `Δ(read_time + write_time) / Δ(reads + writes)`.
#[derive(Clone, Copy, Debug)]
pub struct Formula {
    bytes: [u8; MOST],
    length: usize,
}

impl Formula {
    /// Formats an expression over the columns of a family, with a value in this unit.
    pub const fn from_expression(expression: &Expression, family: &FamilyInfo, unit: &str) -> Self {
        let mut formula = Self { bytes: [0; MOST], length: 0 };
        match expression {
            Expression::Rate(of) => {
                formula.groups(of, family);
                formula.push(if is_same(unit.as_bytes(), BITS.as_bytes()) { " x 8 / Δt" } else { " / Δt" });
            }
            Expression::Quotient { pairs, or } => {
                if let [pair] = pairs {
                    formula.quotient(pair, family);
                } else {
                    formula.pooled(pairs, family);
                }
                if let Some(pair) = or {
                    formula.push("; else ");
                    formula.quotient(pair, family);
                }
            }
        }
        formula
    }

    /// Returns the formula as text.
    pub const fn text(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => panic!("names of metrics are ASCII"),
        }
    }

    const fn quotient(&mut self, pair: &Pair, family: &FamilyInfo) {
        self.groups(pair.of, family);
        self.push(" / ");
        self.groups(pair.per, family);
    }

    /// Appends groups: `(Δ(reads + writes) or Δtransfers)`.
    const fn groups(&mut self, groups: Sum, family: &FamilyInfo) {
        self.push(if groups.len() > 1 { "(" } else { "" });
        let mut at = 0;
        while at < groups.len() {
            if at > 0 {
                self.push(" or ");
            }
            self.growth(groups[at], family);
            at += 1;
        }
        self.push(if groups.len() > 1 { ")" } else { "" });
    }

    /// Appends all amounts over all units, using the first group of each.
    const fn pooled(&mut self, pairs: &[Pair], family: &FamilyInfo) {
        let mut part = 0;
        while part < 2 {
            self.push(if part == 0 { "Δ(" } else { " / Δ(" });
            let mut at = 0;
            while at < pairs.len() {
                if at > 0 {
                    self.push(" + ");
                }
                self.names(if part == 0 { pairs[at].of[0] } else { pairs[at].per[0] }, family);
                at += 1;
            }
            self.push(")");
            part += 1;
        }
    }

    const fn growth(&mut self, terms: &[Term], family: &FamilyInfo) {
        self.push(if terms.len() > 1 { "Δ(" } else { "Δ" });
        self.names(terms, family);
        self.push(if terms.len() > 1 { ")" } else { "" });
    }

    const fn names(&mut self, terms: &[Term], family: &FamilyInfo) {
        let mut at = 0;
        while at < terms.len() {
            if at > 0 {
                self.push(" + ");
            }
            self.push(family.metrics[terms[at].column].name);
            at += 1;
        }
    }

    const fn push(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.bytes[self.length] = bytes[at];
            self.length += 1;
            at += 1;
        }
    }
}
