//! The metric catalogue as a list.

use super::TextStyle;
use crate::canvas::{Canvas, Ink, Piece, bold, dim, plain};
use whyslow_model::catalogue::{FamilyInfo, Metric, MetricKind, Unit};

/// Every family with its metrics: name, kind, unit, help, and the OpenTelemetry name with `all`.
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
    canvas.paragraph(2, 4, &[dim(format!("by {}, from {}", family.key, family.source))]);
    let width = family.metrics.iter().map(|m| m.name.len()).max().unwrap_or(0);
    for metric in family.metrics {
        let line = line(metric, width, all);
        canvas.paragraph(2, width + 20, &line);
    }
}

fn line(metric: &Metric, width: usize, all: bool) -> Vec<Piece> {
    let mut line = vec![
        Piece::cell(Ink::Plain, metric.name, width),
        plain("  "),
        Piece::cell(Ink::Dim, kind(metric.kind), 7),
        plain("  "),
        Piece::cell(Ink::Dim, unit(metric.unit), 5),
        plain("  "),
        plain(metric.help),
    ];
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
