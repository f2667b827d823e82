//! All processes and threads from their files (proc(5)), which are available on every kernel and to every user.

use super::proc_dir::{FileError, ProcDir};
use super::process::{ProcProcess, ProcSample};
use crate::os::{is_root, open_files_limit};
use crate::root::Root;
use crate::source_error::SourceError;
use std::collections::HashMap;
use whyslow_model::snapshot::Snapshot;

/// Maximum number of threads read per sample: each costs up to 45 us.
const MAX_THREADS: u64 = 2000;

/// Files kept open for each process; in total at most half of the open file limit.
const OPEN_FILES: u64 = 2;

#[derive(Default)]
pub(super) struct ProcReader {
    samples: u64,
    processes: HashMap<u32, ProcProcess>,
}

impl ProcReader {
    /// Reads all processes. Fails if part of the data may not be read; the rest is still added.
    pub(super) fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        self.samples += 1;
        let mut sample = ProcSample {
            dir: ProcDir::new(root),
            number: self.samples,
            delays: root.number("proc/sys/kernel/task_delayacct").is_some_and(|on| on != 0),
            // In a captured tree an open file would hide its removal.
            open_left: if root.is_live() { open_files_limit() / 2 / OPEN_FILES } else { 0 },
            threads_left: MAX_THREADS,
            threads: Vec::new(),
        };
        let mut gaps = Gaps::default();
        let mut before = std::mem::take(&mut self.processes);
        let processes = sample.dir.processes()?;
        // Every PID namespace has a process 1 as long as it exists.
        gaps.hides_others = root.is_live() && !processes.contains(&1);
        for pid in processes {
            match ProcProcess::read(&mut sample, pid, before.remove(&pid)) {
                Ok(process) => {
                    gaps.note(&process);
                    out.task.process.push(process.row.clone());
                    self.processes.insert(pid, process);
                }
                Err(FileError::Gone) => {}
                Err(FileError::Denied) => gaps.hidden += 1,
                Err(FileError::Failed(why)) => gaps.failed = Some(format!("/proc/{pid}: {why}")),
            }
        }
        out.task.thread = sample.threads;
        gaps.report(sample.dir.counts_files_by_size())
    }
}

/// Numbers of processes with unreadable parts.
#[derive(Default)]
struct Gaps {
    /// Processes whose I/O or open files may not be read.
    refused: usize,
    /// Processes of which nothing may be read.
    hidden: usize,
    /// Whether processes of other users are not even listed.
    hides_others: bool,
    /// Threads not read because there were too many.
    threads_unread: usize,
    /// The last of the other errors.
    failed: Option<String>,
}

impl Gaps {
    fn note(&mut self, process: &ProcProcess) {
        self.refused += usize::from(process.refused);
        self.threads_unread += usize::from(process.threads_unread);
    }

    /// Reports all gaps in one sentence. Those that a permission would close come first, as they have a remedy.
    fn report(self, files_are_open_to_all: bool) -> Result<(), SourceError> {
        let mut why = Vec::new();
        if self.refused > 0 {
            let what = if files_are_open_to_all { "I/O" } else { "I/O and open files" };
            why.push(format!("{what} of {}", others(self.refused)));
        }
        if self.hidden > 0 {
            why.push(format!("all of {} (/proc is mounted with hidepid)", others(self.hidden)));
        }
        if self.hides_others {
            why.push("all processes of other users (/proc is mounted with hidepid)".into());
        }
        let not_permitted = !why.is_empty();
        if self.threads_unread > 0 {
            why.push(format!("threads of {}: more than {MAX_THREADS} threads in all", processes(self.threads_unread)));
        }
        why.extend(self.failed);
        match why.join("; ") {
            why if why.is_empty() => Ok(()),
            why if not_permitted => Err(SourceError::NotPermitted { why, remedy: remedy().into() }),
            why => Err(SourceError::Failed(why)),
        }
    }
}

fn processes(count: usize) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

/// Describes unreadable processes. Root is refused only by a security module or a user namespace.
pub(super) fn others(count: usize) -> String {
    let whose = if is_root() { "that even root cannot trace" } else { "of other users" };
    format!("{} {whose}", processes(count))
}

pub(super) fn remedy() -> &'static str {
    if is_root() { "run with CAP_SYS_PTRACE, outside any container" } else { "run as root (or with CAP_SYS_PTRACE)" }
}
