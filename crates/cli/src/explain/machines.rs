//! Explains recordings of related machines, such as a guest and its host: relates each finding to what the other
//! machines recorded at that time.

use super::{Extent, explain_by, windows};
use crate::output::{Failure, ProgressLine};
use crate::pseudonymise::PseudonymSession;
use crate::recordings::{self, RecordingPeriod, around, host, recorded};
use crate::user_rules;
use std::path::{Path, PathBuf};
use whyslow_diagnose::{RuleBook, diagnose, merge_machines, virtual_machines};
use whyslow_documents::diagnosis::{Diagnosis, Origin};
use whyslow_documents::explanation::Explanation;
use whyslow_model::window::Window;
use whyslow_store::{Recording, StoreError, TimeRange};

/// A recording with its requested time span.
pub struct RecordedMachine {
    /// Folder, or its pseudonym.
    pub folder: String,
    /// Distinguishing label: the name of the machine, or the folder if the name is not unique.
    pub name: String,
    /// The recording.
    pub recording: Recording,
    /// Requested time span.
    pub span: TimeRange,
}

impl RecordedMachine {
    /// Opens the recordings in these folders, or the one of `part`, each with the requested period.
    ///
    /// # Errors
    /// Fails if a recording cannot be read or has no data for that time, or if `at` is not a time.
    pub fn open_all(
        folders: &[PathBuf],
        part: &RecordingPeriod,
        at: Option<&str>,
        names: &PseudonymSession,
    ) -> Result<Vec<Self>, Failure> {
        let folders = match folders {
            [] => vec![recordings::folder(part.dir.as_deref())?],
            some => some.to_vec(),
        };
        let open = |dir: &PathBuf| {
            let which =
                |failure: Failure| if folders.len() > 1 { failure.about(&dir.display().to_string()) } else { failure };
            Self::open(dir, part, at, names).map_err(which)
        };
        let mut machines: Vec<Self> = folders.iter().map(open).collect::<Result<_, _>>()?;
        let all: Vec<String> = machines.iter().map(|machine| machine.name.clone()).collect();
        for machine in &mut machines {
            if all.len() > 1
                && (machine.name.is_empty() || all.iter().filter(|name| **name == machine.name).count() > 1)
            {
                machine.name.clone_from(&machine.folder);
            }
        }
        Ok(machines)
    }

    fn open(dir: &Path, part: &RecordingPeriod, at: Option<&str>, names: &PseudonymSession) -> Result<Self, Failure> {
        let unreadable = |e: StoreError| Failure::usage(e.to_string());
        let part = RecordingPeriod { dir: Some(dir.to_owned()), ..part.clone() };
        let recording = names.recording(part.open()?).map_err(unreadable)?;
        let span = match at {
            Some(moment) => recorded(around(moment)?, &recording)?,
            None => part.span(&recording)?,
        };
        let folder = names.argument(&dir.display().to_string());
        let name = host(&recording, &span).map_err(unreadable)?;
        Ok(Self { folder, name, recording, span })
    }

    /// Diagnoses what was recorded from one time to another.
    pub(super) fn diagnosis(
        &self,
        others: &[&Self],
        (start, end): (i64, i64),
        book: &RuleBook,
    ) -> Result<Diagnosis, StoreError> {
        let window = |machine: &Self| windows::window(&machine.recording, &(start..=end));
        let own = window(self)?;
        if others.is_empty() {
            return Ok(diagnose(&own, Origin::Recording, book));
        }
        let mut captures = vec![(self.name.clone(), own)];
        for other in others {
            captures.push((other.name.clone(), window(other)?));
        }
        captures.retain(|(_, window)| !window.snapshots().is_empty());
        let of = |(name, window): &(String, Window)| (name.clone(), diagnose(window, Origin::Recording, book));
        let parts = captures.iter().map(of).collect();
        let labelled: Vec<(String, &Window)> = captures.iter().map(|(name, window)| (name.clone(), window)).collect();
        let merged = merge_machines(parts, virtual_machines(&labelled), book);
        Ok(merged.unwrap_or_else(|| diagnose(&Window::default(), Origin::Recording, book)))
    }
}

/// Explains what happened to these related machines.
///
/// # Errors
/// Fails if a file cannot be read.
pub fn explain_together(machines: &[RecordedMachine], extent: Extent) -> Result<Explanation, StoreError> {
    let (book, progress) = (user_rules::load().book, ProgressLine::new("explaining", "end"));
    let mut all = Vec::new();
    for (at, machine) in machines.iter().enumerate() {
        let others: Vec<&RecordedMachine> = machines[..at].iter().chain(&machines[at + 1..]).collect();
        let explanation = explain_by(machine, &others, extent, &book, &progress)?;
        all.push(if others.is_empty() { explanation } else { named(explanation, &machine.name) });
    }
    let together = all.into_iter().reduce(Explanation::beside);
    let Some(together) = together else { unreachable!("there is a default folder") };
    Ok(if extent == Extent::Page { together.excerpt() } else { together })
}

/// Prefixes events and changes with the machine's name, because they would be ambiguous in the combined document.
fn named(mut explanation: Explanation, name: &str) -> Explanation {
    let words = explanation.events.iter_mut().map(|event| &mut event.what);
    for what in words.chain(explanation.changes.iter_mut().map(|change| &mut change.what)) {
        *what = format!("{name}: {what}");
    }
    explanation
}
