//! Baselines: a list, and the content of one.

use super::table::AlignedTable;
use super::{TextStyle, heading, words};
use crate::canvas::{Canvas, bold, dim, plain};
use crate::human;
use whyslow_documents::baseline::{Baseline, BaselineKind, BaselineSeries, Listed};

/// Reports in one sentence that a baseline was saved.
pub fn saved(saved: &Listed, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let what = format!("': {} series {}", saved.series, over(saved.kind, saved.seconds));
    canvas.paragraph(0, 2, &[plain("Saved baseline '"), bold(&saved.name), plain(what)]);
    canvas.finish()
}

/// Formats the list of baselines.
pub fn baselines(all: &[Listed], style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    if all.is_empty() {
        canvas.paragraph(0, 2, &[plain("There are no baselines; 'whyslow baseline save' records one.")]);
    }
    for one in all {
        let what = format!("  {} series {}", one.series, over(one.kind, one.seconds));
        canvas.paragraph(0, 2, &[bold(&one.name), plain(what), dim(since(one.start.as_deref()))]);
    }
    canvas.finish()
}

/// Formats one baseline: figures, followed by the inventory with `all`.
pub fn baseline(baseline: &Baseline, style: &TextStyle) -> String {
    let mut canvas = style.canvas();
    let what = format!("  {}", over(baseline.kind, baseline.seconds));
    canvas.paragraph(0, 2, &[bold(&baseline.name), plain(what), dim(since(baseline.start.as_deref()))]);
    canvas.blank();
    let mut table = AlignedTable::new(["measured", "of", "5 %", "median", "95 %", "most", "values"]);
    for series in baseline.series.iter().filter(|series| style.all || is_any(series)) {
        table.row(row(series));
    }
    table.draw(&mut canvas, 2);
    if style.all {
        inventory(&mut canvas, baseline);
    } else {
        let hint = format!(
            "Inventory: {} entries; series that were always zero are omitted (add -v)",
            baseline.inventory.len()
        );
        canvas.paragraph(2, 4, &[dim(hint)]);
    }
    canvas.finish()
}

fn inventory(canvas: &mut Canvas, baseline: &Baseline) {
    heading(canvas, "The machine");
    for (name, value) in &baseline.inventory {
        canvas.paragraph(2, 4, &[dim(format!("{name}  ")), plain(value)]);
    }
}

fn row(series: &BaselineSeries) -> [String; 7] {
    let values = &series.distribution;
    let figure = |value: Option<f64>| value.map_or_else(String::new, |value| human::quantity(value, &series.unit));
    [
        series.metric.clone(),
        words::subject(&series.subject),
        figure(values.quantile(0.05)),
        figure(values.quantile(0.5)),
        figure(values.quantile(0.95)),
        figure(values.max()),
        values.count().to_string(),
    ]
}

fn is_any(series: &BaselineSeries) -> bool {
    series.samples.iter().any(|sample| *sample != 0.0)
}

fn over(kind: BaselineKind, seconds: f64) -> String {
    match kind {
        BaselineKind::Period => format!("over {}", human::seconds(seconds.round())),
        BaselineKind::Bench => format!("of benchmarks over {}", human::seconds(seconds.round())),
        BaselineKind::Captures => "of the output of other tools".to_owned(),
    }
}

fn since(start: Option<&str>) -> String {
    start.map_or_else(String::new, |start| format!(", from {start}"))
}
