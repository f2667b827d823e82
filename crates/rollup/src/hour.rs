//! Converts an hour of a recording into rows of all tables that are derived from its readings.

use crate::episodes::episodes;
use crate::family::{FamilyMinutes, MinuteRow, observed};
use crate::judged::{Judgements, judged_minutes};
use crate::place::Hour;
use crate::row::{Cell, Row};
use crate::table::TableSpec;
use crate::tables::{histogram_table, selected, table};
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Confidence;
use whyslow_model::catalogue::{Family, MetricKind, Sample};
use whyslow_model::row::{ColumnReading, ColumnSelection, SampleTime};
use whyslow_model::value::Value;
use whyslow_series::Samples;

/// Time before and after an hour that must be read for it, nanoseconds: for steps that begin before it, and for
/// judgements, which follow the time that they judge.
pub const MARGIN_NS: i64 = 90_000_000_000;

const MS: i64 = 1_000_000;
const MINUTE_MS: i64 = 60_000;

/// The rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRows {
    /// The table.
    pub table: &'static TableSpec,
    /// Its rows, sorted by time; there is at least one.
    pub rows: Vec<Row>,
}

/// Creates the rows of an hour.
pub struct HourRollup {
    hour: Hour,
    samples: Samples,
    /// First sample of each segment.
    segments: Vec<usize>,
    /// Start of each sample's minute, milliseconds since 1970; `None` outside of the hour.
    minute_of: Vec<Option<i64>>,
    /// For each sample whether it is within the hour or before it.
    wanted: Vec<bool>,
    families: Vec<FamilyMinutes>,
    judgements: Judgements,
    missed: BTreeMap<i64, f64>,
}

impl HourRollup {
    /// Creates a rollup for samples taken at these times, in order of boot and of time since boot: those of the hour,
    /// and of [`MARGIN_NS`] before and after it. `segments` has the positions of the samples that begin a segment of
    /// the recording.
    pub fn new(hour: Hour, times: Vec<SampleTime>, segments: Vec<usize>) -> Self {
        let minute = |time: &SampleTime| {
            let ms = time.at.div_euclid(MS);
            (hour.start()..hour.end()).contains(&ms).then(|| ms - ms.rem_euclid(MINUTE_MS))
        };
        let minute_of: Vec<Option<i64>> = times.iter().map(minute).collect();
        let families = selected().iter().map(|family| FamilyMinutes::new(family, times.len())).collect();
        let end = hour.end().saturating_mul(MS);
        let wanted = times.iter().map(|time| time.at < end).collect();
        let samples = Samples::new(times, true);
        Self {
            hour,
            wanted,
            samples,
            segments,
            minute_of,
            families,
            judgements: Judgements::default(),
            missed: BTreeMap::new(),
        }
    }

    /// Returns whether any sample is within the hour.
    pub fn has_samples(&self) -> bool {
        self.minute_of.iter().any(Option::is_some)
    }

    /// Returns the columns to read.
    pub fn selections(&self) -> Vec<ColumnSelection> {
        let times = self.samples.times();
        let wanted = &self.wanted;
        let minute = |sample: usize| times.get(sample).map(|time| (time.at.div_euclid(MS * MINUTE_MS), time.boot));
        let is_last = |sample: usize| wanted[sample] && minute(sample) != minute(sample + 1);
        let last_of_minutes: Vec<bool> = (0..times.len()).map(is_last).collect();
        let of_samples = ColumnSelection {
            family: Sample::INFO.name,
            metrics: Sample::INFO.metrics.iter().position(|metric| metric.name == "missed").into_iter().collect(),
            samples: Some(wanted.clone()),
        };
        let families = self.families.iter().map(|family| family.selection(wanted, &last_of_minutes));
        families.chain(Judgements::selections()).chain([of_samples]).collect()
    }

    /// Adds a reading of one of the [`selections`](Self::selections).
    pub fn add(&mut self, selection: usize, reading: ColumnReading<'_>) {
        for reading in reading.of_each_sample() {
            self.add_sample(selection, reading);
        }
    }

