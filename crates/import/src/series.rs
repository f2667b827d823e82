//! The rows of one entity as one tool tells them, over time.

use std::any::Any;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Family, Kind};
use whyslow_model::origin::{Origins, Place};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Name, Value};

/// The most places of an entity in one file.
const MOST_PLACES: usize = 16;

/// Rows by their time in nanoseconds.
pub struct Series<F> {
    rows: BTreeMap<u64, F>,
    places: Vec<Place>,
}

/// A [`Series`] of any family.
pub trait AnySeries: Any {
    /// The time of the first row.
    fn first(&self) -> Option<u64>;
    /// The time of the last row.
    fn last(&self) -> Option<u64>;
    /// How many rows there are.
    fn length(&self) -> usize;
    /// Of the rows within each so many nanoseconds keeps the last one, and the first of all: counters lose nothing by it.
    fn thin(&mut self, grid: u64);
    /// Whether anything in it is counted, so that it matters when it was read.
    fn has_counters(&self) -> bool;
    /// Whether both tell something of the same: each at its own time, then.
    fn repeats(&self, other: &dyn AnySeries) -> bool;
    /// Moves every row by so many nanoseconds.
    fn shift(&mut self, by: u64);
    /// Takes over the rows of another reading by the same tool, which counts from the same start.
    fn append(&mut self, other: Box<dyn AnySeries>);
    /// Takes over the rows of another tool's series of the same entity.
    fn absorb(&mut self, other: Box<dyn AnySeries>);
    /// Puts the rows into the Snapshots of their times.
    fn place(self: Box<Self>, snapshots: &mut BTreeMap<u64, Snapshot>, origins: &mut Origins);
    /// As what it is.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<F: Family> Series<F> {
    /// A series that begins with these lines of a file.
    pub fn new() -> Self {
        Self { rows: BTreeMap::new(), places: Vec::new() }
    }

    /// The row of this time, which is made where there is none; it stands on this line.
    pub fn row(&mut self, at: u64, file: &Name, line: u32, new: impl FnOnce() -> F) -> &mut F {
        match self.places.last_mut() {
            Some(place) if line != 0 => place.last = place.last.max(line),
            None if line != 0 => self.places.push(Place { file: file.clone(), first: line, last: line }),
            _ => {}
        }
        self.rows.entry(at).or_insert_with(new)
    }
}

impl<F: Family + Any> AnySeries for Series<F> {
    fn first(&self) -> Option<u64> {
        self.rows.keys().next().copied()
    }

    fn last(&self) -> Option<u64> {
        self.rows.keys().next_back().copied()
    }

    fn length(&self) -> usize {
        self.rows.len()
    }

    fn thin(&mut self, grid: u64) {
        let times: Vec<u64> = self.rows.keys().copied().collect();
        let kept = |at: usize| at == 0 || times.get(at + 1).is_none_or(|next| next / grid != times[at] / grid);
        let mut at = 0;
        self.rows.retain(|_, _| {
            at += 1;
            kept(at - 1)
        });
    }

    fn has_counters(&self) -> bool {
        self.rows.values().any(|row| (0..F::INFO.metrics.len()).any(|column| count(row, column).is_some()))
    }

    fn repeats(&self, other: &dyn AnySeries) -> bool {
        let other: &dyn Any = other;
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        let told = |rows: &BTreeMap<u64, F>, column| rows.values().rev().any(|row| is_known(row, column));
        (0..F::INFO.metrics.len()).any(|column| told(&other.rows, column) && told(&self.rows, column))
    }

    fn shift(&mut self, by: u64) {
        self.rows = std::mem::take(&mut self.rows).into_iter().map(|(at, row)| (at.saturating_add(by), row)).collect();
    }

    fn append(&mut self, other: Box<dyn AnySeries>) {
        let Ok(other) = other.into_any().downcast::<Self>() else { return };
        for (at, row) in other.rows {
            match self.rows.get_mut(&at) {
                Some(own) => own.fill(&row),
                None => {
                    self.rows.insert(at, row);
                }
            }
        }
        for place in other.places {
            // Of very many places the last one goes on to the end.
            let full = self.places.len() >= MOST_PLACES;
            match self.places.last_mut().filter(|last| full && last.file == place.file) {
                Some(last) => last.last = last.last.max(place.last),
                None => self.places.push(place),
            }
        }
    }

