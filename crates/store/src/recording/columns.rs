//! Reads single columns of a recording without creating Snapshots: for charts of a day.
//!
//! The rows of a closed segment are passed on as they are stored, sorted by entity and time; each file is opened once
//! for all its segments.

use super::closed::{BucketChanges, SegmentFiles};
use super::rows::column_map;
use super::windows::overlap;
use super::{Recording, SegmentLocation, SegmentRef, TimeRange};
use crate::error::StoreError;
use crate::folder::Hour;
use crate::schema::Table;
use crate::segment::{Cell, Segment, Selection, TailByEntity, hour_files, read_rows};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use whyslow_model::catalogue::{FamilyInfo, Metric, MetricKind, families};
use whyslow_model::key::KeyPart;
use whyslow_model::rename::ColumnRenamer;
use whyslow_model::row::{ColumnReading, ColumnSelection, SampleTime};
use whyslow_model::value::Value;

/// Samples of a recording, and the parts of it that contain them.
pub struct SampleTimes {
    /// Times of all samples, in order of boot and of time since boot.
    pub times: Vec<SampleTime>,
    parts: Vec<Part>,
}

impl SampleTimes {
    /// Returns the positions of the samples that begin a segment.
    pub fn segments(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.first).collect()
    }
}

/// The samples of a segment.
struct Part {
    segment: SegmentRef,
    /// Position of the first sample.
    first: usize,
    /// Time of each sample.
    at: Vec<i64>,
}

impl Part {
    /// Returns the position of the sample taken at a time. Rows of an entity are in order of time, so it is mostly the
    /// position after `previous`.
    fn position(&self, at: i64, previous: &mut usize) -> Option<usize> {
        let next = *previous + 1;
        let found = if self.at.get(next) == Some(&at) { next } else { self.at.binary_search(&at).ok()? };
        *previous = found;
        Some(self.first + found)
    }
}

