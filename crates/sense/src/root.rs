//! The folder under which /proc and /sys are found: `/` on the live machine, a captured tree in tests.

use crate::fd_cache::{self, Kept};
use crate::miss::Miss;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_model::value::Name;

/// Where the kernel's files are read from.
#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
    live: bool,
    bpf: bool,
    kept: Arc<Kept>,
}

impl Root {
    /// The running machine.
    pub fn live() -> Self {
        Self { path: "/".into(), live: true, bpf: true, kept: Arc::default() }
    }

    /// A captured tree that holds `proc/`, `sys/` ...
    pub fn captured(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), live: false, bpf: false, kept: Arc::default() }
    }

    /// The same, but no BPF program is loaded to read it.
    pub fn without_bpf(self) -> Self {
        Self { bpf: false, ..self }
    }

    /// Whether this is the running machine, so that sockets and system calls speak of the same machine as the files.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// For what only the running kernel can be asked.
    ///
    /// # Errors
    /// `Absent` on a captured tree.
    pub fn require_live(&self) -> Result<(), Miss> {
        if self.live { Ok(()) } else { Err(Miss::Absent("not part of a captured tree".into())) }
    }

    /// For what only a program in the running kernel can tell.
    ///
    /// # Errors
    /// `Absent` on a captured tree; `NotPermitted` where BPF is not wanted.
    pub fn require_bpf(&self) -> Result<(), Miss> {
        self.require_live()?;
        if self.bpf {
            return Ok(());
        }
        Err(Miss::NotPermitted { why: "BPF is switched off (--no-bpf)".into(), remedy: "run without --no-bpf".into() })
    }

    /// The full path of `path`, which is relative to the root (`proc/stat`).
    pub fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.path.join(path)
    }

    /// The text of a file; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// Absent, not permitted or failed.
    pub fn text(&self, path: &str) -> Result<String, Miss> {
        to_text(path, fd_cache::read_once(&self.at(path)))
    }

    /// The same for a file that is read at every sample: on the running machine it stays open in between.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn kept_text(&self, path: &str) -> Result<String, Miss> {
        if self.live { to_text(path, self.kept.read(path, || self.at(path))) } else { self.text(path) }
    }

    /// The text of a file that is there on some machines and not on others: `None` where it cannot be read.
    pub fn maybe(&self, path: &str) -> Option<String> {
        self.text(path).ok()
    }

    /// The trimmed text of a one-line file, `None` where it cannot be read.
    pub fn word(&self, path: &str) -> Option<String> {
        self.maybe(path).map(|t| t.trim().to_owned())
    }

    /// The number in a one-line file, `None` where there is none.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.maybe(path)?.trim().parse().ok()
    }

    /// The same for a file that is read at every sample.
    pub fn kept_word(&self, path: &str) -> Option<String> {
        self.kept_text(path).ok().map(|t| t.trim().to_owned())
    }

    /// The same for a file that is read at every sample.
    pub fn kept_number(&self, path: &str) -> Option<u64> {
        self.kept_text(path).ok()?.trim().parse().ok()
    }

    /// The trimmed text of a setting: what people change, and the kernel does not. It may be ten seconds old.
    pub fn setting(&self, path: &str) -> Option<Name> {
        if self.live { self.kept.setting(path, || self.word(path)) } else { self.word(path).map(Name::from) }
    }

    /// What a symbolic link points to that hardly ever points elsewhere, `None` where it cannot be read. It may be ten
    /// seconds old.
    pub fn kept_link(&self, path: &str) -> Option<Name> {
        if self.live { self.kept.setting(path, || self.link(path)) } else { self.link(path).map(Name::from) }
    }

    /// The number that a setting is; `None` where it is none.
    pub fn setting_number(&self, path: &str) -> Option<u64> {
        self.setting(path)?.parse().ok()
    }

    /// Names of the entries of a folder, sorted; empty where it cannot be read.
    pub fn list(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.at(path))
            .into_iter()
            .flatten()
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// What a symbolic link points to, `None` where it cannot be read.
    pub fn link(&self, path: &str) -> Option<String> {
        fs::read_link(self.at(path)).ok()?.into_os_string().into_string().ok()
    }
}

fn to_text(path: &str, read: io::Result<Vec<u8>>) -> Result<String, Miss> {
    let bytes = read.map_err(|e| Miss::from_io(path, &e))?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}