    fn add_sample(&mut self, selection: usize, reading: ColumnReading<'_>) {
        let minute = self.minute_of.get(reading.sample).copied().flatten();
        let families = self.families.len();
        if let Some(family) = self.families.get_mut(selection) {
            let segment = self.segments.partition_point(|first| *first <= reading.sample).saturating_sub(1);
            let first = self.segments.get(segment).copied().unwrap_or(0);
            family.add(&self.samples, first, minute, reading);
            return;
        }
        match selection - families {
            0 => self.judgements.add_judgement(&reading),
            1 => self.judgements.add_finding(&reading),
            _ => {
                if let (Some(minute), Some(Value::Gauge(missed))) = (minute, reading.values.first()) {
                    *self.missed.entry(minute).or_default() += missed.get().unwrap_or(0.0);
                }
            }
        }
    }

    /// Returns the rows of each table that has any. `host` is the host's name, `version` that of the program that ships
    /// them.
    pub fn finish(self, host: &str, version: &str) -> Vec<TableRows> {
        let host = Cell::text(host);
        let longest = (1..self.minute_of.len()).filter_map(|sample| self.samples.step(sample - 1, sample)).max();
        let hour = (self.hour.start().saturating_mul(MS), self.hour.end().saturating_mul(MS));
        let near = (hour.0.saturating_sub(MARGIN_NS), hour.1.saturating_add(MARGIN_NS));
        let windows = self.judgements.windows(near, longest.unwrap_or(0));
        let mut all: Vec<(String, Vec<MinuteRow>)> = Vec::new();

        let judged = judged_minutes(&windows);
        let observed = observed(&self.samples, &self.minute_of, &self.wanted);
        let minutes = observed.iter().map(|(at, minute)| {
            let judged = judged.get(&(at * MS)).copied().unwrap_or_default();
            let cells = vec![
                Cell::Double(minute.seconds),
                Cell::Integer(minute.samples.into()),
                Cell::Integer(self.missed.get(at).copied().unwrap_or(0.0) as i64),
                Cell::Double(judged.judged),
                Cell::Double(judged.lost),
                Cell::text(version),
            ];
            MinuteRow { at: *at, cells }
        });
        all.push(("minute".into(), minutes.collect()));

        let episodes = episodes(&windows, hour).into_iter().map(|episode| {
            let worst = &episode.found.worst;
            let cells = vec![
                Cell::Timestamp(episode.found.span.1.div_euclid(MS)),
                Cell::text(&worst.id),
                Cell::text(&worst.subject.kind),
                Cell::text(&worst.subject.name),
                Cell::words(worst.culprit.as_deref()),
                Cell::words(worst.confidence.map(Confidence::word)),
                Cell::number(Some((episode.lost_seconds * 1000.0).round() / 1000.0)),
                Cell::number(Some(worst.impact)),
                Cell::Boolean(episode.began_before),
                Cell::Boolean(episode.goes_on),
            ];
            MinuteRow { at: episode.found.span.0.div_euclid(MS), cells }
        });
        all.push(("episode".into(), episodes.collect()));

        for (family, description) in self.families.into_iter().zip(selected()) {
            let (rows, histograms) = family.finish(&self.samples, &self.minute_of);
            all.push((description.info.name.into(), rows));
            let names = description.metrics().filter(|metric| metric.kind == MetricKind::Histogram);
            let names = names.map(|metric| histogram_table(description.info.name, metric.name));
            all.extend(names.zip(histograms));
        }
        let with_rows = all.into_iter().filter(|(_, rows)| !rows.is_empty());
        with_rows.filter_map(|(name, rows)| of_table(&name, &host, rows)).collect()
    }
}

fn of_table(name: &str, host: &Cell, rows: Vec<MinuteRow>) -> Option<TableRows> {
    let whole = |row: MinuteRow| {
        let cells = row.cells.into_iter().map(Cell::bounded);
        [host.clone(), Cell::Timestamp(row.at)].into_iter().chain(cells).collect()
    };
    Some(TableRows { table: table(name)?, rows: rows.into_iter().map(whole).collect() })
}

#[cfg(test)]
mod tests;
