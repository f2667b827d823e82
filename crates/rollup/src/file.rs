//! Parquet file of a table.

use crate::row::{Cell, Row};
use crate::table::{Column, ColumnKind, TableSpec};
use crate::tables::{AT, HOST};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::fmt;
use std::io::Write;
use std::sync::Arc;

/// Maximum number of rows in a row group. Engines skip groups by the host's name: smaller groups cost more in the
/// footer.
const MOST_ROWS: usize = 1 << 16;
/// Compression level. Higher levels take twice the time for 3 %.
const ZSTD_LEVEL: i32 = 3;

/// Rows that cannot be written.
#[derive(Debug)]
pub struct FileError(String);

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FileError {}

/// Returns a file with these rows, which must be sorted by host and time, and this metadata. The same rows give the
/// same bytes.
///
/// # Errors
/// Fails if a row does not fit the table.
pub fn parquet(table: &TableSpec, rows: &[Row], metadata: &[(&str, String)]) -> Result<Vec<u8>, FileError> {
    let mut writer = TableWriter::new(Vec::new(), table, metadata)?;
    rows.chunks(MOST_ROWS).try_for_each(|rows| writer.write(rows))?;
    writer.finish()
}

/// Writes a file group by group.
pub struct TableWriter<'t, W: Write + Send> {
    table: &'t TableSpec,
    file: SerializedFileWriter<W>,
}

impl<'t, W: Write + Send> TableWriter<'t, W> {
    /// Starts a file.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn new(sink: W, table: &'t TableSpec, metadata: &[(&str, String)]) -> Result<Self, FileError> {
        let begun = schema(table).and_then(|schema| {
            let properties = Arc::new(properties(table, metadata)?);
            SerializedFileWriter::new(sink, schema, properties)
        });
        begun.map(|file| Self { table, file }).map_err(|error| failed(table, &error))
    }

    /// Writes rows as one row group. The rows of the whole file must be sorted by host and time.
    ///
    /// # Errors
    /// Fails if a row does not fit the table, or it cannot be written.
    pub fn write(&mut self, rows: &[Row]) -> Result<(), FileError> {
        let columns = &self.table.columns;
        if let Some(row) = rows.iter().find(|row| row.len() != columns.len()) {
            let (cells, columns) = (row.len(), columns.len());
            return Err(FileError(format!("{}: a row of {cells} cells for {columns} columns", self.table.name)));
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.write_group(rows).map_err(|error| failed(self.table, &error))
    }

    fn write_group(&mut self, rows: &[Row]) -> ParquetResult<()> {
        let mut group = self.file.next_row_group()?;
        for (at, column) in self.table.columns.iter().enumerate() {
            let mut writer = group.next_column()?.ok_or_else(|| misfit(column))?;
            write_column(writer.untyped(), column, rows.iter().map(|row| &row[at]))?;
            writer.close()?;
        }
        group.close().map(drop)
    }

    /// Completes the file; without this call it is not valid.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn finish(self) -> Result<W, FileError> {
        self.file.into_inner().map_err(|error| failed(self.table, &error))
    }
}

fn failed(table: &TableSpec, error: &ParquetError) -> FileError {
    FileError(format!("{}: {error}", table.name))
}

fn misfit(column: &Column) -> ParquetError {
    ParquetError::General(format!("column {}: a value that is not {}", column.name, column.kind.sql()))
}

fn schema(table: &TableSpec) -> ParquetResult<TypePtr> {
    let columns = table.columns.iter().map(|column| column_type(column).map(Arc::new)).collect::<ParquetResult<_>>()?;
    Ok(Arc::new(Type::group_type_builder(&table.name).with_fields(columns).build()?))
}

fn column_type(column: &Column) -> ParquetResult<Type> {
    let (physical, logical) = match column.kind {
        ColumnKind::Timestamp => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
        ColumnKind::Integer => (Physical::INT64, None),
        ColumnKind::Double => (Physical::DOUBLE, None),
        ColumnKind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Boolean => (Physical::BOOLEAN, None),
    };
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(&column.name, physical).with_logical_type(logical).with_repetition(repetition).build()
}

