//! Answer to a query.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, Schema, TimeUnit, TimestampMillisecondType};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use whyslow_rollup::Cell;

/// Rows with their column names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryRows {
    /// Column names.
    pub columns: Vec<String>,
    /// Cells of each row, one per column.
    pub rows: Vec<Vec<Cell>>,
    /// Whether there are more rows than requested.
    pub is_cut: bool,
}

impl QueryRows {
    pub(super) fn with_schema(schema: &Schema) -> Self {
        Self { columns: schema.fields().iter().map(|field| field.name().clone()).collect(), ..Self::default() }
    }

    /// Returns the position of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Appends rows of a batch up to the requested number. Returns false once more rows are available than requested.
    pub(super) fn take(&mut self, batch: &RecordBatch, most: usize) -> Result<bool> {
        let room = most.saturating_sub(self.rows.len());
        self.is_cut = batch.num_rows() > room;
        let batch = batch.slice(0, room.min(batch.num_rows()));
        let columns: Vec<Vec<Cell>> = batch.columns().iter().map(cells).collect::<Result<_>>()?;
        let mut columns: Vec<_> = columns.into_iter().map(Vec::into_iter).collect();
        for _ in 0..batch.num_rows() {
            self.rows.push(columns.iter_mut().map(|column| column.next().unwrap_or(Cell::Null)).collect());
        }
        Ok(!self.is_cut)
    }
}

/// Converts a column's values to cells; converts types that tables do not have to text.
fn cells(column: &ArrayRef) -> Result<Vec<Cell>> {
    let all = 0..column.len();
    let unless_null = |at: usize, cell: Cell| if column.is_null(at) { Cell::Null } else { cell };
    Ok(match column.data_type() {
        DataType::Null => vec![Cell::Null; column.len()],
        DataType::Boolean => {
            let values = column.as_boolean();
            all.map(|at| unless_null(at, Cell::Boolean(values.value(at)))).collect()
        }
        kind if kind.is_integer() => {
            // The cast turns values out of range into null.
            let values = cast(column, &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            all.map(|at| if values.is_null(at) { Cell::Null } else { Cell::Integer(values.value(at)) }).collect()
        }
        kind if kind.is_numeric() => {
            let values = cast(column, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>();
            all.map(|at| unless_null(at, Cell::Double(values.value(at)))).collect()
        }
        DataType::Timestamp(_, zone) => {
            let values = cast(column, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))?;
            let values = values.as_primitive::<TimestampMillisecondType>();
            all.map(|at| unless_null(at, Cell::Timestamp(values.value(at)))).collect()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let values = cast(column, &DataType::Utf8View)?;
            let values = values.as_string_view();
            all.map(|at| unless_null(at, Cell::text(values.value(at)))).collect()
        }
        _ => {
            let options = FormatOptions::default();
            let values = ArrayFormatter::try_new(column, &options)?;
            all.map(|at| unless_null(at, Cell::text(&values.value(at).to_string()))).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Float32Array, StringArray, TimestampNanosecondArray, UInt64Array};
    use datafusion::arrow::datatypes::Field;
    use std::sync::Arc;

    #[test]
    fn values_keep_their_meaning() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(vec![Some(7), None, Some(u64::MAX)])),
            Arc::new(Float32Array::from(vec![Some(0.5), None, None])),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("")])),
            Arc::new(TimestampNanosecondArray::from(vec![Some(1_500_000_000), None, Some(0)])),
        ];
        let fields = columns.iter().zip(["n", "x", "t", "at"]);
        let fields: Vec<Field> =
            fields.map(|(column, name)| Field::new(name, column.data_type().clone(), true)).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        let mut rows = QueryRows::with_schema(&batch.schema());
        assert!(rows.take(&batch, 3).unwrap());
        let first = [Cell::Integer(7), Cell::Double(0.5), Cell::text("a"), Cell::Timestamp(1500)];
        let last = [Cell::Null, Cell::Null, Cell::text(""), Cell::Timestamp(0)];
        assert_eq!(rows.rows, [first.to_vec(), vec![Cell::Null; 4], last.to_vec()]);
        assert!(!rows.take(&batch, 4).unwrap());
        assert_eq!((rows.rows.len(), rows.is_cut, rows.column("t")), (4, true, Some(2)));
    }
}
