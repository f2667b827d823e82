//! The rules: a list, and one explained.

use super::{TextStyle, heading};
use crate::canvas::{Canvas, Ink, Piece, dim, plain};
use whyslow_model::rule::{RuleInfo, SignalInfo};

/// The file name that `diagnose` gives to built-in rules.
const BUILT_IN: &str = "built in";

/// A list of rules: id and meaning.
pub fn rules(rules: &[RuleInfo], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let width = rules.iter().map(|r| plain(&r.id).width()).max().unwrap_or(0);
    for rule in rules {
        let mut line = vec![Piece::cell(Ink::Bold, &rule.id, width), plain("  "), plain(&rule.means)];
        if rule.file != BUILT_IN {
            line.extend([plain(" "), dim(format!("({})", rule.file))]);
        }
        canvas.paragraph(0, width + 2, &line);
    }
    canvas.finish()
}

/// One rule: its meaning, condition, look-alikes, signals and sources.
pub fn rule(rule: &RuleInfo, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    canvas.paragraph(0, 2, &[Piece::new(Ink::Bold, &rule.id), plain(": "), plain(&rule.means)]);
    canvas.paragraph(0, 2, &[dim(format!("checked for each {}, {}", rule.scope, rule.file))]);
    expression(&mut canvas, "Holds when", &rule.when);
    expression(&mut canvas, "Time lost", &rule.impact);
    expression(&mut canvas, "Severity, where no time was measured", &rule.severity);
    list(&mut canvas, "Looks alike", &rule.look_alikes);
    list(&mut canvas, "Explains", &rule.explains);
    list(&mut canvas, "Traces with", &rule.asks);
    signals(&mut canvas, &rule.signals);
    list(&mut canvas, "Sources", &rule.sources);
    canvas.finish()
}

/// A CEL expression, with its author's line breaks.
fn expression(canvas: &mut Canvas, title: &str, cel: &str) {
    if cel.is_empty() {
        return;
    }
    heading(canvas, title);
    for line in cel.trim().lines() {
        canvas.paragraph(2, 4, &[plain(line.trim())]);
    }
}

fn list(canvas: &mut Canvas, title: &str, entries: &[String]) {
    if entries.is_empty() {
        return;
    }
    heading(canvas, title);
    for entry in entries {
        canvas.paragraph(2, 4, &[plain("- "), plain(entry)]);
    }
}

fn signals(canvas: &mut Canvas, signals: &[SignalInfo]) {
    if signals.is_empty() {
        return;
    }
    heading(canvas, "Reads");
    for signal in signals {
        let name = Piece::new(Ink::Bold, &signal.name);
        canvas.paragraph(2, 4, &[name, dim(format!(" ({})", signal.unit)), plain(": "), plain(&signal.help)]);
        canvas.paragraph(4, 6, &[dim(format!("{} ({})", signal.how, signal.source))]);
    }
}
