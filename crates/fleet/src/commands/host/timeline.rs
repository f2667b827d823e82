//! Events on a host in chronological order.

use super::minute;
use crate::Span;
use crate::cell::{double, text, timestamp};
use crate::fleet::QueryRows;
use crate::span::rfc3339;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use whyslow_model::human;
use whyslow_rollup::Cell;
use whyslow_show::Ink;

/// Maximum gap between the pieces of an episode that was cut at an hour boundary (as in `whyslow explain`).
const SAME_MS: i64 = 15_000;
const MINUTE_MS: i64 = 60_000;
/// A recorder that restarts misses a minute; a longer pause is a gap.
const LONGEST_PAUSE_MS: i64 = 2 * MINUTE_MS;
/// Maximum delay of shipped data, which hosts send every ten minutes.
const LATEST_MS: i64 = 30 * MINUTE_MS;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Entry {
    /// When it began.
    pub at: String,
    #[serde(skip)]
    at_ms: i64,
    /// When it ended; a change has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    #[serde(skip)]
    until_ms: Option<i64>,
    /// What it was.
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum EntryKind {
    /// The host lost time to a cause.
    Episode {
        /// The finding's id.
        finding: String,
        /// What it was found on.
        subject: String,
        /// The kind of thing that is.
        subject_kind: String,
        /// What caused it, if that is known.
        culprit: Option<String>,
        /// How certain it is: low, medium or high.
        confidence: String,
        /// Seconds lost to it.
        lost_s: f64,
        /// The greatest share of a window that it cost.
        worst: f64,
    },
    /// A property changed.
    Change {
        /// Of what kind it is.
        kind: String,
        /// Its name.
        name: String,
        /// The value before.
        old: Option<String>,
        /// The value since.
        new: Option<String>,
    },
    /// Nothing was shipped.
    Gap {
        /// Whether it goes on.
        goes_on: bool,
    },
}

impl Entry {
    fn new(at_ms: i64, until_ms: Option<i64>, kind: EntryKind) -> Self {
        Self { at: rfc3339(at_ms), at_ms, until: until_ms.map(rfc3339), until_ms, kind }
    }

    /// Returns the start time, in milliseconds since 1970.
    pub fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// Returns the end time, in milliseconds since 1970; for a change, the time of the change.
    pub fn until_ms(&self) -> i64 {
        self.until_ms.unwrap_or(self.at_ms)
    }

    pub(super) fn ink(&self) -> Ink {
        match self.kind {
            EntryKind::Episode { .. } => Ink::Red,
            EntryKind::Change { .. } => Ink::Plain,
            EntryKind::Gap { .. } => Ink::Yellow,
        }
    }

    pub(super) fn in_words(&self) -> String {
        let long = human::quantity((self.until_ms() - self.at_ms) as f64 / 1e3, "s");
        match &self.kind {
            EntryKind::Episode { finding, subject, culprit, lost_s, worst, .. } => {
                let by = culprit.as_ref().map_or_else(String::new, |culprit| format!(", by {culprit}"));
                let on = if subject.is_empty() { String::new() } else { format!(" on {subject}") };
                let lost = human::quantity(*lost_s, "s");
                format!("{finding}{on}{by}: lost {lost} in {long}, at most {} at once", human::percent(*worst))
            }
            EntryKind::Change { kind, name, old, new } => {
                let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(none)".to_owned());
                match (old, new) {
                    (Some(old), Some(new)) if old == new => format!("changed: {kind} {name}: {new}"),
                    _ => format!("changed: {kind} {name}: {} → {}", value(old), value(new)),
                }
            }
            EntryKind::Gap { goes_on: true } => format!("nothing shipped since, for {long}"),
            EntryKind::Gap { goes_on: false } => {
                format!("nothing shipped for {long}, until {}", minute(self.until_ms()))
            }
        }
    }

    /// Returns the weight that decides which entries to keep if there are too many.
    fn weight(&self) -> f64 {
        match &self.kind {
            EntryKind::Episode { lost_s, .. } => *lost_s,
            EntryKind::Change { .. } | EntryKind::Gap { .. } => f64::INFINITY,
        }
    }
}

/// Reads the episodes from the rows of [`sql::episodes`](crate::sql::episodes); joins those that were cut at an hour
/// boundary.
pub(super) fn episodes(rows: &QueryRows) -> Vec<Entry> {
    let words = |cell: &Cell| text(cell).map(str::to_owned);
    let mut open: BTreeMap<(String, Option<String>, Option<String>), Entry> = BTreeMap::new();
    let mut done = Vec::new();
    for row in &rows.rows {
        let (Some(at), Some(until), Some(id)) = (timestamp(&row[1]), timestamp(&row[2]), words(&row[3])) else {
            continue;
        };
        let (seconds, share) = (double(&row[8]).unwrap_or(0.0), double(&row[9]).unwrap_or(0.0));
        let (subject, by) = (words(&row[5]), words(&row[6]));
        let key = (id.clone(), subject.clone(), by.clone());
        if let Some(entry) = open.get_mut(&key)
            && at - entry.until_ms() <= SAME_MS
            && let EntryKind::Episode { lost_s, worst, .. } = &mut entry.kind
        {
            (*lost_s, *worst) = (*lost_s + seconds, worst.max(share));
            entry.until_ms = entry.until_ms.max(Some(until));
            entry.until = entry.until_ms.map(rfc3339);
            continue;
        }
        let kind = EntryKind::Episode {
            finding: id,
            subject: subject.unwrap_or_default(),
            subject_kind: words(&row[4]).unwrap_or_default(),
            culprit: by,
            confidence: words(&row[7]).unwrap_or_default(),
            lost_s: seconds,
            worst: share,
        };
        done.extend(open.insert(key, Entry::new(at, Some(until), kind)));
    }
    done.extend(open.into_values());
    done
}

/// Reads the changes from the rows of [`sql::changes`](crate::sql::changes).
pub(super) fn changes(rows: &QueryRows) -> Vec<Entry> {
    let words = |cell: &Cell| text(cell).map(str::to_owned);
    let change = |row: &Vec<Cell>| {
        let kind = EntryKind::Change {
            kind: words(&row[1])?,
            name: words(&row[2]).unwrap_or_default(),
            old: words(&row[3]),
            new: words(&row[4]),
        };
        Some(Entry::new(timestamp(&row[0])?, None, kind))
    };
    rows.rows.iter().filter_map(change).collect()
}

/// Returns the times without minutes. Skips the time before the first minute, when the host may not have recorded at
/// all.
pub(super) fn gaps(minutes: &[i64], span: Span) -> Vec<Entry> {
    let mut gaps = Vec::new();
    for pair in minutes.windows(2) {
        let from = pair[0] + MINUTE_MS;
        if pair[1] - from >= LONGEST_PAUSE_MS {
            gaps.push(Entry::new(from, Some(pair[1]), EntryKind::Gap { goes_on: false }));
        }
    }
    if let Some(last) = minutes.last().map(|last| last + MINUTE_MS)
        && span.to_ms - last > LATEST_MS
    {
        gaps.push(Entry::new(last, Some(span.to_ms), EntryKind::Gap { goes_on: true }));
    }
    gaps
}

/// Keeps the most important entries in chronological order, and returns how many are left out: the episodes that cost
/// the least.
pub(super) fn most_important(mut entries: Vec<Entry>, most: usize) -> (Vec<Entry>, usize) {
    entries.sort_by(|a, b| b.weight().total_cmp(&a.weight()).then(b.at_ms.cmp(&a.at_ms)));
    let more = entries.len().saturating_sub(most);
    entries.truncate(most);
    entries.sort_by_key(|entry| entry.at_ms);
    (entries, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_s: i64, until_s: i64, finding: &str, culprit: Option<&str>, lost: f64) -> Vec<Cell> {
        let times = [Cell::text("web"), Cell::Timestamp(at_s * 1000), Cell::Timestamp(until_s * 1000)];
        let words =
            [Cell::text(finding), Cell::text("disk"), Cell::text("sda"), Cell::words(culprit), Cell::text("high")];
        let numbers = [Cell::Double(lost), Cell::Double(lost / 100.0), Cell::Boolean(false), Cell::Boolean(false)];
        times.into_iter().chain(words).chain(numbers).collect()
    }

    #[test]
    fn an_episode_that_is_cut_at_the_hour_is_one() {
        let rows = QueryRows {
            rows: vec![
                row(3500, 3600, "disk.slow", Some("backup"), 40.0),
                row(3610, 3700, "disk.slow", Some("backup"), 50.0),
                row(3720, 3730, "disk.slow", Some("backup"), 1.0),
                row(3600, 3700, "disk.slow", None, 8.0),
            ],
            ..QueryRows::default()
        };
        let (entries, more) = most_important(episodes(&rows), 2);
        assert_eq!(more, 1, "the least");
        let words: Vec<String> = entries.iter().map(Entry::in_words).collect();
        assert_eq!(
            words,
            [
                "disk.slow on sda, by backup: lost 90 s in 3.33 min, at most 50 % at once",
                "disk.slow on sda: lost 8 s in 100 s, at most 8 % at once",
            ]
        );
    }

    #[test]
    fn a_gap_is_more_than_a_restart() {
        let span = Span { from_ms: 0, to_ms: 60 * MINUTE_MS };
        let minutes: Vec<i64> = [0, 1, 3, 4, 9, 10].map(|minute| minute * MINUTE_MS).to_vec();
        let gaps = gaps(&minutes, span);
        let times: Vec<(i64, Option<i64>)> =
            gaps.iter().map(|gap| (gap.at_ms / MINUTE_MS, gap.until_ms.map(|ms| ms / MINUTE_MS))).collect();
        assert_eq!(times, [(5, Some(9)), (11, Some(60))]);
    }
}
