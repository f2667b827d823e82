//! The directory under which /proc and /sys are found: `/` on the live machine, a captured tree in tests.

use crate::fd_cache::{self, FdCache};
use crate::source_error::SourceError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_model::value::Name;

/// Directory that the kernel's files are read from. Paths are relative to it: `proc/stat`.
///
/// `polled_*` is for files that are read at every sample: on the live machine they stay open in between. `setting*` is for values
/// that only administrators change: a value may be ten seconds old.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    live: bool,
    bpf: bool,
    fds: Arc<FdCache>,
}

impl Root {
    /// Returns the running machine.
    pub fn live() -> Self {
        Self { path: "/".into(), live: true, bpf: true, fds: Arc::default() }
    }

    /// Returns a captured tree that contains `proc/`, `sys/` ...
    pub fn captured(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), live: false, bpf: false, fds: Arc::default() }
    }

    /// Disables the sources that need a BPF program.
    pub fn without_bpf(self) -> Self {
        Self { bpf: false, ..self }
    }

    /// Whether this is the running machine. If so, sockets and system calls describe the same machine as the files.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Checks that this is the running kernel, for sources that a captured tree cannot contain.
    ///
    /// # Errors
    /// `Absent` on a captured tree.
    pub fn require_live(&self) -> Result<(), SourceError> {
        if self.live { Ok(()) } else { Err(SourceError::Absent("not part of a captured tree".into())) }
    }

    /// Checks that BPF programs may be loaded.
    ///
    /// # Errors
    /// `Absent` on a captured tree; `NotPermitted` with --no-bpf.
    pub fn require_bpf(&self) -> Result<(), SourceError> {
        self.require_live()?;
        if self.bpf {
            return Ok(());
        }
        let why = "BPF is switched off (--no-bpf)".into();
        Err(SourceError::NotPermitted { why, remedy: "run without --no-bpf".into() })
    }

    /// Returns the full path of `path`.
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }

    /// Reads a file; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// Fails if the file is absent, not permitted or cannot be read.
    pub fn text(&self, path: &str) -> Result<String, SourceError> {
        to_text(path, fd_cache::read_once(&self.at(path)))
    }

    /// Reads a file whose records can be longer than the rest of a page: for such files a short read is not the end.
    pub(crate) fn text_of_long_records(&self, path: &str) -> Result<String, SourceError> {
        to_text(path, std::fs::read(self.at(path)))
    }

    pub(crate) fn polled_text(&self, path: &str) -> Result<String, SourceError> {
        if self.live { to_text(path, self.fds.read(path, || self.at(path))) } else { self.text(path) }
    }

    /// Reads a file. Returns `None` if it cannot be read.
    pub fn maybe(&self, path: &str) -> Option<String> {
        self.text(path).ok()
    }

    /// Reads a one-line file and trims it. Returns `None` if it cannot be read.
    pub fn word(&self, path: &str) -> Option<String> {
        self.maybe(path).map(|t| t.trim().to_owned())
    }

    /// Reads the number in a one-line file. Returns `None` if there is none.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.maybe(path)?.trim().parse().ok()
    }

    pub(crate) fn polled_word(&self, path: &str) -> Option<String> {
        self.polled_text(path).ok().map(|t| t.trim().to_owned())
    }

    pub(crate) fn polled_number(&self, path: &str) -> Option<u64> {
        self.polled_text(path).ok()?.trim().parse().ok()
    }

    /// Returns the trimmed value of a setting.
    pub fn setting(&self, path: &str) -> Option<Name> {
        if self.live { self.fds.setting(path, || self.word(path)) } else { self.word(path).map(Name::from) }
    }

    /// Returns the number that a setting contains.
    pub fn setting_number(&self, path: &str) -> Option<u64> {
        self.setting(path)?.parse().ok()
    }

    /// Returns the target of a symbolic link that hardly ever changes.
    pub(crate) fn setting_link(&self, path: &str) -> Option<Name> {
        if self.live { self.fds.setting(path, || self.link(path)) } else { self.link(path).map(Name::from) }
    }

    /// Lists the entries of a directory, sorted; empty if it cannot be read.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).into_iter().flatten();
        let mut names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Returns the target of a symbolic link, `None` if it cannot be read.
    pub fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.at(path)).ok()?.into_os_string().into_string().ok()
    }
}

fn to_text(path: &str, read: io::Result<Vec<u8>>) -> Result<String, SourceError> {
    let bytes = read.map_err(|e| SourceError::from_io(path, &e))?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// Returns the value of a field of /proc/PID/status (proc_pid_status(5)).
pub(crate) fn status_field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
