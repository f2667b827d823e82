//! A setting that is a file: under /proc/sys, under /sys, in a control group.

use super::{Handle, sorted};
use crate::machine::Machine;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use whyslow_model::tune::Unavailable;

/// Longer than any setting.
const MOST: u64 = 64 * 1024;

pub(super) struct SettingFile {
    path: PathBuf,
    /// The path, as messages name it.
    name: String,
}

impl SettingFile {
    /// A file by its path from the root.
    pub(super) fn at(machine: &Machine, path: &str) -> Self {
        Self::of(machine.root().at(path), format!("/{path}"))
    }

    pub(super) fn of(path: PathBuf, name: String) -> Self {
        Self { path, name }
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
            // What a driver does not offer some files answer with 'invalid argument' (queue_wb_lat_show).
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                Err(Unavailable::Unsupported(format!("{} has no value here", self.name)))
            }
            Err(e) => Err(sorted(&self.name, &e)),
        }
    }

    fn may_write(&self) -> Result<(), Unavailable> {
        // Opening a setting changes nothing.
        OpenOptions::new().write(true).open(&self.path).map(|_| ()).map_err(|e| sorted(&self.name, &e))
    }

    fn write(&self, value: &str) -> Result<(), Unavailable> {
        let text = format!("{value}\n");
        // One write call: the kernel takes each call as a complete value. Nothing is created.
        let written = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&self.path)
            .and_then(|mut file| file.write(text.as_bytes()));
        match written {
            Ok(length) if length == text.len() => Ok(()),
            Ok(length) => Err(Unavailable::Failed(format!("{}: took {length} of {} bytes", self.name, text.len()))),
            Err(e) => Err(sorted(&self.name, &e)),
        }
    }
}
