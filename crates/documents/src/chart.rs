//! Charts: the data that `whyslow report` draws, and its JSON, `whyslow.report/1`. Fields may be added, existing ones
//! do not change.
//!
//! Values are in base units (`s`, `By`, `By/s`, `bit/s`, `1/s`, `Hz`, `Cel`); `1` is a ratio, `count` a number of
//! things. An unknown value is `null`: a gap in the chart.

use crate::diagnosis::Diagnosis;
use crate::explanation::Explanation;
use crate::io_stack::IoStack;
use crate::profile::StackProfile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.report/1";

/// Everything a report shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageData {
    /// Always [`SCHEMA`].
    #[serde(default)]
    pub schema: String,
    /// The title.
    pub title: String,
    /// The machine; of captures of several machines, all of them; empty if unknown.
    pub host: String,
    /// The start of the period, seconds since 1970.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Whether all times are seconds since the first reading, because captures do not say when they were made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_elapsed: bool,
    /// The diagnosis, live or of captures.
    pub diagnosis: Option<Diagnosis>,
    /// The episodes of a recording.
    pub explanation: Option<Explanation>,
    /// The charts that have data, in the order of the table of charts.
    pub charts: Vec<Chart>,
    /// The result of a benchmark or an experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ResultText>,
    /// The storage and network stack, of a machine that is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<IoStack>,
    /// A profile to show as a flame graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<StackProfile>,
}

/// The result of a benchmark or an experiment in words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultText {
    /// What was measured, or what was found, in one line.
    pub headline: String,
    /// All of it, as on a terminal.
    pub text: String,
}

/// What is along a chart from left to right, where that is not time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChartAxis {
    /// What the labels are: `queue depth`; empty if they say it themselves.
    pub title: String,
    /// The label of each of the chart's `times`.
    pub labels: Vec<String>,
}

/// How a chart is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChartKind {
    /// A line for each series.
    #[default]
    Lines,
    /// Areas on top of one another: the series are parts of a whole.
    Stacked,
    /// A heat map: how many values were in each bucket at each time.
    Heat,
}

/// Quantities over time that belong together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Chart {
    /// The name, such as `disk.latency`; of one of several, with its entity: `disk.device_time@sda read`.
    pub id: String,
    /// The title.
    pub title: String,
    /// The group of charts it belongs to: cpu, pressure, memory, disk, filesystem, network, cgroup, process.
    pub family: String,
    /// The unit of the values; of a heat map, of the edges of its buckets.
    pub unit: String,
    /// One sentence on what is shown.
    pub help: String,
    /// How it is drawn.
    pub kind: ChartKind,
    /// The signals of the diagnosis whose numbers can be seen here.
    pub signals: Vec<String>,
    /// The ends of the intervals that the values are of, seconds since 1970, ascending; with `x`, places on that axis.
    pub times: Vec<f64>,
    /// What is along the chart, where that is not time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<ChartAxis>,
    /// The number of entities that are not drawn: those with the smallest means.
    pub left_out: usize,
    /// The series; empty for a heat map.
    pub series: Vec<ChartSeries>,
    /// The edges of a heat map's buckets, ascending: one more than there are buckets.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "numbers")]
    pub buckets: Vec<f64>,
    /// For each time, the number of values in each bucket; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<Vec<u64>>,
}

impl Chart {
    /// Keeps only the intervals that end after a time, seconds since 1970; `None` if there are none.
    pub fn after(mut self, time: f64) -> Option<Self> {
        let first = self.times.iter().position(|end| *end > time)?;
        let cut = |values: &mut Vec<Option<f64>>| drop(values.drain(..first.min(values.len())));
        self.times.drain(..first);
        self.counts.drain(..first.min(self.counts.len()));
        for series in &mut self.series {
            cut(&mut series.mean);
            series.min.as_mut().map(cut);
            series.max.as_mut().map(cut);
        }
        Some(self)
    }
}

