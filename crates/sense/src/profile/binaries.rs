//! The files code is mapped from, held open: a process may end, and its files be gone, before their symbols are read.

use super::mapping::Mapping;
use crate::os;
use crate::root::Root;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Files held open, each once.
#[derive(Debug, Default)]
pub(super) struct Binaries {
    files: Vec<File>,
    by_identity: HashMap<(String, u64), Option<usize>>,
}

impl Binaries {
    /// The file of a mapping: its index. None where no file backs it, or it cannot be opened.
    pub(super) fn open(&mut self, pid: u32, mapping: &Mapping, root: &Root) -> Option<usize> {
        if mapping.identity.1 == 0 || !mapping.path.starts_with('/') {
            return None;
        }
        if let Some(&known) = self.by_identity.get(&mapping.identity) {
            return known;
        }
        let room = os::open_files_limit() / 2 > self.files.len() as u64;
        let opened = room.then(|| open(pid, mapping, root)).flatten().map(|file| {
            self.files.push(file);
            self.files.len() - 1
        });
        self.by_identity.insert(mapping.identity.clone(), opened);
        opened
    }

    /// An open file.
    pub(super) fn file(&self, index: usize) -> Option<&File> {
        self.files.get(index)
    }
}

/// By way of map_files, which is the very file, whatever became of its name, where that is permitted (CAP_SYS_ADMIN); else
/// by its name under the root the process has, which in a container is not ours (proc(5)).
fn open(pid: u32, mapping: &Mapping, root: &Root) -> Option<File> {
    let addresses = &mapping.addresses;
    let link = format!("proc/{pid}/map_files/{:x}-{:x}", addresses.start, addresses.end);
    regular(&root.at(link)).or_else(|| regular(&root.at(format!("proc/{pid}/root{}", mapping.path))))
}

/// Opens what is a regular file. Others may hang (a FIFO) or do something when they are opened (a device).
fn regular(path: &Path) -> Option<File> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()
}
