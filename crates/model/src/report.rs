//! How a source fared, in words and as a row.

use crate::catalogue::{Family, FamilyInfo, Kind, Metric, Unit};
use crate::key::Key;
use crate::snapshot::Snapshot;
use crate::value::{Gauge, Name, State, Value};
use serde::{Deserialize, Serialize};

/// How one source fared in one Snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// The source's name, such as `proc/stat`.
    pub source: Name,
    /// What it tells, in words, for blind spots.
    pub tells: Name,
    /// How it fared.
    pub outcome: Outcome,
    /// Whether it is one that looks closer and is read only where a finding asks for it.
    #[serde(default)]
    pub asked: bool,
    /// Processor time it took, nanoseconds.
    pub cpu_ns: u64,
    /// Wall time it took, nanoseconds.
    pub wall_ns: u64,
}

/// How a source fared. Absent, not permitted and failed are three different things.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Read in full.
    #[default]
    Read,
    /// This kernel or machine does not have it.
    Absent(String),
    /// It is there, but we may not read it, or not all of it.
    NotPermitted {
        /// What was refused.
        why: String,
        /// What would allow it.
        remedy: String,
    },
    /// It is there, and reading it failed or it made no sense.
    Failed(String),
    /// It did not answer in time.
    Hung(String),
    /// Read, but not all of it, or not with certainty.
    Partly {
        /// What is not certain.
        why: String,
        /// What would make it certain.
        remedy: String,
    },
}

impl Outcome {
    /// The words a recording has for it.
    const READ: &'static str = "read";
    const ABSENT: &'static str = "absent";
    const NOT_PERMITTED: &'static str = "not permitted";
    const FAILED: &'static str = "failed";
    const HUNG: &'static str = "hung";
    const PARTLY: &'static str = "partly";

    /// Its name, and what it says: why, and what would help.
    fn words(&self) -> (&'static str, Option<&str>, Option<&str>) {
        match self {
            Self::Read => (Self::READ, None, None),
            Self::Absent(why) => (Self::ABSENT, Some(why), None),
            Self::NotPermitted { why, remedy } => (Self::NOT_PERMITTED, Some(why), Some(remedy)),
            Self::Failed(why) => (Self::FAILED, Some(why), None),
            Self::Hung(why) => (Self::HUNG, Some(why), None),
            Self::Partly { why, remedy } => (Self::PARTLY, Some(why), Some(remedy)),
        }
    }

    /// The outcome of this name, of which nothing else is known yet.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            Self::READ => Self::Read,
            Self::ABSENT => Self::Absent(String::new()),
            Self::NOT_PERMITTED => Self::NotPermitted { why: String::new(), remedy: String::new() },
            Self::FAILED => Self::Failed(String::new()),
            Self::HUNG => Self::Hung(String::new()),
            Self::PARTLY => Self::Partly { why: String::new(), remedy: String::new() },
            _ => return None,
        })
    }

    /// Says why. False where there is nothing to say: it was read.
    fn because(&mut self, text: &str) -> bool {
        match self {
            Self::Read => return false,
            Self::Absent(why)
            | Self::NotPermitted { why, .. }
            | Self::Failed(why)
            | Self::Hung(why)
            | Self::Partly { why, .. } => {
                text.clone_into(why);
            }
        }
        true
    }
}

const fn metric(name: &'static str, kind: Kind, unit: Unit, help: &'static str) -> Metric {
    Metric { name, kind, unit, otel: "whyslow.source", help, wraps_at: None, identifies: false }
}

/// The reports of the sources are recorded beside the families, as a table of its own.
impl Family for SourceReport {
    type Key = Name;

