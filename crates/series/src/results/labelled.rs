//! Charts whose values belong to labels.

use crate::line::rounded;
use std::collections::BTreeMap;
use whyslow_documents::chart::{Chart, ChartAxis, ChartSeries};

/// Maximum number of series in a chart. Those with the smallest values are left out.
const MOST_SERIES: usize = 16;

/// A position on the axis. Labels without a number are equally spaced.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    pub(super) text: String,
    /// Position; `None` for the order in which labels are added.
    pub(super) place: Option<f64>,
}

impl Label {
    pub(super) fn next(text: impl Into<String>) -> Self {
        Self { text: text.into(), place: None }
    }

    pub(super) fn at(place: f64, text: impl Into<String>) -> Self {
        Self { text: text.into(), place: Some(place) }
    }

    /// Creates a label for a number on a logarithmic scale: doublings are equally spaced.
    pub(super) fn doubling(number: f64, text: impl Into<String>) -> Self {
        Self::at(number.max(1.0).log2(), text)
    }
}

/// Name of a series, and its entity. Series of one entity share a colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeriesName {
    pub(super) entity: String,
    pub(super) name: String,
}

impl From<&str> for SeriesName {
    fn from(name: &str) -> Self {
        Self { entity: name.to_owned(), name: name.to_owned() }
    }
}

/// A value and its range, if known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LabelledValue {
    pub(super) value: f64,
    pub(super) range: Option<[f64; 2]>,
}

impl From<f64> for LabelledValue {
    fn from(value: f64) -> Self {
        Self { value, range: None }
    }
}

/// Values by series and label.
pub(super) struct LabelledChart {
    chart: Chart,
    labels: Vec<Label>,
    names: Vec<(SeriesName, bool)>,
    values: BTreeMap<(usize, usize), LabelledValue>,
}

impl LabelledChart {
    /// Creates an empty chart. `along` is the title of the label axis.
    pub(super) fn new(id: &str, title: &str, unit: &str, along: &str, help: &str) -> Self {
        let family = id.split('.').next().unwrap_or_default().to_owned();
        let chart = Chart {
            id: id.to_owned(),
            title: title.to_owned(),
            family,
            unit: unit_of_charts(unit).to_owned(),
            help: help.to_owned(),
            x: Some(ChartAxis { title: along.to_owned(), labels: Vec::new() }),
            ..Chart::default()
        };
        Self { chart, labels: Vec::new(), names: Vec::new(), values: BTreeMap::new() }
    }

    /// Adds a value that is joined to the next one of its series.
    pub(super) fn add(&mut self, series: impl Into<SeriesName>, label: Label, value: impl Into<LabelledValue>) {
        self.insert(series.into(), false, label, value.into());
    }

    /// Adds a value that is drawn as a separate point.
    pub(super) fn add_point(&mut self, series: impl Into<SeriesName>, label: Label, value: impl Into<LabelledValue>) {
        self.insert(series.into(), true, label, value.into());
    }

    fn insert(&mut self, series: SeriesName, points: bool, label: Label, value: LabelledValue) {
        if !value.value.is_finite() {
            return;
        }
        let name = self.names.iter().position(|(name, _)| *name == series).unwrap_or_else(|| {
            self.names.push((series, points));
            self.names.len() - 1
        });
        let place = self.labels.iter().position(|known| *known == label).unwrap_or_else(|| {
            self.labels.push(label);
            self.labels.len() - 1
        });
        self.values.insert((name, place), value);
    }

