//! Files, folders and archives of one incident. The relevant files of a folder or archive are read, and copies of /proc and
//! /sys are staged for the readers of the live kernel.
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

/// Number of bytes read from a file at a time.
const BUFFER: usize = 256 * 1024;
/// Remedy if a folder or archive was not read to its end.
const GIVE_FILES: &str = "give the files of it that matter";

/// Input of one incident.
pub struct Incident {
    captures: Captures,
    staging: StagingArea,
    monitor: Arc<ReadMonitor>,
    strict: bool,
    skipped: Vec<Refusal>,
}

/// Contents of an incident.
pub struct IncidentContents {
    /// The output of other tools.
    pub captures: Vec<Capture>,
    /// Copies of /proc and /sys.
    pub trees: ProcTrees,
    /// Files given by the user in which nothing was recognized, and why.
    pub skipped: Vec<Refusal>,
}

impl Incident {
    /// Creates an incident without input. Uncertain input is skipped; if `strict`, only in folders and archives.
    pub fn new(strict: bool, monitor: Arc<ReadMonitor>) -> Self {
        Self { captures: Captures::default(), staging: StagingArea::default(), monitor, strict, skipped: Vec::new() }
    }

    /// Adds a file: a capture, compressed or not, or an archive of many. One that cannot be read is skipped.
    ///
    /// # Errors
    /// Fails if the reading was interrupted; if strict, also if the file cannot be read or its meaning is uncertain.
    pub fn add(&mut self, name: &str, reader: impl Read) -> Result<(), Refusal> {
        let reader = MonitoredReader::new(reader, Arc::clone(&self.monitor));
        let opened = archive::opened(reader, &self.monitor);
        let opened = opened.and_then(|mut reader| Ok((archive::is_tar(&mut reader)?, reader)));
        match opened {
            Ok((true, reader)) => self.archive(name, reader),
            Ok((false, reader)) => {
                let input = Input { name: name.to_owned(), reader: Box::new(reader) };
                self.skipped.extend(read_file(input, self.strict, &mut self.captures)?);
                Ok(())
            }
            Err(e) => self.skip(name, &e),
        }
    }

    /// Skips a file or folder that cannot be read, and reads the others.
    ///
    /// # Errors
    /// Fails if strict, or if the reading was interrupted.
    pub fn skip(&mut self, name: &str, why: &io::Error) -> Result<(), Refusal> {
        let refusal = unreadable(name, why);
        if self.strict {
            return Err(refusal);
        }
        self.monitor.interrupted().map_err(|e| unreadable(name, &e))?;
        self.captures.not_recognized(&refusal);
        self.skipped.push(refusal);
        Ok(())
    }

    /// Notes that a part of a folder or archive was not read.
    ///
    /// # Errors
    /// Fails if strict and a limit was reached, or if the reading was interrupted.
    fn skip_part(&mut self, name: &str, part: &str, why: &io::Error, remedy: &str) -> Result<(), Refusal> {
        if self.strict && monitor::is_over_limit(why) {
            return Err(unreadable(name, why));
        }
        self.monitor.interrupted().map_err(|e| unreadable(name, &e))?;
        self.captures.not_recognized(&unreadable(name, why));
        self.captures.note(&Name::from(name), part, why.to_string(), remedy);
        Ok(())
    }

    /// Adds the files of a folder.
    ///
    /// # Errors
    /// Fails if the reading was interrupted; if strict, also if the folder cannot be read.
    pub fn add_folder(&mut self, path: &Path) -> Result<(), Refusal> {
        let shown = path.display().to_string();
        let shown = shown.trim_end_matches('/');
        let wanted = |path: &str| file_kind(path) != FileKind::Other;
        let (found, ended) = match folder::files(path, &self.monitor, wanted) {
            Ok(files) => files,
            Err(e) => return self.skip(shown, &e),
        };
        if let Some(e) = ended {
            self.skip_part(shown, "the rest of the folder", &e, GIVE_FILES)?;
        }
        for file in found {
            if let Err(e) = self.monitor.stopped() {
                return self.skip_part(shown, "the rest of the folder", &e, GIVE_FILES);
            }
            // The file may have been replaced by a pipe meanwhile, or behave like one: /proc/kmsg.
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

    /// Adds a binary recording, if its tool is installed and can read it.
    fn recording(&mut self, name: &str, path: &Path, mut file: File) -> Result<(), Refusal> {
        match converted(path, &mut file, &self.monitor) {
            Ok(Some(reader)) => self.captured(name.to_owned(), reader),
            Ok(None) => Ok(()),
            Err(e) => self.skip_part(name, "the file", &e, "convert it by hand"),
        }
    }

    /// Reads an archive; if it is damaged or truncated, only up to that point.
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
        ends.map_or(Ok(()), |e| self.skip_part(name, "the rest of the archive", &e, GIVE_FILES))
    }

    /// Adds a file of a folder or archive if it is relevant.
    fn member(&mut self, container: &str, inside: &str, reader: impl Read) -> Result<(), Refusal> {
        match file_kind(inside) {
            FileKind::Capture => self.captured(format!("{container}/{inside}"), reader),
            FileKind::InProcTree { root, path } => {
                let staged = self.staging.put(container, &root, &path, reader);
                self.staged(container, inside, staged)
            }
            FileKind::MayBeProc { root, path } => {
                let staged = self.staging.put_aside(container, &root, &path, reader);
                self.staged(container, inside, staged)
            }
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

    fn staged(&mut self, container: &str, inside: &str, staged: io::Result<()>) -> Result<(), Refusal> {
        let name = format!("{container}/{inside}");
        match staged {
            Err(e) if self.strict => Err(unreadable(&name, &e)),
            Err(e) => self.skip_part(&name, "the file", &e, GIVE_FILES),
            Ok(()) => Ok(()),
        }
    }

    /// Adds one file among many. Skips what cannot be read of it.
    fn captured(&mut self, name: String, reader: impl Read) -> Result<(), Refusal> {
        let reader = match archive::opened(reader, &self.monitor) {
            Ok(reader) => reader,
            Err(e) => return self.skip_part(&name, "the file", &e, "unpack it by hand"),
        };
        read_file(Input { name: name.clone(), reader: Box::new(reader) }, false, &mut self.captures)?;
        // A limit reached in this file also ends the reading of the others.
        let within = self.monitor.stopped().and_then(|()| self.monitor.unpack(0));
        within.or_else(|e| self.skip_part(&name, "the rest of the file", &e, GIVE_FILES))
    }

    /// Stages files of /proc and /sys from texts, next to those from archives.
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
                let staged = self.staging.put(&name, "", &parts, content.as_bytes());
                self.staged(&name, &path, staged)?;
                self.staging.locate(&name, path, location);
            }
        }
        Ok(())
    }

    /// Merges all input.
    ///
    /// # Errors
    /// Fails if nothing was recognized at all.
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
            // With a copy of /proc, unrecognized files do not matter.
            Err(_) if !trees.is_empty() => Vec::new(),
            captures => captures?,
        };
        Ok(IncidentContents { captures, trees, skipped: self.skipped })
    }
}

fn unreadable(name: &str, e: &io::Error) -> Refusal {
    Refusal::described(&Name::from(name), 1, "a file, folder or archive that can be read", e.to_string())
}
