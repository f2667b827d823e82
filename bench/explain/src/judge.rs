//! Compares planted faults with the findings.

use crate::explain::Explained;
use jiff::Timestamp;
use serde::Serialize;
use std::fmt;
use whyslow_documents::diagnosis::Confidence;
use whyslow_documents::explanation::Episode;
use whyslow_pairs::failure::{Failure, Result};

/// Maximum deviation of a start or end, in seconds.
const OFF: f64 = 3.0;
/// Maximum duration of the explanation, in seconds.
const TIME: f64 = 5.0;

/// A fault in the recording, in seconds from its start.
#[derive(Serialize)]
pub struct Planted {
    pub fault: String,
    pub start: u64,
    pub end: u64,
}

/// Result for a fault.
#[derive(Serialize)]
struct Found {
    #[serde(flatten)]
    planted: Planted,
    /// Key of the finding; `None` if it was not found.
    key: Option<String>,
    /// Deviation of its start and end, in seconds.
    off: Option<[f64; 2]>,
}

/// Result of all checks.
#[derive(Serialize)]
pub struct Report {
    samples: u64,
    seconds: f64,
    cpu_seconds: f64,
    memory: u64,
    faults: Vec<Found>,
    /// Causes with high confidence that were not planted, with their start.
    besides: Vec<String>,
}

impl Report {
    /// Compares planted faults with the explanation.
    pub fn new(planted: Vec<Planted>, explained: Explained) -> Result<Self> {
        let start = ns(&explained.explanation.start)?;
        let second = |time: &str| Ok::<_, Failure>((ns(time)? - start) as f64 / 1e9);
        let mut episodes = Vec::new();
        for episode in &explained.explanation.episodes {
            episodes.push((second(&episode.start)?, second(&episode.end)?, episode));
        }
        let mut used = vec![false; episodes.len()];
        let mut faults = Vec::new();
        for planted in planted {
            let (from, to) = (planted.start as f64, planted.end as f64);
            let overlaps = |(start, end, _): &(f64, f64, &Episode)| *start < to && *end > from;
            let is_it = |episode: &Episode| planted.fault.starts_with(id(episode));
            // A fault's look-alikes, and its successive victims, count as the fault itself.
            let mut off: Option<[f64; 2]> = None;
            let mut key = None;
            for (used, (start, end, episode)) in used.iter_mut().zip(&episodes) {
                if overlaps(&(*start, *end, *episode)) && is_it(episode) {
                    *used = true;
                    key.get_or_insert_with(|| episode.key.clone());
                    let known = off.unwrap_or([f64::INFINITY, f64::NEG_INFINITY]);
                    off = Some([known[0].min(start - from), known[1].max(end - to)]);
                }
            }
            faults.push(Found { planted, key, off });
        }
        let besides = episodes.iter().zip(used).filter(|((.., episode), used)| !used && is_sure(episode));
        let besides = besides.map(|((start, end, e), _)| format!("{} from {start:.0} to {end:.0}", e.key)).collect();
        let Explained { explanation, seconds, cpu_seconds, memory } = explained;
        Ok(Self { samples: explanation.samples, seconds, cpu_seconds, memory, faults, besides })
    }

    /// Returns whether everything is as expected.
    pub fn holds(&self) -> bool {
        self.seconds <= TIME && self.besides.is_empty() && self.faults.iter().all(Found::holds)
    }

    /// Returns the report as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data becomes JSON")
    }
}

impl Found {
    fn holds(&self) -> bool {
        self.off.is_some_and(|off| off.iter().all(|off| off.abs() <= OFF))
    }
}

/// Returns the id of a finding: the part of its key before the subject.
fn id(episode: &Episode) -> &str {
    episode.key.split('@').next().unwrap_or_default()
}

fn is_sure(episode: &Episode) -> bool {
    let finding = episode.diagnosis.findings.iter().find(|finding| finding.key() == episode.key);
    finding.is_some_and(|finding| finding.confidence == Confidence::High)
}

fn ns(time: &str) -> Result<i64> {
    let time: Timestamp = time.parse().map_err(|e| Failure::new(format!("'{time}': {e}")))?;
    i64::try_from(time.as_nanosecond()).map_err(|_| Failure::new(format!("'{time}' is too far away")))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = self.memory as f64 / f64::from(1 << 20);
        write!(f, "{} samples explained in {:.2} s ", self.samples, self.seconds)?;
        writeln!(f, "({:.2} s of processor time, {memory:.0} MiB at most)", self.cpu_seconds)?;
        for found in &self.faults {
            let Planted { fault, start, end } = &found.planted;
            write!(f, "{}  {fault:22} {start:6} to {end:6} s: ", if found.holds() { "right" } else { "WRONG" })?;
            match (&found.key, found.off) {
                (Some(key), Some([start, end])) => {
                    writeln!(f, "{key}, start off by {start:+.1} s, end by {end:+.1} s")?
                }
                _ => writeln!(f, "not found")?,
            }
        }
        self.besides.iter().try_for_each(|besides| writeln!(f, "WRONG  not planted: {besides}"))
    }
}
