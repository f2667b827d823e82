//! Timeline of the episodes in a recording, `whyslow.explanation/1`. Fields may be added, existing ones do not change.

mod excerpt;

pub use excerpt::{LISTED, WITH_EVIDENCE};

use crate::diagnosis::{Diagnosis, Finding};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.explanation/1";
/// Longest chain of causes that is followed.
const MOST_CAUSES: usize = 8;

/// A timeline, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The folder of the recording.
    pub recording: String,
    /// The folders of the recordings of other machines that were explained with it; the keys of findings then say whose they are, and the
    /// counts are those of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// The first sample examined, RFC 3339.
    pub start: String,
    /// The last sample.
    pub end: String,
    /// Number of samples.
    pub samples: u64,
    /// Number of samples that were due but not taken or not kept.
    pub missed: u64,
    /// The causes that cost time; effects are in their diagnoses.
    pub episodes: Vec<Episode>,
    /// Episodes that are left out, those that cost the least: a page does not list thousands.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// Events of the recording itself: where it began, was suspended, lost samples, and where the clock was set.
    pub events: Vec<TimelineEvent>,
    /// What changed of the machine: packages, kernel, firmware, settings; units that were restarted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeEvent>,
}

impl Explanation {
    /// Creates an empty explanation of the recording in this folder.
    pub fn for_recording(recording: String) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            recording,
            beside: Vec::new(),
            start: String::new(),
            end: String::new(),
            samples: 0,
            missed: 0,
            episodes: Vec::new(),
            left_out: 0,
            events: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Returns the episode that cost the most time, with its cause; the first of equal ones.
    pub fn worst(&self) -> Option<(&Episode, &Finding)> {
        let found = self.episodes.iter().filter_map(|episode| Some((episode, episode.cause()?)));
        found.min_by(|(a, _), (b, _)| b.lost_seconds().total_cmp(&a.lost_seconds()))
    }

    /// Adds the recording of another machine that was explained together with this one.
    #[must_use]
    pub fn beside(mut self, other: Self) -> Self {
        self.beside.push(other.recording);
        self.beside.extend(other.beside);
        // A recording without samples has neither start nor end.
        if self.samples == 0 {
            (self.start, self.end) = (other.start, other.end);
        } else if other.samples > 0 {
            (self.start, self.end) = (self.start.min(other.start), self.end.max(other.end));
        }
        self.samples += other.samples;
        self.missed += other.missed;
        self.left_out += other.left_out;
        self.episodes.extend(other.episodes);
        self.episodes.sort_by(|a, b| a.start.cmp(&b.start));
        self.events.extend(other.events);
        self.events.sort();
        self.changes.extend(other.changes);
        self.changes.sort_by(|a, b| a.at.cmp(&b.at));
        self
    }
}

impl Episode {
    /// Returns the finding that was noticed, from the episode's diagnosis.
    pub fn finding(&self) -> Option<&Finding> {
        self.found(&self.key)
    }

    /// Returns the cause: the noticed finding itself, unless another machine explains it.
    pub fn cause(&self) -> Option<&Finding> {
        self.causes().pop()
    }

    /// Returns the noticed finding and its causes, each the effect of the next one, up to the last one on another
    /// machine.
    pub fn causes(&self) -> Vec<&Finding> {
        let Some(own) = self.finding() else { return Vec::new() };
        let explained = |finding: &&Finding| self.found(finding.explained_by.as_ref()?);
        let mut causes: Vec<&Finding> = std::iter::successors(Some(own), explained).take(MOST_CAUSES).collect();
        let elsewhere = causes.iter().rposition(|cause| cause.subject.capture != own.subject.capture);
        causes.truncate(elsewhere.unwrap_or(0) + 1);
        causes
    }

    fn found(&self, key: &str) -> Option<&Finding> {
        self.diagnosis.findings.iter().find(|finding| finding.key() == key)
    }

    /// Returns the time lost, in seconds.
    pub fn lost_seconds(&self) -> f64 {
        self.mean_impact * self.seconds
    }
}

/// A change of the machine, as the recorder found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeEvent {
    /// When it changed, or was found to have changed, RFC 3339.
    pub at: String,
    /// What kind of thing: `package`, `unit`, `sysctl`, `kernel`.
    pub kind: String,
    /// What it is called.
    pub name: String,
    /// Its value before; absent if it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Its value since; absent if it was removed. `restarted` for a unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// The change in words.
    pub what: String,
}

/// A cause, from its beginning to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Episode {
    /// When it began, RFC 3339.
    pub start: String,
    /// When it ended.
    pub end: String,
    /// Duration, seconds.
    pub seconds: f64,
    /// The share of the time, 0..1, in which work was delayed by it, at its worst.
    pub impact: f64,
    /// The mean of that share over the episode.
    pub mean_impact: f64,
    /// The key of the finding, `id@subject`.
    pub key: String,
    /// Keys of other episodes that overlap with it.
    pub overlaps: Vec<String>,
    /// What changed in the minute before it began, and of the machine's inventory in the hour before, oldest first.
    pub before: Vec<TimelineEvent>,
    /// The diagnosis at its worst; this cause is among its findings.
    pub diagnosis: Diagnosis,
    /// Whether the diagnosis is shortened to what a page shows of the episode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_excerpt: bool,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Something that happened at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct TimelineEvent {
    /// When, RFC 3339.
    pub at: String,
    /// What.
    pub what: String,
}

/// What `whyslow ship` did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Shipped {
    /// The store.
    pub store: String,
    /// The host's name there.
    pub host: String,
    /// Hours that were delivered; one that was still going on counts each time.
    pub hours: usize,
    /// Files that were delivered.
    pub files: usize,
    /// Their size, bytes.
    pub bytes: u64,
    /// Hours that are still to be delivered.
    pub left: usize,
    /// Hours of the recording that expired before they were delivered completely.
    pub lost: Vec<String>,
}

/// What `whyslow record` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recorded {
    /// The folder it recorded into.
    pub folder: String,
    /// Samples that were kept.
    pub samples: u64,
    /// Samples that were due, and were not taken or not kept.
    pub missed: u64,
    /// Samples recorded before that were found damaged on disk beyond repair.
    pub lost: u64,
    /// What was shipped meanwhile, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shipped: Option<Shipped>,
}
