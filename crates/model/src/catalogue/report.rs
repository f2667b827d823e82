//! The outcome of reading a source, as a value and as a row.

use super::{Family, FamilyInfo, Metric, MetricKind, NameKind, Snapshot, Unit};
use crate::key::Key;
use crate::value::{Gauge, Name, State, Value};
use serde::{Deserialize, Serialize};

/// The outcome of reading one source in one Snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// The source's name, such as `proc/stat`.
    pub source: Name,
    /// Data that it shows, in words, for lists of blind spots.
    pub tells: Name,
    /// The outcome of the read.
    pub outcome: ReadOutcome,
    /// True if it is read only when a finding requests it.
    #[serde(default)]
    pub asked: bool,
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
}

/// Result of reading a source. Absent, not permitted and failed are three different outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadOutcome {
    /// Read in full.
    #[default]
    Read,
    /// This kernel or machine does not have it.
    Absent(String),
    /// It exists, but we may not read it, or not all of it.
    NotPermitted {
        /// The operation that was refused.
        why: String,
        /// The permission or setting that would allow it.
        remedy: String,
    },
    /// It exists, but reading it failed or the content was unexpected.
    Failed(String),
    /// The read did not return in time.
    Hung(String),
    /// Read incompletely, or with uncertainty.
    Partly {
        /// The incomplete or uncertain part.
        why: String,
        /// The setting or tool that would complete it.
        remedy: String,
    },
}

impl ReadOutcome {
    /// The words used in recordings.
    const READ: &'static str = "read";
    const ABSENT: &'static str = "absent";
    const NOT_PERMITTED: &'static str = "not permitted";
    const FAILED: &'static str = "failed";
    const HUNG: &'static str = "hung";
    const PARTLY: &'static str = "partly";

    /// Returns the outcome's word, the reason, and the remedy.
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

    /// Returns the outcome with this word, without reason and remedy.
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

    /// Sets the reason. Returns false if the outcome has none.
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

const fn number(name: &'static str, unit: Unit, help: &'static str) -> Metric {
    metric(name, MetricKind::Gauge, unit, None, help)
}

const fn words(name: &'static str, names: NameKind, help: &'static str) -> Metric {
    metric(name, MetricKind::State, Unit::Text, Some(names), help)
}

const fn metric(
    name: &'static str,
    kind: MetricKind,
    unit: Unit,
    names: Option<NameKind>,
    help: &'static str,
) -> Metric {
    let (otel, otel_attribute) = ("whyslow.source", "");
    Metric {
        name,
        kind,
        unit,
        names,
        otel,
        otel_attribute,
        help,
        wraps_at: None,
        identifies: false,
        only_captures: false,
    }
}

/// The reports of sources are recorded like a family, as a table of their own.
impl Family for SourceReport {
    type Key = Name;

    const INFO: FamilyInfo = FamilyInfo {
        name: "source",
        former_names: &[],
        key: "source",
        key_columns: Name::COLUMNS,
        key_names: &[NameKind::Text],
        source: "whyslow",
        help: "How each source fared.",
        events: false,
        counted_since: None,
        parts: false,
        only_captures: false,
        metrics: &[
            words("tells", NameKind::Text, "what it shows"),
            words("outcome", NameKind::Word, "read, absent, not permitted, failed or hung"),
            words("why", NameKind::Text, "what was missed and why"),
            words("remedy", NameKind::Text, "what would help"),
            number("asked", Unit::Count, "1 if it is read on demand"),
            number("cpu_time", Unit::Nanoseconds, "CPU time it took"),
            number("wall_time", Unit::Nanoseconds, "wall time it took"),
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

    /// Does nothing: no field of a report is ever absent.
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

    /// Sets a field. Reason and remedy are set after the outcome, whose column precedes theirs.
    fn put(&mut self, column: usize, value: Value) -> bool {
        match (column, value) {
            (0, Value::State(words)) => self.tells = words.get().unwrap_or_default().into(),
            (1, Value::State(words)) => match words.get().and_then(ReadOutcome::named) {
                Some(outcome) => self.outcome = outcome,
                None => return false,
            },
            (2, Value::State(words)) => return words.get().is_some_and(|why| self.outcome.because(why)),
            (3, Value::State(words)) => match (&mut self.outcome, words.get()) {
                (ReadOutcome::NotPermitted { remedy, .. } | ReadOutcome::Partly { remedy, .. }, Some(words)) => {
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
            ReadOutcome::Read,
            ReadOutcome::Absent("no such file".into()),
            ReadOutcome::NotPermitted { why: "refused".into(), remedy: "run as root".into() },
            ReadOutcome::Failed("bad".into()),
            ReadOutcome::Hung(String::new()),
            ReadOutcome::Partly { why: "two readings at most".into(), remedy: "capture more".into() },
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