    /// Returns the chart; `None` if there is nothing to compare.
    pub(super) fn finish(self) -> Option<Chart> {
        if self.labels.len() < 2 {
            return None;
        }
        let mut order: Vec<(f64, usize)> =
            self.labels.iter().enumerate().map(|(at, label)| (label.place.unwrap_or(at as f64), at)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut series: Vec<ChartSeries> = (0..self.names.len()).map(|name| self.series(name, &order)).collect();
        // The sort is stable: equal values keep their order.
        series.sort_by(|a, b| b.highest().unwrap_or(0.0).total_cmp(&a.highest().unwrap_or(0.0)));
        let left_out = series.len().saturating_sub(MOST_SERIES);
        series.truncate(MOST_SERIES);
        series.sort_by_key(|one| self.names.iter().position(|(name, _)| name.name == one.name));
        let labels = order.iter().map(|(_, at)| self.labels[*at].text.clone()).collect();
        let x = self.chart.x.clone().map(|axis| ChartAxis { labels, ..axis });
        let times = order.into_iter().map(|(place, _)| place).collect();
        Some(Chart { times, x, series, left_out, ..self.chart })
    }

    fn series(&self, name: usize, order: &[(f64, usize)]) -> ChartSeries {
        let (SeriesName { entity, name: text }, points) = &self.names[name];
        let found: Vec<Option<&LabelledValue>> = order.iter().map(|(_, at)| self.values.get(&(name, *at))).collect();
        let of = |number: fn(&LabelledValue) -> f64| {
            found.iter().map(|value| value.map(|value| rounded(number(value)))).collect::<Vec<_>>()
        };
        let has_range = found.iter().flatten().any(|value| value.range.is_some());
        let bound = |number: fn(&LabelledValue) -> f64| has_range.then(|| of(number));
        ChartSeries {
            name: text.clone(),
            entity: entity.clone(),
            points: *points,
            mean: of(|value| value.value),
            min: bound(|value| value.range.map_or(value.value, |[low, _]| low)),
            max: bound(|value| value.range.map_or(value.value, |[_, high]| high)),
        }
    }
}

/// Converts the units of other documents to those of charts.
fn unit_of_charts(unit: &str) -> &str {
    match unit {
        "bytes" => "By",
        "bytes/s" => "By/s",
        "ratio" => "1",
        unit => unit,
    }
}

/// Capitalises the first letter.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_missing_values_are_gaps() {
        let mut chart = LabelledChart::new("bench.x", "X", "1/s", "queue depth", "");
        for (depth, rate) in [(1.0, 100.0), (4.0, 390.0), (2.0, 200.0)] {
            chart.add("read", Label::doubling(depth, format!("{depth}")), rate);
        }
        chart.add("write", Label::doubling(4.0, "4"), LabelledValue { value: 50.0, range: Some([40.0, 60.0]) });
        chart.add("broken", Label::doubling(4.0, "4"), f64::NAN);
        let chart = chart.finish().unwrap();
        assert_eq!((chart.family.as_str(), &chart.times), ("bench", &vec![0.0, 1.0, 2.0]));
        let axis = chart.x.unwrap();
        assert_eq!((axis.title.as_str(), axis.labels), ("queue depth", vec!["1".to_owned(), "2".into(), "4".into()]));
        assert_eq!(chart.series.len(), 2);
        assert_eq!(chart.series[0].mean, [Some(100.0), Some(200.0), Some(390.0)]);
        assert_eq!(chart.series[1].mean, [None, None, Some(50.0)]);
        assert_eq!(chart.series[1].max, Some(vec![None, None, Some(60.0)]));
        assert_eq!(chart.series[0].min, None);
    }

    #[test]
    fn one_label_is_no_chart_and_the_largest_of_many_series_are_drawn() {
        let mut one = LabelledChart::new("bench.x", "X", "s", "run", "");
        one.add("read", Label::next("a"), 1.0);
        assert_eq!(one.finish(), None);
        let mut many = LabelledChart::new("bench.x", "X", "s", "run", "");
        for number in 0..20 {
            for label in ["a", "b"] {
                many.add(format!("s{number}").as_str(), Label::next(label), f64::from(number));
            }
        }
        let chart = many.finish().unwrap();
        assert_eq!((chart.series.len(), chart.left_out), (16, 4));
        assert_eq!((chart.series[0].name.as_str(), chart.series[15].name.as_str()), ("s4", "s19"));
    }
}
