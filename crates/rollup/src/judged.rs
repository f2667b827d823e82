//! Judgements of the recorder over an hour: how much of it was judged, and how much time was lost.

use std::collections::BTreeMap;
use whyslow_diagnose::FeltCause;
use whyslow_model::catalogue::{Family, Judgement, RecordedFinding};
use whyslow_model::key::KeyPart;
use whyslow_model::row::{ColumnReading, ColumnSelection};
use whyslow_model::value::Value;

const MINUTE_NS: i64 = 60_000_000_000;
/// Length of a window, nanoseconds: the recorder ends it at the first sample after this time.
const WINDOW_NS: i64 = 10_000_000_000;

/// A window judged by the recorder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JudgedWindow {
    /// Its start and end, nanoseconds since 1970.
    pub(crate) span: (i64, i64),
    /// Causes that were noticeable in it.
    pub(crate) felt: Vec<FeltCause>,
}

impl JudgedWindow {
    /// Returns the part of it within a span, in seconds.
    pub(crate) fn seconds_within(&self, span: (i64, i64)) -> f64 {
        (self.span.1.min(span.1) - self.span.0.max(span.0)).max(0) as f64 / 1e9
    }
}

/// Collects judgements and findings; those that belong together are in the same sample.
#[derive(Default)]
pub(crate) struct Judgements {
    windows: BTreeMap<usize, (i64, i64)>,
    findings: BTreeMap<usize, Vec<RecordedFinding>>,
}

impl Judgements {
    /// Returns the columns to read.
    pub(crate) fn selections() -> [ColumnSelection; 2] {
        let all = |family: &'static str, metrics: usize| ColumnSelection {
            family,
            metrics: (0..metrics).collect(),
            samples: None,
        };
        [
            all(Judgement::INFO.name, Judgement::INFO.metrics.len()),
            all(RecordedFinding::INFO.name, RecordedFinding::INFO.metrics.len()),
        ]
    }

    /// Adds a judgement.
    pub(crate) fn add_judgement(&mut self, reading: &ColumnReading<'_>) {
        let mut row = Judgement::default();
        put_all(&mut row, reading.values);
        let time = |counter: Option<u64>| counter.and_then(|ns| i64::try_from(ns).ok());
        if let Some(span) = time(row.start.get()).zip(time(row.end.get())) {
            self.windows.insert(reading.sample, span);
        }
    }

    /// Adds a finding.
    pub(crate) fn add_finding(&mut self, reading: &ColumnReading<'_>) {
        if let Some(KeyPart::Text(key)) = reading.key.first() {
            let mut row = RecordedFinding::new(key.clone());
            put_all(&mut row, reading.values);
            self.findings.entry(reading.sample).or_default().push(row);
        }
    }

    /// Returns the windows within a span, in order. `longest` is the longest step between samples, nanoseconds: a
    /// window that is longer than that allows is one in which the clock was set.
    pub(crate) fn windows(&self, within: (i64, i64), longest: u64) -> Vec<JudgedWindow> {
        let most = WINDOW_NS.saturating_add_unsigned(longest);
        let is_sound = |span: &(i64, i64)| {
            let is_within = within.0 <= span.0 && span.1 <= within.1;
            is_within && span.0 < span.1 && span.1 - span.0 <= most
        };
        let windows = self.windows.iter().filter(|(_, span)| is_sound(span)).map(|(sample, span)| JudgedWindow {
            span: *span,
            felt: self.findings.get(sample).into_iter().flatten().map(FeltCause::from_row).collect(),
        });
        let mut windows: Vec<JudgedWindow> = windows.collect();
        windows.sort_by_key(|window| window.span);
        windows
    }
}

fn put_all<F: Family>(row: &mut F, values: &[Value]) {
    for (column, value) in values.iter().enumerate() {
        row.put(column, value.clone());
    }
}

/// Judged part of a minute, and the time lost in it, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct JudgedMinute {
    pub(crate) judged: f64,
    pub(crate) lost: f64,
}

/// Returns the minutes of these windows, by their start, nanoseconds since 1970.
pub(crate) fn judged_minutes(windows: &[JudgedWindow]) -> BTreeMap<i64, JudgedMinute> {
    let mut minutes: BTreeMap<i64, JudgedMinute> = BTreeMap::new();
    for window in windows {
        let greatest = window.felt.iter().map(|cause| cause.impact).fold(0.0, f64::max);
        let mut start = window.span.0 - window.span.0.rem_euclid(MINUTE_NS);
        while start < window.span.1 {
            let seconds = window.seconds_within((start, start + MINUTE_NS));
            let minute = minutes.entry(start).or_default();
            minute.judged += seconds;
            minute.lost += seconds * greatest;
            start += MINUTE_NS;
        }
    }
    minutes
}
