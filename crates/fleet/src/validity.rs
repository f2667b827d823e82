//! Validation of the rows in a host's file. Hosts are not trusted: an invalid file must not break a query.
//!
//! A file is left out as a whole if it is too large, not a Parquet file, or has a column of another type. Otherwise a
//! row is left out if it belongs to another host or hour than its path says, or if it has an impossible number or text.

use crate::schema::{arrow_type, file_schema, stored_type};
use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_null_array};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::{Float64Type, Int64Type, TimestampMillisecondType};
use datafusion::error::{DataFusionError, Result as QueryResult};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use datafusion::parquet::file::metadata::ParquetMetaData;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use whyslow_rollup::{AT, Column, ColumnKind, HOST, Place, TableSpec};

/// Maximum size of a file in bytes.
pub const MOST_BYTES: u64 = 16 << 20;
/// Maximum size of a file in bytes once its pages are decompressed.
const MOST_DECOMPRESSED: i64 = 512 << 20;
/// Maximum number of rows in a file.
pub const MOST_ROWS: usize = 500_000;
/// Maximum length of a text in bytes.
pub const LONGEST_TEXT: usize = 4096;
/// Maximum distance of a time from the hour of the path, in milliseconds.
pub const MARGIN_MS: i64 = 1000;
/// Maximum time by which a host's clock may be ahead of ours.
const MOST_AHEAD_MS: i64 = crate::span::DAY_MS;

/// Maximum increase of a counter in a minute: 150 TB/s, or 100 days. The sum of up to 1,023 such rows fits a 64-bit
/// integer.
const LARGEST_COUNT: RangeInclusive<i64> = -(1 << 53)..=1 << 53;
/// Range of a level.
const LARGEST_LEVEL: RangeInclusive<f64> = -1e19..=1e19;
/// Range of the seconds in a minute: its last sample may be late.
const OF_A_MINUTE: RangeInclusive<f64> = 0.0..=120.0;
/// Range of the seconds in an episode, which is cut at hour boundaries.
const OF_AN_HOUR: RangeInclusive<f64> = 0.0..=3720.0;
/// Range of a share; sums over windows have rounding errors.
const SHARE: RangeInclusive<f64> = 0.0..=1.001;

const OTHER_HOST: &str = "a row of another host than its path";
const OTHER_HOUR: &str = "a row of another hour than its path";
const NUMBER: &str = "a number that cannot be";
const TEXT: &str = "a text of more than 4 KiB";

/// The valid part of a host's file.
#[derive(Debug, Default)]
pub struct ValidRows {
    /// Valid rows, with all columns of the table.
    pub batches: Vec<RecordBatch>,
    /// Number of invalid rows by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Whether the host had finished the hour.
    pub complete: bool,
}

/// Reads the valid rows of a host's file.
///
/// # Errors
/// Returns the reason if the file is left out as a whole.
pub fn read(bytes: Bytes, table: &TableSpec, place: &Place) -> Result<ValidRows, String> {
    if bytes.len() as u64 > MOST_BYTES {
        return Err(too_large());
    }
    // The decoder trusts its input and may panic on a forged file.
    catch_unwind(AssertUnwindSafe(|| decode(bytes, table, place))).unwrap_or_else(|_| Err(unreadable("")))
}

/// Returns the reason for leaving out a file of more than [`MOST_BYTES`].
pub(crate) fn too_large() -> String {
    format!("a file of more than {} MiB", MOST_BYTES >> 20)
}

fn unreadable(why: impl std::fmt::Display) -> String {
    format!("a file that cannot be read: {why}").trim_end_matches([':', ' ']).to_owned()
}

fn decode(bytes: Bytes, table: &TableSpec, place: &Place) -> Result<ValidRows, String> {
    // Ignore the Arrow schema in the file: it is only the writer's claim about the column types.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).map_err(unreadable)?;
    check_size(builder.metadata())?;
    let mut roots = Vec::new();
    for column in &table.columns {
        match builder.schema().column_with_name(&column.name) {
            Some((at, field)) if *field.data_type() == stored_type(column.kind) => roots.push(at),
            Some((_, field)) => {
                return Err(format!("a file whose column {} is {}", column.name, field.data_type()));
            }
            None if [HOST, AT].contains(&column.name.as_str()) => {
                return Err(format!("a file without the column {}", column.name));
            }
            None => {}
        }
    }
    let mut valid = ValidRows { complete: is_complete(builder.metadata()), ..ValidRows::default() };
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let mut rows = 0;
    for batch in builder.with_projection(mask).build().map_err(unreadable)? {
        let batch = batch.map_err(unreadable)?;
        rows += batch.num_rows();
        if rows > MOST_ROWS {
            return Err(format!("a file of more than {MOST_ROWS} rows"));
        }
        let batch = check(&batch, table, place, &mut valid.left_out).map_err(unreadable)?;
        valid.batches.push(batch);
    }
    Ok(valid)
}

