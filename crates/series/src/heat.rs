//! Heat maps: the number of values added to a histogram, by size and over time.

use crate::axis::{Axis, Samples};
use crate::plot::Before;
use crate::table::{Amount, ChartSpec, Entities, SourceSpec, converted};
use std::collections::BTreeMap;
use whyslow_documents::chart::Chart;
use whyslow_model::histogram::{Histogram, span};
use whyslow_model::row::ColumnReading;
use whyslow_model::value::Value;

/// A histogram has 32 buckets per octave. A heat map joins this many, which leaves two.
const JOINED: u32 = 16;

/// Counts by joined bucket for each interval; `None` if nothing was observed.
type Counts = Vec<Option<BTreeMap<u32, u64>>>;

/// Heat maps of a chart.
pub(crate) struct HeatPlot {
    pub(crate) chart: &'static ChartSpec,
    source: &'static SourceSpec,
    /// Position of the histogram in a reading, and the factor to the chart's unit.
    column: Option<(usize, f64)>,
    /// Names and counts by index of the entity; one entry for a sum.
    drawn: BTreeMap<usize, (String, Counts)>,
}

impl HeatPlot {
    /// Creates a plot of a source of a chart, for readings of these columns.
    pub(crate) fn new(chart: &'static ChartSpec, source: &'static SourceSpec, columns: &[usize]) -> Self {
        let of = source.lines.iter().find_map(|line| match line.amount {
            Amount::Values { of } => Some(of),
            _ => None,
        });
        let column = of.and_then(|of| {
            let at = columns.iter().position(|known| *known == of)?;
            Some((at, converted(source.family.metrics[of].unit).1))
        });
        Self { chart, source, column, drawn: BTreeMap::new() }
    }

    /// Adds a reading of an entity. What was added to the histogram since the previous reading counts for the interval of this
    /// one.
    pub(crate) fn add(
        &mut self,
        axis: &Axis,
        (entity, name): (usize, &str),
        before: Option<&Before<'_>>,
        reading: &ColumnReading<'_>,
    ) {
        let histogram = |values: &[Value]| match values.get(self.column?.0)? {
            Value::Histogram(histogram) => Some(histogram.clone()),
            _ => None,
        };
        let Some(before) = before else { return };
        let both = histogram(before.values).zip(histogram(reading.values));
        let Some(added) = both.and_then(|(before, now)| now.since(&before)) else { return };
        let is_sum = self.source.entities == Entities::Sum;
        let (_, counts) = self
            .drawn
            .entry(if is_sum { 0 } else { entity })
            .or_insert_with(|| (if is_sum { String::new() } else { name.to_owned() }, vec![None; axis.len()]));
        if let Some(counts) = counts.get_mut(axis.interval(reading.sample)) {
            count(counts.get_or_insert_default(), &added);
        }
    }

    /// Returns the heat maps of the entities with the most values.
    pub(crate) fn finish(self, samples: &Samples, axis: &Axis) -> Vec<Chart> {
        let Some((_, factor)) = self.column else { return Vec::new() };
        let total = |counts: &Counts| counts.iter().flatten().flat_map(BTreeMap::values).sum::<u64>();
        let mut drawn: Vec<(String, Counts)> = self.drawn.into_values().collect();
        drawn.retain(|(_, counts)| total(counts) > 0);
        drawn.sort_by(|(a, of_a), (b, of_b)| total(of_b).cmp(&total(of_a)).then_with(|| a.cmp(b)));
        let most = if let Entities::Top(most) = self.source.entities { most } else { 1 };
        let left_out = drawn.len().saturating_sub(most);
        drawn.truncate(most);
        let times = axis.seconds();
        let has_samples = samples.len() > 0;
        let charts = drawn.into_iter().filter(|_| has_samples).map(|(name, counts)| {
            let (id, title) = if name.is_empty() {
                (self.chart.id.to_owned(), self.chart.title.to_owned())
            } else {
                (format!("{}@{name}", self.chart.id), format!("{}: {name}", self.chart.title))
            };
            let buckets = edges(&counts);
            Chart {
                id,
                title,
                family: self.chart.family().to_owned(),
                unit: self.chart.unit.to_owned(),
                help: self.chart.help.to_owned(),
                kind: self.chart.kind,
                signals: self.chart.signals.iter().map(|&signal| signal.to_owned()).collect(),
                times: times.clone(),
                left_out,
                // Dividing is exact; multiplying by a fraction is not.
                buckets: buckets.iter().map(|bucket| span(bucket * JOINED).0 as f64 / (1.0 / factor).round()).collect(),
                counts: counts.iter().map(|counts| row(counts.as_ref(), &buckets)).collect(),
                ..Chart::default()
            }
        });
        charts.collect()
    }
}

fn count(counts: &mut BTreeMap<u32, u64>, added: &Histogram) {
    for (bucket, number) in added.buckets().unwrap_or_default() {
        let of = counts.entry(bucket / JOINED).or_default();
        *of = of.saturating_add(*number);
    }
}

/// Returns the joined buckets from the first used one to the one after the last.
fn edges(counts: &Counts) -> Vec<u32> {
    let used = || counts.iter().flatten().flat_map(|counts| counts.iter().filter(|(_, count)| **count > 0));
    let first = used().map(|(bucket, _)| *bucket).min();
    let last = used().map(|(bucket, _)| *bucket).max();
    first.zip(last).map_or_else(Vec::new, |(first, last)| (first..=last + 1).collect())
}

fn row(counts: Option<&BTreeMap<u32, u64>>, buckets: &[u32]) -> Vec<u64> {
    let Some(counts) = counts else { return Vec::new() };
    let all = buckets.split_last().map_or(&[][..], |(_, all)| all);
    all.iter().map(|bucket| counts.get(bucket).copied().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_joined_to_two_an_octave() {
        let mut counts = BTreeMap::new();
        // 1024 to 1535, and 1536 to 2047, are one joined bucket each.
        count(&mut counts, &Histogram::from_values([1024, 1535, 1536, 2047, 2048]));
        let all: Counts = vec![None, Some(counts), Some(BTreeMap::new())];
        let buckets = edges(&all);
        let first: Vec<u64> = buckets.iter().map(|bucket| span(bucket * JOINED).0).collect();
        assert_eq!(first, [1024, 1536, 2048, 3072]);
        assert_eq!(
            all.iter().map(|counts| row(counts.as_ref(), &buckets)).collect::<Vec<_>>(),
            [vec![], vec![2, 2, 1], vec![0, 0, 0]]
        );
    }
}
