//! A file made for a benchmark, without a name.

use super::{Ask, Map, Target, cannot_open, on_mount, open};
use crate::error::{Error, Result};
use nix::sys::statvfs::{FsFlags, statvfs};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The part of a file system that is left free, and the most that need be.
const RESERVE: f64 = 0.05;
const MOST_RESERVE: u64 = 1 << 30;

/// Makes an empty file in a folder, with room for what it is to hold. It has no name: it is gone when the program ends, even
/// where it is killed.
pub(super) fn make(map: &Map, folder: &Path, ask: &Ask) -> Result<Target> {
    check_room(folder, ask.size)?;
    let file = unnamed(folder, ask.direct).map_err(|e| cannot_open(ask, &e))?;
    file.set_len(ask.size).map_err(|e| Error::at(&ask.path, "no file of this size can be made", &e))?;
    Ok(on_mount(map, folder, ask, file, ("folder", ask.size), Vec::new()))
}

/// Whether a folder's file system has room for so many bytes, and some to spare.
///
/// # Errors
/// Where it has not, and how much there is.
fn check_room(folder: &Path, bytes: u64) -> Result<()> {
    let space = statvfs(folder).map_err(|e| Error::at(folder, "cannot tell how much room there is", &e.into()))?;
    if space.flags().contains(FsFlags::ST_RDONLY) {
        let what = "the file system is mounted read-only; name a folder that can be written to";
        return Err(Error::new(format!("{}: {what}", folder.display())));
    }
    let unit = space.fragment_size();
    let (all, available) = (space.blocks() * unit, space.blocks_available() * unit);
    let reserve = ((all as f64 * RESERVE) as u64).min(MOST_RESERVE);
    let room = available.saturating_sub(reserve);
    if bytes <= room {
        return Ok(());
    }
    let human = |bytes: u64| whyslow_model::human::quantity(bytes as f64, "bytes");
    Err(Error::new(format!(
        "{}: there is no room for {}: {} are available, of which {} are left free; name a smaller --size",
        folder.display(),
        human(bytes),
        human(available),
        human(reserve)
    )))
}

/// O_TMPFILE (open(2)); where the file system has no such thing, a file that is unlinked as soon as it is open.
fn unnamed(folder: &Path, direct: bool) -> io::Result<File> {
    match open(folder, true, direct, libc::O_TMPFILE) {
        // Kernels without it answer EISDIR, file systems without it EOPNOTSUPP.
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
    fn what_is_there_is_not_overwritten() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = folder.path().join(format!(".whyslow-bench-{}", std::process::id()));
        fs::write(&path, "precious").unwrap();
        assert_eq!(unlinked(folder.path(), false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn no_room_is_told_before_anything_is_written() {
        let error = check_room(Path::new("/var/tmp"), 1 << 60).unwrap_err().to_string();
        assert!(error.contains("no room for 1024 PiB") && error.contains("--size"), "{error}");
        assert_eq!(check_room(Path::new("/var/tmp"), 4096), Ok(()));
    }

    #[test]
    fn a_read_only_file_system_is_not_full() {
        let folder = tempfile::tempdir().unwrap();
        let run = |program: &str, args: &[&str]| {
            let done = std::process::Command::new(program).args(args).arg(folder.path()).status();
            done.is_ok_and(|status| status.success())
        };
        if !run("mount", &["-t", "tmpfs", "-o", "ro,size=64k", "wsl-bench-ro"]) {
            eprintln!("skipped: mounting needs root");
            return;
        }
        let error = check_room(folder.path(), 1 << 60).unwrap_err().to_string();
        assert!(run("umount", &[]));
        assert!(error.contains("mounted read-only") && !error.contains("no room"), "{error}");
    }
}
