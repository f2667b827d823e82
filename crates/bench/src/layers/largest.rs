//! A file that is worth reading.

use crate::error::{Error, Result};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How many entries are looked at: a file system may have millions.
const ENTRIES: usize = 200_000;
/// A file as large as this is large enough.
const ENOUGH: u64 = 1 << 30;

/// The file itself, or the largest that is found in a folder, on the same file system.
///
/// # Errors
/// Where there is none of at least so many bytes that are really there.
pub(super) fn file(path: &Path, least: u64) -> Result<PathBuf> {
    let meta = fs::metadata(path).map_err(|e| Error::at(path, "cannot be looked at", &e))?;
    let found =
        if meta.is_dir() { largest_in(path, meta.dev()) } else { meta.is_file().then(|| (data(&meta), path.into())) };
    match found {
        Some((bytes, file)) if bytes >= least => Ok(file),
        _ => Err(Error::new(format!(
            "{}: no file of at least {} was found there: name one, for nothing is written",
            path.display(),
            whyslow_model::human::quantity(least as f64, "bytes")
        ))),
    }
}

fn largest_in(folder: &Path, device: u64) -> Option<(u64, PathBuf)> {
    let mut folders = vec![folder.to_owned()];
    let (mut looked, mut largest): (usize, Option<(u64, PathBuf)>) = (0, None);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            looked += 1;
            // Of a link this is the link's own.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && meta.dev() == device {
                folders.push(entry.path());
            } else if meta.is_file()
                && meta.dev() == device
                && largest.as_ref().is_none_or(|(most, _)| data(&meta) > *most)
            {
                largest = Some((data(&meta), entry.path()));
            }
        }
        if looked > ENTRIES || largest.as_ref().is_some_and(|(bytes, _)| *bytes >= ENOUGH) {
            break;
        }
    }
    largest
}

/// Bytes that are really there: a hole is read from nowhere. st_blocks counts 512 bytes each (stat(2)).
fn data(meta: &fs::Metadata) -> u64 {
    meta.len().min(meta.blocks() * 512)
}