/// Returns the encoding and compression of a table's columns, and the file's metadata; also for writers of Arrow
/// batches.
///
/// # Errors
/// Fails if the compression is not known.
pub fn properties(table: &TableSpec, metadata: &[(&str, String)]) -> ParquetResult<WriterProperties> {
    let pairs = metadata.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("whyslow ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(pairs.collect()))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_offset_index_disabled(true)
        .set_statistics_enabled(EnabledStatistics::None);
    for column in &table.columns {
        let path = ColumnPath::from(column.name.as_str());
        if [HOST, AT].contains(&column.name.as_str()) {
            properties = properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
        }
        if column.kind != ColumnKind::Text {
            // Numbers hardly ever repeat, and the page of a dictionary is as large as an hour of numbers.
            properties = properties.set_column_dictionary_enabled(path.clone(), false);
        }
        if matches!(column.kind, ColumnKind::Timestamp | ColumnKind::Integer) {
            properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties.build())
}

fn write_column<'c>(
    writer: &mut ColumnWriter<'_>,
    column: &Column,
    cells: impl Iterator<Item = &'c Cell>,
) -> ParquetResult<()> {
    match writer {
        ColumnWriter::Int64ColumnWriter(writer) => write_cells(writer, column, cells, |cell| match cell {
            Cell::Timestamp(ms) if column.kind == ColumnKind::Timestamp => Some(*ms),
            Cell::Integer(number) if column.kind == ColumnKind::Integer => Some(*number),
            _ => None,
        }),
        ColumnWriter::DoubleColumnWriter(writer) => write_cells(writer, column, cells, |cell| match cell {
            Cell::Double(number) => Some(*number),
            _ => None,
        }),
        ColumnWriter::ByteArrayColumnWriter(writer) => write_cells(writer, column, cells, |cell| match cell {
            Cell::Text(text) => Some(ByteArray::from(&**text)),
            _ => None,
        }),
        ColumnWriter::BoolColumnWriter(writer) => write_cells(writer, column, cells, |cell| match cell {
            Cell::Boolean(yes) => Some(*yes),
            _ => None,
        }),
        _ => Err(misfit(column)),
    }
}

fn write_cells<'c, T: DataType>(
    writer: &mut ColumnWriterImpl<'_, T>,
    column: &Column,
    cells: impl Iterator<Item = &'c Cell>,
    value: impl Fn(&Cell) -> Option<T::T>,
) -> ParquetResult<()> {
    // Whether each row has a value: Parquet's definition levels.
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        let is_null = *cell == Cell::Null;
        levels.push(i16::from(!is_null));
        if !is_null {
            values.push(value(cell).ok_or_else(|| misfit(column))?);
        } else if !column.nullable {
            return Err(misfit(column));
        }
    }
    writer.write_batch(&values, column.nullable.then_some(&levels[..]), None).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    fn table() -> TableSpec {
        let column =
            |name: &str, kind, nullable| Column { name: name.into(), kind, unit: "", meaning: String::new(), nullable };
        let columns = vec![
            column(HOST, ColumnKind::Text, false),
            column(AT, ColumnKind::Timestamp, false),
            column("seconds", ColumnKind::Double, true),
            column("reads", ColumnKind::Integer, true),
            column("goes_on", ColumnKind::Boolean, true),
        ];
        TableSpec { name: "t".into(), meaning: String::new(), columns }
    }

    fn row(seconds: Cell, reads: Cell, goes_on: Cell) -> Row {
        vec![Cell::text("a"), Cell::Timestamp(60_000), seconds, reads, goes_on]
    }

    #[test]
    fn rows_read_back_as_they_were() {
        let rows =
            [row(Cell::Double(59.5), Cell::Integer(-7), Cell::Boolean(true)), row(Cell::Null, Cell::Null, Cell::Null)];
        let bytes = parquet(&table(), &rows, &[("whyslow.complete", "true".into())]).unwrap();
        assert_eq!(bytes, parquet(&table(), &rows, &[("whyslow.complete", "true".into())]).unwrap(), "same bytes");
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let metadata = reader.metadata().file_metadata();
        let pairs = metadata.key_value_metadata().unwrap();
        assert_eq!((pairs[0].key.as_str(), pairs[0].value.as_deref()), ("whyslow.complete", Some("true")));
        let read: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        let start = [Field::Str("a".into()), Field::TimestampMillis(60_000)];
        assert_eq!(read[0][..2], start);
        assert_eq!(read[0][2..], [Field::Double(59.5), Field::Long(-7), Field::Bool(true)]);
        assert_eq!(read[1][2..], [Field::Null, Field::Null, Field::Null]);
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let good = row(Cell::Null, Cell::Null, Cell::Null);
        for (at, cell, error) in [
            (2, Cell::Integer(1), "t: Parquet error: column seconds: a value that is not DOUBLE"),
            (3, Cell::Timestamp(1), "t: Parquet error: column reads: a value that is not BIGINT"),
            (0, Cell::Null, "t: Parquet error: column host: a value that is not TEXT"),
        ] {
            let mut row = good.clone();
            row[at] = cell;
            assert_eq!(parquet(&table(), &[row], &[]).unwrap_err().to_string(), error);
        }
        assert!(parquet(&table(), &[good[..4].to_vec()], &[]).is_err());
    }
}
