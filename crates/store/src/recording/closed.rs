//! Reads samples from closed segments.

use super::rows::{SortByKey, typed_row};
use super::{DamageLog, FALLBACK_TABLES, Families, TimeRange};
use crate::error::StoreError;
use crate::folder::{Folder, Hour};
use crate::segment::{
    AT_LEAST, COUNT, Cell, FooterCache, HourFile, Segment, Selection, buckets_name, hour_files, read_rows,
};
use std::collections::{BTreeMap, VecDeque};
use whyslow_model::catalogue::{EachFamily, Family, FamilyInfo, MetricKind, Sample};
use whyslow_model::histogram::{Histogram, bucket_of};
use whyslow_model::key::{Key, KeyPart, MachineKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

pub(super) fn read(
    files: SegmentFiles<'_>,
    span: &TimeRange,
    families: &Families<'_>,
) -> Result<Vec<Snapshot>, StoreError> {
    let mut reader =
        SegmentReader { files, span, families, samples: BTreeMap::new(), samples_incomplete: false, error: None };
    // Samples come first; the rows of other tables are then added to them.
    reader.family::<Sample>(&mut Vec::new());
    if reader.samples.is_empty() || reader.samples_incomplete {
        FALLBACK_TABLES.iter().try_for_each(|table| reader.samples_of(table))?;
    }
    Snapshot::default().each_family(&mut reader);
    let samples = reader.samples.into_iter().filter_map(|(at, mut sample)| {
        sample.wall_ns = at;
        sample.boot_ns = sample.the::<Sample>()?.clock.get()?;
        sample.each_family(&mut SortByKey);
        Some(sample)
    });
    match reader.error {
        Some(error) => Err(error),
        None => Ok(samples.collect()),
    }
}

struct SegmentReader<'a> {
    files: SegmentFiles<'a>,
    span: &'a TimeRange,
    families: &'a Families<'a>,
    samples: BTreeMap<i64, Snapshot>,
    /// True if the table of samples is damaged.
    samples_incomplete: bool,
    error: Option<StoreError>,
}

impl EachFamily for SegmentReader<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        let is_first = F::INFO.name == Sample::INFO.name && self.samples.is_empty();
        let wanted = is_first || F::INFO.name != Sample::INFO.name && (self.families)(F::INFO.name);
        if wanted && self.error.is_none() {
            let read = self.rows::<F>(is_first).and_then(|intact| self.histograms::<F>().map(|()| intact));
            self.samples_incomplete |= is_first && matches!(read, Ok(false));
            self.error = read.err();
        }
    }
}

