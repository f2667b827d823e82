//! Files, folders and archives of one incident: of a folder or archive the files that tell something are picked out, as
//! they are read, and copies of /proc and /sys are set aside for the readers of the live kernel.
//!
//! Who wrote an archive may be hostile. Nothing is unpacked but what is picked out, under names of ours, and not more of it
//! than fits; links, devices and paths that lead elsewhere are passed over.

mod archive;
mod folder;
mod join;
mod pick;
mod stage;
mod tar;
#[cfg(test)]
mod tests;
mod watch;

pub use join::{Read as ReadCopy, join};
pub use stage::{Tree, Trees};
pub use watch::Watch;
pub(crate) use watch::{Unpacked, over_limit};

use crate::merge::Capture;
use crate::refusal::Refusal;
use crate::{Input, Runs};
use pick::{Pick, pick};
use stage::Stage;
use std::fs::OpenOptions;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use watch::Watched;
use whyslow_model::value::Name;

/// How much of a file is read at once.
const BUFFER: usize = 256 * 1024;

/// What belongs to one incident.
pub struct Incident {
    runs: Runs,
    stage: Stage,
    watch: Arc<Watch>,
    partial: bool,
}

/// What was gathered.
pub struct Gathered {
    /// What other tools printed.
    pub captures: Vec<Capture>,
    /// Copies of /proc and /sys.
    pub trees: Trees,
}

impl Incident {
    /// Nothing yet. With `partial`, what cannot be read with certainty is left out; of folders and archives it always is.
    pub fn new(partial: bool, watch: Arc<Watch>) -> Self {
        Self { runs: Runs::default(), stage: Stage::default(), watch, partial }
    }

    /// Adds a file: a capture, compressed or not, or an archive of many.
    ///
    /// # Errors
    /// Where its meaning is not certain, or it cannot be read.
    pub fn add(&mut self, name: &str, reader: impl Read) -> Result<(), Refusal> {
        let reader = Watched::new(reader, Arc::clone(&self.watch));
        let unreadable = |e: io::Error| unreadable(name, &e);
        let mut reader = archive::opened(reader, &self.watch).map_err(unreadable)?;
        if archive::is_tar(&mut reader).map_err(unreadable)? {
            self.archive(name, reader)
        } else {
            self.runs.add(Input { name: name.to_owned(), reader: Box::new(reader) }, self.partial)
        }
    }

    /// Adds what a folder holds.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn add_folder(&mut self, path: &Path) -> Result<(), Refusal> {
        let shown = path.display().to_string();
        let shown = shown.trim_end_matches('/');
        let wanted = |path: &str| pick(path) != Pick::Nothing;
        let found = folder::files(path, &self.watch, wanted).map_err(|e| unreadable(shown, &e))?;
        for file in found {
            self.watch.stopped().map_err(|e| unreadable(shown, &e))?;
            // It may have been replaced by a pipe since it was looked at, or be one in all but name: /proc/kmsg.
            let opened =
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(&file.path);
            let Ok(opened) = opened else { continue };
            if !opened.metadata().is_ok_and(|m| m.is_file()) {
                continue;
            }
            let reader = Watched::new(opened, Arc::clone(&self.watch));
            self.member(shown, &file.inside, BufReader::with_capacity(BUFFER, reader))?;
        }
        Ok(())
    }

    /// Of an archive that is damaged or cut off, what stands before that is read.
    fn archive(&mut self, name: &str, reader: impl Read) -> Result<(), Refusal> {
        let mut tar = tar::Tar::new(reader);
        let ends = loop {
            match tar.next_file() {
                Ok(Some(path)) => {
                    if let Err(e) = self.watch.member() {
                        break Some(e);
                    }
                    self.member(name, &path, BufReader::with_capacity(BUFFER, tar.contents()))?;
                }
                Ok(None) => break None,
                Err(e) => break Some(e),
            }
        };
        self.watch.stopped().map_err(|e| unreadable(name, &e))?;
        if let Some(e) = ends {
            if watch::is_over_limit(&e) && !self.partial {
                return Err(unreadable(name, &e));
            }
            self.runs.note(
                &Name::from(name),
                "the rest of the archive",
                e.to_string(),
                "give the files of it that matter",
            );
        }
        Ok(())
    }

    /// A file of a folder or archive, where it is one that tells something.
    fn member(&mut self, container: &str, inside: &str, reader: impl Read) -> Result<(), Refusal> {
        match pick(inside) {
            Pick::Capture => self.captured(format!("{container}/{inside}"), reader),
            Pick::Tree { root, path } => self.stage.put(container, &root, &path, reader),
            Pick::MayBeProc { root, path } => self.stage.put_aside(container, &root, &path, reader),
            Pick::Nothing => Ok(()),
        }
    }

    /// What cannot be read of one file among many is left out, and the others are read.
    fn captured(&mut self, name: String, reader: impl Read) -> Result<(), Refusal> {
        let reader = match archive::opened(reader, &self.watch) {
            Ok(reader) => reader,
            Err(e) if watch::is_over_limit(&e) && !self.partial => return Err(unreadable(&name, &e)),
            Err(_) => {
                let why = "it cannot be unpacked".into();
                self.runs.note(&Name::from(name.as_str()), "the file", why, "unpack it by hand");
                return Ok(());
            }
        };
        self.watch.stopped().map_err(|e| unreadable(&name, &e))?;
        self.runs.add(Input { name: name.clone(), reader: Box::new(reader) }, true)?;
        // What ended the reading of this file ends that of the others, too.
        let within = self.watch.stopped().and_then(|()| self.watch.unpack(0));
        within.or_else(|e| if self.partial { Ok(()) } else { Err(unreadable(&name, &e)) })
    }

    /// Puts it all together.
    ///
    /// # Errors
    /// Where nothing was recognised at all.
    pub fn done(mut self) -> Result<Gathered, Refusal> {
        for (name, path) in self.stage.settle() {
            if let Ok(file) = std::fs::File::open(path) {
                self.captured(name, file)?;
            }
        }
        let trees = self.stage.trees();
        let captures = match self.runs.done() {
            // What is not recognised beside a copy of /proc is no matter.
            Err(_) if !trees.is_empty() => Vec::new(),
            captures => captures?,
        };
        Ok(Gathered { captures, trees })
    }
}

fn unreadable(name: &str, e: &io::Error) -> Refusal {
    Refusal::described(&Name::from(name), 1, "a file, folder or archive that can be read", e.to_string())
}
