//! A change that takes effect only after a restart or a reboot: measured before, applied, and measured after. Between the two
//! halves the experiment is stored in a file beside the journal.

use super::judge::judge_blocks;
use super::{Design, Load};
use crate::Error;
use crate::machine::{self, Machine};
use crate::store::{PRIVATE, TuneFolder};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;
use whyslow_documents::tune::{HistoryEntry, Status, Trial, TrialEvidence, TrialPair};

/// The first half of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Time of the change, RFC 3339.
    pub at: String,
    /// Its number in the history.
    pub id: u64,
    /// Boot ID at the time of the change.
    pub boot: String,
    /// Whether the change takes effect only at the next boot.
    pub needs_reboot: bool,
    /// The changes, as requested.
    pub changes: Vec<String>,
    /// The metric, in the words of the command line.
    pub measured: String,
    /// Name of the metric, for the record.
    pub metric: String,
    /// Whether lower values are better.
    pub lower_is_better: bool,
    /// The measured command; empty for the machine's present load.
    pub command: Vec<String>,
    /// Duration of a measurement without a command, in seconds.
    pub seconds: f64,
    /// The smallest effect of interest, as a ratio.
    pub delta: f64,
    /// Values measured before the change.
    pub before: Vec<f64>,
}

impl Prepared {
    /// Returns the experiment that waits for its second half.
    ///
    /// # Errors
    /// Fails if the file exists but cannot be read.
    pub fn waiting(store: &TuneFolder) -> Result<Option<Self>, Error> {
        let path = path(store);
        let text = match fs::read(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| Error::Journal(format!("{}: {e}", path.display())))?,
        };
        serde_json::from_slice(&text).map(Some).map_err(|e| Error::Journal(format!("{}: {e}", path.display())))
    }

    /// Stores the experiment until its second half. Replaces the file atomically, so that a crash leaves the old file or the new
    /// one.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn keep(&self, store: &TuneFolder) -> Result<(), Error> {
        let (path, new) = (path(store), path(store).with_extension("new"));
        let failed = |e: std::io::Error| Error::Journal(format!("{}: {e}", path.display()));
        let text = serde_json::to_vec(self).map_err(|e| Error::Journal(e.to_string()))?;
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(&new).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)
    }

    /// Removes the stored experiment.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub fn forget(store: &TuneFolder) -> Result<(), Error> {
        match fs::remove_file(path(store)) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::Journal(format!("{}: {e}", path(store).display()))),
            _ => Ok(()),
        }
    }

    /// Whether its change is still in place.
    pub fn stands(&self, history: &[HistoryEntry]) -> bool {
        let own = history.iter().find(|entry| entry.transaction.id == self.id);
        own.is_some_and(|entry| entry.status == Status::Applied && !entry.outstanding().is_empty())
    }

    /// Whether the change can have taken effect: the machine has booted since, if that is necessary.
    pub fn can_show(&self, machine: &Machine) -> bool {
        !self.needs_reboot || self.boot != machine.boot()
    }

    /// Returns the load to measure under.
    pub fn load(&self) -> Load {
        match self.command.as_slice() {
            [] => Load::Present(Duration::try_from_secs_f64(self.seconds).unwrap_or(Duration::from_secs(1))),
            words => Load::Command(words.to_vec()),
        }
    }

    /// Returns the experiment with its second half.
    pub fn judged(&self, after: &[f64]) -> Trial {
        let judged = judge_blocks(&self.before, after, self.lower_is_better, Design::ALPHA, self.delta);
        let pair = |(without, with): (&f64, &f64)| TrialPair { without: *without, with: *with, with_first: false };
        Trial {
            at: machine::now(),
            changes: self.changes.clone(),
            metric: self.metric.clone(),
            lower_is_better: self.lower_is_better,
            evidence: TrialEvidence::BeforeAfter,
            looks: vec![self.before.len()],
            noise: Vec::new(),
            detectable: None,
            pairs: self.before.iter().zip(after).map(pair).collect(),
            effect: judged.effect,
            guards: Vec::new(),
            mechanism: None,
            verdict: judged.verdict,
            pairs_needed: None,
            interrupted: false,
            kept: None,
            caveat: None,
            promised: None,
        }
    }
}

fn path(store: &TuneFolder) -> PathBuf {
    store.folder().join("prepared.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::tune::TrialVerdict;

    fn prepared() -> Prepared {
        Prepared {
            at: String::new(),
            id: 3,
            boot: "b".into(),
            needs_reboot: false,
            changes: vec!["vm.nr_hugepages=64".into()],
            measured: "time".into(),
            metric: "s".into(),
            lower_is_better: true,
            command: Vec::new(),
            seconds: 2.0,
            delta: 0.01,
            before: vec![2.0, 2.1, 2.2, 2.3, 2.4],
        }
    }

    #[test]
    fn the_first_half_waits_for_the_second() {
        let folder = whyslow_testing::folder();
        let store = TuneFolder::at(folder.path());
        assert_eq!(Prepared::waiting(&store).unwrap(), None);
        prepared().keep(&store).unwrap();
        assert_eq!(Prepared::waiting(&store).unwrap(), Some(prepared()));
        Prepared::forget(&store).unwrap();
        Prepared::forget(&store).unwrap();
        assert_eq!(Prepared::waiting(&store).unwrap(), None);
    }

    #[test]
    fn what_comes_after_is_judged_as_weaker_evidence() {
        let trial = prepared().judged(&[1.0, 1.1, 1.2, 1.3, 1.4]);
        assert_eq!((trial.verdict, trial.evidence), (TrialVerdict::Helped, TrialEvidence::BeforeAfter));
    }
}
