//! Finding a file that is large enough to measure.

use crate::error::{Error, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use whyslow_model::human;

/// A file system may have millions of entries: stop searching after this many, or at a file this large.
const MAX_ENTRIES: usize = 200_000;
const LARGE_ENOUGH: u64 = 1 << 30;

/// The file itself, or the largest one in a folder, on the same file system. Fails if it has less than `least` bytes of data.
pub(super) fn find(path: &Path, least: u64) -> Result<PathBuf> {
    let meta = fs::metadata(path).map_err(|e| Error::at(path, "cannot read its metadata", &e))?;
    let found =
        if meta.is_dir() { largest_in(path, meta.dev()) } else { meta.is_file().then(|| (data(&meta), path.into())) };
    match found {
        Some((bytes, file)) if bytes >= least => Ok(file),
        _ => Err(Error::new(format!(
            "{}: found no file with {} of data to read: name one (nothing is written)",
            path.display(),
            human::bytes(least)
        ))),
    }
}

fn largest_in(folder: &Path, device: u64) -> Option<(u64, PathBuf)> {
    let mut folders = vec![folder.to_owned()];
    let (mut seen, mut largest): (usize, Option<(u64, PathBuf)>) = (0, None);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            // Does not follow symbolic links.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.dev() != device {
                continue;
            }
            if meta.is_dir() {
                folders.push(entry.path());
            } else if meta.is_file() && largest.as_ref().is_none_or(|(most, _)| data(&meta) > *most) {
                largest = Some((data(&meta), entry.path()));
            }
        }
        if seen > MAX_ENTRIES || largest.as_ref().is_some_and(|(bytes, _)| *bytes >= LARGE_ENOUGH) {
            break;
        }
    }
    largest
}

/// Allocated bytes: reads of holes do not reach a device. st_blocks counts units of 512 bytes (stat(2)).
fn data(meta: &fs::Metadata) -> u64 {
    meta.len().min(meta.blocks() * 512)
}
