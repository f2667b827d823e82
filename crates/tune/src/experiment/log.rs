//! Log of experiments: one line each, in a file beside the journal, so that every step taken on a machine can be shown.

use crate::Error;
use crate::store::{PRIVATE, TuneFolder};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use whyslow_documents::tune::Trial;
use whyslow_model::mask;

fn path(store: &TuneFolder) -> PathBuf {
    store.folder().join("trials.jsonl")
}

/// Adds an experiment.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn remember(store: &TuneFolder, trial: &Trial) -> Result<(), Error> {
    let path = path(store);
    let failed = |e: std::io::Error| Error::Journal(format!("{}: {e}", path.display()));
    let line = serde_json::to_string(&masked(trial.clone())).map_err(|e| Error::Journal(e.to_string()))? + "\n";
    let line = if is_torn(&path) { format!("\n{line}") } else { line };
    let mut file = whyslow_trusted::open_or_create(&path, PRIVATE).map_err(failed)?;
    file.seek(SeekFrom::End(0)).map_err(failed)?;
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

/// Removes secrets in the measured command; records of earlier versions may contain them too.
fn masked(mut trial: Trial) -> Trial {
    let watched = trial.guards.iter_mut().chain(&mut trial.mechanism).map(|watched| &mut watched.metric);
    for metric in watched.chain([&mut trial.metric]) {
        *metric = mask::line(metric);
    }
    trial
}

/// Reads every experiment, the oldest first, and counts the complete lines that this version cannot read. Ignores a truncated
/// line.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn remembered(store: &TuneFolder) -> Result<(Vec<Trial>, usize), Error> {
    let path = path(store);
    let bytes = match whyslow_trusted::read(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        other => other.map_err(|e| Error::Journal(format!("{}: {e}", path.display())))?,
    };
    let lines = bytes.split_inclusive(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty());
    let (mut trials, mut unread) = (Vec::new(), 0);
    for line in lines {
        match serde_json::from_slice(line) {
            Ok(trial) => trials.push(masked(trial)),
            Err(_) => unread += usize::from(line.ends_with(b"\n")),
        }
    }
    Ok((trials, unread))
}

/// Whether a file ends within a line; an appended record must then start a new one.
fn is_torn(path: &Path) -> bool {
    let last = File::open(path).and_then(|mut file| {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok(last[0])
    });
    last.is_ok_and(|last| last != b'\n')
}
