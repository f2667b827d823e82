//! Settings of the running kernel that a trial changes: restored at its end, or by the next run if it was killed.

use crate::error::{Context, Error, Result};
use crate::testbed::{Testbed, WORK};
use std::fs;

/// Pairs of settings in which setting one clears the other (Documentation/admin-guide/sysctl/vm.rst).
const PAIRS: [[&str; 2]; 2] = [
    ["proc/sys/vm/dirty_bytes", "proc/sys/vm/dirty_ratio"],
    ["proc/sys/vm/dirty_background_bytes", "proc/sys/vm/dirty_background_ratio"],
];

const RECORD: &str = "setting-";

/// Sets a file below /proc/sys or /sys until the end of the trial.
///
/// # Errors
/// Returns [`Error::Missing`] if this kernel does not have the file.
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

/// Restores the settings that an earlier run recorded.
pub fn restore_leftovers() {
    for entry in fs::read_dir(WORK).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_string_lossy().strip_prefix(RECORD)
            && let Ok(before) = fs::read_to_string(entry.path())
        {
            restore(&name.replace('+', "/"), &before);
        }
    }
}

/// Returns the file and value that undo a change: those of the other setting of a pair if this one is not in force.
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

/// Returns the value in force from a setting's text: the one in brackets if the kernel lists all possible values.
pub fn in_force(text: &str) -> &str {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(value, _)| value).trim()
}

fn restore(path: &str, before: &str) {
    if let Err(e) = fs::write(format!("/{path}"), before) {
        eprintln!("whyslow-lab: cleaning up: /{path}: {e}");
    }
}
