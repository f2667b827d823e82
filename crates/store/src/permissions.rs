//! Permissions of what is recorded: command lines and paths are for its owner and a group, whatever the umask of the program was.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE: u32 = 0o640;
const FOLDER: u32 = 0o750;

/// Creates a file, which must not exist yet.
///
/// # Errors
/// It exists, or cannot be created.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).create_new(true).mode(FILE).open(path)?;
    restrict_file(&file);
    Ok(file)
}

/// Puts the permissions of a file right that was opened for writing.
pub(crate) fn restrict_file(file: &File) {
    if file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o7777 != FILE) {
        // A file system without permissions refuses; what it shows to whom is decided where it is mounted.
        let _ = file.set_permissions(Permissions::from_mode(FILE));
    }
}

/// Creates a folder within one of ours if it is missing, and puts its permissions right.
///
/// # Errors
/// It cannot be created.
pub(crate) fn create_subfolder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(FOLDER).create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other?,
    }
    set_mode(path, |_| FOLDER);
    Ok(())
}

/// Creates a folder and those above it, which are not ours. One that exists may be closed to its group, and stays so.
///
/// # Errors
/// It cannot be created.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(FOLDER).create(path) {
        Ok(()) => set_mode(path, |_| FOLDER),
        // It is put right once it is known to be ours.
        Err(e) if e.kind() == ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(e) => return Err(e),
    }
    Ok(())
}

/// Takes from a folder what others may do with it.
pub(crate) fn restrict_folder(path: &Path) {
    set_mode(path, |mode| mode & (0o7000 | FOLDER));
}

fn set_mode(folder: &Path, wanted: impl Fn(u32) -> u32) {
    let Ok(metadata) = fs::metadata(folder) else { return };
    let mode = metadata.permissions().mode() & 0o7777;
    let wanted = wanted(mode);
    // The bits that make group and deletion inherited stay as they are.
    if mode & 0o777 != wanted & 0o777 {
        let _ = fs::set_permissions(folder, Permissions::from_mode(wanted | mode & 0o7000));
    }
}