/// Returns whether the metadata mark the file as final, so that its host will not write it again.
fn is_complete(metadata: &ParquetMetaData) -> bool {
    let mut entries = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    entries.any(|entry| entry.key == "whyslow.complete" && entry.value.as_deref() == Some("true"))
}

fn check_size(metadata: &ParquetMetaData) -> Result<(), String> {
    let rows = metadata.file_metadata().num_rows();
    if usize::try_from(rows).map_or(true, |rows| rows > MOST_ROWS) {
        return Err(format!("a file of more than {MOST_ROWS} rows"));
    }
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let bytes = columns.fold(0_i64, |sum, column| sum.saturating_add(column.uncompressed_size().max(0)));
    if bytes > MOST_DECOMPRESSED {
        return Err(format!("a file that decompresses to more than {} MiB", MOST_DECOMPRESSED >> 20));
    }
    Ok(())
}

/// Returns the valid rows of a batch, with the table's columns.
fn check(
    batch: &RecordBatch,
    table: &TableSpec,
    place: &Place,
    left_out: &mut BTreeMap<String, u64>,
) -> QueryResult<RecordBatch> {
    let mut verdicts = Verdicts(vec![None; batch.num_rows()]);
    for column in &table.columns {
        if let Some(values) = batch.column_by_name(&column.name) {
            verdicts.judge(values, column, table, place);
        }
    }
    for reason in verdicts.0.iter().flatten() {
        *left_out.entry((*reason).to_owned()).or_default() += 1;
    }
    let columns = table.columns.iter().map(|column| match batch.column_by_name(&column.name) {
        Some(values) => Ok(cast(values, &arrow_type(column.kind))?),
        None => Ok(new_null_array(&arrow_type(column.kind), batch.num_rows())),
    });
    let columns = columns.collect::<QueryResult<Vec<ArrayRef>>>()?;
    let batch = RecordBatch::try_new(file_schema(table), columns).map_err(DataFusionError::from)?;
    let counts: BooleanArray = verdicts.0.iter().map(|verdict| Some(verdict.is_none())).collect();
    if counts.true_count() == counts.len() {
        return Ok(batch);
    }
    Ok(filter_record_batch(&batch, &counts)?)
}

