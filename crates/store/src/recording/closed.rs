//! Samples out of closed segments.

use super::{Families, Span, rows};
use crate::error::StoreError;
use crate::folder::{Folder, Hour};
use crate::segment::{Cell, HourFile, Segment, Wanted, buckets_name, hour_files, read_rows};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{EachFamily, Family, Kind, Sample};
use whyslow_model::histogram::{Histogram, bucket_of};
use whyslow_model::key::{Key, Part};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{State, Value};

/// The samples of a span.
pub(super) fn read(
    folder: &Folder,
    hour: &Hour,
    segment: &Segment,
    span: &Span,
    families: &dyn Families,
) -> Result<Vec<Snapshot>, StoreError> {
    let mut pass = Pass { folder, hour, segment, span, families, samples: BTreeMap::new(), error: None };
    // Which samples there are; whatever else is read is put into them.
    pass.family::<Sample>(&mut Vec::new());
    Snapshot::default().each_family(&mut pass);
    let samples = pass.samples.into_iter().filter_map(|(at, mut sample)| {
        sample.wall_ns = at;
        sample.boot_ns = sample.the::<Sample>()?.clock.get()?;
        sample.each_family(&mut rows::Sort);
        Some(sample)
    });
    match pass.error {
        Some(error) => Err(error),
        None => Ok(samples.collect()),
    }
}

/// The buckets and counts of one histogram's readings, by time and key.
type Distributions = BTreeMap<(i64, Vec<Part>), Vec<(u32, u64)>>;

/// Reads each family's file.
struct Pass<'a> {
    folder: &'a Folder,
    hour: &'a Hour,
    segment: &'a Segment,
    span: &'a Span,
    families: &'a dyn Families,
    samples: BTreeMap<i64, Snapshot>,
    error: Option<StoreError>,
}

impl EachFamily for Pass<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        let is_first = F::INFO.name == Sample::INFO.name && self.samples.is_empty();
        let wanted = is_first || F::INFO.name != Sample::INFO.name && self.families.wants(F::INFO.name);
        if wanted && self.error.is_none() {
            self.error = self.rows::<F>(is_first).and_then(|()| self.histograms::<F>()).err();
        }
    }
}

impl Pass<'_> {
    /// The rows of a family; with `begin` they make samples, otherwise they belong to those there are.
    fn rows<F: Family>(&mut self, begin: bool) -> Result<(), StoreError> {
        let keys = F::Key::COLUMNS.len();
        let metrics: Vec<Kind> = F::INFO.metrics.iter().map(|metric| metric.kind).collect();
        let names = F::INFO.key_columns().map(|(name, _)| name).chain(F::INFO.metrics.iter().map(|m| m.name));
        let names: Vec<&str> = names.collect();
        let samples = &mut self.samples;
        each_row(self.folder, F::INFO.name, self.hour, self.segment, &names, self.span, |at, cells| {
            let sample = if begin { Some(samples.entry(at).or_default()) } else { samples.get_mut(&at) };
            let Some(sample) = sample else { return };
            let (key, values) = cells.split_at_mut(keys.min(cells.len()));
            let Some(mut row) = rows::row::<F>(key.iter().filter_map(part)) else { return };
            for (column, (kind, cell)) in metrics.iter().zip(values).enumerate() {
                if let Some(value) = value(*kind, cell) {
                    row.put(column, value);
                }
            }
            F::rows_mut(sample).push(row);
        })
    }

    /// The distributions of a family's histograms, whose rows have been read.
    fn histograms<F: Family>(&mut self) -> Result<(), StoreError> {
        let histograms = F::INFO.metrics.iter().enumerate().filter(|(_, metric)| metric.kind == Kind::Histogram);
        for (column, metric) in histograms {
            let name = buckets_name(F::INFO.name, metric.name);
            let keys = F::INFO.key_columns().map(|(name, _)| name);
            let names: Vec<&str> = keys.chain([crate::segment::AT_LEAST, crate::segment::COUNT]).collect();
            let mut counts = Distributions::new();
            each_row(self.folder, &name, self.hour, self.segment, &names, self.span, |at, cells| {
                if let [key @ .., Cell::Number(at_least), Cell::Number(count)] = cells {
                    let key = key.iter().filter_map(part).collect();
                    counts.entry((at, key)).or_default().push((bucket_of(*at_least as u64), *count as u64));
                }
            })?;
            for ((at, key), counts) in counts {
                let row = rows::row::<F>(key);
                let found = self
                    .samples
                    .get_mut(&at)
                    .zip(row)
                    .and_then(|(sample, like)| F::rows_mut(sample).iter_mut().find(|row| row.key() == like.key()));
                if let Some(row) = found {
                    row.put(column, Value::Histogram(Histogram::from_counts(counts)));
                }
            }
        }
        Ok(())
    }
}

/// Shows the rows of a segment in a table's files of an hour.
fn each_row(
    folder: &Folder,
    table: &str,
    hour: &Hour,
    segment: &Segment,
    columns: &[&str],
    span: &Span,
    mut each: impl FnMut(i64, &mut [Cell]),
) -> Result<(), StoreError> {
    let wanted = Wanted { columns, span: span.clone() };
    for file in hour_files(folder, table, hour) {
        let file: HourFile = file?;
        if let Some(segment) = file.segments.iter().find(|s| s.start == segment.start) {
            read_rows(&file, segment, &wanted, &mut each)?;
        }
    }
    Ok(())
}

/// A key's value; `None` for what no key has.
fn part(cell: &Cell) -> Option<Part> {
    match cell {
        Cell::Number(number) => Some(Part::Number(*number as u64)),
        Cell::Text(text) => Some(Part::Text(text.clone())),
        Cell::Level(_) | Cell::Absent => None,
    }
}

/// A metric's value; `None` where it is absent, or not of this kind. A histogram's buckets come later.
fn value(kind: Kind, cell: &mut Cell) -> Option<Value> {
    match (kind, cell) {
        (Kind::Counter, Cell::Number(number)) => Some(Value::Counter((*number as u64).into())),
        (Kind::Gauge, Cell::Level(level)) => Some(Value::Gauge((*level).into())),
        (Kind::State, Cell::Text(text)) => Some(Value::State(State::from(text.clone()))),
        (Kind::Histogram, Cell::Number(_)) => Some(Value::Histogram(Histogram::from_counts([]))),
        _ => None,
    }
}
