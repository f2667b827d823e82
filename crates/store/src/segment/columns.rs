//! Rows on their way into a file, column by column.

use super::chunk::ChunkWriter;
use super::layout::{Holds, Layout};
use super::runs::Runs;
use super::times::Times;
use super::told::Rows;
use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;
use std::collections::HashMap;
use std::io::Write;
use whyslow_model::key::Part;
use whyslow_model::value::{Name, Value};

/// So many rows are written together at most: who reads a column holds two megabytes of it. Of each group of rows whoever opens
/// the file, or writes its next ten minutes, holds some half a kilobyte a column.
const MOST_ROWS: usize = 1 << 18;
/// And of all columns so many runs: some two megabytes.
const MOST_RUNS: usize = 1 << 17;

/// Rows that will be written together.
pub(super) struct Columns {
    at: Times,
    columns: Vec<Column>,
}

/// What is in a column but for the times.
struct Column {
    runs: Runs,
    /// Where it holds words, which of them its rows have.
    words: Option<Words>,
}

/// The words of a column, by their place.
#[derive(Default)]
struct Words {
    words: Vec<Name>,
    places: HashMap<Name, u64>,
    /// The last, which the next rows mostly have, too.
    last: Option<(Name, u64)>,
}

impl Words {
    fn place(&mut self, word: &Name) -> u64 {
        if let Some((last, place)) = &self.last
            && last == word
        {
            return *place;
        }
        let place = *self.places.entry(word.clone()).or_insert_with(|| {
            self.words.push(word.clone());
            self.words.len() as u64 - 1
        });
        self.last = Some((word.clone(), place));
        place
    }
}

impl Columns {
    pub(super) fn new(layout: &Layout) -> Self {
        let column = |column: &super::layout::LayoutColumn| Column {
            runs: Runs::default(),
            words: (column.holds == Holds::Text).then(Words::default),
        };
        Self { at: Times::default(), columns: layout.columns.iter().skip(1).map(column).collect() }
    }

    /// Adds a row at each of these times, all of the same key and values; as many as there is room for, which it says.
    pub(super) fn push(&mut self, at: &[i64], key: &[Part], values: &[Value]) -> usize {
        let at = &at[..at.len().min(MOST_ROWS - self.at.rows())];
        self.at.push(at);
        let rows = at.len() as u32;
        let (keys, metrics) = self.columns.split_at_mut(key.len());
        for (column, part) in keys.iter_mut().zip(key) {
            match part {
                Part::Number(number) => column.runs.push(Some(*number), rows),
                Part::Text(text) => column.push_word(Some(text), rows),
            }
        }
        for (column, value) in metrics.iter_mut().zip(values) {
            match value {
                Value::Counter(counter) => column.runs.push(counter.get(), rows),
                Value::Gauge(gauge) => column.runs.push(gauge.get().map(f64::to_bits), rows),
                Value::State(state) => column.push_word(state.name(), rows),
                Value::Histogram(histogram) => column.runs.push(histogram.count(), rows),
            }
        }
        at.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at.rows() == 0
    }

    /// Whether there are enough to be written.
    pub(super) fn are_full(&self) -> bool {
        self.at.rows() >= MOST_ROWS
            || self.columns.iter().map(|column| column.runs.length()).sum::<usize>() >= MOST_RUNS
    }

    /// Writes all as one row group, and holds none any more.
    pub(super) fn write<W: Write + Send>(
        &mut self,
        chunks: &mut ChunkWriter,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<()> {
        let descriptions = file.schema_descr().columns().to_vec();
        let rows = std::iter::once(Rows::Times(&self.at)).chain(self.columns.iter().map(Column::rows));
        let mut group = file.next_row_group()?;
        for (description, rows) in descriptions.into_iter().zip(rows) {
            chunks.write(&mut group, description, &rows, self.at.rows())?;
        }
        group.close()?;
        self.at.clear();
        self.columns.iter_mut().for_each(Column::clear);
        Ok(())
    }
}

impl Column {
    fn push_word(&mut self, word: Option<&Name>, rows: u32) {
        // A column was made for what its key or metric has.
        let Some(words) = &mut self.words else { return };
        self.runs.push(word.map(|word| words.place(word)), rows);
    }

    fn rows(&self) -> Rows<'_> {
        match &self.words {
            Some(words) => Rows::Words(&self.runs, &words.words),
            None => Rows::Numbers(&self.runs),
        }
    }

