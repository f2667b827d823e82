//! Snapshots into frames.

use super::value::{TextPlaces, put};
use super::{CHANGE, DROP, INSERT, KEEP, bitmap_length};
use crate::bytes::{put_number, put_step, put_text};
use crate::schema::absent;
use std::cmp::Ordering;
use whyslow_model::catalogue::{EachFamily, Family};
use whyslow_model::key::{Key, Part};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// Tells each Snapshot by the one before. A new one begins with the whole.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// The rows that each table had last, and the time of the sample before.
    last: Snapshot,
    texts: TextPlaces,
}

impl Encoder {
    /// The next frame.
    pub(crate) fn encode(&mut self, mut snapshot: Snapshot) -> Vec<u8> {
        let mut frame = Vec::new();
        put_step(&mut frame, self.last.wall_ns as u64, snapshot.wall_ns as u64);
        put_step(&mut frame, self.last.boot_ns, snapshot.boot_ns);
        (self.last.wall_ns, self.last.boot_ns) = (snapshot.wall_ns, snapshot.boot_ns);
        snapshot.sources.sort_by(|a, b| a.source.cmp(&b.source));

        let mut pass = Pass { last: &mut self.last, texts: &mut self.texts, body: Vec::new(), table: 0 };
        snapshot.each_family(&mut pass);
        let body = pass.body;

        put_number(&mut frame, self.texts.new.len() as u64);
        for text in self.texts.new.drain(..) {
            put_text(&mut frame, &text);
        }
        frame.extend_from_slice(&body);
        frame.push(0);
        frame
    }
}

/// The writing of one frame's tables.
struct Pass<'e> {
    last: &'e mut Snapshot,
    texts: &'e mut TextPlaces,
    body: Vec<u8>,
    table: u64,
}

impl EachFamily for Pass<'_> {
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

impl Pass<'_> {
    /// Walks both lists, which are sorted by key, side by side.
    fn edits<F: Family>(&mut self, before: &[F], now: &[F]) {
        let mut old = before.iter().peekable();
        let mut kept = 0;
        for row in now {
            // Most rows are as they were, and many are shared: that is seen without a look at their keys.
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
                Part::Number(number) => number,
                Part::Text(text) => self.texts.place(&text),
            };
            put_number(&mut self.body, number);
        }
    }

    /// The metrics that differ, told by a row that was there before, or by one in which all is absent.
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

/// Goes past the rows that come before `key`, and counts them.
fn skip_below<'a, F: Family>(rows: &mut std::iter::Peekable<std::slice::Iter<'a, F>>, key: &F::Key) -> usize {
    let mut count = 0;
    while rows.next_if(|row| row.key().cmp(key) == Ordering::Less).is_some() {
        count += 1;
    }
    count
}
