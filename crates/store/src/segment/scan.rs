//! Columns of a closed segment as plain numbers, without assembling rows: for scanning long recordings.

use super::hour::{HourFile, Segment};
use super::layout::AT;
use super::read::{find, may_hold, numbers};
use crate::error::StoreError;
use crate::schema::Span;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::reader::{FileReader, RowGroupReader};
use whyslow_model::time_series::{ColumnSelector, TimeSeries};

/// Passes on these columns of each row group that may have rows in the span: the number of the selection, and its columns. A
/// column that the file lacks is absent throughout.
pub(crate) fn scan_columns(
    file: &HourFile,
    segment: &Segment,
    span: &Span,
    selections: &[&[ColumnSelector]],
    each: &mut dyn FnMut(usize, &TimeSeries),
) -> std::result::Result<(), StoreError> {
    scan(file, segment, span, selections, each).map_err(file.error())
}

fn scan(
    file: &HourFile,
    segment: &Segment,
    span: &Span,
    selections: &[&[ColumnSelector]],
    each: &mut dyn FnMut(usize, &TimeSeries),
) -> Result<()> {
    for group in file.row_groups(segment) {
        let group = file.reader.get_row_group(group)?;
        if may_hold(group.metadata(), span) {
            let mut series = TimeSeries { at: numbers(&*group, AT)?, columns: Vec::new() };
            for (number, selectors) in selections.iter().enumerate() {
                let rows = series.at.len();
                series.columns =
                    selectors.iter().map(|selector| column(&*group, selector, rows)).collect::<Result<_>>()?;
                each(number, &series);
            }
        }
    }
    Ok(())
}

fn column(group: &dyn RowGroupReader, selector: &ColumnSelector, rows: usize) -> Result<Vec<f64>> {
    let Some(column) = find(group, selector.name()) else { return Ok(vec![f64::NAN; rows]) };
    match (group.get_column_reader(column)?, selector) {
        (reader @ ColumnReader::Int64ColumnReader(_), ColumnSelector::Number(_)) => {
            values::<Int64Type>(reader, rows, |number| number as u64 as f64)
        }
        (reader @ ColumnReader::DoubleColumnReader(_), ColumnSelector::Number(_)) => {
            values::<DoubleType>(reader, rows, |n| n)
        }
        (reader @ ColumnReader::ByteArrayColumnReader(_), ColumnSelector::Is(_, word)) => {
            values::<ByteArrayType>(reader, rows, |text| f64::from(u8::from(text.data() == word.as_bytes())))
        }
        _ => Ok(vec![f64::NAN; rows]),
    }
}

fn values<D: DataType>(reader: ColumnReader, rows: usize, mut number: impl FnMut(D::T) -> f64) -> Result<Vec<f64>> {
    let mut reader = get_typed_column_reader::<D>(reader);
    let (mut values, mut present) = (Vec::with_capacity(rows), Vec::new());
    reader.read_records(rows, Some(&mut present), None, &mut values)?;
    let mut values = values.into_iter();
    let mut next = || values.next().map_or(f64::NAN, &mut number);
    Ok(if present.is_empty() {
        (0..rows).map(|_| next()).collect()
    } else {
        present.into_iter().map(|there| if there > 0 { next() } else { f64::NAN }).collect()
    })
}