    fn clear(&mut self) {
        self.runs.clear();
        if let Some(words) = &mut self.words {
            *words = Words::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::layout::LayoutColumn;
    use bytes::Bytes;
    use parquet::column::reader::ColumnReaderImpl;
    use parquet::data_type::{ByteArrayType, DataType, Int64Type};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use proptest::prelude::*;
    use std::sync::Arc;
    use whyslow_model::value::{Counter, State};

    fn layout() -> Layout {
        let column = |name: &str, holds, required| LayoutColumn { name: name.into(), holds, required };
        let columns = [
            column("at", Holds::Time, true),
            column("key", Holds::Number, true),
            column("number", Holds::Number, false),
            column("words", Holds::Text, false),
        ];
        Layout { name: "made".into(), columns: columns.into() }
    }

    /// Rows that have the same in a row: how many, their key, and what they have.
    type Stretch = (usize, u64, Option<u64>, Option<u8>);

    fn write(stretches: &[Stretch]) -> Bytes {
        let schema = layout().schema().unwrap();
        let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
        let (mut columns, mut chunks) = (Columns::new(&layout()), ChunkWriter::new().unwrap());
        for (rows, key, number, word) in stretches {
            let at: Vec<i64> = (0..*rows as i64).collect();
            let word = word.map_or_else(State::default, |word| format!("word {word}").into());
            let values = [Value::Counter(number.map_or(Counter::ABSENT, Counter::from)), Value::State(word)];
            assert_eq!(columns.push(&at, &[Part::Number(*key)], &values), *rows);
        }
        columns.write(&mut chunks, &mut file).unwrap();
        assert!(columns.is_empty());
        file.into_inner().unwrap().into()
    }

    /// What the crate's own reader makes of a column.
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

    fn comes_back(stretches: &[Stretch]) {
        let file = write(stretches);
        let rows: Vec<&Stretch> =
            stretches.iter().flat_map(|stretch| std::iter::repeat_n(stretch, stretch.0)).collect();
        let times = stretches.iter().flat_map(|stretch| 0..stretch.0 as i64).map(Some).collect::<Vec<_>>();
        assert_eq!(read::<Int64Type>(&file, 0, rows.len()), times);
        let keys = rows.iter().map(|row| Some(row.1 as i64)).collect::<Vec<_>>();
        assert_eq!(read::<Int64Type>(&file, 1, rows.len()), keys);
        // All ones stand for absent.
        let numbers = rows.iter().map(|row| row.2.filter(|n| *n != u64::MAX).map(|n| n as i64)).collect::<Vec<_>>();
        assert_eq!(read::<Int64Type>(&file, 2, rows.len()), numbers);
        let words = read::<ByteArrayType>(&file, 3, rows.len());
        let words = words.into_iter().map(|word| word.map(|word| word.as_utf8().unwrap().to_owned()));
        let expected = rows.iter().map(|row| row.3.map(|word| format!("word {word}")));
        assert!(words.eq(expected));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn rows_come_back(
            stretches in prop::collection::vec((1..100_usize, any::<u64>(), any::<Option<u64>>(), any::<Option<u8>>()), 1..60),
            short in prop::collection::vec((1..3_usize, 0..9_u64, prop::option::of(0..9_u64), prop::option::of(0..9_u8)), 1..400),
        ) {
            comes_back(&stretches);
            comes_back(&short);
        }
    }

    #[test]
    fn what_stands_still_or_is_absent_throughout_comes_back() {
        comes_back(&[(60_000, 7, Some(1), None)]);
        comes_back(&[(1, 7, None, Some(1))]);
        comes_back(&[(500, 1, None, None), (500, 2, Some(u64::MAX - 1), None)]);
        // Each row has another, and none comes back.
        let counts: Vec<Stretch> = (0..2000).map(|n| (1, 1, Some(n * n), Some(n as u8))).collect();
        comes_back(&counts);
    }

    #[test]
    fn no_more_rows_are_taken_than_are_written_together() {
        let mut columns = Columns::new(&layout());
        let at = vec![0; MOST_ROWS + 5];
        let values = [Value::Counter(1.into()), Value::State(State::default())];
        assert_eq!(columns.push(&at, &[Part::Number(1)], &values), MOST_ROWS);
        assert!(columns.are_full());
    }
}