impl SegmentReader<'_> {
    /// Adds the samples in which a table has rows, for a damaged table of samples. The clock is not set within a
    /// segment.
    fn samples_of(&mut self, table: &str) -> Result<(), StoreError> {
        let (samples, files) = (&mut self.samples, &self.files);
        files
            .each_row(table, &[], self.span, |at, _| {
                let clock = files.clock_at(at);
                let sample = samples.entry(at).or_default();
                if sample.kernel.sample.is_empty() {
                    sample.kernel.sample.push(Sample { clock: clock.into(), ..Sample::new(MachineKey) });
                }
            })
            .map(drop)
    }

    /// Reads the rows of a family. With `begin` they create samples, otherwise they are added to existing ones. Returns
    /// whether all files are intact.
    fn rows<F: Family>(&mut self, begin: bool) -> Result<bool, StoreError> {
        let keys = F::Key::COLUMNS.len();
        let metrics: Vec<MetricKind> = F::INFO.metrics.iter().map(|metric| metric.kind).collect();
        let names = F::INFO.key_columns().map(|(name, _)| name).chain(F::INFO.metrics.iter().map(|m| m.name));
        let names: Vec<&str> = names.collect();
        let samples = &mut self.samples;
        self.files.each_row(F::INFO.name, &names, self.span, |at, cells| {
            let sample = if begin { Some(samples.entry(at).or_default()) } else { samples.get_mut(&at) };
            let Some(sample) = sample else { return };
            let (key, values) = cells.split_at(keys.min(cells.len()));
            let Some(mut row) = typed_row::<F>(key.iter().filter_map(Cell::key_part)) else { return };
            for (column, (kind, cell)) in metrics.iter().zip(values).enumerate() {
                if let Some(value) = cell.metric(*kind) {
                    row.put(column, value);
                }
            }
            F::rows_mut(sample).push(row);
        })
    }

    /// Reads the distributions of a family's histograms. Must be called after its rows were read.
    fn histograms<F: Family>(&mut self) -> Result<(), StoreError> {
        let histograms = F::INFO.metrics.iter().enumerate().filter(|(_, metric)| metric.kind == MetricKind::Histogram);
        for (column, metric) in histograms {
            let mut changes = self.files.bucket_changes(&F::INFO, metric.name, *self.span.end())?;
            let mut key = Vec::new();
            for (at, sample) in self.samples.iter_mut().filter(|(_, sample)| !F::rows(sample).is_empty()) {
                for row in F::rows_mut(sample) {
                    let was_read = matches!(row.value(column), Some(Value::Histogram(h)) if h.buckets().is_some());
                    key.clear();
                    row.key().take_apart(&mut key);
                    if let (true, Some(changes)) = (was_read, changes.get_mut(&key)) {
                        row.put(column, Value::Histogram(changes.distribution_at(*at)));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Bucket counts of one entity over time.
#[derive(Default)]
pub(super) struct BucketChanges {
    /// Time, bucket and new count, in order of time.
    changes: VecDeque<(i64, u32, u64)>,
    counts: BTreeMap<u32, u64>,
}

impl BucketChanges {
    /// Returns the distribution at a time that is not earlier than in the previous call.
    pub(super) fn distribution_at(&mut self, at: i64) -> Histogram {
        while let Some((_, bucket, count)) = self.changes.pop_front_if(|(changed, _, _)| *changed <= at) {
            self.counts.insert(bucket, count);
        }
        Histogram::from_counts(self.counts.iter().map(|(bucket, count)| (*bucket, *count)))
    }
}

/// The files of a segment.
pub(super) struct SegmentFiles<'a> {
    pub(super) folder: &'a Folder,
    pub(super) hour: &'a Hour,
    pub(super) segment: &'a Segment,
    pub(super) footers: &'a FooterCache,
    pub(super) damage: &'a DamageLog,
}

impl SegmentFiles<'_> {
    /// Returns the times of the samples, and the time since boot at each; taken from other tables if the table of
    /// samples is damaged.
    pub(super) fn clocks(&self, span: &TimeRange) -> Result<Vec<(i64, u64)>, StoreError> {
        let mut clocks = BTreeMap::new();
        let intact = self.each_row(Sample::INFO.name, &["clock"], span, |at, cells| {
            if let [Cell::Number(clock)] = cells {
                clocks.insert(at, *clock as u64);
            }
        })?;
        if clocks.is_empty() || !intact {
            for table in FALLBACK_TABLES {
                self.each_row(table, &[], span, |at, _| {
                    clocks.entry(at).or_insert_with(|| self.clock_at(at));
                })?;
            }
        }
        Ok(clocks.into_iter().collect())
    }

    /// Returns the time since boot at a wall-clock time; the wall clock is not set within a segment.
    fn clock_at(&self, at: i64) -> u64 {
        self.segment.clock.saturating_add_signed(at.saturating_sub(self.segment.start))
    }

    /// Returns the changes of a histogram's buckets, by entity, from the start of the segment, where all of them are
    /// listed, to a time.
    pub(super) fn bucket_changes(
        &self,
        family: &FamilyInfo,
        metric: &str,
        end: i64,
    ) -> Result<BTreeMap<Vec<KeyPart>, BucketChanges>, StoreError> {
        let keys = family.key_columns().map(|(name, _)| name);
        let names: Vec<&str> = keys.chain([AT_LEAST, COUNT]).collect();
        let start = self.segment.start;
        let mut all = BTreeMap::<Vec<KeyPart>, BucketChanges>::new();
        self.each_row(&buckets_name(family.name, metric), &names, &(start..=end.max(start)), |at, cells| {
            if let [key @ .., Cell::Number(at_least), Cell::Number(count)] = cells {
                let change = (at, bucket_of(*at_least as u64), *count as u64);
                let key = key.iter().filter_map(Cell::key_part).collect();
                all.entry(key).or_default().changes.push_back(change);
            }
        })?;
        Ok(all)
    }

    /// Passes on the segment's rows in a table's files; those of a damaged file up to the damage. Returns whether all
    /// files are intact.
    fn each_row(
        &self,
        table: &str,
        columns: &[&str],
        span: &TimeRange,
        mut each: impl FnMut(i64, &[Cell]),
    ) -> Result<bool, StoreError> {
        let mut intact = true;
        let selection = Selection { columns, span: span.clone() };
        for file in hour_files(self.folder, table, self.hour, self.footers) {
            let Some(file): Option<HourFile> = self.damage.skip(file)? else {
                intact = false;
                continue;
            };
            if let Some(segment) = file.segments().iter().find(|s| s.start == self.segment.start) {
                intact &= self.damage.skip(read_rows(&file, segment, &selection, &mut each))?.is_some();
            }
        }
        Ok(intact)
    }
}
