//! Permissions of recorded files: command lines and paths are readable only by the owner and a group, regardless of the
//! umask.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE: u32 = 0o640;
const FOLDER: u32 = 0o750;

/// Creates a file, which must not exist yet.
///
/// # Errors
/// Fails if it exists, or cannot be created.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).create_new(true).mode(FILE).open(path)?;
    restrict_file(&file);
    Ok(file)
}

/// Sets the permissions of a file that was opened for writing.
pub(crate) fn restrict_file(file: &File) {
    if file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o7777 != FILE) {
        // A file system without permissions refuses this; its mount options decide who can read it.
        let _ = file.set_permissions(Permissions::from_mode(FILE));
    }
}

/// Creates a folder within one of ours if it is missing, and sets its permissions.
///
/// # Errors
/// Fails if it cannot be created.
pub(crate) fn create_subfolder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(FOLDER).create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other?,
    }
    set_mode(path, |_| FOLDER);
    Ok(())
}

/// Creates a folder and its missing parents, which are not ours. An existing folder may exclude its group, and keeps
/// its mode.
///
/// # Errors
/// Fails if it cannot be created.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(FOLDER).create(path) {
        Ok(()) => set_mode(path, |_| FOLDER),
        // Its mode is fixed once it is known to be ours.
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(e) => return Err(e),
    }
    Ok(())
}

/// Removes the permissions of others from a folder.
pub(crate) fn restrict_folder(path: &Path) {
    set_mode(path, |mode| mode & (0o7000 | FOLDER));
}

fn set_mode(folder: &Path, wanted: impl Fn(u32) -> u32) {
    let Ok(metadata) = fs::metadata(folder) else { return };
    let mode = metadata.permissions().mode() & 0o7777;
    let wanted = wanted(mode);
    // Keeps the setuid, setgid and sticky bits as they are.
    if mode & 0o777 != wanted & 0o777 {
        let _ = fs::set_permissions(folder, Permissions::from_mode(wanted | mode & 0o7000));
    }
}
