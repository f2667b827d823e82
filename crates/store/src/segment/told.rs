//! The bytes of a column's pages.
//!
//! Levels and places are Parquet's RLE, values PLAIN: the oldest encodings there are, which every engine reads
//! (<https://parquet.apache.org/docs/file-format/data-pages/encodings/>).

use super::runs::{Run, Runs};
use super::times::Times;
use crate::bytes::put_number;
use parquet::file::statistics::Statistics;
use whyslow_model::value::Name;

/// Numbers are told by a dictionary where so many rows on average have the same in a row, whatever they are: the rows need not
/// be gone through.
const LONG: usize = 64;
/// And where there are no more different ones, each of which comes back: of many the places are as long as what changes in them.
const FEW: usize = 256;

/// The rows of one column.
pub(super) enum Rows<'r> {
    /// When.
    Times(&'r Times),
    /// Numbers or levels, as their eight bytes.
    Numbers(&'r Runs),
    /// Words, as their places among these.
    Words(&'r Runs, &'r [Name]),
}

impl Rows<'_> {
    /// The first and the last of the times; of no other column a reader asks.
    pub(super) fn statistics(&self) -> Option<Statistics> {
        let Rows::Times(times) = self else { return None };
        let all = times.all().iter().copied();
        Some(Statistics::int64(all.clone().min(), all.max(), None, Some(0), false))
    }
}

/// The rows of a column as pages have them, not compressed yet.
pub(super) struct Told {
    /// Where values are told by their places in it.
    pub(super) dictionary: Option<Dictionary>,
    /// Which rows have a value, and the values or their places.
    pub(super) data: Vec<u8>,
}

/// The values that occur, one after the other.
pub(super) struct Dictionary {
    pub(super) bytes: Vec<u8>,
    /// How many.
    pub(super) values: usize,
}

impl Told {
    /// Of a column whose rows may lack a value, or may not.
    pub(super) fn of(rows: &Rows, optional: bool) -> Self {
        let mut told = Self { dictionary: None, data: Vec::new() };
        match rows {
            Rows::Times(times) => told.times(times),
            Rows::Words(runs, []) => told.levels(runs, optional),
            Rows::Words(runs, words) => {
                told.levels(runs, optional);
                told.dictionary = Some(Dictionary { bytes: in_full(words), values: words.len() });
                told.places(runs.values(), runs.rows(), words.len());
            }
            Rows::Numbers(runs) => {
                told.levels(runs, optional);
                told.numbers(runs);
            }
        }
        told
    }

    /// Bytes of all pages.
    pub(super) fn length(&self) -> usize {
        self.data.len() + self.dictionary.as_ref().map_or(0, |dictionary| dictionary.bytes.len())
    }

    /// Which rows have a value: Parquet's definition levels, with their length before them.
    fn levels(&mut self, runs: &Runs, optional: bool) {
        if optional {
            let at = self.data.len();
            self.data.extend([0; 4]);
            runs.present().iter().for_each(|run| put_run(&mut self.data, 1, u64::from(run.value), run.rows));
            let length = (self.data.len() - at - 4) as u32;
            self.data[at..at + 4].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Each row has its own. Where many entities share them they are told once, with a place for each row.
    fn times(&mut self, times: &Times) {
        let (all, rows) = (times.all(), times.rows());
        let bytes = |at: &i64| at.to_le_bytes();
        if rows < 2 * all.len() {
            self.data.extend(times.places().flat_map(|place| bytes(&all[place])));
            return;
        }
        let bits = bits(all.len());
        self.data.push(bits as u8);
        put_packed(&mut self.data, bits, times.places().map(|place| Run { value: place as u64, rows: 1 }), rows);
        self.dictionary = Some(Dictionary { bytes: all.iter().flat_map(bytes).collect(), values: all.len() });
    }

    fn numbers(&mut self, runs: &Runs) {
        let values = runs.values();
        let most = if runs.rows() >= LONG * values.len() { values.len() } else { FEW.min(values.len() / 2) };
        match runs.places(most) {
            Some((dictionary, places)) if !dictionary.is_empty() => {
                self.places(&places, runs.rows(), dictionary.len());
                let bytes = dictionary.iter().flat_map(|value| value.to_le_bytes()).collect();
                self.dictionary = Some(Dictionary { bytes, values: dictionary.len() });
            }
            _ => {
                for run in values {
                    (0..run.rows).for_each(|_| self.data.extend_from_slice(&run.value.to_le_bytes()));
                }
            }
        }
    }

    /// Values by their places in a dictionary of so many: in runs or, where those are short, one by one.
    fn places(&mut self, places: &[Run<u64>], rows: usize, of: usize) {
        let bits = bits(of);
        self.data.push(bits as u8);
        let bytes = bits.div_ceil(8);
        if places.len() * (1 + bytes) * 8 > rows * bits {
            put_packed(&mut self.data, bits, places.iter().copied(), rows);
        } else {
            places.iter().for_each(|run| put_run(&mut self.data, bytes, run.value, run.rows));
        }
    }
}

/// In so many bits the places among so many values are told.
fn bits(of: usize) -> usize {
    (usize::BITS - of.saturating_sub(1).leading_zeros()).max(1) as usize
}

/// Each row for itself, in so many bits: a packed run of Parquet's RLE, of whole eights.
fn put_packed(out: &mut Vec<u8>, bits: usize, runs: impl Iterator<Item = Run<u64>>, rows: usize) {
    let eights = rows.div_ceil(8);
    put_number(out, (eights as u64) << 1 | 1);
    let end = out.len() + eights * bits;
    let (mut waiting, mut filled) = (0_u64, 0);
    for run in runs {
        for _ in 0..run.rows {
            waiting |= run.value << filled;
            filled += bits;
            while filled >= 8 {
                out.push(waiting as u8);
                waiting >>= 8;
                filled -= 8;
            }
        }
    }
    out.push(waiting as u8);
    out.resize(end, 0);
}

/// So many rows that have the same, of which so many bytes count: a repeated run of Parquet's RLE.
fn put_run(out: &mut Vec<u8>, bytes: usize, value: u64, rows: u32) {
    put_number(out, u64::from(rows) << 1);
    out.extend_from_slice(&value.to_le_bytes()[..bytes]);
}

/// Words one after the other, each with its length before it.
fn in_full(words: &[Name]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend_from_slice(&(word.len() as u32).to_le_bytes());
        bytes.extend_from_slice(word.as_bytes());
    }
    bytes
}
