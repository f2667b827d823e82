//! Rows of a closed segment.

use super::hour::{HourFile, Segment};
use super::layout::AT;
use crate::error::StoreError;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
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
        let mut columns = wanted.columns.iter().map(|name| Column::open(&*group, name)).collect::<Result<Vec<_>>>()?;
        let mut row = Vec::with_capacity(columns.len());
        let mut next = 0;
        for runs in batches(&runs(&times, &wanted.span)) {
            let cells = columns.iter_mut().map(|column| column.cells(runs)).collect::<Result<Vec<_>>>()?;
            let mut cells: Vec<_> = cells.into_iter().map(Vec::into_iter).collect();
            for run in runs {
                next += run.skip;
                for at in &times[next..next + run.take] {
                    row.clear();
                    row.extend(cells.iter_mut().map(|column| column.next().unwrap_or(Cell::Absent)));
                    each(*at, &mut row);
                }
                next += run.take;
            }
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

/// So many rows are held at once, of all their columns.
const MOST_ROWS: usize = 1024;

/// The rows whose times are in the span; no more in a run than are held at once.
fn runs(times: &[i64], span: &RangeInclusive<i64>) -> Vec<Run> {
    let mut runs = vec![Run::default()];
    for at in times {
        let wanted = span.contains(at);
        match runs.last_mut() {
            Some(run) if wanted && run.take < MOST_ROWS => run.take += 1,
            Some(run) if !wanted && run.take == 0 => run.skip += 1,
            _ => runs.push(Run { skip: usize::from(!wanted), take: usize::from(wanted) }),
        }
    }
    runs
}

/// The runs, as many together as are held at once.
fn batches(runs: &[Run]) -> impl Iterator<Item = &[Run]> {
    let mut rows = 0;
    runs.chunk_by(move |run, next| {
        rows += run.take;
        let goes_on = rows + next.take <= MOST_ROWS;
        rows = if goes_on { rows } else { 0 };
        goes_on
    })
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
        ColumnReader::Int64ColumnReader(mut reader) => Ok(values(&mut reader, &[Run { skip: 0, take: usize::MAX }])?.0),
        _ => Err(ParquetError::General(format!("column '{name}' does not hold numbers"))),
    }
}

/// A column that is being read.
enum Column {
    /// The file does not have it.
    Missing,
    Numbers(ColumnReaderImpl<Int64Type>),
    Levels(ColumnReaderImpl<DoubleType>),
    Texts(ColumnReaderImpl<ByteArrayType>, LastText),
}

impl Column {
    fn open(group: &dyn RowGroupReader, name: &str) -> Result<Self> {
        let Some(at) = find(group, name) else { return Ok(Self::Missing) };
        Ok(match group.get_column_reader(at)? {
            ColumnReader::Int64ColumnReader(reader) => Self::Numbers(reader),
            ColumnReader::DoubleColumnReader(reader) => Self::Levels(reader),
            ColumnReader::ByteArrayColumnReader(reader) => Self::Texts(reader, LastText::default()),
            _ => Self::Missing,
        })
    }

    /// Its cells in the next rows that are wanted; all absent where the file does not have it.
    fn cells(&mut self, runs: &[Run]) -> Result<Vec<Cell>> {
        match self {
            Self::Missing => Ok(vec![Cell::Absent; rows(runs)]),
            Self::Numbers(reader) => cells(reader, runs, Cell::Number),
            Self::Levels(reader) => cells(reader, runs, Cell::Level),
            Self::Texts(reader, last) => cells(reader, runs, |bytes| Cell::Text(last.name(bytes))),
        }
    }
}

/// The text that came last: rows of one entity follow one another, and share it.
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

fn rows(runs: &[Run]) -> usize {
    runs.iter().map(|run| run.take).sum()
}

fn cells<D: DataType>(
    reader: &mut ColumnReaderImpl<D>,
    runs: &[Run],
    mut cell: impl FnMut(D::T) -> Cell,
) -> Result<Vec<Cell>> {
    let (values, present) = values(reader, runs)?;
    let mut values = values.into_iter();
    let mut next = || values.next().map_or(Cell::Absent, &mut cell);
    Ok(match present {
        Some(present) => present.into_iter().map(|there| if there > 0 { next() } else { Cell::Absent }).collect(),
        None => (0..rows(runs)).map(|_| next()).collect(),
    })
}

/// The values of a column, and for each row whether it has one: Parquet's definition levels; `None` where all have.
type Values<T> = (Vec<T>, Option<Vec<i16>>);

/// The values of a column in these rows.
fn values<D: DataType>(reader: &mut ColumnReaderImpl<D>, runs: &[Run]) -> Result<Values<D::T>> {
    let (mut values, mut present) = (Vec::new(), Vec::new());
    for run in runs {
        reader.skip_records(run.skip)?;
        if run.take > 0 {
            reader.read_records(run.take, Some(&mut present), None, &mut values)?;
        }
    }
    let optional = !present.is_empty();
    Ok((values, optional.then_some(present)))
}
