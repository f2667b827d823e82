//! Encoding of one value, relative to the previous one.

use super::Result;
use crate::bytes::{Cursor, Damaged, put_number, put_step, unzigzag, zigzag};
use std::collections::HashMap;
use whyslow_model::catalogue::MetricKind;
use whyslow_model::histogram::Histogram;
use whyslow_model::value::{Counter, Gauge, Name, State, Value};

/// Up to here a gauge represents every integer exactly.
const EXACT: f64 = (1_u64 << 53) as f64;

/// The writer's index of texts.
#[derive(Debug, Default)]
pub(super) struct TextTable {
    indexes: HashMap<Name, u64>,
    /// Texts to be written with the next frame.
    pub(super) new: Vec<Name>,
}

impl TextTable {
    pub(super) fn index(&mut self, text: &str) -> u64 {
        if let Some(index) = self.indexes.get(text) {
            return *index;
        }
        let index = self.indexes.len() as u64;
        let text = Name::from(text);
        self.indexes.insert(text.clone(), index);
        self.new.push(text);
        index
    }

    /// Returns the same texts with the same indexes, with all of them still to be written.
    pub(super) fn renewed(&self) -> Self {
        let mut all: Vec<(&Name, u64)> = self.indexes.iter().map(|(text, index)| (text, *index)).collect();
        all.sort_unstable_by_key(|(_, index)| *index);
        Self { indexes: self.indexes.clone(), new: all.into_iter().map(|(text, _)| text.clone()).collect() }
    }
}

/// Appends `now` relative to `before`, which is of the same kind.
pub(super) fn put(out: &mut Vec<u8>, texts: &mut TextTable, before: &Value, now: &Value) {
    match (before, now) {
        (Value::Counter(before), Value::Counter(now)) => put_step(out, bits(*before), bits(*now)),
        (Value::Gauge(before), Value::Gauge(now)) => put_gauge(out, *before, *now),
        (_, Value::State(now)) => put_number(out, now.get().map_or(0, |text| 1 + texts.index(text))),
        (Value::Histogram(before), Value::Histogram(now)) => put_histogram(out, before, now),
        // A metric has one kind.
        _ => {}
    }
}

/// Reads the value that [`put`] encoded relative to `before`.
pub(super) fn take(cursor: &mut Cursor, texts: &[Name], before: &Value) -> Result<Value> {
    Ok(match before {
        Value::Counter(before) => Value::Counter(cursor.step(bits(*before))?.into()),
        Value::Gauge(before) => Value::Gauge(take_gauge(cursor, *before)?),
        Value::State(_) => Value::State(match cursor.number()?.checked_sub(1) {
            Some(index) => text(texts, index)?.clone().into(),
            None => State::default(),
        }),
        Value::Histogram(before) => Value::Histogram(take_histogram(cursor, before)?),
    })
}

/// Skips a value of this kind.
pub(super) fn skip(cursor: &mut Cursor, kind: MetricKind) -> Result<()> {
    match kind {
        MetricKind::Counter | MetricKind::State => cursor.number().map(drop),
        MetricKind::Gauge => take_gauge(cursor, Gauge::ABSENT).map(drop),
        MetricKind::Histogram => {
            let changed = cursor.number()?.saturating_sub(1);
            (0..changed).try_for_each(|_| cursor.number().and_then(|_| cursor.number()).map(drop))
        }
    }
}

pub(super) fn text(texts: &[Name], index: u64) -> Result<&Name> {
    usize::try_from(index).ok().and_then(|index| texts.get(index)).ok_or(Damaged)
}

/// Encodes absent as all ones, one below zero, so that the step to a small value is short.
fn bits(counter: Counter) -> u64 {
    counter.get().unwrap_or(u64::MAX)
}

/// Appends an integer as twice its step from the previous integer, or from zero; any other level as 1 and its eight
/// bytes.
fn put_gauge(out: &mut Vec<u8>, before: Gauge, now: Gauge) {
    match whole(now) {
        Some(to) => put_number(out, zigzag(to - whole(before).unwrap_or(0)) << 1),
        None => {
            out.push(1);
            out.extend_from_slice(&now.get().unwrap_or(f64::NAN).to_le_bytes());
        }
    }
}

fn take_gauge(cursor: &mut Cursor, before: Gauge) -> Result<Gauge> {
    let step = cursor.number()?;
    if step & 1 == 0 {
        let to = whole(before).unwrap_or(0).checked_add(unzigzag(step >> 1)).ok_or(Damaged)?;
        return Ok(Gauge::from(to as f64));
    }
    let level = cursor.bytes(8)?.try_into().map_err(|_| Damaged)?;
    Ok(Gauge::from(f64::from_le_bytes(level)))
}

