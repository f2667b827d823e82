//! The document of a report, as stored in its file.

use serde::Serialize;
use whyslow_documents::chart::{Chart, PageData};

/// A page whose charts share their times: the charts of a day have the same ones, which would otherwise make up a fifth of the
/// file.
#[derive(Serialize)]
pub(super) struct EmbeddedPage<'p> {
    /// The page; its charts have no times.
    #[serde(flatten)]
    page: PageData,
    /// The distinct time axes of all charts.
    axes: Vec<&'p [f64]>,
    /// Index of each chart's time axis.
    axis_of: Vec<usize>,
}

impl<'p> EmbeddedPage<'p> {
    pub(super) fn new(page: &'p PageData) -> Self {
        let mut axes: Vec<&[f64]> = Vec::new();
        let axis = |chart: &'p Chart| {
            axes.iter().position(|known| *known == chart.times).unwrap_or_else(|| {
                axes.push(&chart.times);
                axes.len() - 1
            })
        };
        let axis_of = page.charts.iter().map(axis).collect();
        let mut page = page.clone();
        page.charts.iter_mut().for_each(|chart| chart.times.clear());
        Self { page, axes, axis_of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_with_the_same_times_share_them() {
        let chart = |times: &[f64]| Chart { times: times.to_vec(), ..Chart::default() };
        let charts = vec![chart(&[1.0, 2.0]), chart(&[1.0]), chart(&[1.0, 2.0])];
        let page = PageData { title: "a day".into(), charts, ..PageData::default() };
        let json = serde_json::to_value(EmbeddedPage::new(&page)).unwrap();
        assert_eq!((&json["title"], &json["charts"][2]["times"]), (&"a day".into(), &serde_json::json!([])));
        assert_eq!(
            (&json["axes"], &json["axis_of"]),
            (&serde_json::json!([[1.0, 2.0], [1.0]]), &serde_json::json!([0, 1, 0]))
        );
    }
}
