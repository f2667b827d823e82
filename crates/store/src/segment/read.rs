//! Reads rows of a closed segment.

use super::cell::Cell;
use super::hour::{HourFile, Segment};
use super::layout::AT;
use crate::error::StoreError;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;
use std::ops::RangeInclusive;
use whyslow_model::value::Name;

/// The rows and columns to read.
pub(crate) struct Selection<'a> {
    /// Columns by name; those that a file lacks are absent.
    pub(crate) columns: &'a [&'a str],
    /// Times, nanoseconds since 1970.
    pub(crate) span: RangeInclusive<i64>,
}

/// Passes on the selected rows of a segment: the time, and the cells in the order of the selection.
pub(crate) fn read_rows(
    file: &HourFile,
    segment: &Segment,
    selection: &Selection,
    each: impl FnMut(i64, &[Cell]),
) -> std::result::Result<(), StoreError> {
    read(file, segment, selection, each).map_err(file.error())
}

fn read(file: &HourFile, segment: &Segment, selection: &Selection, mut each: impl FnMut(i64, &[Cell])) -> Result<()> {
    for at in file.row_groups(segment) {
        let group = file.row_group(at)?;
        if !may_hold(group.metadata(), &selection.span) {
            continue;
        }
        let times = numbers(&group, AT)?;
        let mut columns =
            selection.columns.iter().map(|name| ColumnCursor::open(&group, name)).collect::<Result<Vec<_>>>()?;
        let mut row = Vec::with_capacity(columns.len());
        let mut next = 0;
        for ranges in batches(&row_ranges(&times, &selection.span)) {
            let cells = columns.iter_mut().map(|column| column.cells(ranges)).collect::<Result<Vec<_>>>()?;
            let mut cells: Vec<_> = cells.into_iter().map(Vec::into_iter).collect();
            for range in ranges {
                next += range.skip;
                for at in &times[next..next + range.take] {
                    row.clear();
                    row.extend(cells.iter_mut().map(|column| column.next().unwrap_or(Cell::Absent)));
                    each(*at, &row);
                }
                next += range.take;
            }
        }
    }
    Ok(())
}

/// A number of rows to skip, followed by a number of rows to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RowRange {
    skip: usize,
    take: usize,
}

/// Maximum number of rows in memory at once, with all their columns.
const MOST_ROWS: usize = 1024;

/// Returns the rows whose times are in the span.
fn row_ranges(times: &[i64], span: &RangeInclusive<i64>) -> Vec<RowRange> {
    let mut ranges = vec![RowRange::default()];
    for at in times {
        let selected = span.contains(at);
        match ranges.last_mut() {
            Some(range) if selected && range.take < MOST_ROWS => range.take += 1,
            Some(range) if !selected && range.take == 0 => range.skip += 1,
            _ => ranges.push(RowRange { skip: usize::from(!selected), take: usize::from(selected) }),
        }
    }
    ranges
}

/// Groups ranges so that each group has at most `MOST_ROWS` rows.
fn batches(ranges: &[RowRange]) -> impl Iterator<Item = &[RowRange]> {
    let mut rows = 0;
    ranges.chunk_by(move |range, next| {
        rows += range.take;
        let fits = rows + next.take <= MOST_ROWS;
        rows = if fits { rows } else { 0 };
        fits
    })
}

/// Returns whether a row group's times may overlap the span; true without statistics.
fn may_hold(group: &RowGroupMetaData, span: &RangeInclusive<i64>) -> bool {
    let times = group.columns().iter().find(|c| c.column_path().string() == AT).and_then(|c| c.statistics());
    let Some(Statistics::Int64(times)) = times else { return true };
    !matches!((times.min_opt(), times.max_opt()), (Some(min), Some(max)) if min > span.end() || max < span.start())
}

fn find(group: &dyn RowGroupReader, name: &str) -> Option<usize> {
    group.metadata().columns().iter().position(|c| c.column_path().string() == name)
}

/// Reads a whole column of numbers that are never absent.
fn numbers(group: &dyn RowGroupReader, name: &str) -> Result<Vec<i64>> {
    let missing = || ParquetError::General(format!("no column '{name}'"));
    match group.get_column_reader(find(group, name).ok_or_else(missing)?)? {
        ColumnReader::Int64ColumnReader(mut reader) => {
            Ok(values(&mut reader, &[RowRange { skip: 0, take: usize::MAX }])?.0)
        }
        _ => Err(ParquetError::General(format!("column '{name}' does not hold numbers"))),
    }
}

enum ColumnCursor {
    /// The column is missing in the file.
    Missing,
    Numbers(ColumnReaderImpl<Int64Type>),
    Levels(ColumnReaderImpl<DoubleType>),
    Texts(ColumnReaderImpl<ByteArrayType>, LastText),
}

impl ColumnCursor {
    fn open(group: &dyn RowGroupReader, name: &str) -> Result<Self> {
        let Some(at) = find(group, name) else { return Ok(Self::Missing) };
        Ok(match group.get_column_reader(at)? {
            ColumnReader::Int64ColumnReader(reader) => Self::Numbers(reader),
            ColumnReader::DoubleColumnReader(reader) => Self::Levels(reader),
            ColumnReader::ByteArrayColumnReader(reader) => Self::Texts(reader, LastText::default()),
            _ => Self::Missing,
        })
    }

    fn cells(&mut self, ranges: &[RowRange]) -> Result<Vec<Cell>> {
        match self {
            Self::Missing => Ok(vec![Cell::Absent; rows(ranges)]),
            Self::Numbers(reader) => cells(reader, ranges, Cell::Number),
            Self::Levels(reader) => cells(reader, ranges, Cell::Level),
            Self::Texts(reader, last) => cells(reader, ranges, |bytes| Cell::Text(last.name(bytes))),
        }
    }
}

/// The previous text: consecutive rows of one entity share it.
#[derive(Default)]
struct LastText(Option<(ByteArray, Name)>);

impl LastText {
    fn name(&mut self, bytes: ByteArray) -> Name {
        match &self.0 {
            Some((known, name)) if *known == bytes => name.clone(),
            _ => {
                let name = Name::from(&*String::from_utf8_lossy(bytes.data()));
                self.0 = Some((bytes, name.clone()));
                name
            }
        }
    }
}

fn rows(ranges: &[RowRange]) -> usize {
    ranges.iter().map(|range| range.take).sum()
}

fn cells<D: DataType>(
    reader: &mut ColumnReaderImpl<D>,
    ranges: &[RowRange],
    mut cell: impl FnMut(D::T) -> Cell,
) -> Result<Vec<Cell>> {
    let (values, present) = values(reader, ranges)?;
    let mut values = values.into_iter();
    let mut next = || values.next().map_or(Cell::Absent, &mut cell);
    Ok(match present {
        Some(present) => present.into_iter().map(|there| if there > 0 { next() } else { Cell::Absent }).collect(),
        None => (0..rows(ranges)).map(|_| next()).collect(),
    })
}

/// Values of a column, and whether each row has one (Parquet's definition levels); `None` for a required column.
type ColumnValues<T> = (Vec<T>, Option<Vec<i16>>);

fn values<D: DataType>(reader: &mut ColumnReaderImpl<D>, ranges: &[RowRange]) -> Result<ColumnValues<D::T>> {
    let (mut values, mut present) = (Vec::new(), Vec::new());
    for range in ranges {
        reader.skip_records(range.skip)?;
        if range.take > 0 {
            reader.read_records(range.take, Some(&mut present), None, &mut values)?;
        }
    }
    let optional = !present.is_empty();
    Ok((values, optional.then_some(present)))
}