impl Recording {
    /// Returns the times of the samples in a span.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn sample_times(&self, span: &TimeRange) -> Result<SampleTimes, StoreError> {
        let (mut times, mut parts) = (Vec::new(), Vec::new());
        let mut boot: Option<(&str, usize)> = None;
        for segment in self.segments.iter().filter(|segment| overlap(&segment.span, span)) {
            let number = match boot {
                Some((known, number)) if known == segment.boot => number,
                Some((_, number)) => number + 1,
                None => 0,
            };
            boot = Some((&segment.boot, number));
            let clocks = self.clocks(segment, span)?;
            let at: Vec<i64> = clocks.iter().map(|(at, _)| *at).collect();
            let first = times.len();
            times.extend(clocks.into_iter().map(|(at, clock)| SampleTime { at, clock, boot: number }));
            parts.push(Part { segment: segment.clone(), first, at });
        }
        Ok(SampleTimes { times, parts })
    }

    /// Returns the times of a segment's samples, and the time since boot at each.
    pub(super) fn clocks(&self, segment: &SegmentRef, span: &TimeRange) -> Result<Vec<(i64, u64)>, StoreError> {
        match &segment.location {
            SegmentLocation::Closed(hour, closed) => self.files(hour, closed).clocks(span),
            SegmentLocation::Tail(path) => {
                let Some(tail) = self.tails.get(path)? else { return Ok(Vec::new()) };
                let clocks = tail.samples.times.iter().copied().zip(tail.samples.clocks.iter().copied());
                Ok(clocks.filter(|(at, _)| span.contains(at)).collect())
            }
        }
    }

    /// Returns the families that have rows in a span, or in a segment that overlaps it; some of their columns may have
    /// no values.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn families_in(&self, span: &TimeRange) -> Result<BTreeSet<&'static str>, StoreError> {
        let segments: Vec<&SegmentRef> = self.segments.iter().filter(|s| overlap(&s.span, span)).collect();
        let (all, mut found) = (families(), BTreeSet::new());
        for segment in &segments {
            let SegmentLocation::Tail(path) = &segment.location else { continue };
            let Some(tail) = self.tails.get(path)? else { continue };
            for (table, _) in tail.tables.iter().zip(&tail.samples.tables).filter(|(_, history)| history.has_rows()) {
                found.extend(all.iter().find(|family| family.is_named(&table.name)).map(|family| family.name));
            }
        }
        for family in all {
            for hour in segments.chunk_by(|a, b| is_same_hour(a, b)) {
                if found.contains(family.name) || self.has_rows(family.name, hour)? {
                    found.insert(family.name);
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Returns whether a table has rows in any of these segments of an hour.
    fn has_rows(&self, table: &str, segments: &[&SegmentRef]) -> Result<bool, StoreError> {
        let closed = |segment: &&SegmentRef| match &segment.location {
            SegmentLocation::Closed(hour, closed) => Some((hour.clone(), closed.start)),
            SegmentLocation::Tail(_) => None,
        };
        let wanted: Vec<(Hour, i64)> = segments.iter().filter_map(closed).collect();
        let Some((hour, _)) = wanted.first() else { return Ok(false) };
        for file in hour_files(&self.folder, table, hour, &self.footers) {
            let Some(file) = self.damage.skip(file)? else { continue };
            let is_wanted = |segment: &Segment| wanted.iter().any(|(_, start)| *start == segment.start);
            if file.segments().iter().any(|segment| segment.row_groups > 0 && is_wanted(segment)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Passes on readings with the position of their selection. Readings of an entity are in order of time, and the
    /// entities of a segment follow one another. A tail that was closed in the meantime is left out.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn each_reading(
        &self,
        samples: &SampleTimes,
        selections: &[ColumnSelection],
        mut each: impl FnMut(usize, ColumnReading<'_>),
    ) -> Result<(), StoreError> {
        let Some(renamer) = self.renamer.as_deref() else { return self.each_stored_reading(samples, selections, each) };
        let all = families();
        let of = |selection: &ColumnSelection| {
            all.iter().find(|family| family.name == selection.family).map(|f| ColumnRenamer::new(renamer, f, selection))
        };
        let mut renamers: Vec<Option<ColumnRenamer<'_>>> = selections.iter().map(of).collect();
        self.each_stored_reading(samples, selections, |number, reading| {
            let Some(renamer) = renamers.get_mut(number).and_then(Option::as_mut) else { return };
            let (key, values) = renamer.row(reading.key, reading.values);
            each(number, ColumnReading { key, values, ..reading });
        })
    }

    /// Passes on readings with the names as stored.
    fn each_stored_reading(
        &self,
        samples: &SampleTimes,
        selections: &[ColumnSelection],
        mut each: impl FnMut(usize, ColumnReading<'_>),
    ) -> Result<(), StoreError> {
        let all = families();
        let known = |selection: &ColumnSelection| all.iter().find(|family| family.name == selection.family);
        for (number, selection) in selections.iter().enumerate() {
            let Some(family) = known(selection) else { continue };
            let columns = Columns { family, selection };
            for parts in samples.parts.chunk_by(|a, b| is_same_hour(&a.segment, &b.segment)) {
                if let Some(SegmentLocation::Closed(hour, _)) = parts.first().map(|part| &part.segment.location) {
                    self.read_hour(hour, parts, &columns, |reading| each(number, reading))?;
                }
            }
        }
        // Tails come last: they are the newest part of each boot, and each is parsed only once.
        for part in &samples.parts {
            let SegmentLocation::Tail(path) = &part.segment.location else { continue };
            let Some(tail) = self.tails.get(path)? else { continue };
            let numbers: Vec<Option<usize>> = tail.samples.times.iter().map(|at| part.position(*at, &mut 0)).collect();
            each_reading_of_tail(&tail.samples, &tail.tables, &numbers, selections, &mut each);
        }
        Ok(())
    }

    /// Passes on the readings of consecutive segments of an hour.
    fn read_hour(
        &self,
        hour: &Hour,
        parts: &[Part],
        columns: &Columns<'_>,
        mut each: impl FnMut(ColumnReading<'_>),
    ) -> Result<(), StoreError> {
        let names = columns.names();
        for file in hour_files(&self.folder, columns.family.name, hour, &self.footers) {
            let Some(file) = self.damage.skip(file)? else { continue };
            for part in parts {
                let SegmentLocation::Closed(_, closed) = &part.segment.location else { continue };
                let Some(segment) = file.segments().iter().find(|segment| segment.start == closed.start) else {
                    continue;
                };
                let (Some(&start), Some(&end)) = (part.at.first(), part.at.last()) else { continue };
                let mut histograms = columns.histograms(&self.files(hour, closed), end)?;
                let selection = Selection { columns: &names, span: start..=end };
                let mut run = RowRun::default();
                let mut previous = 0;
                let read = read_rows(&file, segment, &selection, |at, cells| {
                    let Some(sample) = part.position(at, &mut previous) else { return };
                    if columns.selection.wants(sample) && !run.goes_on(sample, cells) {
                        run.pass_on(&mut each);
                        run.begin(columns, (at, sample), cells, &mut histograms);
                    }
                });
                run.pass_on(&mut each);
                self.damage.skip(read)?;
            }
        }
        Ok(())
    }
}

/// Passes on the readings of a tail's samples. Each sample has its position among all samples to be read; those without
/// one are left out.
pub(crate) fn each_reading_of_tail(
    tail: &TailByEntity,
    tables: &[Table],
    positions: &[Option<usize>],
    selections: &[ColumnSelection],
    each: &mut impl FnMut(usize, ColumnReading<'_>),
) {
    let all = families();
    for (number, selection) in selections.iter().enumerate() {
        let Some(family) = all.iter().find(|family| family.name == selection.family) else { continue };
        let Some(at) = tables.iter().position(|table| family.is_named(&table.name)) else { continue };
        let columns = Columns { family, selection };
        let table = &tables[at];
        let places = column_map(family, table);
        let Ok(()) = tail.tables[at].each_row(table, positions, &tail.texts, |positions, key, values| {
            let row: Vec<Value> = columns.of_tail(&places, values);
            let wanted: Vec<usize> = positions.iter().flatten().copied().filter(|at| selection.wants(*at)).collect();
            for run in wanted.chunk_by(|at, next| at + 1 == *next) {
                if let (Some(&sample), Some(&until)) = (run.first(), run.last()) {
                    each(number, ColumnReading { sample, until, key, values: &row });
                }
            }
            Ok::<(), Infallible>(())
        });
    }
}

fn is_same_hour(a: &SegmentRef, b: &SegmentRef) -> bool {
    match (&a.location, &b.location) {
        (SegmentLocation::Closed(a, _), SegmentLocation::Closed(b, _)) => a == b,
        _ => false,
    }
}

/// Columns of a family.
struct Columns<'a> {
    family: &'a FamilyInfo,
    selection: &'a ColumnSelection,
}

/// Changes of a histogram's buckets, by entity.
type HistogramChanges = BTreeMap<Vec<KeyPart>, BucketChanges>;

impl Columns<'_> {
    fn metrics(&self) -> impl Iterator<Item = &Metric> {
        self.selection.metrics.iter().filter_map(|column| self.family.metrics.get(*column))
    }

    /// Returns the names of the columns in a closed segment: the key columns, then the metrics.
    fn names(&self) -> Vec<&'static str> {
        self.family.key_columns().map(|(name, _)| name).chain(self.metrics().map(|metric| metric.name)).collect()
    }

    /// Returns the changes of each histogram in a segment up to a time; `None` for other metrics.
    fn histograms(&self, files: &SegmentFiles<'_>, end: i64) -> Result<Vec<Option<HistogramChanges>>, StoreError> {
        let changes = |metric: &Metric| {
            let is_histogram = metric.kind == MetricKind::Histogram;
            is_histogram.then(|| files.bucket_changes(self.family, metric.name, end)).transpose()
        };
        self.metrics().map(changes).collect()
    }

    /// Returns the selected values of a tail's row.
    fn of_tail(&self, places: &[Option<usize>], values: &[Value]) -> Vec<Value> {
        let columns = self.selection.metrics.iter().zip(self.metrics());
        let value = |(column, metric): (&usize, &Metric)| {
            let place = places.get(*column).copied().flatten();
            place.and_then(|place| values.get(place)).cloned().unwrap_or_else(|| crate::schema::absent(metric.kind))
        };
        columns.map(value).collect()
    }
}

/// The last row read, in one or more consecutive samples.
#[derive(Default)]
struct RowRun {
    /// First and last of these samples.
    samples: Option<(usize, usize)>,
    cells: Vec<Cell>,
    key: Vec<KeyPart>,
    values: Vec<Value>,
}

impl RowRun {
    /// Returns whether this row is the same in the next sample, and extends the run if so.
    fn goes_on(&mut self, sample: usize, cells: &[Cell]) -> bool {
        let Some((_, last)) = self.samples.as_mut().filter(|(_, last)| *last + 1 == sample && self.cells == cells)
        else {
            return false;
        };
        *last = sample;
        true
    }

    /// Passes on the current run, if there is one.
    fn pass_on(&mut self, each: &mut impl FnMut(ColumnReading<'_>)) {
        if let Some((sample, until)) = self.samples.take() {
            each(ColumnReading { sample, until, key: &self.key, values: &self.values });
        }
    }

    fn begin(
        &mut self,
        columns: &Columns<'_>,
        (at, sample): (i64, usize),
        cells: &[Cell],
        histograms: &mut [Option<HistogramChanges>],
    ) {
        let (key, values) = cells.split_at(columns.family.key_columns.len().min(cells.len()));
        // Consecutive rows mostly belong to the same entity.
        if self.key.is_empty() || self.cells.get(..key.len()) != Some(key) {
            self.key = key.iter().filter_map(Cell::key_part).collect();
        }
        self.samples = Some((sample, sample));
        self.cells.clear();
        self.cells.extend_from_slice(cells);
        self.values.clear();
        for ((metric, cell), histogram) in columns.metrics().zip(values).zip(histograms) {
            let value = match (cell.metric(metric.kind), histogram) {
                (Some(Value::Histogram(none)), Some(changes)) => {
                    Value::Histogram(changes.get_mut(&self.key).map_or(none, |changes| changes.distribution_at(at)))
                }
                (Some(value), _) => value,
                (None, _) => crate::schema::absent(metric.kind),
            };
            self.values.push(value);
        }
    }
}
