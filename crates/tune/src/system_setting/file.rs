//! A setting stored in a file: under /proc/sys, under /sys, in a control group.

use super::{Handle, sorted};
use crate::machine::Machine;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use whyslow_documents::tune::Unavailable;

/// Maximum size, larger than any setting.
const MOST: u64 = 64 * 1024;

pub(super) struct SettingFile {
    path: PathBuf,
    /// The path in messages.
    name: String,
}

impl SettingFile {
    /// Returns a file by its path from the root.
    pub(super) fn at(machine: &Machine, path: &str) -> Self {
        Self::new(machine.root().at(path), format!("/{path}"))
    }

    pub(super) fn new(path: PathBuf, name: String) -> Self {
        Self { path, name }
    }

    fn write_refused(&self, error: &io::Error) -> Unavailable {
        self.refused(error, 0o222, "read-only: this kernel shows it, but nobody can change it")
    }

    /// Returns the reason why access was refused: by the file's mode to all users, or to this one.
    fn refused(&self, error: &io::Error, mode: u32, to_everyone: &str) -> Unavailable {
        let is_refused = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::EIO));
        let nobody = || std::fs::metadata(&self.path).is_ok_and(|meta| meta.permissions().mode() & mode == 0);
        if is_refused && nobody() {
            return Unavailable::Unsupported(format!("{} is {to_everyone}", self.name));
        }
        sorted(&self.name, error)
    }
}

impl Handle for SettingFile {
    fn read(&self) -> Result<String, Unavailable> {
        let mut bytes = Vec::new();
        let read = std::fs::File::open(&self.path).and_then(|file| file.take(MOST).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory) => {
                Err(Unavailable::Unsupported(format!("this kernel or its driver has no {}", self.name)))
            }
            // Some files return 'invalid argument' for a feature that the driver does not support (queue_wb_lat_show).
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                Err(Unavailable::Unsupported(format!("{} has no value here", self.name)))
            }
            Err(e) => {
                Err(self.refused(&e, 0o444, "write-only: it has no value that could be shown, checked or rolled back"))
            }
        }
    }

    fn may_write(&self) -> Result<(), Unavailable> {
        // Opening a setting has no effect.
        OpenOptions::new().write(true).open(&self.path).map(|_| ()).map_err(|e| self.write_refused(&e))
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let text = format!("{value}\n");
        // A single write call, because the kernel takes each call as a complete value. Nothing is created.
        let written = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&self.path)
            .and_then(|mut file| file.write(text.as_bytes()));
        match written {
            Ok(length) if length == text.len() => Ok(()),
            Ok(length) => Err(Unavailable::Failed(format!("{}: took {length} of {} bytes", self.name, text.len()))),
            Err(e) => Err(self.write_refused(&e)),
        }
    }
}
