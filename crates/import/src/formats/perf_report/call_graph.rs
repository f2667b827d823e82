//! Call graph below a row, as perf draws it: `|--11.68%--_raw_spin_lock` in text, `- 11.68% _raw_spin_lock` on the screen.

use super::SampleRow;
use crate::number::number;

/// A function in a call graph.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainLine {
    /// Column where it begins: its sign on the screen, its name in text.
    column: usize,
    /// Whether a sign shows that functions below it are shown or hidden.
    signed: bool,
    percent: Option<f64>,
    pub symbol: String,
}

impl ChainLine {
    /// Reads a line of a call graph. A line that only draws has no symbol, nor does the percentage above a chain (`-g flat`).
    pub fn parse(line: &str) -> Option<Self> {
        let text = line.trim_end();
        let drawn = text.len() - text.trim_start_matches([' ', '\t', '|']).len();
        let rest = &text[drawn..];
        if rest.is_empty() {
            return (drawn > 0).then(|| Self { column: drawn, signed: false, percent: None, symbol: String::new() });
        }
        if let Some(branch) = rest.strip_prefix("--") {
            let branch = branch.trim_start_matches('-');
            let (percent, symbol) = match branch.split_once("%--") {
                Some((percent, symbol)) => (Some(number(percent)? / 100.0), symbol),
                None => (None, branch),
            };
            let column = text.len() - symbol.len();
            return (!symbol.is_empty()).then(|| Self { column, signed: false, percent, symbol: symbol.to_owned() });
        }
        if let Some(percent) = rest.strip_suffix('%').and_then(number) {
            let percent = Some(percent / 100.0);
            return (drawn > 0).then(|| Self { column: drawn, signed: false, percent, symbol: String::new() });
        }
        let (signed, rest) = match rest.strip_prefix("- ").or_else(|| rest.strip_prefix("+ ")) {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (percent, symbol) = match rest.split_once("% ") {
            Some((percent, symbol)) => (Some(number(percent.trim())? / 100.0), symbol.trim()),
            None => (None, rest),
        };
        // Another tool's table or sentences may follow.
        let is_name = !symbol.contains(' ') || symbol.contains("::") || symbol.contains(['<', '(']);
        let is_drawn = drawn > 0 || signed || !symbol.ends_with([':', '.', '?', '!']);
        (is_name && is_drawn).then(|| Self { column: drawn, signed, percent, symbol: symbol.to_owned() })
    }
}

/// A function in the call graph of a row.
pub struct Call<'c> {
    pub symbol: &'c str,
    /// Share of all samples in it, from its own percentage or that of its branch; `None` if that is relative to its parent.
    pub share: Option<f64>,
    /// Function above it in the drawing.
    parent: Option<usize>,
}

/// Call graph of a row.
pub struct CallGraph<'c> {
    pub calls: Vec<Call<'c>>,
    /// Whether a function is drawn below the functions that it calls.
    callers_below: bool,
}

impl<'c> CallGraph<'c> {
    /// Builds the call graph; `relative` if percentages are of the parent, not of all samples.
    pub fn from_row(row: &'c SampleRow, relative: bool) -> Self {
        let whole = row.with_children.unwrap_or(row.own);
        let on_screen = row.chain.iter().any(|line| line.signed);
        let mut calls: Vec<Call<'c>> = Vec::new();
        // The functions above the current one, by column.
        let mut above: Vec<(usize, usize)> = Vec::new();
        let mut of_chain = Some(whole);
        for line in &row.chain {
            if line.symbol.is_empty() {
                if line.percent.is_some() {
                    above.clear();
                    of_chain = line.percent.filter(|_| !relative);
                }
                continue;
            }
            let column = if on_screen && !line.signed { line.column.saturating_sub(2) } else { line.column };
            // In a chain without branches, callers or callees follow in the same column.
            while above.last().is_some_and(|(at, _)| *at > column || (*at == column && line.percent.is_some())) {
                above.pop();
            }
            let parent = above.last().map(|(_, call)| *call);
            let inherited = parent.map_or(of_chain, |call| calls[call].share);
            let share = match line.percent {
                Some(_) if relative => None,
                Some(percent) => Some(percent),
                None => inherited,
            };
            above.push((column, calls.len()));
            calls.push(Call { symbol: &line.symbol, share, parent });
        }
        let begins_at_row = calls.first().is_some_and(|call| Some(call.symbol) == row.symbol.as_deref());
        Self { calls, callers_below: row.with_children.is_none() && begins_at_row }
    }

    /// Returns the functions that call a wanted function, and the share of samples in those calls.
    pub fn callers_of(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<(&'c str, f64)> {
        let symbol_of = |call: usize| self.calls[call].symbol;
        let mut found = Vec::new();
        for call in &self.calls {
            let Some(parent) = call.parent else { continue };
            let (callee, caller) = match self.callers_below {
                true => (symbol_of(parent), call.symbol),
                false => (call.symbol, symbol_of(parent)),
            };
            if is_wanted(callee) && !is_wanted(caller) {
                found.push((caller, call.share.unwrap_or(0.0)));
            }
        }
        found
    }

    /// Returns the share of samples below wanted functions, counting each branch once.
    pub fn share_of(&self, is_wanted: impl Fn(&str) -> bool) -> f64 {
        let mut wanted_above = vec![false; self.calls.len()];
        let mut share = 0.0;
        for (at, call) in self.calls.iter().enumerate() {
            let above = call.parent.is_some_and(|parent| wanted_above[parent]);
            let wanted = is_wanted(call.symbol);
            share += if wanted && !above { call.share.unwrap_or(0.0) } else { 0.0 };
            wanted_above[at] = above || wanted;
        }
        share
    }
}

/// Returns true if the percentages of call graphs are relative to the parent: a branch then has more than its whole row.
pub fn is_relative(rows: &[SampleRow]) -> bool {
    rows.iter().any(|row| {
        let whole = row.with_children.unwrap_or(row.own);
        row.chain.iter().filter_map(|line| line.percent).any(|percent| percent > whole + 0.001)
    })
}
