//! Closing a tail: into Parquet, and away with it.

use super::chunk::ChunkWriter;
use super::gather::{Gathered, TableLog};
use super::hour::{HourWriter, Segment, Written};
use super::layout::Layout;
use crate::error::StoreError;
use crate::folder::{Folder, Hour};
use crate::schema::Table;
use crate::tail::TailReader;
use std::fs;
use std::path::Path;
use whyslow_model::catalogue::Kind;
use whyslow_model::histogram::{Histogram, span};
use whyslow_model::key::Part;
use whyslow_model::value::{Counter, Value};

/// Writes what is in a tail into the hours' files, then deletes it. May be done again after it was cut short: what is in
/// a file already is not written twice. Returns how many samples and how many more of them were damaged beyond repair.
///
/// # Errors
/// Where a file cannot be read or written. The tail is then left as it is.
pub(crate) fn close(folder: &Folder, tail: &Path) -> Result<(usize, usize), StoreError> {
    let mut count = (0, 0);
    if let Some(reader) = TailReader::open(tail)? {
        let header = reader.header().clone();
        let mut gathered = Gathered::of(reader);
        count = (gathered.times.len(), gathered.lost);
        if let (Some(&start), Some(&end)) = (gathered.times.first(), gathered.times.last()) {
            let segment = Segment { start, end, boot: header.boot, clock: gathered.clock, row_groups: 0 };
            let chunks = ChunkWriter::new().map_err(StoreError::io(tail))?;
            // What is written is let go of.
            let logs = std::mem::take(&mut gathered.tables);
            let written = Written::default();
            let mut closing = Closing { folder, hour: Hour::of(start), segment, gathered, chunks, written };
            for (table, log) in header.tables.iter().zip(logs).filter(|(_, log)| !log.is_empty()) {
                closing.write(table, &log)?;
            }
            closing.written.put_in_place()?;
        }
    }
    fs::remove_file(tail).map_err(StoreError::io(tail)).map(|()| count)
}

/// A segment on its way into the hour's files.
struct Closing<'f> {
    folder: &'f Folder,
    hour: Hour,
    segment: Segment,
    /// What all tables have in common.
    gathered: Gathered,
    chunks: ChunkWriter,
    written: Written,
}

impl Closing<'_> {
    fn write(&mut self, table: &Table, log: &TableLog) -> Result<(), StoreError> {
        self.write_as(&Layout::of(table), table, log, |file, at, key, values| file.push(at, key, values))?;
        for (column, metric) in table.metrics.iter().enumerate().filter(|(_, metric)| metric.kind == Kind::Histogram) {
            let mut buckets = Buckets::default();
            let layout = Layout::buckets(table, &metric.name);
            self.write_as(&layout, table, log, |file, at, key, values| match (at, values.get(column)) {
                ([at, ..], Some(Value::Histogram(histogram))) => buckets.push(file, *at, key, histogram),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Writes what `put` makes of the rows of a table, unless the file has it already.
    fn write_as(
        &mut self,
        layout: &Layout,
        table: &Table,
        log: &TableLog,
        mut put: impl FnMut(&mut HourWriter, &[i64], &[Part], &[Value]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let day = self.folder.day(&layout.name, &self.hour.day);
        let file = HourWriter::begin(&day, self.hour.hour, layout, self.segment.clone(), &mut self.chunks)?;
        let Some(mut file) = file else { return Ok(()) };
        let Gathered { times, texts, .. } = &self.gathered;
        log.each_row(table, times, texts, |at, key, values| put(&mut file, at, key, values))?;
        file.finish(&mut self.written)
    }
}

/// The rows of a histogram's buckets: each bucket has one where its count changed, and at first.
#[derive(Default)]
struct Buckets {
    key: Vec<Part>,
    last: Histogram,
}

impl Buckets {
    fn push(&mut self, file: &mut HourWriter, at: i64, key: &[Part], now: &Histogram) -> Result<(), StoreError> {
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