    /// Both count from a start of their own, so a counter is taken from one of them only: from this series, where it
    /// has it. Between two readings of one tool its counters are filled in at the times of the other, in proportion to
    /// the time, so that each tool's rates stay what they are.
    fn absorb(&mut self, other: Box<dyn AnySeries>) {
        let Ok(other) = other.into_any().downcast::<Self>() else { return };
        let other = *other;
        let counters: Vec<usize> =
            (0..F::INFO.metrics.len()).filter(|c| F::INFO.metrics[*c].kind == Kind::Counter).collect();
        let ours: Vec<usize> =
            counters.iter().copied().filter(|c| self.rows.values().any(|r| count(r, *c).is_some())).collect();
        for (at, mut row) in other.rows {
            for column in &ours {
                // All ones is how a counter says that it was not read.
                row.set(F::INFO.metrics[*column].name, u64::MAX);
            }
            match self.rows.get_mut(&at) {
                Some(own) => own.fill(&row),
                None => {
                    self.rows.insert(at, row);
                }
            }
        }
        self.places.extend(other.places);
        for column in counters {
            interpolate(&mut self.rows, column);
        }
    }

    fn place(self: Box<Self>, snapshots: &mut BTreeMap<u64, Snapshot>, origins: &mut Origins) {
        if let Some(row) = self.rows.values().next() {
            for place in self.places {
                origins.note::<F>(row.key(), place);
            }
        }
        for (at, row) in self.rows {
            F::rows_mut(snapshots.entry(at).or_default()).push(row);
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn count<F: Family>(row: &F, column: usize) -> Option<u64> {
    match row.value(column)? {
        Value::Counter(counter) => counter.get(),
        _ => None,
    }
}

fn is_known<F: Family>(row: &F, column: usize) -> bool {
    match row.value(column) {
        Some(Value::Counter(counter)) => counter.get().is_some(),
        Some(Value::Gauge(gauge)) => gauge.get().is_some(),
        Some(Value::State(state)) => state.get().is_some(),
        Some(Value::Histogram(_)) | None => false,
    }
}

/// Fills a counter in where it is absent between two readings.
fn interpolate<F: Family>(rows: &mut BTreeMap<u64, F>, column: usize) {
    let known: Vec<(u64, u64)> = rows.iter().filter_map(|(at, row)| Some((*at, count(row, column)?))).collect();
    for pair in known.windows(2) {
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        for (at, row) in rows.range_mut(from + 1..to) {
            let part = (at - from) as f64 / (to - from) as f64;
            let value = low as f64 + (high as f64 - low as f64) * part;
            row.set(F::INFO.metrics[column].name, value.round() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::System;
    use whyslow_model::key::Machine;
    use whyslow_model::window::Window;

    fn series(rows: &[(u64, System)]) -> Series<System> {
        let mut series = Series::new();
        for (at, row) in rows {
            *series.row(at * 1_000_000_000, &"x".into(), 1, || row.clone()) = row.clone();
        }
        series
    }

    #[test]
    fn two_tools_keep_their_own_rates() {
        let new = || System::new(Machine);
        let vmstat = [(0, 0, 0), (4, 40, 400)].map(|(t, switches, interrupts)| {
            (t, System { context_switches: switches.into(), interrupts: interrupts.into(), ..new() })
        });
        let other =
            [(1, 7), (3, 107)].map(|(t, forks)| (t, System { forks: forks.into(), interrupts: 9.into(), ..new() }));
        let mut all = series(&vmstat);
        all.absorb(Box::new(series(&other)));
        let mut snapshots = BTreeMap::new();
        Box::new(all).place(&mut snapshots, &mut Origins::default());
        let window = Window::new(snapshots.into_iter().map(|(at, s)| Snapshot { boot_ns: at + 1, ..s }).collect());
        let change = window.change::<System>().unwrap();
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 0.01, "{a:?} {b}");
        close(change.rate(|s| s.context_switches), 10.0);
        close(change.rate(|s| s.interrupts), 100.0);
        close(change.rate(|s| s.forks), 50.0);
    }
}
