//! Experiments that were made: a line each beside the journal, so that every step taken on a machine can be shown.

use crate::error::Error;
use crate::store::Store;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use whyslow_model::tune::Trial;

fn path(store: &Store) -> PathBuf {
    store.folder().join("trials.jsonl")
}

/// Adds an experiment.
///
/// # Errors
/// It cannot be written.
pub fn remember(store: &Store, trial: &Trial) -> Result<(), Error> {
    let path = path(store);
    let failed = |e: std::io::Error| Error::Journal(format!("{}: {e}", path.display()));
    let line = serde_json::to_string(trial).map_err(|e| Error::Journal(e.to_string()))? + "\n";
    let mut file = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

/// Every experiment, the oldest first. A line that was cut short says nothing.
///
/// # Errors
/// The file cannot be read.
pub fn remembered(store: &Store) -> Result<Vec<Trial>, Error> {
    let path = path(store);
    match fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(Error::Journal(format!("{}: {e}", path.display()))),
        Ok(text) => Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()),
    }
}
