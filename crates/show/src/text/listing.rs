//! Lists of the program's knowledge: rules, metrics and readable formats.

use super::{TextStyle, heading};
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use whyslow_documents::listing::{ActionInfo, FormatInfo, RuleInfo, split_set_value};
use whyslow_model::catalogue::{FamilyInfo, Metric, MetricKind, Unit};

/// Origin of built-in rules in `diagnose`, in place of a file name.
const BUILT_IN: &str = "built in";

/// Formats a line for each id: the physical condition that its rules detect, and their number.
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

/// Returns the rule that the other rules for the same id are variants of.
fn main(variants: &[RuleInfo]) -> &RuleInfo {
    variants.iter().find(|rule| rule.variant.is_empty()).unwrap_or(&variants[0])
}

/// Formats all rules for one id: meaning, condition, lookalikes, inputs, and references of each.
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
        draw_rule(&mut canvas, rule);
    }
    canvas.finish()
}

fn draw_rule(canvas: &mut Canvas, rule: &RuleInfo) {
    canvas.paragraph(0, 2, &[dim(format!("checked for each {}, {}", rule.scope, rule.file))]);
    expression(canvas, "Holds when", &rule.when);
    expression(canvas, "Time lost", &rule.impact);
    expression(canvas, "Severity, where no time was measured", &rule.severity);
    list(canvas, "Looks alike", &rule.look_alikes);
    list(canvas, "Explains", &rule.explains);
    list(canvas, "Traces with", &rule.asks);
    actions(canvas, &rule.actions);
    signals(canvas, rule);
    list(canvas, "Sources", &rule.sources);
}

/// Draws a CEL expression, in its author's lines.
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

/// Draws the recommended actions, with the settings to change.
fn actions(canvas: &mut Canvas, actions: &[ActionInfo]) {
    if actions.is_empty() {
        return;
    }
    heading(canvas, "Recommends");
    for action in actions {
        canvas.paragraph(2, 4, &[plain("- "), plain(&action.text)]);
        for (name, value) in &action.set {
            let (value, is_least) = split_set_value(value);
            let at_least = if is_least { " (at least)" } else { "" };
            canvas.paragraph(4, 6, &[dim(format!("{name}={value}{at_least}"))]);
        }
    }
}

/// Draws each signal with its formula, and the value on a healthy machine.
fn signals(canvas: &mut Canvas, rule: &RuleInfo) {
    if rule.signals.is_empty() {
        return;
    }
    heading(canvas, "Reads");
    for signal in &rule.signals {
        let name = Piece::new(Ink::Bold, signal.name);
        canvas.paragraph(2, 4, &[name, dim(format!(" ({})", signal.unit)), plain(": "), plain(signal.help)]);
        if let Some(shown) = rule.evidence.iter().find(|shown| shown.signal == signal.name) {
            canvas.paragraph(4, 6, &[plain("healthy: "), plain(&shown.expected)]);
        }
        canvas.paragraph(4, 6, &[dim(format!("{} ({})", signal.how, signal.source))]);
    }
}

/// Formats every family with its metrics: name, kind, unit, help, and the OpenTelemetry name with `all`.
pub fn metrics(families: &[FamilyInfo], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    for (i, family) in families.iter().enumerate() {
        if i > 0 {
            canvas.blank();
        }
        draw_family(&mut canvas, family, style.all);
    }
    canvas.finish()
}

fn draw_family(canvas: &mut Canvas, family: &FamilyInfo, all: bool) {
    canvas.paragraph(0, 2, &[bold(family.name), plain(": "), plain(family.help)]);
    let only = if family.only_captures { " (only in the output of other tools)" } else { "" };
    canvas.paragraph(2, 4, &[dim(format!("by {}, from {}{only}", family.key, family.source))]);
    let width = family.metrics.iter().map(|m| m.name.len()).max().unwrap_or(0);
    for metric in family.metrics {
        let line = metric_line(metric, width, all);
        canvas.paragraph(2, width + 20, &line);
    }
}

fn metric_line(metric: &Metric, width: usize, all: bool) -> Vec<Piece> {
    let mut line = vec![
        Piece::cell(Ink::Plain, metric.name, width),
        plain("  "),
        Piece::cell(Ink::Dim, kind(metric.kind), 7),
        plain("  "),
        Piece::cell(Ink::Dim, unit(metric.unit), 5),
        plain("  "),
        plain(metric.help),
    ];
    if metric.only_captures {
        line.push(dim(" (only in the output of other tools)"));
    }
    if all {
        line.extend([plain(" "), dim(metric.otel)]);
    }
    line
}

fn kind(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::State => "state",
        MetricKind::Histogram => "histogram",
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        Unit::Ratio => "ratio",
        Unit::BitsPerSecond => "bit/s",
        Unit::Hertz => "Hz",
        Unit::Celsius => "°C",
        Unit::Text => "text",
    }
}

/// Formats a list of formats: name, content, versions.
pub fn formats(formats: &[FormatInfo], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    for format in formats {
        canvas.paragraph(0, 2, &[bold(format.name), plain(": "), plain(format.shows)]);
        canvas.paragraph(2, 2, &[dim(format.versions)]);
    }
    canvas.finish()
}
