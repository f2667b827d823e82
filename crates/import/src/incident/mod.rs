//! Files, folders and archives of one incident. Of a folder or archive the relevant files are read, and copies of /proc
//! and /sys are staged for the readers of the live kernel.
//!
//! An archive may be hostile. Only relevant files are unpacked, under generated names and within limits; links, devices
//! and paths that lead outside are skipped.

mod archive;
mod file_kind;
mod folder;
mod join;
mod monitor;
mod staging;
#[cfg(test)]
mod tests;

pub(crate) use archive::opened;
pub use join::{ProcCopy, join};
pub use monitor::ReadMonitor;
pub(crate) use monitor::{UnpackedReader, over_limit};
pub use staging::{ProcTree, ProcTrees};

use crate::captures::Captures;
use crate::file_reader::{Input, read_file};
use crate::formats::converted;
use crate::kernel_file::KernelFileSets;
use crate::merge::Capture;
use crate::refusal::Refusal;
use file_kind::{FileKind, file_kind};
use monitor::MonitoredReader;
use staging::StagingArea;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use whyslow_model::value::Name;

/// How much of a file is read at a time.
const BUFFER: usize = 256 * 1024;

/// The input of one incident.
pub struct Incident {
    captures: Captures,
    staging: StagingArea,
    monitor: Arc<ReadMonitor>,
    strict: bool,
    skipped: Vec<Refusal>,
}

/// What an incident contains.
pub struct IncidentContents {
    /// The output of other tools.
    pub captures: Vec<Capture>,
    /// Copies of /proc and /sys.
    pub trees: ProcTrees,
    /// Files that were named, in which nothing was recognized, and why.
    pub skipped: Vec<Refusal>,
}

impl Incident {
    /// Without input yet. Uncertain input is skipped; if `strict`, only in folders and archives.
    pub fn new(strict: bool, monitor: Arc<ReadMonitor>) -> Self {
        Self { captures: Captures::default(), staging: StagingArea::default(), monitor, strict, skipped: Vec::new() }
    }

    /// Adds a file: a capture, compressed or not, or an archive of many.
    ///
    /// # Errors
    /// If its meaning is uncertain, or it cannot be read.
    pub fn add(&mut self, name: &str, reader: impl Read) -> Result<(), Refusal> {
        let reader = MonitoredReader::new(reader, Arc::clone(&self.monitor));
        let unreadable = |e: io::Error| unreadable(name, &e);
        let mut reader = archive::opened(reader, &self.monitor).map_err(unreadable)?;
        if archive::is_tar(&mut reader).map_err(unreadable)? {
            self.archive(name, reader)
        } else {
            let input = Input { name: name.to_owned(), reader: Box::new(reader) };
            self.skipped.extend(read_file(input, self.strict, &mut self.captures)?);
            Ok(())
        }
    }

