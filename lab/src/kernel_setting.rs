//! Settings of the running kernel that a trial changes: restored at its end, and by the next run if it was killed.

use crate::error::{Context, Error, Result};
use crate::testbed::{Testbed, WORK};
use std::fs;

/// Settings of which setting one clears the other (Documentation/admin-guide/sysctl/vm.rst).
const PAIRS: [[&str; 2]; 2] = [
    ["proc/sys/vm/dirty_bytes", "proc/sys/vm/dirty_ratio"],
    ["proc/sys/vm/dirty_background_bytes", "proc/sys/vm/dirty_background_ratio"],
];

const RECORD: &str = "setting-";

/// Sets a file below /proc/sys or /sys until the end of the trial.
///
/// # Errors
/// [`Error::Missing`] if this kernel does not have it.
pub fn set(bed: &mut Testbed, path: &'static str, value: impl ToString) -> Result<()> {
    let (restored, before) = former(path)?;
    let record = format!("{WORK}/{RECORD}{}", restored.replace('/', "+"));
    fs::write(&record, &before).context("recording a setting")?;
    bed.defer(move || {
        restore(restored, &before);
        drop(fs::remove_file(record));
    });
    fs::write(format!("/{path}"), value.to_string()).context(path)
}

/// Restores what an earlier run recorded.
pub fn restore_leftovers() {
    for entry in fs::read_dir(WORK).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_string_lossy().strip_prefix(RECORD)
            && let Ok(before) = fs::read_to_string(entry.path())
        {
            restore(&name.replace('+', "/"), &before);
        }
    }
}

/// What to write to which file to undo a change: the other of a pair where this one is not in force.
fn former(path: &'static str) -> Result<(&'static str, String)> {
    let read = |path: &str| -> Result<String> {
        let text = fs::read_to_string(format!("/{path}")).map_err(|_| Error::Missing(format!("/{path}")))?;
        Ok(in_force(&text).to_owned())
    };
    let before = read(path)?;
    match PAIRS.iter().find(|pair| pair[0] == path) {
        Some([_, other]) if before == "0" => Ok((other, read(other)?)),
        _ => Ok((path, before)),
    }
}

/// The value of a setting in the kernel's words: of those that it can have, the one in brackets.
pub fn in_force(text: &str) -> &str {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(value, _)| value).trim()
}

fn restore(path: &str, before: &str) {
    if let Err(e) = fs::write(format!("/{path}"), before) {
        eprintln!("whyslow-lab: cleaning up: /{path}: {e}");
    }
}
