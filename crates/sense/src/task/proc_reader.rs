//! All processes and threads by their files (proc(5)): what every kernel and every user has.

use super::proc_dir::{Folder, Refusal};
use super::process::{Known, Round};
use crate::os::{is_root, open_files_limit};
use crate::root::Root;
use crate::source::Miss;
use std::collections::HashMap;
use whyslow_model::snapshot::Snapshot;

/// The most threads looked at in one sample: they cost up to 45 us each, and the observer must not be the load.
const THREADS_MAX: u64 = 2000;

/// Files kept open for each process. They take no more than half of what we may open: the other sources need some too.
const KEPT_FILES: u64 = 2;

/// Reads every process, and every thread of those that have several.
#[derive(Default)]
pub(super) struct Files {
    samples: u64,
    known: HashMap<u32, Known>,
}

impl Files {
    /// Reads them all.
    ///
    /// # Errors
    /// What of them is not to be seen, though the rest is read.
    pub(super) fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        self.samples += 1;
        let mut round = Round {
            folder: Folder::new(root),
            number: self.samples,
            delays: root.number("proc/sys/kernel/task_delayacct").is_some_and(|on| on != 0),
            // In a captured tree a file kept open would hide that it was taken away.
            keep_left: if root.is_live() { open_files_limit() / 2 / KEPT_FILES } else { 0 },
            threads_left: THREADS_MAX,
            threads: Vec::new(),
        };
        let mut gaps = Gaps::default();
        let mut before = std::mem::take(&mut self.known);
        for pid in round.folder.processes()? {
            match Known::read(&mut round, pid, before.remove(&pid)) {
                Ok(known) => {
                    gaps.note(&known);
                    out.task.process.push(known.row.clone());
                    self.known.insert(pid, known);
                }
                Err(Refusal::Gone) => {}
                Err(Refusal::Denied) => gaps.hidden += 1,
                Err(Refusal::Failed(why)) => gaps.failed = Some(format!("/proc/{pid}: {why}")),
            }
        }
        out.task.thread = round.threads;
        gaps.miss(round.folder.counts_files_cheaply())
    }
}

/// What could not be read.
#[derive(Default)]
struct Gaps {
    /// Processes whose I/O or files were refused.
    refused: usize,
    /// Processes of which nothing can be seen.
    hidden: usize,
    /// Processes with too many threads.
    crowded: usize,
    /// One of the other errors.
    failed: Option<String>,
}

impl Gaps {
    fn note(&mut self, known: &Known) {
        self.refused += usize::from(known.refused);
        self.crowded += usize::from(known.threads_unread);
    }

    /// One sentence on all of it. What permission would mend comes first, as it has a remedy.
    fn miss(self, files_are_open_to_all: bool) -> Result<(), Miss> {
        let mut why = Vec::new();
        if self.refused > 0 {
            let what = if files_are_open_to_all { "I/O" } else { "I/O and open files" };
            why.push(format!("{what} of {}", others(self.refused)));
        }
        if self.hidden > 0 {
            why.push(format!("all of {} (/proc is mounted with hidepid)", others(self.hidden)));
        }
        let not_permitted = !why.is_empty();
        if self.crowded > 0 {
            why.push(format!("threads of {}: more than {THREADS_MAX} threads in all", processes(self.crowded)));
        }
        why.extend(self.failed);
        match why.join("; ") {
            why if why.is_empty() => Ok(()),
            why if not_permitted => Err(Miss::NotPermitted { why, remedy: remedy().into() }),
            why => Err(Miss::Failed(why)),
        }
    }
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

/// Processes that are refused: to root only those that a security module or a user namespace guards.
fn others(count: usize) -> String {
    let whose = if is_root() { "that even root may not trace" } else { "of other users" };
    format!("{} {whose}", processes(count))
}

fn remedy() -> &'static str {
    if is_root() { "run with CAP_SYS_PTRACE, outside of any container" } else { "run as root (or with CAP_SYS_PTRACE)" }
}
