//! Samples out of closed segments.

use super::{Damage, Families, STAND_INS, Span, rows};
use crate::error::StoreError;
use crate::folder::{Folder, Hour};
use crate::segment::{Cell, HourFile, Segment, Wanted, buckets_name, hour_files, read_rows};
use std::collections::{BTreeMap, VecDeque};
use whyslow_model::catalogue::{EachFamily, Family, Kind, Sample};
use whyslow_model::histogram::{Histogram, bucket_of};
use whyslow_model::key::{Key, Machine, Part};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{State, Value};

/// The samples of a span.
pub(super) fn read(
    folder: &Folder,
    hour: &Hour,
    segment: &Segment,
    span: &Span,
    families: &dyn Families,
    damage: &Damage,
) -> Result<Vec<Snapshot>, StoreError> {
    let mut pass = Pass {
        folder,
        hour,
        segment,
        span,
        families,
        damage,
        samples: BTreeMap::new(),
        lacks_samples: false,
        error: None,
    };
    // Which samples there are; whatever else is read is put into them.
    pass.family::<Sample>(&mut Vec::new());
    if pass.samples.is_empty() || pass.lacks_samples {
        STAND_INS.iter().try_for_each(|table| pass.samples_of(table))?;
    }
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

/// Reads each family's file.
struct Pass<'a> {
    folder: &'a Folder,
    hour: &'a Hour,
    segment: &'a Segment,
    span: &'a Span,
    families: &'a dyn Families,
    damage: &'a Damage,
    samples: BTreeMap<i64, Snapshot>,
    /// Whether the table that names all of them is damaged.
    lacks_samples: bool,
    error: Option<StoreError>,
}

impl EachFamily for Pass<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        let is_first = F::INFO.name == Sample::INFO.name && self.samples.is_empty();
        let wanted = is_first || F::INFO.name != Sample::INFO.name && self.families.wants(F::INFO.name);
        if wanted && self.error.is_none() {
            let read = self.rows::<F>(is_first).and_then(|whole| self.histograms::<F>().map(|()| whole));
            self.lacks_samples |= is_first && matches!(read, Ok(false));
            self.error = read.err();
        }
    }
}

impl Pass<'_> {
    /// The samples that a table has rows of, where the table of all samples is damaged. Within a segment nobody set the clock.
    fn samples_of(&mut self, table: &str) -> Result<(), StoreError> {
        let Self { samples, segment, .. } = self;
        each_row(self.folder, table, self.hour, segment, &[], self.span, self.damage, |at, _| {
            let clock = segment.clock.saturating_add_signed(at.saturating_sub(segment.start));
            let sample = samples.entry(at).or_default();
            if sample.kernel.sample.is_empty() {
                sample.kernel.sample.push(Sample { clock: clock.into(), ..Sample::new(Machine) });
            }
        })
        .map(drop)
    }

    /// The rows of a family; with `begin` they make samples, otherwise they belong to those there are. Whether no file is damaged.
    fn rows<F: Family>(&mut self, begin: bool) -> Result<bool, StoreError> {
        let keys = F::Key::COLUMNS.len();
        let metrics: Vec<Kind> = F::INFO.metrics.iter().map(|metric| metric.kind).collect();
        let names = F::INFO.key_columns().map(|(name, _)| name).chain(F::INFO.metrics.iter().map(|m| m.name));
        let names: Vec<&str> = names.collect();
        let samples = &mut self.samples;
        each_row(self.folder, F::INFO.name, self.hour, self.segment, &names, self.span, self.damage, |at, cells| {
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
            let mut changes = self.changes::<F>(metric.name)?;
            for (at, sample) in &mut self.samples {
                for row in F::rows_mut(sample) {
                    let was_read = matches!(row.value(column), Some(Value::Histogram(h)) if h.buckets().is_some());
                    if let (true, Some(changes)) = (was_read, changes.get_mut(row.key())) {
                        row.put(column, Value::Histogram(changes.until(*at)));
                    }
                }
            }
        }
        Ok(())
    }

    /// What changed in the buckets of a histogram, from the beginning of the segment on: there all of them are told.
    fn changes<F: Family>(&self, metric: &str) -> Result<BTreeMap<F::Key, Changes>, StoreError> {
        let keys = F::INFO.key_columns().map(|(name, _)| name);
        let names: Vec<&str> = keys.chain([crate::segment::AT_LEAST, crate::segment::COUNT]).collect();
        let span = self.segment.start..=(*self.span.end()).max(self.segment.start);
        let mut all = BTreeMap::<F::Key, Changes>::new();
        let table = buckets_name(F::INFO.name, metric);
        each_row(self.folder, &table, self.hour, self.segment, &names, &span, self.damage, |at, cells| {
            if let [key @ .., Cell::Number(at_least), Cell::Number(count)] = cells
                && let Some(key) = F::Key::put_together(&mut key.iter().filter_map(part))
            {
                let change = (at, bucket_of(*at_least as u64), *count as u64);
                all.entry(key).or_default().changes.push_back(change);
            }
        })?;
        Ok(all)
    }
}

/// How the buckets of one entity went on: when, which, and its count from then on; in the order of time.
#[derive(Default)]
struct Changes {
    changes: VecDeque<(i64, u32, u64)>,
    counts: BTreeMap<u32, u64>,
}

impl Changes {
    /// The distribution at a time, which comes after those asked for before.
    fn until(&mut self, at: i64) -> Histogram {
        while let Some((_, bucket, count)) = self.changes.pop_front_if(|(changed, _, _)| *changed <= at) {
            self.counts.insert(bucket, count);
        }
        Histogram::from_counts(self.counts.iter().map(|(bucket, count)| (*bucket, *count)))
    }
}

/// Shows the rows of a segment in a table's files of an hour, of a damaged file those before the damage; whether none is.
#[expect(clippy::too_many_arguments, reason = "each is a part of one question")]
fn each_row(
    folder: &Folder,
    table: &str,
    hour: &Hour,
    segment: &Segment,
    columns: &[&str],
    span: &Span,
    damage: &Damage,
    mut each: impl FnMut(i64, &mut [Cell]),
) -> Result<bool, StoreError> {
    let mut whole = true;
    let wanted = Wanted { columns, span: span.clone() };
    for file in hour_files(folder, table, hour) {
        let Some(file): Option<HourFile> = damage.pass_over(file)? else {
            whole = false;
            continue;
        };
        if let Some(segment) = file.segments.iter().find(|s| s.start == segment.start) {
            whole &= damage.pass_over(read_rows(&file, segment, &wanted, &mut each))?.is_some();
        }
    }
    Ok(whole)
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
