//! The directory of a process or thread under /proc, read a file at a time into one buffer.
//!
//! Thousands of small files are read every second, so the buffers for path and content are reused.

use crate::root::Root;
use crate::source_error::SourceError;
use std::ffi::OsStr;
use std::fs::{self, File, ReadDir};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Large enough to read any of these files at once.
const BUFFER: usize = 16 * 1024;
const MAX_SIZE: usize = 1024 * 1024;

/// Reason why a file could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileError {
    /// The process no longer exists, or this kernel lacks the file.
    Gone,
    Denied,
    Failed(String),
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Gone,
            ErrorKind::PermissionDenied => Self::Denied,
            // Returned when reading an open file of a process that has ended.
            _ if error.raw_os_error() == Some(libc::ESRCH) => Self::Gone,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// Reader of directories under /proc, one at a time.
pub(super) struct ProcDir {
    path: Vec<u8>,
    /// Length of the path to /proc.
    proc: usize,
    /// Length of the path to the entered directory.
    entered: usize,
    buffer: Vec<u8>,
    size_counts_files: bool,
}

impl ProcDir {
    pub(super) fn new(root: &Root) -> Self {
        let path = root.at("proc").into_os_string().into_vec();
        // Since Linux 6.2 the size of /proc/PID/fd is the number of open files (fs/proc/fd.c).
        let size_counts_files = root.is_live() && fs::metadata(root.at("proc/self/fd")).is_ok_and(|m| m.len() > 0);
        Self { proc: path.len(), entered: path.len(), path, buffer: vec![0; BUFFER], size_counts_files }
    }

    pub(super) fn processes(&mut self) -> Result<Vec<u32>, SourceError> {
        self.path.truncate(self.proc);
        numbers(&self.path).map_err(|e| SourceError::from_io("proc", &e))
    }

    /// Lists the threads of a process; empty if the process no longer exists.
    pub(super) fn threads(&mut self, pid: u32) -> Vec<u32> {
        self.enter(format_args!("{pid}"));
        numbers(self.file("task")).unwrap_or_default()
    }

    pub(super) fn enter_process(&mut self, pid: u32) {
        self.enter(format_args!("{pid}"));
    }

    pub(super) fn enter_thread(&mut self, pid: u32, tid: u32) {
        self.enter(format_args!("{pid}/task/{tid}"));
    }

    /// Reads a file of the entered directory.
    pub(super) fn read(&mut self, name: &str) -> Result<&[u8], FileError> {
        self.read_open(name, &mut None)
    }

    /// Reads a file that stays open in `open` until the next sample: for 1,300 processes with two such files, opening them takes
    /// 24 ms of 34 ms.
    pub(super) fn read_open(&mut self, name: &str, open: &mut Option<File>) -> Result<&[u8], FileError> {
        if let Some(file) = open
            && let Ok(length) = fill(&mut self.buffer, file)
        {
            return Ok(&self.buffer[..length]);
        }
        // An open file belongs to the process that had the PID when it was opened, not to the one that has it now.
        let file = open.insert(File::open(as_path(self.file(name)))?);
        let length = fill(&mut self.buffer, file)?;
        Ok(&self.buffer[..length])
    }

    pub(super) fn counts_files_by_size(&self) -> bool {
        self.size_counts_files
    }

    pub(super) fn open_files(&mut self) -> Result<u64, FileError> {
        let sized = self.size_counts_files;
        let fd = as_path(self.file("fd"));
        Ok(if sized { fs::metadata(fd)?.len() } else { fs::read_dir(fd)?.count() as u64 })
    }

    fn enter(&mut self, name: std::fmt::Arguments<'_>) {
        self.path.truncate(self.proc);
        self.path.push(b'/');
        // Writing to a Vec cannot fail.
        let _ = self.path.write_fmt(name);
        self.entered = self.path.len();
    }

    fn file(&mut self, name: &str) -> &[u8] {
        self.path.truncate(self.entered);
        self.path.push(b'/');
        self.path.extend_from_slice(name.as_bytes());
        &self.path
    }
}

/// Reads a file from its start and returns its length.
fn fill(bytes: &mut Vec<u8>, file: &File) -> io::Result<usize> {
    let mut length = 0;
    loop {
        let free = bytes.len() - length;
        let got = file.read_at(&mut bytes[length..], length as u64)?;
        length += got;
        // The kernel fills the buffer while there is more data, so a short read is the last.
        if got < free || bytes.len() >= MAX_SIZE {
            return Ok(length);
        }
        bytes.resize(bytes.len() * 2, 0);
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Lists the numeric entries of a directory, sorted.
fn numbers(path: &[u8]) -> io::Result<Vec<u32>> {
    let entries: ReadDir = fs::read_dir(as_path(path))?;
    let mut numbers: Vec<u32> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
