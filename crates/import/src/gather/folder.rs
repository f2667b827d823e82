//! The files of a folder, and of the folders in it.

use super::watch::Watch;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders in folders, at most.
const DEEPEST: usize = 24;

/// A file.
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Its path inside the folder.
    pub inside: String,
}

/// Every regular file whose path is wanted, in the order of their names. Links are not followed: they lead elsewhere, or in circles.
///
/// # Errors
/// Where the folder itself cannot be read, or holds too much.
pub fn files(folder: &Path, watch: &Watch, wanted: fn(&str) -> bool) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let first = fs::read_dir(folder)?;
    let proc = ["stat", "meminfo"].iter().all(|sign| folder.join(sign).is_file());
    walk(first, "", 0, &Walk { watch, wanted, proc }, &mut found)?;
    found.sort_by(|a, b| a.inside.cmp(&b.inside));
    Ok(found)
}

struct Walk<'w> {
    watch: &'w Watch,
    wanted: fn(&str) -> bool,
    /// Whether the folder is /proc or a copy of it: each process has a folder in it, with copies of the same files.
    proc: bool,
}

fn walk(entries: fs::ReadDir, above: &str, depth: usize, how: &Walk<'_>, found: &mut Vec<Found>) -> io::Result<()> {
    for entry in entries.flatten() {
        how.watch.stopped()?;
        how.watch.member()?;
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        if how.proc && depth == 0 && name.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let inside = if above.is_empty() { name } else { format!("{above}/{name}") };
        if kind.is_file() && (how.wanted)(&inside) {
            found.push(Found { path: entry.path(), inside });
        } else if kind.is_dir()
            && depth < DEEPEST
            && let Ok(below) = fs::read_dir(entry.path())
        {
            walk(below, &inside, depth + 1, how, found)?;
        }
    }
    Ok(())
}
