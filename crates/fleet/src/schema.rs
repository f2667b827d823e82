//! Arrow schemas of the tables.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use whyslow_rollup::{ColumnKind, Hour, TableSpec};

/// Partition column with the day of a file.
pub const DAY: &str = "day";
/// Partition column with the hour of a file.
pub const HOUR: &str = "hour";

/// Returns the Arrow type of a column in answers.
pub fn arrow_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Text => DataType::Utf8View,
        other => stored_type(other),
    }
}

/// Returns the Arrow type of a column in Parquet files.
pub fn stored_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        ColumnKind::Integer => DataType::Int64,
        ColumnKind::Double => DataType::Float64,
        ColumnKind::Text => DataType::Utf8,
        ColumnKind::Boolean => DataType::Boolean,
    }
}

/// Returns the Arrow schema of a table's files.
pub fn file_schema(table: &TableSpec) -> SchemaRef {
    let field = |column: &whyslow_rollup::Column| Field::new(&column.name, arrow_type(column.kind), true);
    Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()))
}

/// Returns the partition columns, whose values come from a file's folder.
pub fn partition_fields() -> Vec<FieldRef> {
    [DAY, HOUR].map(|name| Arc::new(Field::new(name, DataType::Utf8View, false))).to_vec()
}

/// Returns the values of the partition columns for an hour.
pub fn partition_values(hour: Hour) -> [String; 2] {
    [hour.day.to_string(), format!("{:02}", hour.hour)]
}

/// Converts text to a column value.
pub(crate) fn scalar(text: impl Into<String>) -> ScalarValue {
    ScalarValue::Utf8View(Some(text.into()))
}

/// Converts the time of a row to a column value.
pub(crate) fn scalar_time(ms: i64) -> ScalarValue {
    ScalarValue::TimestampMillisecond(Some(ms), Some("UTC".into()))
}
