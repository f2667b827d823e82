//! A temporary file without a name, which is gone when the program ends, even if it is killed.

use super::{BenchTarget, StorageMap, TargetSpec, cannot_open, on_mount, open};
use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates an empty file of the size asked for.
pub(super) fn create(map: &StorageMap, folder: &Path, ask: &TargetSpec) -> Result<BenchTarget> {
    let file = unnamed(folder, ask.direct).map_err(|e| cannot_open(ask, &e))?;
    file.set_len(ask.size).map_err(|e| Error::at(&ask.path, "no file of this size can be made", &e))?;
    Ok(on_mount(map, folder, ask, file, ("folder", ask.size), Vec::new()))
}

/// O_TMPFILE (open(2)), or a file that is unlinked once open if the file system does not support that.
fn unnamed(folder: &Path, direct: bool) -> io::Result<File> {
    match open(folder, true, direct, libc::O_TMPFILE) {
        // Kernels without O_TMPFILE return EISDIR, file systems without it EOPNOTSUPP.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => unlinked(folder, direct),
        made => made,
    }
}

fn unlinked(folder: &Path, direct: bool) -> io::Result<File> {
    let path = folder.join(format!(".whyslow-bench-{}", std::process::id()));
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_made_without_a_name() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        for make in [unnamed, unlinked] {
            let mut file = make(folder.path(), false).unwrap();
            file.write_all(b"x").unwrap();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join(format!(".whyslow-bench-{}", std::process::id()));
        fs::write(&path, "precious").unwrap();
        assert_eq!(unlinked(folder.path(), false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
