//! Rows of one family into a Parquet file of the caller's.

use super::chunk::ChunkWriter;
use super::columns::Columns;
use super::hour::properties;
use super::layout::Layout;
use crate::error::StoreError;
use crate::recording::AnyRow;
use crate::schema::Table;
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_model::catalogue::FamilyInfo;

/// A Parquet file that is being written, with the columns that closed segments have.
pub struct ParquetExport {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Columns,
    chunks: ChunkWriter,
}

impl ParquetExport {
    /// Begins to write into an empty file, which errors call `path`.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn begin(file: File, path: &Path, family: &FamilyInfo) -> Result<Self, StoreError> {
        let layout = Layout::of(&Table::described(family));
        let schema = layout.schema().map_err(StoreError::parquet(path))?;
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties()));
        let writer = writer.map_err(StoreError::parquet(path))?;
        let chunks = ChunkWriter::new().map_err(StoreError::io(path))?;
        Ok(Self { path: path.to_owned(), writer, columns: Columns::new(&layout), chunks })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn push(&mut self, row: &AnyRow) -> Result<(), StoreError> {
        self.columns.push(&[row.at], &row.key, &row.values);
        if self.columns.are_full() { self.flush() } else { Ok(()) }
    }

    /// Ends the file. Without it, it is none.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn finish(mut self) -> Result<(), StoreError> {
        if !self.columns.is_empty() {
            self.flush()?;
        }
        self.writer.close().map(drop).map_err(StoreError::parquet(&self.path))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.columns.write(&mut self.chunks, &mut self.writer).map_err(StoreError::parquet(&self.path))
    }
}
