//! Atomic file writes: writes go to a temporary file, which then replaces the target.

use crate::output::Failure;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use whyslow_bench::remove_leftovers;

/// A temporary file in the same folder as the target. It replaces the target when finished, and is removed if dropped
/// before.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    /// `None` if the target is written directly: a pipe or a device cannot be replaced.
    temporary: Option<PathBuf>,
}

impl AtomicFile {
    /// Begins to write the file at `path`; keeps the permissions of an existing file.
    pub fn begin(path: &Path) -> io::Result<(Self, File)> {
        // Keep a symbolic link and replace its target.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let there = fs::metadata(&target).ok();
        if there.as_ref().is_some_and(|metadata| !metadata.is_file()) {
            let file = File::options().write(true).open(&target)?;
            return Ok((Self { target, temporary: None }, file));
        }
        if there.is_some() {
            // Do not replace a file that is not writable, although its folder would allow it.
            File::options().write(true).open(&target)?;
        }
        let name = target.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy().into_owned();
        let prefix = format!(".{name}.new-");
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        remove_leftovers(folder, &prefix, |path, _| fs::remove_file(path));
        let temporary = target.with_file_name(format!("{prefix}{}", std::process::id()));
        let file = File::options().write(true).create_new(true).mode(0o666).open(&temporary)?;
        let draft = Self { target, temporary: Some(temporary) };
        if let Some(metadata) = there {
            file.set_permissions(fs::Permissions::from_mode(metadata.permissions().mode()))?;
        }
        Ok((draft, file))
    }

    /// Replaces the target with the temporary file.
    pub fn finish(mut self) -> io::Result<()> {
        match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.target)?,
            None => return Ok(()),
        }
        self.temporary = None;
        Ok(())
    }
}

/// Writes a whole file.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let written = AtomicFile::begin(path).and_then(|(draft, mut file)| {
        file.write_all(content)?;
        draft.finish()
    });
    written.map_err(|e| unwritable(path, &e))
}

/// Returns the error for a file that cannot be written.
pub fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {error}", path.display()))
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // A full disk is the usual reason; half a file is useless.
            let _ = fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finished_leaves_what_was_there() {
        let folder = whyslow_testing::folder();
        let path = folder.path().join("disk.csv");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        drop(AtomicFile::begin(&path).unwrap());
        assert_eq!(names(), 0);
        fs::write(&path, "old").unwrap();
        let (draft, mut file) = AtomicFile::begin(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        draft.finish().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), names()), ("new", 1));
    }

    #[test]
    fn what_a_killed_run_left_goes_with_the_next() {
        let folder = whyslow_testing::folder();
        let path = folder.path().join("disk.csv");
        let own = format!(".other.csv.new-{}", u32::MAX);
        // No process has these numbers, except the first.
        for name in [format!(".disk.csv.new-{}", u32::MAX), ".disk.csv.new-1".into(), ".disk.csv.new-x".into(), own] {
            fs::write(folder.path().join(name), "half").unwrap();
        }
        drop(AtomicFile::begin(&path).unwrap());
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".disk.csv.new-1", ".disk.csv.new-x", ".other.csv.new-4294967295"]);
    }

    #[test]
    fn a_link_stays_and_a_device_is_written_to() {
        let folder = whyslow_testing::folder();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let (draft, mut new) = AtomicFile::begin(&link).unwrap();
        new.write_all(b"new").unwrap();
        draft.finish().unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&file).unwrap() == "new");
        let (draft, mut null) = AtomicFile::begin(Path::new("/dev/null")).unwrap();
        null.write_all(b"gone").unwrap();
        draft.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
