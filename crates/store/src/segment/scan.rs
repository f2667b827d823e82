//! Columns of a closed segment as numbers, with no rows put together: for looking through a long time.

use super::hour::{HourFile, Segment};
use super::layout::AT;
use super::read::{find, may_hold, numbers};
use crate::error::StoreError;
use crate::recording::Span;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::reader::{FileReader, RowGroupReader};
use whyslow_model::course::{Course, Sought};

/// Shows these columns of every row group of a segment that may hold rows of the span: for each set of columns its place and
/// what they hold. A column the file lacks is absent throughout.
pub(crate) fn scan_columns(
    file: &HourFile,
    segment: &Segment,
    span: &Span,
    sought: &[&[Sought]],
    each: &mut dyn FnMut(usize, &Course),
) -> std::result::Result<(), StoreError> {
    scan(file, segment, span, sought, each).map_err(file.error())
}

fn scan(
    file: &HourFile,
    segment: &Segment,
    span: &Span,
    sought: &[&[Sought]],
    each: &mut dyn FnMut(usize, &Course),
) -> Result<()> {
    for at in file.row_groups(segment) {
        let group = file.reader.get_row_group(at)?;
        if may_hold(group.metadata(), span) {
            let mut course = Course { at: numbers(&*group, AT)?, columns: Vec::new() };
            for (place, sought) in sought.iter().enumerate() {
                let rows = course.at.len();
                course.columns = sought.iter().map(|sought| column(&*group, sought, rows)).collect::<Result<_>>()?;
                each(place, &course);
            }
        }
    }
    Ok(())
}

/// A column's values; what is absent is no number.
fn column(group: &dyn RowGroupReader, sought: &Sought, rows: usize) -> Result<Vec<f64>> {
    let (Sought::Number(name) | Sought::Is(name, _)) = sought;
    let Some(at) = find(group, name) else { return Ok(vec![f64::NAN; rows]) };
    match (group.get_column_reader(at)?, sought) {
        (reader @ ColumnReader::Int64ColumnReader(_), Sought::Number(_)) => {
            values::<Int64Type>(reader, rows, |number| number as u64 as f64)
        }
        (reader @ ColumnReader::DoubleColumnReader(_), Sought::Number(_)) => values::<DoubleType>(reader, rows, |n| n),
        (reader @ ColumnReader::ByteArrayColumnReader(_), Sought::Is(_, word)) => {
            values::<ByteArrayType>(reader, rows, |words| f64::from(u8::from(words.data() == word.as_bytes())))
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