    /// Adds the files of a folder.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn add_folder(&mut self, path: &Path) -> Result<(), Refusal> {
        let shown = path.display().to_string();
        let shown = shown.trim_end_matches('/');
        let wanted = |path: &str| file_kind(path) != FileKind::Other;
        let found = folder::files(path, &self.monitor, wanted).map_err(|e| unreadable(shown, &e))?;
        for file in found {
            self.monitor.stopped().map_err(|e| unreadable(shown, &e))?;
            // It may have been replaced by a pipe meanwhile, or behave like one: /proc/kmsg.
            let opened =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(&file.path);
            let Ok(opened) = opened else { continue };
            if !opened.metadata().is_ok_and(|m| m.is_file()) {
                continue;
            }
            if file_kind(&file.inside) == FileKind::Recording {
                self.recording(&format!("{shown}/{}", file.inside), &file.path, opened)?;
                continue;
            }
            let reader = MonitoredReader::new(opened, Arc::clone(&self.monitor));
            self.member(shown, &file.inside, BufReader::with_capacity(BUFFER, reader))?;
        }
        Ok(())
    }

    /// Adds a binary recording, as far as its tool is installed and can read it.
    fn recording(&mut self, name: &str, path: &Path, mut file: File) -> Result<(), Refusal> {
        match converted(path, &mut file, &self.monitor) {
            Ok(Some(reader)) => self.captured(name.to_owned(), reader),
            Ok(None) => Ok(()),
            Err(e) if monitor::is_over_limit(&e) && self.strict => Err(unreadable(name, &e)),
            Err(e) => {
                self.captures.not_recognized(&unreadable(name, &e));
                self.captures.note(&Name::from(name), "the file", e.to_string(), "convert it by hand");
                Ok(())
            }
        }
    }

    /// Reads an archive; if it is damaged or truncated, up to that point.
    fn archive(&mut self, name: &str, reader: impl Read) -> Result<(), Refusal> {
        let mut tar = archive::Tar::new(reader);
        let ends = loop {
            match tar.next_file() {
                Ok(Some(path)) => {
                    if let Err(e) = self.monitor.member() {
                        break Some(e);
                    }
                    self.member(name, &path, BufReader::with_capacity(BUFFER, tar.contents()))?;
                }
                Ok(None) => break None,
                Err(e) => break Some(e),
            }
        };
        self.monitor.stopped().map_err(|e| unreadable(name, &e))?;
        if let Some(e) = ends {
            if monitor::is_over_limit(&e) && self.strict {
                return Err(unreadable(name, &e));
            }
            self.captures.note(
                &Name::from(name),
                "the rest of the archive",
                e.to_string(),
                "give the files of it that matter",
            );
        }
        Ok(())
    }

    /// Adds a file of a folder or archive if it is relevant.
    fn member(&mut self, container: &str, inside: &str, reader: impl Read) -> Result<(), Refusal> {
        match file_kind(inside) {
            FileKind::Capture => self.captured(format!("{container}/{inside}"), reader),
            FileKind::InProcTree { root, path } => self.staging.put(container, &root, &path, reader),
            FileKind::MayBeProc { root, path } => self.staging.put_aside(container, &root, &path, reader),
            FileKind::Recording => {
                let why = "its tool reads it only where its files are on disk".into();
                self.captures.note(
                    &Name::from(format!("{container}/{inside}")),
                    "the file",
                    why,
                    "unpack the archive first",
                );
                Ok(())
            }
            FileKind::Other => Ok(()),
        }
    }

    /// Adds one file among many: what cannot be read of it is skipped.
    fn captured(&mut self, name: String, reader: impl Read) -> Result<(), Refusal> {
        let reader = match archive::opened(reader, &self.monitor) {
            Ok(reader) => reader,
            Err(e) if monitor::is_over_limit(&e) && self.strict => return Err(unreadable(&name, &e)),
            Err(_) => {
                let why = "it cannot be unpacked".into();
                self.captures.note(&Name::from(name.as_str()), "the file", why, "unpack it by hand");
                return Ok(());
            }
        };
        self.monitor.stopped().map_err(|e| unreadable(&name, &e))?;
        read_file(Input { name: name.clone(), reader: Box::new(reader) }, false, &mut self.captures)?;
        // A limit reached in this file ends the others, too.
        let within = self.monitor.stopped().and_then(|()| self.monitor.unpack(0));
        within.or_else(|e| if self.strict { Err(unreadable(&name, &e)) } else { Ok(()) })
    }

    /// Writes files of /proc and /sys that stand in texts where those of archives are.
    fn stage(&mut self, sets: KernelFileSets) -> Result<(), Refusal> {
        let beside_copies = self.staging.has_trees();
        for (name, set) in sets.named() {
            if beside_copies {
                let why = "there are whole copies of /proc and /sys, which are read instead".into();
                self.captures.note(&Name::from(name), "files of /proc and /sys", why, "give the text alone");
                continue;
            }
            self.staging.put_time(&name, set.at);
            for (path, (content, location)) in set.files {
                let parts: Vec<String> = path.split('/').map(str::to_owned).collect();
                self.staging.put(&name, "", &parts, content.as_bytes())?;
                self.staging.locate(&name, path, location);
            }
        }
        Ok(())
    }

    /// Merges everything.
    ///
    /// # Errors
    /// If nothing was recognized at all.
    pub fn done(mut self) -> Result<IncidentContents, Refusal> {
        for (name, path) in self.staging.settle() {
            if let Ok(file) = std::fs::File::open(path) {
                self.captured(name, file)?;
            }
        }
        let sets = std::mem::take(&mut self.captures.kernel_files);
        self.stage(sets)?;
        let trees = self.staging.trees();
        let captures = match self.captures.finish() {
            // Beside a copy of /proc, unrecognized files do not matter.
            Err(_) if !trees.is_empty() => Vec::new(),
            captures => captures?,
        };
        Ok(IncidentContents { captures, trees, skipped: self.skipped })
    }
}

fn unreadable(name: &str, e: &io::Error) -> Refusal {
    Refusal::described(&Name::from(name), 1, "a file, folder or archive that can be read", e.to_string())
}
