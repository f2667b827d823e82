//! The files of a folder, and of the folders in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most files that are looked at.
const MOST_FILES: usize = 200_000;
/// Folders in folders, at most.
const DEEPEST: usize = 24;

/// A file.
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// Its path inside the folder.
    pub inside: String,
}

/// Every regular file, in the order of their names. Links are not followed: they lead elsewhere, or in circles.
///
/// # Errors
/// Where the folder itself cannot be read.
pub fn files(folder: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let first = fs::read_dir(folder)?;
    walk(first, "", 0, &mut found);
    found.sort_by(|a, b| a.inside.cmp(&b.inside));
    Ok(found)
}

fn walk(entries: fs::ReadDir, above: &str, depth: usize, found: &mut Vec<Found>) {
    for entry in entries.flatten() {
        if found.len() >= MOST_FILES {
            return;
        }
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        let inside = if above.is_empty() { name } else { format!("{above}/{name}") };
        if kind.is_file() {
            found.push(Found { path: entry.path(), inside });
        } else if kind.is_dir()
            && depth < DEEPEST
            && let Ok(below) = fs::read_dir(entry.path())
        {
            walk(below, &inside, depth + 1, found);
        }
    }
}
