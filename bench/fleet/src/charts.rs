//! Charts of the growth of stores with the number of hosts.

use crate::growth::{Size, Times};
use crate::store::Layout;
use std::fs;
use std::path::Path;
use whyslow_documents::chart::{Chart, ChartAxis, ChartSeries};
use whyslow_pairs::failure::Result;
use whyslow_show::chart::svg;

/// Writes a chart for each quantity that grows: `bytes.svg`, `files.svg`, `time.svg`.
///
/// # Errors
/// Fails if they cannot be written.
pub fn write(sizes: &[Size], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for chart in charts(sizes) {
        fs::write(folder.join(format!("{}.svg", chart.id)), svg(&chart, false))?;
    }
    Ok(())
}

fn charts(sizes: &[Size]) -> [Chart; 3] {
    let hours = sizes.first().map_or(0, |size| size.hours);
    let chart = |id: &str, title: &str, unit: &str, series: Vec<ChartSeries>| {
        let hosts = hosts(sizes);
        let axis = ChartAxis { title: "hosts".into(), labels: hosts.iter().map(ToString::to_string).collect() };
        Chart {
            id: id.into(),
            title: title.into(),
            family: "fleet".into(),
            unit: unit.into(),
            help: format!("A store of {hours} hours: as hosts ship it, and after it was compacted."),
            times: hosts.iter().map(|hosts| *hosts as f64).collect(),
            x: Some(axis),
            series,
            ..Chart::default()
        }
    };
    let by_layout = |value: &dyn Fn(&Size) -> f64| {
        let of = |(layout, name): (Layout, &str)| series(sizes, name, layout, &|size| Some(value(size)));
        [(Layout::Compacted, "compacted"), (Layout::Shipped, "as shipped")].into_iter().filter_map(of).collect()
    };
    let questions = [("sick, compacted", "sick", Layout::Compacted), ("sick, as shipped", "sick", Layout::Shipped)];
    let others = [("why, compacted", "why", Layout::Compacted), ("sql, compacted", "sql", Layout::Compacted)];
    let time = |(name, question, layout): (&str, &str, Layout)| {
        let of = |size: &Size| size.times.get(question).map(|Times { p95, .. }| *p95);
        series(sizes, name, layout, &of)
    };
    [
        chart("bytes", "Size of the store", "By", by_layout(&|size| size.bytes as f64)),
        chart("files", "Files in the store", "count", by_layout(&|size| size.files as f64)),
        chart(
            "time",
            "Time of an answer, 95th percentile",
            "s",
            questions.into_iter().chain(others).filter_map(time).collect(),
        ),
    ]
}

/// Returns the numbers of hosts in ascending order.
fn hosts(sizes: &[Size]) -> Vec<usize> {
    let mut all: Vec<usize> = sizes.iter().map(|size| size.hosts).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns a line over the numbers of hosts; `None` if it has no value.
fn series(sizes: &[Size], name: &str, layout: Layout, value: &dyn Fn(&Size) -> Option<f64>) -> Option<ChartSeries> {
    let of = |hosts: &usize| sizes.iter().find(|size| size.hosts == *hosts && size.layout == layout).and_then(value);
    let mean: Vec<Option<f64>> = hosts(sizes).iter().map(of).collect();
    let is_known = mean.iter().any(Option::is_some);
    is_known.then(|| ChartSeries { name: name.into(), entity: name.into(), mean, ..ChartSeries::default() })
}
