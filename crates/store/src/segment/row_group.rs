//! Buffers rows for a row group, column by column; also writes Parquet files for export.
//!
//! Values are held as runs, because most of them stay the same from one second to the next: memory use depends on the
//! changes, not on the number of rows.

use super::cell::Cell;
use super::layout::{AT, Holds, TableLayout};
use super::pages::ChecksummedPages;
use crate::error::StoreError;
use crate::schema::Table;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, ColumnWriterImpl, get_column_writer};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_model::catalogue::FamilyInfo;
use whyslow_model::key::KeyPart;
use whyslow_model::row::AnyRow;
use whyslow_model::value::Value;

/// Maximum number of rows in a row group; a reader holds two megabytes for each column it reads. Smaller groups cost
/// more: a file's footer has half a kilobyte for each column of each group.
const MOST_ROWS: usize = 1 << 18;
/// Maximum number of runs in all columns together, some four megabytes.
const MOST_RUNS: usize = 1 << 17;
/// Number of values passed to the encoder at once.
const BATCH: usize = 4096;
/// Compression level. Higher levels take twice the time for 3 %.
const ZSTD_LEVEL: i32 = 3;

/// Rows that will be written as one row group.
pub(super) struct RowGroupBuffer {
    at: Vec<i64>,
    /// All columns except `at`.
    columns: Vec<Vec<ValueRun>>,
}

/// A run of consecutive rows with the same value (run-length encoding).
struct ValueRun {
    value: Cell,
    rows: usize,
}

impl RowGroupBuffer {
    pub(super) fn new(layout: &TableLayout) -> Self {
        Self { at: Vec::new(), columns: layout.columns.iter().skip(1).map(|_| Vec::new()).collect() }
    }

    /// Adds a row at each of these times, all with the same key and values. Returns the number of rows that fit.
    pub(super) fn push(&mut self, at: &[i64], key: &[KeyPart], values: &[Value]) -> usize {
        let at = &at[..at.len().min(MOST_ROWS - self.at.len())];
        self.at.extend_from_slice(at);
        let cells = key.iter().map(Cell::from).chain(values.iter().map(Cell::from));
        for (column, value) in self.columns.iter_mut().zip(cells) {
            match column.last_mut() {
                Some(last) if last.value.is_same(&value) => last.rows += at.len(),
                _ => column.push(ValueRun { value, rows: at.len() }),
            }
        }
        at.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.at.len() >= MOST_ROWS || self.columns.iter().map(Vec::len).sum::<usize>() >= MOST_RUNS
    }

    /// Writes all rows as one row group, and starts over.
    pub(super) fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let descriptions = file.schema_descr().columns().to_vec();
        let properties = file.properties().clone();
        let mut group = file.next_row_group()?;
        for (column, description) in descriptions.into_iter().enumerate() {
            let mut pages = Vec::new();
            let sink = Box::new(ChecksummedPages(&mut pages));
            let writer = get_column_writer(description, properties.clone(), sink);
            let closed = match column.checked_sub(1) {
                Some(column) => write_column(writer, &self.columns[column])?,
                None => write_times(writer, &self.at)?,
            };
            group.append_column(&Bytes::from(pages), closed)?;
        }
        group.close()?;
        self.at.clear();
        self.columns.iter_mut().for_each(Vec::clear);
        Ok(())
    }
}

fn write_times(writer: ColumnWriter, at: &[i64]) -> Result<ColumnCloseResult> {
    let ColumnWriter::Int64ColumnWriter(mut writer) = writer else { return Err(unexpected(AT)) };
    writer.write_batch(at, None, None)?;
    writer.close()
}

fn write_column(writer: ColumnWriter, runs: &[ValueRun]) -> Result<ColumnCloseResult> {
    match writer {
        ColumnWriter::Int64ColumnWriter(writer) => write_runs(writer, runs, |cell| match cell {
            Cell::Number(number) => Some(*number),
            _ => None,
        }),
        ColumnWriter::DoubleColumnWriter(writer) => write_runs(writer, runs, |cell| match cell {
            Cell::Level(level) => Some(*level),
            _ => None,
        }),
        ColumnWriter::ByteArrayColumnWriter(writer) => write_runs(writer, runs, |cell| match cell {
            Cell::Text(text) => Some(ByteArray::from(text.as_bytes().to_vec())),
            _ => None,
        }),
        _ => Err(unexpected("a metric")),
    }
}

fn unexpected(column: &str) -> ParquetError {
    ParquetError::General(format!("no column of {column} has this type"))
}

fn write_runs<T: DataType>(
    mut writer: ColumnWriterImpl<T>,
    runs: &[ValueRun],
    value: impl Fn(&Cell) -> Option<T::T>,
) -> Result<ColumnCloseResult> {
    // Whether each row has a value: Parquet's definition levels.
    let (mut values, mut levels) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    for run in runs {
        let value = value(&run.value);
        let mut left = run.rows;
        while left > 0 {
            let rows = left.min(BATCH - levels.len());
            left -= rows;
            levels.resize(levels.len() + rows, i16::from(value.is_some()));
            if let Some(value) = &value {
                values.resize(values.len() + rows, value.clone());
            }
            if levels.len() == BATCH {
                writer.write_batch(&values, Some(&levels), None)?;
                values.clear();
                levels.clear();
            }
        }
    }
    writer.write_batch(&values, Some(&levels), None)?;
    writer.close()
}

/// Returns the properties with which the columns of a layout are written.
pub(super) fn properties(layout: &TableLayout) -> Result<WriterProperties> {
    let at = ColumnPath::from(AT);
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("whyslow ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_data_page_row_count_limit(MOST_ROWS)
        .set_offset_index_disabled(true)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(at, EnabledStatistics::Chunk);
    for column in &layout.columns {
        // Counters and times grow steadily; everything else has few values.
        if matches!(column.holds, Holds::Time | Holds::Number) {
            let path = ColumnPath::from(column.name.as_str());
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

/// Writes a Parquet file with the same columns as a closed segment.
pub struct ParquetExport {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    rows: RowGroupBuffer,
}

impl ParquetExport {
    /// Starts to write into an empty file; errors refer to it as `path`.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn begin(file: File, path: &Path, family: &FamilyInfo) -> Result<Self, StoreError> {
        let layout = TableLayout::from_table(&Table::for_family(family));
        let writer = layout
            .schema()
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties(&layout)?)))
            .map_err(StoreError::parquet(path))?;
        Ok(Self { path: path.to_owned(), writer, rows: RowGroupBuffer::new(&layout) })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn push(&mut self, row: &AnyRow) -> Result<(), StoreError> {
        self.rows.push(&[row.at], &row.key, &row.values);
        if self.rows.is_full() { self.flush() } else { Ok(()) }
    }

    /// Completes the file; without this call it is not valid Parquet.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn finish(mut self) -> Result<(), StoreError> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.writer.close().map(drop).map_err(StoreError::parquet(&self.path))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.rows.write(&mut self.writer).map_err(StoreError::parquet(&self.path))
    }
}
