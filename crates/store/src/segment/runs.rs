//! The values of a column, each once for as many rows in a row as have it.
//!
//! Most of what a machine has stands still most of the time: a column in runs costs what changes in it, not its rows.

use std::collections::HashMap;

/// So many rows that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run<T> {
    /// What they have.
    pub(super) value: T,
    /// How many there are.
    pub(super) rows: u32,
}

/// The rows of a column, in order. What a value means is the column's matter: here it is eight bytes.
#[derive(Debug, Default)]
pub(super) struct Runs {
    values: Vec<Run<u64>>,
    present: Vec<Run<bool>>,
    /// Those that have a value.
    rows: usize,
}

impl Runs {
    /// Adds rows that all have the same value, or none.
    pub(super) fn push(&mut self, value: Option<u64>, rows: u32) {
        extend(&mut self.present, value.is_some(), rows);
        if let Some(value) = value {
            extend(&mut self.values, value, rows);
            self.rows += rows as usize;
        }
    }

    /// The values, absent ones left out.
    pub(super) fn values(&self) -> &[Run<u64>] {
        &self.values
    }

    /// Which rows have a value.
    pub(super) fn present(&self) -> &[Run<bool>] {
        &self.present
    }

    /// How many rows have a value.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// How many runs are held.
    pub(super) fn length(&self) -> usize {
        self.values.len() + self.present.len()
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.present.clear();
        self.rows = 0;
    }

    /// Each value that occurs, once, and the runs by the places of their values among them. `None` where there are more than
    /// `most` values.
    pub(super) fn places(&self, most: usize) -> Option<(Vec<u64>, Vec<Run<u64>>)> {
        let (mut values, mut known) = (Vec::new(), HashMap::new());
        let place = |run: &Run<u64>| {
            let place = *known.entry(run.value).or_insert_with(|| {
                values.push(run.value);
                values.len() as u64 - 1
            });
            (values.len() <= most).then_some(Run { value: place, rows: run.rows })
        };
        let places = self.values.iter().map(place).collect::<Option<_>>()?;
        Some((values, places))
    }
}

fn extend<T: PartialEq>(runs: &mut Vec<Run<T>>, value: T, rows: u32) {
    match runs.last_mut() {
        Some(last) if last.value == value => last.rows += rows,
        _ => runs.push(Run { value, rows }),
    }
}
