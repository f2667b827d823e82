//! Rows of one family into a Parquet file of the caller's.

use super::layout::TableLayout;
use super::row_group::{RowGroupBuffer, properties};
use crate::error::StoreError;
use crate::schema::AnyRow;
use crate::schema::Table;
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_model::catalogue::FamilyInfo;

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
    /// The file cannot be written.
    pub fn begin(file: File, path: &Path, family: &FamilyInfo) -> Result<Self, StoreError> {
        let layout = TableLayout::of(&Table::described(family));
        let writer = layout
            .schema()
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties(&layout)?)))
            .map_err(StoreError::parquet(path))?;
        Ok(Self { path: path.to_owned(), writer, rows: RowGroupBuffer::new(&layout) })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, row: &AnyRow) -> Result<(), StoreError> {
        self.rows.push(&[row.at], &row.key, &row.values);
        if self.rows.is_full() { self.flush() } else { Ok(()) }
    }

    /// Completes the file; without this call it is not valid Parquet.
    ///
    /// # Errors
    /// The file cannot be written.
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
