//! Closing a tail: into Parquet, and away with it.

use super::gather::{Gathered, TableLog};
use super::hour::{HourWriter, Segment};
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
/// a file already is not written twice.
///
/// # Errors
/// Where a file cannot be read or written. The tail is then left as it is.
pub(crate) fn close(folder: &Folder, tail: &Path) -> Result<(), StoreError> {
    if let Some(mut reader) = TailReader::open(tail)? {
        let mut gathered = Gathered::of(&mut reader);
        let header = reader.header();
        if let (Some(&start), Some(&end)) = (gathered.times.first(), gathered.times.last()) {
            let clock = gathered.clock;
            let segment = Segment { start, end, boot: header.boot.clone(), clock, row_groups: 0 };
            // What is written is let go of.
            let logs = std::mem::take(&mut gathered.tables);
            for (table, log) in header.tables.iter().zip(logs).filter(|(_, log)| !log.is_empty()) {
                write_table(folder, table, &log, &gathered, &segment)?;
            }
        }
    }
    fs::remove_file(tail).map_err(StoreError::io(tail))
}

fn write_table(
    folder: &Folder,
    table: &Table,
    log: &TableLog,
    gathered: &Gathered,
    segment: &Segment,
) -> Result<(), StoreError> {
    let hour = Hour::of(segment.start);
    let begin =
        |layout: &Layout| HourWriter::begin(&folder.day(&layout.name, &hour.day), hour.hour, layout, segment.clone());
    if let Some(mut file) = begin(&Layout::of(table))? {
        log.each_row(table, &gathered.times, &gathered.texts, |at, key, values| file.push(at, key, values))?;
        file.finish()?;
    }
    for (column, metric) in table.metrics.iter().enumerate().filter(|(_, metric)| metric.kind == Kind::Histogram) {
        let Some(mut file) = begin(&Layout::buckets(table, &metric.name))? else { continue };
        let mut buckets = Buckets::default();
        log.each_row(table, &gathered.times, &gathered.texts, |at, key, values| match (at, values.get(column)) {
            ([at, ..], Some(Value::Histogram(histogram))) => buckets.push(&mut file, *at, key, histogram),
            _ => Ok(()),
        })?;
        file.finish()?;
    }
    Ok(())
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
