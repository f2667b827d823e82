//! Rows of a closed segment.

use super::hour::{HourFile, Segment};
use super::layout::AT;
use crate::error::StoreError;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::statistics::Statistics;
use std::ops::RangeInclusive;
use whyslow_model::value::Name;

/// What to read.
pub(crate) struct Wanted<'a> {
    /// The columns, by name. Those the file lacks are absent.
    pub(crate) columns: &'a [&'a str],
    /// The times, nanoseconds since 1970.
    pub(crate) span: RangeInclusive<i64>,
}

/// A value as a file has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Absent,
    Number(i64),
    Level(f64),
    Text(Name),
}

/// Shows every row of a segment that is wanted: when, and its columns in the order asked for.
pub(crate) fn read_rows(
    file: &HourFile,
    segment: &Segment,
    wanted: &Wanted,
    each: impl FnMut(i64, &mut [Cell]),
) -> std::result::Result<(), StoreError> {
    read(file, segment, wanted, each).map_err(file.error())
}

fn read(file: &HourFile, segment: &Segment, wanted: &Wanted, mut each: impl FnMut(i64, &mut [Cell])) -> Result<()> {
    for at in file.row_groups(segment) {
        let group = file.reader.get_row_group(at)?;
        if !may_hold(group.metadata(), &wanted.span) {
            continue;
        }
        let times = numbers(&*group, AT)?;
        let runs = runs(&times, &wanted.span);
        let rows = runs.iter().map(|run| run.take).sum();
        let columns =
            wanted.columns.iter().map(|name| column(&*group, name, &runs, rows)).collect::<Result<Vec<_>>>()?;
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        let mut row = Vec::with_capacity(columns.len());
        for at in times.into_iter().filter(|at| wanted.span.contains(at)) {
            row.clear();
            row.extend(columns.iter_mut().map(|column| column.next().unwrap_or(Cell::Absent)));
            each(at, &mut row);
        }
    }
    Ok(())
}

/// Rows that follow one another: first some that are not wanted, then some that are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    skip: usize,
    take: usize,
}

/// The rows whose times are in the span.
fn runs(times: &[i64], span: &RangeInclusive<i64>) -> Vec<Run> {
    let mut runs = vec![Run::default()];
    for at in times {
        let wanted = span.contains(at);
        match runs.last_mut() {
            Some(run) if wanted => run.take += 1,
            Some(run) if run.take == 0 => run.skip += 1,
            _ => runs.push(Run { skip: 1, take: 0 }),
        }
    }
    runs
}

/// Whether a row group's times overlap the span; true where the file does not say.
pub(super) fn may_hold(group: &RowGroupMetaData, span: &RangeInclusive<i64>) -> bool {
    let times = group.columns().iter().find(|c| c.column_path().string() == AT).and_then(|c| c.statistics());
    let Some(Statistics::Int64(times)) = times else { return true };
    !matches!((times.min_opt(), times.max_opt()), (Some(min), Some(max)) if min > span.end() || max < span.start())
}

pub(super) fn find(group: &dyn RowGroupReader, name: &str) -> Option<usize> {
    group.metadata().columns().iter().position(|c| c.column_path().string() == name)
}

/// A column of whole numbers that is never absent.
pub(super) fn numbers(group: &dyn RowGroupReader, name: &str) -> Result<Vec<i64>> {
    let missing = || ParquetError::General(format!("no column '{name}'"));
    match group.get_column_reader(find(group, name).ok_or_else(missing)?)? {
        reader @ ColumnReader::Int64ColumnReader(_) => {
            Ok(values::<Int64Type>(reader, &[Run { skip: 0, take: usize::MAX }])?.0)
        }
        _ => Err(ParquetError::General(format!("column '{name}' does not hold numbers"))),
    }
}

/// A column's cells in the rows that are wanted; all absent where the file does not have it.
fn column(group: &dyn RowGroupReader, name: &str, runs: &[Run], rows: usize) -> Result<Vec<Cell>> {
    let Some(at) = find(group, name) else { return Ok(vec![Cell::Absent; rows]) };
    match group.get_column_reader(at)? {
        reader @ ColumnReader::Int64ColumnReader(_) => cells::<Int64Type>(reader, runs, rows, Cell::Number),
        reader @ ColumnReader::DoubleColumnReader(_) => cells::<DoubleType>(reader, runs, rows, Cell::Level),
        reader @ ColumnReader::ByteArrayColumnReader(_) => {
            let mut last: Option<(ByteArray, Name)> = None;
            cells::<ByteArrayType>(reader, runs, rows, move |bytes| Cell::Text(named(&mut last, bytes)))
        }
        _ => Ok(vec![Cell::Absent; rows]),
    }
}

/// A name, shared with the row before where that has the same: rows of one entity follow one another.
fn named(last: &mut Option<(ByteArray, Name)>, bytes: ByteArray) -> Name {
    match last {
        Some((known, name)) if *known == bytes => name.clone(),
        _ => {
            let name = Name::from(&*String::from_utf8_lossy(bytes.data()));
            *last = Some((bytes, name.clone()));
            name
        }
    }
}

fn cells<D: DataType>(
    reader: ColumnReader,
    runs: &[Run],
    rows: usize,
    mut cell: impl FnMut(D::T) -> Cell,
) -> Result<Vec<Cell>> {
    let (values, present) = values::<D>(reader, runs)?;
    let mut values = values.into_iter();
    let mut next = || values.next().map_or(Cell::Absent, &mut cell);
    Ok(match present {
        Some(present) => present.into_iter().map(|there| if there > 0 { next() } else { Cell::Absent }).collect(),
        None => (0..rows).map(|_| next()).collect(),
    })
}

/// The values of a column, and for each row whether it has one: Parquet's definition levels; `None` where all have.
type Values<T> = (Vec<T>, Option<Vec<i16>>);

/// The values of a column in these rows.
fn values<D: DataType>(reader: ColumnReader, runs: &[Run]) -> Result<Values<D::T>> {
    let mut reader = get_typed_column_reader::<D>(reader);
    let (mut values, mut present) = (Vec::new(), Vec::new());
    for run in runs.iter().filter(|run| run.take > 0) {
        reader.skip_records(run.skip)?;
        reader.read_records(run.take, Some(&mut present), None, &mut values)?;
    }
    let optional = !present.is_empty();
    Ok((values, optional.then_some(present)))
}
