//! Collects the outputs of all files of an incident, within bounds.

use crate::complaint::Complaint;
use crate::formats;
use crate::kernel_file::{KernelFile, KernelFileSets};
use crate::merge::{Capture, MOST_CAPTURES, RunGroups};
use crate::refusal::Refusal;
use crate::skipped::is_unknown_text;
use crate::tool_run::{self, ToolRun};
use whyslow_model::value::Name;

/// Row limit across all files; beyond it, every run is thinned.
const MOST_ROWS: usize = 3 * tool_run::MOST_ROWS;
/// Maximum number of notes about skipped input.
const MOST_NOTES: usize = 1000;
/// Tool name of a run that holds only notes about skipped input.
const SKIPPED: &str = "left out";

/// Outputs, kernel files and free text from the files of one incident.
#[derive(Default)]
pub(crate) struct Captures {
    groups: RunGroups,
    recognized: bool,
    first_refusal: Option<Refusal>,
    /// Topics mentioned in the text around the outputs.
    pub(crate) complaint: Complaint,
    notes: usize,
    rows: usize,
    files: u32,
    /// Files of /proc and /sys found in the texts.
    pub(crate) kernel_files: KernelFileSets,
}

impl Captures {
    /// Returns the position of the next file among all files of the incident.
    pub(crate) fn next_file(&mut self) -> u32 {
        self.files = self.files.saturating_add(1);
        self.files - 1
    }

    /// Remembers why nothing in a file was recognized.
    pub(crate) fn not_recognized(&mut self, refusal: &Refusal) {
        self.first_refusal.get_or_insert_with(|| refusal.clone());
    }

    /// Notes which part of a file was skipped, and the remedy.
    pub(crate) fn note(&mut self, file: &Name, what: &str, why: String, remedy: &str) {
        self.notes += 1;
        if self.notes <= MOST_NOTES {
            let mut run = ToolRun::new(SKIPPED, file);
            run.note(what, why, remedy);
            // It has no entities, so it conflicts with no other run.
            let _ = self.groups.add(run);
        }
    }

    /// Records an answer without figures, such as empty output or an error message.
    pub(crate) fn answer(&mut self, file: &Name, what: &str, why: &str) {
        self.recognized = true;
        self.note(file, what, why.to_owned(), "");
    }

    /// Adds the output that begins at this line.
    pub(crate) fn add(&mut self, mut run: ToolRun, file: &Name, line: u32) -> Result<(), Refusal> {
        run.note_thinning();
        self.recognized = true;
        self.rows += run.rows();
        let Some(fits) = self.groups.add(run) else {
            let expected = format!("at most {MOST_CAPTURES} captures of the same thing without times");
            let found = "one more; print the time before each (date), or give fewer";
            return Err(Refusal::described(file, line, expected, found));
        };
        if self.rows > MOST_ROWS {
            self.thin();
        }
        if !fits || self.rows > MOST_ROWS {
            let found = "more processes, sockets or messages; give the part around the incident, or fewer files";
            return Err(Refusal::described(file, line, "no more entities than can be held", found));
        }
        Ok(())
    }

    /// Reassigns what was read from a file from one machine to another.
    pub(crate) fn rename_host(&mut self, file: &Name, from: &Name, to: &Name) {
        self.groups.rename_host(file, from, to);
        self.kernel_files.rename_host(file, from, to);
    }

    /// Adds a file of /proc or /sys.
    pub(crate) fn add_kernel_file(&mut self, text: &Name, file: KernelFile) -> Result<(), Refusal> {
        self.recognized = true;
        self.kernel_files.add(text, file)
    }

    /// Thins each run to an equal share of the rows.
    fn thin(&mut self) {
        let count = self.groups.runs().filter(|run| run.rows() > 0).count().max(1);
        let share = MOST_ROWS / 2 / count;
        self.groups.runs_mut().filter(|run| run.rows() > share).for_each(|run| {
            run.thin(share, share.max(1));
            run.note_thinning();
        });
        self.rows = self.groups.runs().map(ToolRun::rows).sum();
    }

    /// # Errors
    /// Fails if nothing was recognized at all.
    pub(crate) fn finish(self) -> Result<Vec<Capture>, Refusal> {
        match self.first_refusal {
            Some(refusal) if !self.recognized && is_unknown_text(&refusal) => {
                Err(Refusal { found: self.complaint.advice(), ..refusal })
            }
            Some(refusal) if !self.recognized => Err(refusal),
            _ => Ok(self.groups.captures(formats::rank)),
        }
    }
}
