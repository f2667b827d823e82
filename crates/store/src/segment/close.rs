//! Turns tails into Parquet, then deletes them.

use super::hour::{Drafts, HourWriter, Segment, SegmentRows};
use super::layout::TableLayout;
use super::transpose::{TableHistory, TailByEntity};
use crate::error::StoreError;
use crate::folder::{Folder, Hour};
use crate::schema::Table;
use crate::tail::{TailHeader, TailReader};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_model::catalogue::MetricKind;
use whyslow_model::histogram::{Histogram, span};
use whyslow_model::key::KeyPart;
use whyslow_model::value::{Counter, Value};

/// Maximum size of tails that are closed together. Each hour's file is rewritten once for all of them: after many
/// restarts there are as many tails.
const MOST_BYTES: usize = 16 << 20;

/// Content of a closed tail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClosedTail {
    pub(crate) samples: usize,
    /// Number of samples that were damaged beyond repair.
    pub(crate) lost: usize,
    /// True if the last sample was incomplete.
    pub(crate) is_cut: bool,
}

/// Adds tails to their hours' files, then deletes them. An interrupted attempt can be repeated: nothing is written
/// twice. A tail that cannot be closed, because a file cannot be read or written, stays as it is.
pub(crate) fn close(folder: &Folder, tails: &[PathBuf]) -> Vec<Result<ClosedTail, StoreError>> {
    let mut closed: Vec<Option<Result<ClosedTail, StoreError>>> = tails.iter().map(|_| None).collect();
    let mut group: Vec<OpenTail> = Vec::new();
    for (number, path) in tails.iter().enumerate() {
        match OpenTail::read(number, path) {
            Ok(Some(tail)) => {
                if !tail.fits(&group) {
                    close_group(folder, tails, std::mem::take(&mut group), &mut closed);
                }
                group.push(tail);
            }
            Ok(None) => closed[number] = Some(delete(path, ClosedTail::default())),
            Err(error) => closed[number] = Some(Err(error)),
        }
    }
    close_group(folder, tails, group, &mut closed);
    closed.into_iter().map(|one| one.unwrap_or_else(|| Ok(ClosedTail::default()))).collect()
}

fn delete(tail: &Path, content: ClosedTail) -> Result<ClosedTail, StoreError> {
    fs::remove_file(tail).map_err(StoreError::io(tail)).map(|()| content)
}

/// Closes tails of one hour with the same tables.
fn close_group(
    folder: &Folder,
    paths: &[PathBuf],
    group: Vec<OpenTail>,
    closed: &mut [Option<Result<ClosedTail, StoreError>>],
) {
    let contents: Vec<(usize, ClosedTail)> = group.iter().map(|tail| (tail.number, tail.content())).collect();
    let written = write(folder, group);
    let failed = written.err().map(Arc::new);
    for (number, content) in contents {
        closed[number] = Some(match &failed {
            None => delete(&paths[number], content),
            Some(error) => Err(StoreError::shared(error)),
        });
    }
}

fn write(folder: &Folder, mut group: Vec<OpenTail>) -> Result<(), StoreError> {
    let Some(first) = group.first() else { return Ok(()) };
    let (hour, tables) = (first.hour(), first.tables.clone());
    let mut drafts = Drafts::default();
    for (number, table) in tables.iter().enumerate() {
        // Each history is freed once it is written.
        let histories: Vec<TableHistory> =
            group.iter_mut().map(|tail| std::mem::take(&mut tail.samples.tables[number])).collect();
        let parts: Vec<(&OpenTail, &TableHistory)> =
            group.iter().zip(&histories).filter(|(_, history)| !history.is_empty()).collect();
        if !parts.is_empty() {
            TableWriter { folder, hour: &hour, table, parts: &parts, drafts: &mut drafts }.write()?;
        }
    }
    drafts.put_in_place()
}

/// A tail that was read in order to close it.
struct OpenTail {
    /// Its position among the tails to be closed.
    number: usize,
    segment: Segment,
    tables: Vec<Table>,
    samples: TailByEntity,
}

