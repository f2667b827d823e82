//! The folder of a process or thread under /proc, read a file at a time into one buffer.
//!
//! Thousands of small files are read every second: path and bytes live in buffers that are used over and over.

use crate::root::Root;
use crate::source::Miss;
use std::ffi::OsStr;
use std::fs::{self, File, ReadDir};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Large enough for any of these files, so that one read brings it whole.
const BUFFER: usize = 16 * 1024;
/// No file is read further than this.
const LONGEST: usize = 1024 * 1024;

/// Why a file could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The process is gone, or this kernel has no such file.
    Gone,
    /// We may not read it.
    Denied,
    /// Anything else.
    Failed(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Gone,
            ErrorKind::PermissionDenied => Self::Denied,
            // What reading an open file says once its process has ended.
            _ if error.raw_os_error() == Some(libc::ESRCH) => Self::Gone,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The folders of /proc, one of which is entered at a time.
pub(super) struct Folder {
    path: Vec<u8>,
    /// The part of `path` that names /proc.
    proc: usize,
    /// The part of `path` that names the folder entered.
    entered: usize,
    bytes: Vec<u8>,
    size_counts_files: bool,
}

impl Folder {
    /// The folder `proc` under `root`.
    pub(super) fn new(root: &Root) -> Self {
        let path = root.at("proc").into_os_string().into_vec();
        // Since Linux 6.2 the size of /proc/PID/fd is the number of files open (fs/proc/fd.c); before it was 0.
        let size_counts_files = root.is_live() && fs::metadata(root.at("proc/self/fd")).is_ok_and(|m| m.len() > 0);
        Self { proc: path.len(), entered: path.len(), path, bytes: vec![0; BUFFER], size_counts_files }
    }

    /// The numbers of all processes.
    ///
    /// # Errors
    /// /proc cannot be listed.
    pub(super) fn processes(&mut self) -> Result<Vec<u32>, Miss> {
        self.path.truncate(self.proc);
        numbers(&self.path).map_err(|e| Miss::from_io("proc", &e))
    }

    /// The numbers of all threads of a process; none where it is gone.
    pub(super) fn threads(&mut self, pid: u32) -> Vec<u32> {
        self.enter(format_args!("{pid}"));
        numbers(self.file("task")).unwrap_or_default()
    }

    /// Turns to a process.
    pub(super) fn enter_process(&mut self, pid: u32) {
        self.enter(format_args!("{pid}"));
    }

    /// Turns to a thread.
    pub(super) fn enter_thread(&mut self, pid: u32, tid: u32) {
        self.enter(format_args!("{pid}/task/{tid}"));
    }

    /// The bytes of a file of the folder entered.
    ///
    /// # Errors
    /// Why it could not be read.
    pub(super) fn read(&mut self, name: &str) -> Result<&[u8], Refusal> {
        self.read_kept(name, &mut None)
    }

    /// The same of a file that stays open in `kept`, so that it need not be looked up again: for 1,300 processes with
    /// two such files each that made 24 ms of 34 ms.
    ///
    /// # Errors
    /// Why it could not be read.
    pub(super) fn read_kept(&mut self, name: &str, kept: &mut Option<File>) -> Result<&[u8], Refusal> {
        if let Some(file) = kept
            && let Ok(length) = fill(&mut self.bytes, file)
        {
            return Ok(&self.bytes[..length]);
        }
        // A kept file belongs to the process that had the number then, not to one that has it now.
        let file = kept.insert(File::open(as_path(self.file(name)))?);
        let length = fill(&mut self.bytes, file)?;
        Ok(&self.bytes[..length])
    }

    /// Whether counting open files costs next to nothing.
    pub(super) fn counts_files_cheaply(&self) -> bool {
        self.size_counts_files
    }

    /// How many files the process entered has open.
    ///
    /// # Errors
    /// Why they could not be counted.
    pub(super) fn open_files(&mut self) -> Result<u64, Refusal> {
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

/// Reads a file from its start into `bytes`, and says how much it was.
fn fill(bytes: &mut Vec<u8>, file: &File) -> io::Result<usize> {
    let mut length = 0;
    loop {
        let room = bytes.len() - length;
        let got = file.read_at(&mut bytes[length..], length as u64)?;
        length += got;
        // The kernel fills the buffer as long as there is more: a short read was the last, and saves asking again.
        if got < room || bytes.len() >= LONGEST {
            return Ok(length);
        }
        bytes.resize(bytes.len() * 2, 0);
    }
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The entries of a folder that are numbers, in order.
fn numbers(path: &[u8]) -> io::Result<Vec<u32>> {
    let entries: ReadDir = fs::read_dir(as_path(path))?;
    let mut numbers: Vec<u32> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
