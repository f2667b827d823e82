//! Encodes Snapshots into frames.

use super::value::{TextTable, put};
use super::{CHANGE, DROP, INSERT, KEEP, bitmap_length};
use crate::bytes::{put_number, put_step, put_text};
use crate::schema::absent;
use std::cmp::Ordering;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::key::{Key, KeyPart};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// Encodes each Snapshot relative to the previous one; the first in full.
#[derive(Debug, Default)]
pub(crate) struct FrameEncoder {
    /// Each table's last rows, and the time of the previous sample.
    last: Snapshot,
    texts: TextTable,
}

impl FrameEncoder {
    pub(crate) fn encode(&mut self, mut snapshot: Snapshot) -> Vec<u8> {
        let mut frame = Vec::new();
        put_step(&mut frame, self.last.wall_ns as u64, snapshot.wall_ns as u64);
        put_step(&mut frame, self.last.boot_ns, snapshot.boot_ns);
        (self.last.wall_ns, self.last.boot_ns) = (snapshot.wall_ns, snapshot.boot_ns);
        snapshot.sources.sort_by(|a, b| a.source.cmp(&b.source));

        let mut tables = TablesEncoder { last: &mut self.last, texts: &mut self.texts, body: Vec::new(), table: 0 };
        snapshot.each_family(&mut tables);
        let body = tables.body;

        put_number(&mut frame, self.texts.new.len() as u64);
        for text in self.texts.new.drain(..) {
            put_text(&mut frame, &text);
        }
        frame.extend_from_slice(&body);
        frame.push(0);
        frame
    }
}

impl FrameEncoder {
    /// Returns everything that the next frame is relative to, as a frame that is relative to nothing: the newest rows
    /// of all tables, and all texts.
    pub(crate) fn state(&self) -> Vec<u8> {
        Self { last: Snapshot::default(), texts: self.texts.renewed() }.encode(self.last.clone())
    }
}

struct TablesEncoder<'e> {
    last: &'e mut Snapshot,
    texts: &'e mut TextTable,
    body: Vec<u8>,
    table: u64,
}

impl EachFamily for TablesEncoder<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        self.table += 1;
        if rows.is_empty() {
            return;
        }
        put_number(&mut self.body, self.table);
        let before = std::mem::take(F::rows_mut(self.last));
        self.edits(&before, rows);
        *F::rows_mut(self.last) = std::mem::take(rows);
    }
}

impl TablesEncoder<'_> {
    /// Encodes the differences between two lists of rows, both sorted by key.
    fn edits<F: Family>(&mut self, before: &[F], now: &[F]) {
        let mut old = before.iter().peekable();
        let mut kept = 0;
        for row in now {
            // Most rows are unchanged, and many are shared: comparing them is cheaper than comparing keys.
            if old.next_if(|&o| o == row).is_some() {
                kept += 1;
                continue;
            }
            let gone = skip_below(&mut old, row.key());
            if gone > 0 {
                self.kept(&mut kept);
                self.edit(DROP, gone);
            }
            match old.next_if(|o| o.key() == row.key()) {
                Some(same) if same == row => kept += 1,
                Some(changed) => {
                    self.edit(CHANGE, std::mem::take(&mut kept));
                    self.change(Some(changed), row);
                }
                None => {
                    self.edit(INSERT, std::mem::take(&mut kept));
                    self.key(row.key());
                    self.change(None, row);
                }
            }
        }
        self.kept(&mut kept);
        let gone = old.count();
        if gone > 0 {
            self.edit(DROP, gone);
        }
        self.edit(KEEP, 0);
    }

    fn kept(&mut self, kept: &mut usize) {
        if *kept > 0 {
            self.edit(KEEP, std::mem::take(kept));
        }
    }

    fn edit(&mut self, kind: u64, count: usize) {
        put_number(&mut self.body, kind | (count as u64) << 2);
    }

    fn key<K: Key>(&mut self, key: &K) {
        let mut parts = Vec::new();
        key.take_apart(&mut parts);
        for part in parts {
            let number = match part {
                KeyPart::Number(number) => number,
                KeyPart::Text(text) => self.texts.index(&text),
            };
            put_number(&mut self.body, number);
        }
    }

    /// Encodes the metrics that differ from the previous row, or that are not absent in a new one.
    fn change<F: Family>(&mut self, before: Option<&F>, now: &F) {
        let bitmap = self.body.len();
        self.body.resize(bitmap + bitmap_length(F::INFO.metrics.len()), 0);
        for (column, metric) in F::INFO.metrics.iter().enumerate() {
            let Some(now) = now.value(column) else { continue };
            let before: Value = before.and_then(|row| row.value(column)).unwrap_or_else(|| absent(metric.kind));
            if now != before {
                self.body[bitmap + column / 8] |= 1 << (column % 8);
                put(&mut self.body, self.texts, &before, &now);
            }
        }
    }
}

/// Skips the rows that sort before `key`, and returns their number.
fn skip_below<'a, F: Family>(rows: &mut std::iter::Peekable<std::slice::Iter<'a, F>>, key: &F::Key) -> usize {
    let mut count = 0;
    while rows.next_if(|row| row.key().cmp(key) == Ordering::Less).is_some() {
        count += 1;
    }
    count
}