impl OpenTail {
    /// Reads a tail. Returns `None` if it has no content.
    fn read(number: usize, path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(reader) = TailReader::open(path)? else { return Ok(None) };
        let TailHeader { boot, tables } = reader.header().clone();
        let samples = TailByEntity::read(reader);
        let clock = samples.clocks.first().copied().unwrap_or(0);
        let (start, end) =
            samples.times.first().zip(samples.times.last()).map_or((0, 0), |(start, end)| (*start, *end));
        let segment = Segment { start, end, boot, clock, row_groups: 0 };
        Ok(Some(Self { number, segment, tables, samples }))
    }

    fn hour(&self) -> Hour {
        Hour::from_ns(self.segment.start)
    }

    fn content(&self) -> ClosedTail {
        let TailByEntity { times, lost, is_cut, .. } = &self.samples;
        ClosedTail { samples: times.len(), lost: *lost, is_cut: *is_cut }
    }

    /// Returns whether it can be written together with these.
    fn fits(&self, group: &[Self]) -> bool {
        let Some(first) = group.first() else { return true };
        let bytes: usize = group.iter().chain([self]).map(|tail| tail.samples.bytes()).sum();
        self.hour() == first.hour() && self.tables == first.tables && bytes <= MOST_BYTES
    }
}

/// Writes a table of several tails.
struct TableWriter<'w> {
    folder: &'w Folder,
    hour: &'w Hour,
    table: &'w Table,
    parts: &'w [(&'w OpenTail, &'w TableHistory)],
    drafts: &'w mut Drafts,
}

impl TableWriter<'_> {
    fn write(&mut self) -> Result<(), StoreError> {
        let table = self.table;
        self.write_as(&TableLayout::from_table(table), |tail, history, rows| {
            let TailByEntity { times, texts, .. } = &tail.samples;
            history.each_row(table, times, texts, |at, key, values| rows.push(at, key, values))
        })?;
        for (column, metric) in
            table.metrics.iter().enumerate().filter(|(_, metric)| metric.kind == MetricKind::Histogram)
        {
            self.write_as(&TableLayout::buckets(table, &metric.name), |tail, history, rows| {
                let TailByEntity { times, texts, .. } = &tail.samples;
                let mut buckets = BucketRows::default();
                history.each_row(table, times, texts, |at, key, values| match (at, values.get(column)) {
                    ([at, ..], Some(Value::Histogram(histogram))) => buckets.push(rows, *at, key, histogram),
                    _ => Ok(()),
                })
            })?;
        }
        Ok(())
    }

    /// Writes the rows that `put` creates from each tail, unless the file has them already.
    fn write_as(
        &mut self,
        layout: &TableLayout,
        put: impl Fn(&OpenTail, &TableHistory, &mut SegmentRows<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let day = self.folder.day(&layout.name, &self.hour.day);
        let segments = self.parts.iter().map(|(tail, _)| &tail.segment);
        let Some(mut file) = HourWriter::begin(&day, self.hour.hour, layout, segments)? else { return Ok(()) };
        for (tail, history) in self.parts {
            file.add(&tail.segment, |rows| put(tail, history, rows))?;
        }
        file.finish(self.drafts)
    }
}

/// Rows of a histogram's buckets: one at the start, and one wherever a bucket's count changed.
#[derive(Default)]
struct BucketRows {
    key: Vec<KeyPart>,
    last: Histogram,
}

impl BucketRows {
    fn push(
        &mut self,
        rows: &mut SegmentRows<'_>,
        at: i64,
        key: &[KeyPart],
        now: &Histogram,
    ) -> Result<(), StoreError> {
        if self.key != key {
            *self = Self { key: key.to_vec(), last: Histogram::default() };
        }
        for (bucket, _, count) in now.changes(&self.last) {
            let values = [span(bucket).0, count].map(|number| Value::Counter(Counter::from(number)));
            rows.push(&[at], key, &values)?;
        }
        self.last.clone_from(now);
        Ok(())
    }
}