/// Returns a gauge's level if it is an exact integer. -0.0 is not: it would turn into 0.0.
fn whole(gauge: Gauge) -> Option<i64> {
    let level = gauge.get()?;
    (level.abs() < EXACT && level.trunc() == level && !(level == 0.0 && level.is_sign_negative()))
        .then_some(level as i64)
}

/// Appends zero if the histogram is absent. Otherwise appends the number of changed buckets plus one, and for each its
/// distance from the previous one and the step of its count.
fn put_histogram(out: &mut Vec<u8>, before: &Histogram, now: &Histogram) {
    if now.buckets().is_none() {
        return put_number(out, 0);
    }
    let changes = now.changes(before);
    put_number(out, 1 + changes.len() as u64);
    let mut last = 0;
    for (bucket, before, now) in changes {
        put_number(out, u64::from(bucket - last));
        put_step(out, before, now);
        last = bucket;
    }
}

fn take_histogram(cursor: &mut Cursor, before: &Histogram) -> Result<Histogram> {
    let Some(changed) = cursor.number()?.checked_sub(1) else { return Ok(Histogram::default()) };
    let mut before = before.buckets().unwrap_or_default().iter().copied().peekable();
    let mut counts = Vec::new();
    let mut bucket = 0_u32;
    for _ in 0..changed {
        let gap = u32::try_from(cursor.number()?).map_err(|_| Damaged)?;
        bucket = bucket.checked_add(gap).ok_or(Damaged)?;
        while let Some(same) = before.next_if(|(kept, _)| *kept < bucket) {
            counts.push(same);
        }
        let count = before.next_if(|(kept, _)| *kept == bucket).map_or(0, |(_, count)| count);
        counts.push((bucket, cursor.step(count)?));
    }
    counts.extend(before);
    Ok(Histogram::from_counts(counts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded_and_decoded(before: Value, now: Value) -> Value {
        let (mut out, mut texts) = (Vec::new(), TextTable::default());
        put(&mut out, &mut texts, &before, &now);
        let kind = match now {
            Value::Counter(_) => MetricKind::Counter,
            Value::Gauge(_) => MetricKind::Gauge,
            Value::State(_) => MetricKind::State,
            Value::Histogram(_) => MetricKind::Histogram,
        };
        let mut skipped = Cursor::new(&out);
        skip(&mut skipped, kind).unwrap();
        assert!(skipped.is_at_end());
        take(&mut Cursor::new(&out), &texts.new, &before).unwrap()
    }

    proptest! {
        #[test]
        fn values_survive_encoding(a: u64, b: u64, x: f64, y: f64, text: Option<String>, p: Vec<u32>, q: Vec<u32>) {
            let counter = |v: u64| Value::Counter(v.into());
            prop_assert_eq!(encoded_and_decoded(counter(a), counter(b)), counter(b));
            let gauge = |v: f64| Value::Gauge(v.into());
            prop_assert_eq!(encoded_and_decoded(gauge(x), gauge(y)), gauge(y));
            let whole = |v: u64| Value::Gauge(v.into());
            prop_assert_eq!(encoded_and_decoded(whole(a), whole(b)), whole(b));
            let state = Value::State(text.map_or_else(State::default, State::from));
            prop_assert_eq!(encoded_and_decoded(Value::State(State::default()), state.clone()), state);
            let histogram = |v: &[u32]| Value::Histogram(Histogram::from_values(v.iter().map(|v| u64::from(*v))));
            prop_assert_eq!(encoded_and_decoded(histogram(&p), histogram(&q)), histogram(&q));
        }
    }

    #[test]
    fn absent_reads_back_as_absent_and_zero_as_zero() {
        for (absent, zero) in [
            (Value::Counter(Counter::ABSENT), Value::Counter(0.into())),
            (Value::Gauge(Gauge::ABSENT), Value::Gauge(0_u64.into())),
            (Value::State(State::default()), Value::State("".into())),
            (Value::Histogram(Histogram::default()), Value::Histogram(Histogram::from_values([]))),
        ] {
            assert_eq!(encoded_and_decoded(absent.clone(), zero.clone()), zero);
            assert_eq!(encoded_and_decoded(zero, absent.clone()), absent);
        }
    }
}
