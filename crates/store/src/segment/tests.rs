//! The Parquet crate's own reader reads back what was written.

use super::layout::{Holds, LayoutColumn, TableLayout};
use super::row_group::{RowGroupBuffer, properties};
use bytes::Bytes;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArrayType, DataType, Int64Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use proptest::prelude::*;
use std::sync::Arc;
use whyslow_model::key::KeyPart;
use whyslow_model::value::{Counter, State, Value};

/// A run of equal rows: number of rows, then their key, number and text.
type RowRun = (usize, u64, Option<u64>, Option<u8>);

fn layout() -> TableLayout {
    let column = |name: &str, holds, required| LayoutColumn { name: name.into(), holds, required };
    let columns = [
        column("at", Holds::Time, true),
        column("key", Holds::Number, true),
        column("number", Holds::Number, false),
        column("text", Holds::Text, false),
    ];
    TableLayout { name: "made".into(), columns: columns.into() }
}

fn write(rows: &[RowRun]) -> Bytes {
    let properties = Arc::new(properties(&layout()).unwrap());
    let mut file = SerializedFileWriter::new(Vec::new(), layout().schema().unwrap(), properties).unwrap();
    let mut buffer = RowGroupBuffer::new(&layout());
    for (count, key, number, text) in rows {
        let at: Vec<i64> = (0..*count as i64).collect();
        let text = text.map_or_else(State::default, |text| format!("text {text}").into());
        let values = [Value::Counter(number.map_or(Counter::ABSENT, Counter::from)), Value::State(text)];
        assert_eq!(buffer.push(&at, &[KeyPart::Number(*key)], &values), *count);
    }
    buffer.write(&mut file).unwrap();
    assert!(buffer.is_empty());
    file.into_inner().unwrap().into()
}

fn read<D: DataType>(file: &Bytes, column: usize, rows: usize) -> Vec<Option<D::T>> {
    let file = SerializedFileReader::new(file.clone()).unwrap();
    let reader = file.get_row_group(0).unwrap().get_column_reader(column).unwrap();
    let mut reader: ColumnReaderImpl<D> = parquet::column::reader::get_typed_column_reader(reader);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    reader.read_records(rows + 1, Some(&mut levels), None, &mut values).unwrap();
    let mut values = values.into_iter();
    if levels.is_empty() {
        return values.map(Some).collect();
    }
    levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect()
}

fn assert_reads_back(runs: &[RowRun]) {
    let file = write(runs);
    let rows: Vec<&RowRun> = runs.iter().flat_map(|run| std::iter::repeat_n(run, run.0)).collect();
    let times = runs.iter().flat_map(|run| 0..run.0 as i64).map(Some).collect::<Vec<_>>();
    assert_eq!(read::<Int64Type>(&file, 0, rows.len()), times);
    let keys = rows.iter().map(|row| Some(row.1 as i64)).collect::<Vec<_>>();
    assert_eq!(read::<Int64Type>(&file, 1, rows.len()), keys);
    // All ones mean absent.
    let numbers = rows.iter().map(|row| row.2.filter(|n| *n != u64::MAX).map(|n| n as i64)).collect::<Vec<_>>();
    assert_eq!(read::<Int64Type>(&file, 2, rows.len()), numbers);
    let texts = read::<ByteArrayType>(&file, 3, rows.len());
    let texts = texts.into_iter().map(|text| text.map(|text| text.as_utf8().unwrap().to_owned()));
    assert!(texts.eq(rows.iter().map(|row| row.3.map(|text| format!("text {text}")))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn rows_read_back_as_they_were_written(
        long in prop::collection::vec((1..100_usize, any::<u64>(), any::<Option<u64>>(), any::<Option<u8>>()), 1..60),
        short in prop::collection::vec((1..3_usize, 0..9_u64, prop::option::of(0..9_u64), prop::option::of(0..9_u8)), 1..400),
    ) {
        assert_reads_back(&long);
        assert_reads_back(&short);
    }
}

#[test]
fn constant_and_absent_columns_read_back() {
    assert_reads_back(&[(60_000, 7, Some(1), None)]);
    assert_reads_back(&[(1, 7, None, Some(1))]);
    assert_reads_back(&[(500, 1, None, None), (500, 2, Some(u64::MAX - 1), None)]);
    let all_different: Vec<RowRun> = (0..2000).map(|n| (1, 1, Some(n * n), Some(n as u8))).collect();
    assert_reads_back(&all_different);
}

#[test]
fn a_full_buffer_takes_no_more_rows() {
    let mut buffer = RowGroupBuffer::new(&layout());
    let at = vec![0; (1 << 18) + 5];
    let values = [Value::Counter(1.into()), Value::State(State::default())];
    assert_eq!(buffer.push(&at, &[KeyPart::Number(1)], &values), 1 << 18);
    assert!(buffer.is_full());
}
