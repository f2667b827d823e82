//! Decodes frames into rows.

use super::value::{skip, take, text};
use super::{CHANGE, DROP, INSERT, KEEP, Result, bitmap_length, kind_and_count};
use crate::bytes::{Cursor, Damaged};
use crate::schema::{Table, absent};
use whyslow_model::key::{KeyPart, KeyPartKind};
use whyslow_model::value::{Name, Value};

/// All texts so far, by index.
#[derive(Debug, Default)]
pub(crate) struct Texts(Vec<Name>);

#[derive(Debug)]
pub(crate) struct DecodedFrame<'a> {
    /// Nanoseconds since 1970.
    pub(crate) wall_ns: i64,
    /// Nanoseconds since boot.
    pub(crate) boot_ns: u64,
    pub(crate) tables: Vec<TableEdits<'a>>,
}

/// Changes of one table.
#[derive(Debug)]
pub(crate) struct TableEdits<'a> {
    /// Its index in the header.
    pub(crate) table: usize,
    /// Edits in the order of the rows; together they cover every row.
    pub(crate) edits: Vec<Edit<'a>>,
}

#[derive(Debug)]
pub(crate) enum Edit<'a> {
    /// This many rows are unchanged.
    Keep(usize),
    /// This many rows disappeared.
    Drop(usize),
    /// The next row changed.
    Change(EncodedChange<'a>),
    /// A new row, as a change relative to a row in which everything is absent.
    Insert(Vec<KeyPart>, EncodedChange<'a>),
}

/// The values of a row that changed, still encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedChange<'a> {
    bitmap: &'a [u8],
    values: &'a [u8],
}

impl<'a> DecodedFrame<'a> {
    /// Decodes a frame. `before` is the previous frame's time, by the wall clock and since boot; zero for the first.
    ///
    /// # Errors
    /// Returns [`Damaged`] if the frame is invalid; `texts` may have grown even so.
    pub(crate) fn parse(bytes: &'a [u8], before: (i64, u64), tables: &[Table], texts: &mut Texts) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        let wall_ns = cursor.step(before.0 as u64)? as i64;
        let boot_ns = cursor.step(before.1)?;
        for _ in 0..cursor.number()? {
            texts.0.push(cursor.text()?.into());
        }
        let mut all = Vec::new();
        while let Some(table) = cursor.number()?.checked_sub(1) {
            let table = usize::try_from(table).map_err(|_| Damaged)?;
            let edits = edits(&mut cursor, tables.get(table).ok_or(Damaged)?, &texts.0)?;
            all.push(TableEdits { table, edits });
        }
        if cursor.is_at_end() { Ok(Self { wall_ns, boot_ns, tables: all }) } else { Err(Damaged) }
    }
}

fn edits<'a>(cursor: &mut Cursor<'a>, table: &Table, texts: &[Name]) -> Result<Vec<Edit<'a>>> {
    let mut edits = Vec::new();
    loop {
        let (kind, count) = kind_and_count(cursor.number()?);
        if kind == KEEP && count == 0 {
            return Ok(edits);
        }
        if kind == DROP {
            edits.push(Edit::Drop(count));
            continue;
        }
        if count > 0 {
            edits.push(Edit::Keep(count));
        }
        match kind {
            CHANGE => edits.push(Edit::Change(EncodedChange::parse(cursor, table)?)),
            INSERT => edits.push(Edit::Insert(key(cursor, table, texts)?, EncodedChange::parse(cursor, table)?)),
            _ => {}
        }
    }
}

fn key(cursor: &mut Cursor, table: &Table, texts: &[Name]) -> Result<Vec<KeyPart>> {
    let part = |field: &crate::schema::KeyField| {
        let number = cursor.number()?;
        Ok(match field.kind {
            KeyPartKind::Number => KeyPart::Number(number),
            KeyPartKind::Text => KeyPart::Text(text(texts, number)?.clone()),
        })
    };
    table.keys.iter().map(part).collect()
}

impl<'a> EncodedChange<'a> {
    /// Reads the change at the cursor.
    pub(crate) fn parse(cursor: &mut Cursor<'a>, table: &Table) -> Result<Self> {
        let bitmap = cursor.bytes(bitmap_length(table.metrics.len()) as u64)?;
        let values = cursor.rest();
        for column in set_bits(bitmap) {
            skip(cursor, table.metrics.get(column).ok_or(Damaged)?.kind)?;
        }
        let length = values.len() - cursor.rest().len();
        Ok(Self { bitmap, values: &values[..length] })
    }

    /// Appends the change, so that [`parse`](Self::parse) can read it again.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bitmap);
        out.extend_from_slice(self.values);
    }

    pub(crate) fn apply(&self, values: &mut [Value], texts: &Texts) -> Result<()> {
        let mut cursor = Cursor::new(self.values);
        for column in set_bits(self.bitmap) {
            let value = values.get_mut(column).ok_or(Damaged)?;
            *value = take(&mut cursor, &texts.0, value)?;
        }
        Ok(())
    }
}

fn set_bits(bitmap: &[u8]) -> impl Iterator<Item = usize> {
    let bits = |(at, byte): (usize, &u8)| {
        let byte = *byte;
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at * 8 + bit)
    };
    bitmap.iter().enumerate().flat_map(bits)
}

/// Returns the values of a row in which everything is absent.
pub(crate) fn absent_row(table: &Table) -> Vec<Value> {
    table.metrics.iter().map(|field| absent(field.kind)).collect()
}
