//! The rules: a list, and one explained.

use super::{TextStyle, heading};
use crate::canvas::{Canvas, Ink, Piece, dim, plain};
use whyslow_model::listing::{RuleInfo, SignalInfo};

/// The file name that `diagnose` gives to built-in rules.
const BUILT_IN: &str = "built in";

/// A line for each id: what is physically true when one of its rules holds, and how many there are.
pub fn rules(rules: &[RuleInfo], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let width = rules.iter().map(|r| plain(&r.id).width()).max().unwrap_or(0);
    for variants in rules.chunk_by(|a, b| a.id == b.id) {
        let rule = main(variants);
        let mut line = vec![Piece::cell(Ink::Bold, &rule.id, width), plain("  "), plain(&rule.means)];
        if variants.len() > 1 {
            line.extend([plain(" "), dim(format!("({} variants)", variants.len()))]);
        }
        for own in variants.iter().filter(|rule| rule.file != BUILT_IN) {
            line.extend([plain(" "), dim(format!("({})", own.file))]);
        }
        canvas.paragraph(0, width + 2, &line);
    }
    canvas.finish()
}

/// Of several rules for one id the one that the others are variants of.
fn main(variants: &[RuleInfo]) -> &RuleInfo {
    variants.iter().find(|rule| rule.variant.is_empty()).unwrap_or(&variants[0])
}

/// All rules for one id: what each means, when it holds, what looks alike, what it reads, what it rests on.
pub fn rule(variants: &[RuleInfo], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    for (at, rule) in variants.iter().enumerate() {
        if at > 0 {
            canvas.blank();
        }
        let which = match variants.len() {
            1 => String::new(),
            count => format!(" (variant {} of {count})", at + 1),
        };
        canvas.paragraph(0, 2, &[Piece::new(Ink::Bold, &rule.id), dim(which), plain(": "), plain(&rule.means)]);
        draw(&mut canvas, rule);
    }
    canvas.finish()
}

fn draw(canvas: &mut Canvas, rule: &RuleInfo) {
    canvas.paragraph(0, 2, &[dim(format!("checked for each {}, {}", rule.scope, rule.file))]);
    expression(canvas, "Holds when", &rule.when);
    expression(canvas, "Time lost", &rule.impact);
    expression(canvas, "Severity, where no time was measured", &rule.severity);
    list(canvas, "Looks alike", &rule.look_alikes);
    list(canvas, "Explains", &rule.explains);
    list(canvas, "Traces with", &rule.asks);
    signals(canvas, &rule.signals);
    list(canvas, "Sources", &rule.sources);
}

/// A CEL expression, in the lines its author gave it.
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
