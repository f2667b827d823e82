//! Files of a folder and its subfolders.

use super::monitor::ReadMonitor;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const DEEPEST: usize = 24;

pub struct FolderFile {
    pub path: PathBuf,
    /// Path inside the folder.
    pub inside: String,
}

/// Returns every regular file whose path is wanted, sorted by path, and the error that ended the search early, if any. Does not
/// follow links: they may lead outside, or in circles.
///
/// # Errors
/// Fails if the folder itself cannot be read.
pub fn files(
    folder: &Path,
    monitor: &ReadMonitor,
    wanted: fn(&str) -> bool,
) -> io::Result<(Vec<FolderFile>, Option<io::Error>)> {
    let mut found = Vec::new();
    let first = fs::read_dir(folder)?;
    let proc = ["stat", "meminfo"].iter().all(|sign| folder.join(sign).is_file());
    let ended = walk(first, "", 0, &FolderWalk { monitor, wanted, proc }, &mut found).err();
    found.sort_by(|a, b| a.inside.cmp(&b.inside));
    Ok((found, ended))
}

struct FolderWalk<'w> {
    monitor: &'w ReadMonitor,
    wanted: fn(&str) -> bool,
    /// Whether the folder is /proc or a copy of it, where the folders of processes contain files with the same names.
    proc: bool,
}

fn walk(
    entries: fs::ReadDir,
    above: &str,
    depth: usize,
    how: &FolderWalk<'_>,
    found: &mut Vec<FolderFile>,
) -> io::Result<()> {
    for entry in entries.flatten() {
        how.monitor.stopped()?;
        how.monitor.member()?;
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        if how.proc && depth == 0 && name.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let inside = if above.is_empty() { name } else { format!("{above}/{name}") };
        if kind.is_file() && (how.wanted)(&inside) {
            found.push(FolderFile { path: entry.path(), inside });
        } else if kind.is_dir()
            && depth < DEEPEST
            && let Ok(below) = fs::read_dir(entry.path())
        {
            walk(below, &inside, depth + 1, how, found)?;
        }
    }
    Ok(())
}