/// One quantity over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChartSeries {
    /// The label: the entity and what of it is shown, `sda reads`.
    pub name: String,
    /// The entity, named as the system spells it; empty for the machine as a whole.
    pub entity: String,
    /// Whether each value is a point of its own, and not joined with the next one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub points: bool,
    /// The mean over each interval; with another axis than time, the value at each of its labels.
    #[serde(serialize_with = "optional_numbers")]
    pub mean: Vec<Option<f64>>,
    /// The smallest value in each interval, or the lower bound of what is known of it; absent if each interval has at most one.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "more_optional_numbers")]
    pub min: Option<Vec<Option<f64>>>,
    /// The largest value in each interval.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "more_optional_numbers")]
    pub max: Option<Vec<Option<f64>>>,
}

impl ChartSeries {
    /// Returns the mean of the means over time; `None` without values.
    pub fn average(&self) -> Option<f64> {
        let (count, sum) = self.mean.iter().flatten().fold((0, 0.0), |(count, sum), value| (count + 1, sum + value));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Returns the smallest value.
    pub fn lowest(&self) -> Option<f64> {
        self.min.as_ref().unwrap_or(&self.mean).iter().flatten().copied().reduce(f64::min)
    }

    /// Returns the largest value.
    pub fn highest(&self) -> Option<f64> {
        self.max.as_ref().unwrap_or(&self.mean).iter().flatten().copied().reduce(f64::max)
    }
}

/// A number that is written without a decimal point if it is whole: a day's charts have hundreds of thousands.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum ShortNumber {
    Whole(i64),
    Fraction(f64),
}

impl From<f64> for ShortNumber {
    fn from(number: f64) -> Self {
        const EXACT: f64 = (1_u64 << 53) as f64;
        if number.fract() == 0.0 && number.abs() < EXACT { Self::Whole(number as i64) } else { Self::Fraction(number) }
    }
}

fn numbers<S: Serializer>(numbers: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(numbers.iter().map(|number| ShortNumber::from(*number)))
}

fn optional_numbers<S: Serializer>(numbers: &[Option<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(numbers.iter().map(|number| number.map(ShortNumber::from)))
}

fn more_optional_numbers<S: Serializer>(numbers: &Option<Vec<Option<f64>>>, serializer: S) -> Result<S::Ok, S::Error> {
    optional_numbers(numbers.as_deref().unwrap_or_default(), serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_short_in_json_and_reads_back() {
        let series = ChartSeries {
            name: "sda reads".into(),
            entity: "sda".into(),
            mean: vec![Some(4.0), None, Some(0.5)],
            max: Some(vec![Some(9.0), None, Some(0.5)]),
            ..ChartSeries::default()
        };
        let json = serde_json::to_string(&series).unwrap();
        assert_eq!(json, r#"{"name":"sda reads","entity":"sda","mean":[4,null,0.5],"max":[9,null,0.5]}"#);
        assert_eq!(serde_json::from_str::<ChartSeries>(&json).unwrap(), series);
        assert_eq!((series.average(), series.lowest(), series.highest()), (Some(2.25), Some(0.5), Some(9.0)));
    }

    #[test]
    fn what_comes_after_a_time_is_cut_out() {
        let series = ChartSeries {
            mean: vec![Some(1.0), None, Some(3.0)],
            min: None,
            max: Some(vec![Some(2.0), None, Some(4.0)]),
            ..ChartSeries::default()
        };
        let chart = Chart {
            times: vec![10.0, 11.0, 12.0],
            series: vec![series],
            counts: vec![vec![1], vec![], vec![3]],
            ..Chart::default()
        };
        let later = chart.clone().after(10.0).unwrap();
        assert_eq!((later.times, later.counts), (vec![11.0, 12.0], vec![vec![], vec![3]]));
        assert_eq!(later.series[0].mean, [None, Some(3.0)]);
        assert_eq!((&later.series[0].min, &later.series[0].max), (&None, &Some(vec![None, Some(4.0)])));
        assert_eq!(chart.clone().after(9.0), Some(chart.clone()));
        assert_eq!(chart.after(12.0), None);
    }

    #[test]
    fn a_series_without_values_has_no_mean() {
        let series = ChartSeries { mean: vec![None, None], ..ChartSeries::default() };
        assert_eq!((series.average(), series.lowest(), series.highest()), (None, None, None));
    }
}