    const INFO: FamilyInfo = FamilyInfo {
        name: "source",
        former_names: &[],
        key: "source",
        key_columns: Name::COLUMNS,
        source: "whyslow",
        help: "How each source fared.",
        metrics: &[
            metric("tells", Kind::State, Unit::Text, "what it tells"),
            metric("outcome", Kind::State, Unit::Text, "read, absent, not permitted, failed or hung"),
            metric("why", Kind::State, Unit::Text, "what was missed and why"),
            metric("remedy", Kind::State, Unit::Text, "what would help"),
            metric("asked", Kind::Gauge, Unit::Count, "1 for one that looks closer"),
            metric("cpu_time", Kind::Gauge, Unit::Nanoseconds, "processor time it took"),
            metric("wall_time", Kind::Gauge, Unit::Nanoseconds, "wall time it took"),
        ],
    };

    fn keyed(source: Name) -> Self {
        Self { source, ..Self::default() }
    }

    fn key(&self) -> &Name {
        &self.source
    }

    fn set_key(&mut self, source: Name) {
        self.source = source;
    }

    /// Nothing of a report is ever absent.
    fn fill(&mut self, _: &Self) {}

    fn rows(snapshot: &Snapshot) -> &[Self] {
        &snapshot.sources
    }

    fn rows_mut(snapshot: &mut Snapshot) -> &mut Vec<Self> {
        &mut snapshot.sources
    }

    fn value(&self, column: usize) -> Option<Value> {
        let (outcome, why, remedy) = self.outcome.words();
        let words = |text: Option<&str>| Value::State(text.map_or_else(State::default, State::from));
        Some(match column {
            0 => Value::State(self.tells.clone().into()),
            1 => words(Some(outcome)),
            2 => words(why),
            3 => words(remedy),
            4 => Value::Gauge(u64::from(self.asked).into()),
            5 => Value::Gauge(self.cpu_ns.into()),
            6 => Value::Gauge(self.wall_ns.into()),
            _ => return None,
        })
    }

    /// Why and what would help are kept only once the outcome is known, which comes before them.
    fn put(&mut self, column: usize, value: Value) -> bool {
        match (column, value) {
            (0, Value::State(words)) => self.tells = words.get().unwrap_or_default().into(),
            (1, Value::State(words)) => match words.get().and_then(Outcome::named) {
                Some(outcome) => self.outcome = outcome,
                None => return false,
            },
            (2, Value::State(words)) => return words.get().is_some_and(|why| self.outcome.because(why)),
            (3, Value::State(words)) => match (&mut self.outcome, words.get()) {
                (Outcome::NotPermitted { remedy, .. } | Outcome::Partly { remedy, .. }, Some(words)) => {
                    words.clone_into(remedy)
                }
                _ => return false,
            },
            (4, Value::Gauge(asked)) => self.asked = asked.get() == Some(1.0),
            (5, Value::Gauge(time)) => self.cpu_ns = nanoseconds(time),
            (6, Value::Gauge(time)) => self.wall_ns = nanoseconds(time),
            _ => return false,
        }
        true
    }

    fn set(&mut self, name: &str, value: u64) -> bool {
        let column = Self::INFO.metrics.iter().position(|metric| metric.name == name);
        column.is_some_and(|column| self.put(column, Value::Gauge(value.into())))
    }
}

fn nanoseconds(time: Gauge) -> u64 {
    time.get().unwrap_or(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_row_and_comes_back() {
        let outcomes = [
            Outcome::Read,
            Outcome::Absent("no such file".into()),
            Outcome::NotPermitted { why: "refused".into(), remedy: "run as root".into() },
            Outcome::Failed("bad".into()),
            Outcome::Hung(String::new()),
            Outcome::Partly { why: "two readings at most".into(), remedy: "capture more".into() },
        ];
        for outcome in outcomes {
            let report = SourceReport {
                source: "proc/stat".into(),
                tells: "time".into(),
                outcome,
                asked: true,
                cpu_ns: 1,
                wall_ns: 2,
            };
            let mut again = SourceReport::keyed(report.key().clone());
            for column in 0..SourceReport::INFO.metrics.len() {
                again.put(column, report.value(column).unwrap());
            }
            assert_eq!(again, report);
        }
        assert_eq!(SourceReport::default().value(SourceReport::INFO.metrics.len()), None);
    }
}