/// First reason against each row, if any.
struct Verdicts(Vec<Option<&'static str>>);

impl Verdicts {
    fn judge(&mut self, values: &ArrayRef, column: &Column, table: &TableSpec, place: &Place) {
        match column.kind {
            ColumnKind::Text if column.name == HOST => {
                let values = values.as_string::<i32>();
                self.each(values, OTHER_HOST, false, |at| Some(values.value(at)) == place.host());
            }
            ColumnKind::Text => {
                let values = values.as_string::<i32>();
                self.each(values, TEXT, true, |at| values.value(at).len() <= LONGEST_TEXT);
            }
            ColumnKind::Timestamp => {
                let values = values.as_primitive::<TimestampMillisecondType>();
                let hour = place.hour.start() - MARGIN_MS..=place.hour.end() + MARGIN_MS;
                let latest = now_ms().saturating_add(MOST_AHEAD_MS);
                let is_right = |at: usize| hour.contains(&values.value(at)) && values.value(at) <= latest;
                self.each(values, OTHER_HOUR, column.name != AT, is_right);
            }
            // Numbers without a unit are identifiers, such as of a device or a namespace.
            ColumnKind::Integer if column.unit.is_empty() => {}
            ColumnKind::Integer => {
                let values = values.as_primitive::<Int64Type>();
                self.each(values, NUMBER, true, |at| LARGEST_COUNT.contains(&values.value(at)));
            }
            ColumnKind::Double => {
                let values = values.as_primitive::<Float64Type>();
                let range = range(table, column);
                self.each(values, NUMBER, true, |at| range.contains(&values.value(at)));
            }
            ColumnKind::Boolean => {}
        }
    }

    fn each(&mut self, values: &dyn Array, reason: &'static str, may_be_null: bool, is_right: impl Fn(usize) -> bool) {
        for (at, verdict) in self.0.iter_mut().enumerate() {
            let counts = if values.is_null(at) { may_be_null } else { is_right(at) };
            if !counts && verdict.is_none() {
                *verdict = Some(reason);
            }
        }
    }
}

/// Returns the valid range of a number. NaN is in no range.
fn range(table: &TableSpec, column: &Column) -> RangeInclusive<f64> {
    match (table.name.as_str(), column.name.as_str()) {
        (_, "seconds") | ("minute", "judged_s" | "lost_s") => OF_A_MINUTE,
        ("episode", "lost_s") => OF_AN_HOUR,
        ("episode", "worst") => SHARE,
        _ => LARGEST_LEVEL,
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Appends columns with one constant value each, as the schema has them.
pub(crate) fn with_constants(
    batch: &RecordBatch,
    schema: &datafusion::arrow::datatypes::SchemaRef,
    constants: &[String],
) -> QueryResult<RecordBatch> {
    let constants = constants.iter().map(|text| crate::schema::scalar(text).to_array_of_size(batch.num_rows()));
    let columns = batch.columns().iter().map(|column| Ok(Arc::clone(column))).chain(constants);
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<QueryResult<Vec<_>>>()?)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use whyslow_rollup::{Cell, Hour, Row, parquet, table};

    pub(crate) const HOUR: Hour = Hour { day: jiff::civil::date(2024, 11, 26), hour: 10 };

    pub(crate) fn minute(host: &str, at: i64, lost: f64) -> Row {
        let at = Cell::Timestamp(HOUR.start() + at);
        let numbers = [Cell::Double(60.0), Cell::Integer(60), Cell::Integer(0), Cell::Double(60.0), Cell::Double(lost)];
        [Cell::text(host), at].into_iter().chain(numbers).chain([Cell::text("1.0")]).collect()
    }

    fn read_rows(name: &str, rows: &[Row], host: &str) -> Result<ValidRows, String> {
        let table = table(name).unwrap();
        let bytes = parquet(table, rows, &[("whyslow.complete", "true".to_owned())]).unwrap();
        read(bytes.into(), table, &Place::incoming(name, HOUR, host).unwrap())
    }

    #[test]
    fn rows_of_the_host_and_hour_count() {
        let rows = [
            minute("web", 0, 1.5),
            minute("db", 60_000, 0.0),
            minute("web", -1000, 0.0),
            minute("web", -1001, 0.0),
            minute("web", 3_601_000, 0.0),
            minute("web", 3_601_001, 0.0),
            minute("web", 120_000, -0.5),
            minute("web", 180_000, 1e300),
            minute("web", 240_000, f64::NAN),
        ];
        let valid = read_rows("minute", &rows, "web").unwrap();
        let counted: usize = valid.batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(counted, 3);
        assert!(valid.complete);
        let expected = [(NUMBER, 3), (OTHER_HOST, 1), (OTHER_HOUR, 2)].map(|(reason, n)| (reason.to_owned(), n));
        assert_eq!(valid.left_out, BTreeMap::from(expected));
    }

    #[test]
    fn long_texts_do_not_count() {
        let row = |value: &str| {
            let at = Cell::Timestamp(HOUR.start());
            vec![Cell::text("web"), at, Cell::text("label"), Cell::text("role"), Cell::text(value)]
        };
        let valid = read_rows("inventory", &[row(&"x".repeat(4096)), row(&"x".repeat(4097))], "web").unwrap();
        assert_eq!(valid.left_out, BTreeMap::from([(TEXT.to_owned(), 1)]));
    }

    #[test]
    fn what_is_no_file_of_the_table_does_not_count() {
        let place = Place::incoming("minute", HOUR, "web").unwrap();
        let read = |bytes: Vec<u8>| read(bytes.into(), table("minute").unwrap(), &place).unwrap_err();
        for bytes in [vec![], b"PAR1PAR1".to_vec(), vec![0xff; 4096], vec![b'P'; (MOST_BYTES + 1) as usize]] {
            assert!(read(bytes.clone()).starts_with("a file"), "{} bytes", bytes.len());
        }
        let at = Cell::Timestamp(HOUR.start());
        let other = parquet(
            table("change").unwrap(),
            &[vec![Cell::text("web"), at, Cell::Null, Cell::Null, Cell::Null, Cell::Null]],
            &[],
        );
        let same_columns = super::read(other.unwrap().into(), table("inventory").unwrap(), &place);
        assert_eq!(same_columns.unwrap().batches[0].num_rows(), 1, "columns that are missing are null");
    }

    #[test]
    fn a_damaged_file_breaks_nothing() {
        let table = table("minute").unwrap();
        let rows: Vec<Row> = (0..60).map(|minute_of| minute("web", minute_of * 60_000, 0.5)).collect();
        let whole = parquet(table, &rows, &[]).unwrap();
        let place = Place::incoming("minute", HOUR, "web").unwrap();
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x5a;
            // Most are refused; a changed digit cannot be detected.
            let _ = read(damaged.into(), table, &place);
            let _ = read(whole[..at].to_vec().into(), table, &place);
        }
    }
}
