//! What one run of a tool printed, integrated into cumulative counters.
//!
//! Tools print rates and averages; the judgement works on counters of instants. So each interval's row becomes a reading
//! in which every counter has grown by its rate times the interval, and a rate taken from two readings is the rate that
//! was printed.

use crate::clock::Moment;
use crate::series::{AnySeries, Series};
use std::collections::BTreeMap;
use whyslow_model::catalogue::Family;
use whyslow_model::value::Name;

/// Nanoseconds in a second.
pub const SECOND: f64 = 1e9;

/// The time over which something grew, in seconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
}

impl Step {
    /// Its length in seconds.
    pub fn seconds(self) -> f64 {
        self.to - self.from
    }
}

/// Something the reader should know about how a capture was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What is not certain, or was left out.
    pub what: String,
    /// Why.
    pub why: String,
    /// What would make it certain.
    pub remedy: String,
}

/// A family's name, and the key of one of its entities.
pub type EntityKey = (&'static str, String);

/// One run of a tool.
pub struct Run {
    /// The format it was read as.
    pub tool: &'static str,
    /// The file it stands in.
    pub file: Name,
    /// When it began.
    pub start: Moment,
    /// What the reader should know.
    pub notes: Vec<Note>,
    pub(crate) series: BTreeMap<EntityKey, Box<dyn AnySeries>>,
    totals: BTreeMap<EntityKey, BTreeMap<&'static str, f64>>,
}

impl Run {
    /// A run of which nothing is known yet.
    pub fn new(tool: &'static str, file: &Name) -> Self {
        Self {
            tool,
            file: file.clone(),
            start: Moment::default(),
            notes: Vec::new(),
            series: BTreeMap::new(),
            totals: BTreeMap::new(),
        }
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.notes.is_empty()
    }

    /// Whether it tells of one instant only: a state, no rate.
    pub fn is_of_one_instant(&self) -> bool {
        self.series.values().all(|series| series.is_single())
    }

    /// Notes what the reader should know.
    pub fn note(&mut self, what: &str, why: impl Into<String>, remedy: &str) {
        let note = Note { what: what.into(), why: why.into(), remedy: remedy.into() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The row of an entity, so many seconds after the start, to be filled in; it stands on this line.
    pub fn row<F: Family>(&mut self, at: f64, line: u32, key: F::Key) -> &mut F {
        let entity = (F::INFO.name, key.to_string());
        let series = self.series.entry(entity).or_insert_with(|| Box::new(Series::<F>::new()));
        let series: &mut dyn std::any::Any = &mut **series;
        let series = series.downcast_mut::<Series<F>>().expect("a family has one type of row");
        series.row(nanoseconds(at), &self.file, line, || {
            let mut row = F::default();
            row.set_key(key);
            row
        })
    }

    /// Puts down the row of an entity as it was read whole; what is known of the entity besides stays.
    pub fn put<F: Family>(&mut self, at: f64, line: u32, row: F) {
        let slot = self.row::<F>(at, line, row.key().clone());
        let known = std::mem::replace(slot, row);
        slot.fill(&known);
    }

    /// Lets an entity's counters grow over a step, each by its rate per second; those that are not known stay absent.
    /// The row at the end of the step is given back for its levels and states.
    pub fn grow<F: Family>(
        &mut self,
        step: Step,
        line: u32,
        key: F::Key,
        rates: &[(&'static str, Option<f64>)],
    ) -> &mut F {
        let entity = (F::INFO.name, key.to_string());
        let totals = self.totals.entry(entity).or_default();
        let mut before = Vec::new();
        let mut after = Vec::new();
        for (name, rate) in rates {
            if let Some(rate) = rate {
                let total = totals.entry(name).or_insert(0.0);
                before.push((*name, *total));
                *total += rate * step.seconds();
                after.push((*name, *total));
            }
        }
        set(self.row::<F>(step.from, 0, key.clone()), &before);
        let row = self.row::<F>(step.to, line, key);
        set(row, &after);
        row
    }
}

fn set<F: Family>(row: &mut F, counters: &[(&str, f64)]) {
    for (name, total) in counters {
        let known = row.set(name, total.round() as u64);
        debug_assert!(known, "{} has no counter {name}", F::INFO.name);
    }
}

/// Seconds as whole nanoseconds; what no clock shows is brought into range.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::Disk;
    use whyslow_model::origin::Origins;
    use whyslow_model::snapshot::Snapshot;
    use whyslow_model::window::Window;

    #[test]
    fn rates_come_back_as_they_were_printed() {
        let mut run = Run::new("test", &"x".into());
        for t in 0..50 {
            let step = Step { from: f64::from(t), to: f64::from(t + 1) };
            run.grow::<Disk>(step, 3 + t, "sda".into(), &[("reads", Some(0.3)), ("writes", None)]);
        }
        let mut snapshots = BTreeMap::new();
        let mut origins = Origins::default();
        run.series.into_values().for_each(|s| s.place(&mut snapshots, &mut origins));
        let window = Window::new(snapshots.into_iter().map(|(at, s)| Snapshot { boot_ns: at + 1, ..s }).collect());
        let change = window.change::<Disk>().unwrap();
        assert_eq!(change.grown(|d| d.reads), Some(15.0));
        assert_eq!(change.grown(|d| d.writes), None);
        assert_eq!(origins.of("disk", "sda").first().unwrap().to_string(), "x:3-52");
    }
}
