//! Turns a tail into Parquet, then deletes it.

use super::hour::{Drafts, HourWriter, Segment};
use super::layout::TableLayout;
use super::transpose::{TableHistory, TailByEntity};
use crate::error::StoreError;
use crate::folder::{Folder, Hour};
use crate::schema::Table;
use crate::tail::TailReader;
use std::fs;
use std::path::Path;
use whyslow_model::catalogue::MetricKind;
use whyslow_model::histogram::{Histogram, span};
use whyslow_model::key::KeyPart;
use whyslow_model::value::{Counter, Value};

/// Adds a tail to the hour's files, then deletes it. An interrupted attempt can be repeated: nothing is written twice. Returns
/// how many samples there were, and how many more were damaged beyond repair.
///
/// # Errors
/// A file cannot be read or written. The tail is then left as it is.
pub(crate) fn close(folder: &Folder, tail: &Path) -> Result<(usize, usize), StoreError> {
    let mut count = (0, 0);
    if let Some(reader) = TailReader::open(tail)? {
        let header = reader.header().clone();
        let mut transposed = TailByEntity::read(reader);
        count = (transposed.times.len(), transposed.lost);
        if let (Some(&start), Some(&end)) = (transposed.times.first(), transposed.times.last()) {
            let segment = Segment { start, end, boot: header.boot, clock: transposed.clocks[0], row_groups: 0 };
            let tables = std::mem::take(&mut transposed.tables);
            let drafts = Drafts::default();
            let mut writer = SegmentWriter { folder, hour: Hour::of(start), segment, transposed, drafts };
            // Each history is freed once it is written.
            for (table, history) in header.tables.iter().zip(tables).filter(|(_, history)| !history.is_empty()) {
                writer.write(table, &history)?;
            }
            writer.drafts.put_in_place()?;
        }
    }
    fs::remove_file(tail).map_err(StoreError::io(tail)).map(|()| count)
}

struct SegmentWriter<'f> {
    folder: &'f Folder,
    hour: Hour,
    segment: Segment,
    /// What all tables share: times and texts.
    transposed: TailByEntity,
    drafts: Drafts,
}

impl SegmentWriter<'_> {
    fn write(&mut self, table: &Table, history: &TableHistory) -> Result<(), StoreError> {
        self.write_as(&TableLayout::of(table), table, history, |file, at, key, values| file.push(at, key, values))?;
        for (column, metric) in
            table.metrics.iter().enumerate().filter(|(_, metric)| metric.kind == MetricKind::Histogram)
        {
            let mut buckets = BucketRows::default();
            let layout = TableLayout::buckets(table, &metric.name);
            self.write_as(&layout, table, history, |file, at, key, values| match (at, values.get(column)) {
                ([at, ..], Some(Value::Histogram(histogram))) => buckets.push(file, *at, key, histogram),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Writes what `put` makes of a table's rows, unless the file has them already.
    fn write_as(
        &mut self,
        layout: &TableLayout,
        table: &Table,
        history: &TableHistory,
        mut put: impl FnMut(&mut HourWriter, &[i64], &[KeyPart], &[Value]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let day = self.folder.day(&layout.name, &self.hour.day);
        let file = HourWriter::begin(&day, self.hour.hour, layout, self.segment.clone())?;
        let Some(mut file) = file else { return Ok(()) };
        let TailByEntity { times, texts, .. } = &self.transposed;
        history.each_row(table, times, texts, |at, key, values| put(&mut file, at, key, values))?;
        file.finish(&mut self.drafts)
    }
}

/// The rows of a histogram's buckets: one at the start, and one wherever a bucket's count changed.
#[derive(Default)]
struct BucketRows {
    key: Vec<KeyPart>,
    last: Histogram,
}

impl BucketRows {
    fn push(&mut self, file: &mut HourWriter, at: i64, key: &[KeyPart], now: &Histogram) -> Result<(), StoreError> {
        if self.key != key {
            *self = Self { key: key.to_vec(), last: Histogram::default() };
        }
        for (bucket, _, count) in now.changes(&self.last) {
            let values = [span(bucket).0, count].map(|number| Value::Counter(Counter::from(number)));
            file.push(&[at], key, &values)?;
        }
        self.last.clone_from(now);
        Ok(())
    }
}
