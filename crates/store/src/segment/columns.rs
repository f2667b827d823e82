//! Rows on their way into a file, column by column.

use super::layout::{Holds, Layout};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedColumnWriter, SerializedRowGroupWriter};
use std::io::Write;
use whyslow_model::key::Part;
use whyslow_model::value::{Name, Value};

/// Values of so many rows and columns are held before they are written: some five megabytes.
const MOST_VALUES: usize = 500_000;

/// Rows that will be written together.
pub(super) struct Columns {
    columns: Vec<Column>,
    rows: usize,
}

enum Column {
    Numbers(Cells<i64>),
    Levels(Cells<f64>),
    Texts(Cells<ByteArray>, LastText),
}

/// The text that came last, as Parquet has it: the rows of an entity have mostly the same.
#[derive(Default)]
struct LastText(Option<(Name, ByteArray)>);

impl LastText {
    fn bytes(&mut self, text: &Name) -> ByteArray {
        match &self.0 {
            Some((last, bytes)) if last == text => bytes.clone(),
            _ => {
                let bytes = ByteArray::from(text.as_bytes().to_vec());
                self.0 = Some((text.clone(), bytes.clone()));
                bytes
            }
        }
    }
}

/// The values of a column, those absent left out.
struct Cells<T> {
    values: Vec<T>,
    /// One for a row that has a value, zero for one that has none: Parquet's definition levels. `None` where all have.
    present: Option<Vec<i16>>,
}

impl<T: Clone> Cells<T> {
    fn new(required: bool) -> Self {
        Self { values: Vec::new(), present: (!required).then(Vec::new) }
    }

    /// The same value so many times.
    fn push(&mut self, value: Option<T>, count: usize) {
        if let Some(present) = &mut self.present {
            present.resize(present.len() + count, i16::from(value.is_some()));
        }
        if let Some(value) = value {
            self.values.resize(self.values.len() + count, value);
        }
    }

    fn write<D: DataType<T = T>>(&mut self, to: &mut SerializedColumnWriter) -> Result<()> {
        to.typed::<D>().write_batch(&self.values, self.present.as_deref(), None)?;
        self.values.clear();
        if let Some(present) = &mut self.present {
            present.clear();
        }
        Ok(())
    }
}

impl Columns {
    pub(super) fn new(layout: &Layout) -> Self {
        let column = |c: &super::layout::LayoutColumn| match c.holds {
            Holds::Time | Holds::Number => Column::Numbers(Cells::new(c.required)),
            Holds::Level => Column::Levels(Cells::new(c.required)),
            Holds::Text => Column::Texts(Cells::new(c.required), LastText::default()),
        };
        Self { columns: layout.columns.iter().map(column).collect(), rows: 0 }
    }

    /// Adds a row at each of these times, all of the same key and values.
    pub(super) fn push(&mut self, at: &[i64], key: &[Part], values: &[Value]) {
        self.rows += at.len();
        let (first, rest) = self.columns.split_at_mut(1);
        if let [Column::Numbers(times)] = first {
            times.values.extend_from_slice(at);
        }
        let (keys, metrics) = rest.split_at_mut(key.len());
        for (column, part) in keys.iter_mut().zip(key) {
            match (column, part) {
                (Column::Numbers(cells), Part::Number(number)) => cells.push(Some(*number as i64), at.len()),
                (Column::Texts(cells, last), Part::Text(text)) => cells.push(Some(last.bytes(text)), at.len()),
                // A column was made for what its key has.
                _ => {}
            }
        }
        for (column, value) in metrics.iter_mut().zip(values) {
            column.push(value, at.len());
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether there are enough to be written.
    pub(super) fn are_full(&self) -> bool {
        self.rows * self.columns.len() >= MOST_VALUES
    }

    /// Writes all as one row group, and holds none any more.
    pub(super) fn write<W: Write + Send>(&mut self, mut group: SerializedRowGroupWriter<W>) -> Result<()> {
        for column in &mut self.columns {
            let mut writer =
                group.next_column()?.ok_or_else(|| ParquetError::General("fewer columns than in the layout".into()))?;
            match column {
                Column::Numbers(cells) => cells.write::<Int64Type>(&mut writer)?,
                Column::Levels(cells) => cells.write::<DoubleType>(&mut writer)?,
                Column::Texts(cells, _) => cells.write::<ByteArrayType>(&mut writer)?,
            }
            writer.close()?;
        }
        self.rows = 0;
        group.close().map(drop)
    }
}

impl Column {
    fn push(&mut self, value: &Value, count: usize) {
        match (self, value) {
            (Self::Numbers(cells), Value::Counter(counter)) => cells.push(counter.get().map(|n| n as i64), count),
            (Self::Numbers(cells), Value::Histogram(h)) => cells.push(h.count().map(|n| n as i64), count),
            (Self::Levels(cells), Value::Gauge(gauge)) => cells.push(gauge.get(), count),
            (Self::Texts(cells, last), Value::State(state)) => {
                cells.push(state.name().map(|text| last.bytes(text)), count);
            }
            // A column was made for what its metric has.
            _ => {}
        }
    }
}
