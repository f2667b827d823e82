//! Copies of /proc and /sys, laid out as the readers of the live kernel expect them.

use super::join::ProcCopy;
use super::monitor::{ReadMonitor, is_over_limit, over_limit};
use crate::clock::PrintedTime;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use whyslow_model::origin::SourceLocation;
use whyslow_model::snapshot::Snapshot;

/// Maximum size of a copied file: no file of /proc that is read is larger.
const LARGEST: u64 = 4 << 20;
/// Maximum number of bytes in all copies.
const MOST_BYTES: u64 = 128 << 20;
/// Maximum number of files and folders in all copies.
const MOST_INODES: usize = 20_000;
/// Folder for files that may be from /proc.
const ASIDE: &str = "aside";
/// Files that identify a folder as a copy of /proc, if it has both.
const SIGNS: [&str; 2] = ["stat", "meminfo"];

fn too_many() -> io::Error {
    over_limit(format!("more than {MOST_INODES} files of /proc and /sys; give the ones that matter"))
}

fn is_tree(root: &Path) -> bool {
    root.join("proc").is_dir() || root.join("sys").is_dir()
}

#[derive(Default)]
pub struct StagingArea {
    folder: Option<TempDir>,
    /// Trees by the names that users know, with their positions in the order in which they were found.
    roots: BTreeMap<String, (usize, PathBuf)>,
    /// Locations in texts of the files of each tree.
    locations: HashMap<String, Vec<(String, SourceLocation)>>,
    /// Time at which the files of each tree were printed.
    times: HashMap<String, PrintedTime>,
    bytes: u64,
    inodes: usize,
}

/// A copy of /proc and /sys.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcTree {
    /// The folder or archive it comes from.
    pub name: String,
    /// The folder that stands for `/`.
    pub path: PathBuf,
    /// Locations of its files, if it was assembled from texts.
    locations: Vec<(String, SourceLocation)>,
    /// Time at which they were printed there.
    at: PrintedTime,
}

impl ProcTree {
    /// Returns a copy of /proc with the contents that were read from this tree.
    pub fn copy(&self, snapshot: Snapshot) -> ProcCopy {
        ProcCopy { name: self.name.clone(), snapshot, locations: self.locations.clone(), at: self.at }
    }
}

/// Copies of /proc and /sys, removed on drop.
pub struct ProcTrees {
    trees: Vec<ProcTree>,
    _folder: Option<TempDir>,
}

impl ProcTrees {
    /// Iterates over the copies.
    pub fn iter(&self) -> impl Iterator<Item = &ProcTree> {
        self.trees.iter()
    }

    /// Returns true if there are no copies.
    pub fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }
}

impl StagingArea {
    /// Records the location of a file of a tree.
    pub fn locate(&mut self, name: &str, path: String, location: SourceLocation) {
        self.locations.entry(name.to_owned()).or_default().push((path, location));
    }

    /// Records the time at which the files of a tree were printed.
    pub fn put_time(&mut self, name: &str, at: PrintedTime) {
        self.times.insert(name.to_owned(), at);
    }

    /// Sets aside a file that is from /proc if its folder is a copy of /proc.
    ///
    /// # Errors
    /// Fails like [`put`](Self::put).
    pub fn put_aside(&mut self, container: &str, root: &str, path: &[String], reader: impl Read) -> io::Result<()> {
        let aside: Vec<String> = [ASIDE.to_owned()].into_iter().chain(path.iter().cloned()).collect();
        self.put(container, root, &aside, reader)
    }

    /// Copies a file of /proc or /sys into its tree.
    ///
    /// # Errors
    /// Fails if a limit is reached, or it cannot be read.
    pub fn put(&mut self, container: &str, root: &str, path: &[String], reader: impl Read) -> io::Result<()> {
        if self.bytes >= MOST_BYTES {
            return Err(over_limit(format!(
                "more than {} MiB of /proc and /sys; give the files that matter",
                MOST_BYTES >> 20
            )));
        }
        let name = if root.is_empty() { container.to_owned() } else { format!("{container}/{root}") };
        let to = path.iter().fold(self.root(name)?, |folder, part| folder.join(part));
        // Duplicates, and files in place of folders, are skipped.
        let Some(Ok(())) = to.parent().map(|folder| self.make(folder)) else {
            return if self.inodes >= MOST_INODES { Err(too_many()) } else { Ok(()) };
        };
        let Ok(mut file) = File::create_new(&to) else { return Ok(()) };
        self.inodes += 1;
        match io::copy(&mut reader.take(LARGEST), &mut file) {
            Ok(count) => self.bytes += count,
            Err(e) if is_over_limit(&e) || e.kind() == io::ErrorKind::StorageFull => return Err(e),
            // Some files of /proc can be read only in part.
            Err(_) => {}
        }
        Ok(())
    }

    /// Creates a folder and its parents, each of which counts towards the limit.
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        if self.inodes >= MOST_INODES {
            return Err(too_many());
        }
        match fs::create_dir(folder) {
            Ok(()) => self.inodes += 1,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.make(folder.parent().ok_or(e)?)?;
                fs::create_dir(folder)?;
                self.inodes += 1;
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn root(&mut self, name: String) -> io::Result<PathBuf> {
        if self.folder.is_none() {
            self.folder = Some(tempfile::Builder::new().prefix("whyslow-read-").tempdir()?);
        }
        let folder = self.folder.as_ref().map_or(Path::new("/nonexistent"), TempDir::path);
        let number = self.roots.len();
        let next = || (number, folder.join(number.to_string()));
        Ok(self.roots.entry(name).or_insert_with(next).1.clone())
    }

    /// Decides what the files set aside are: copies of /proc become trees, other files are returned with their names.
    pub fn settle(&mut self) -> Vec<(String, PathBuf)> {
        let mut captures = Vec::new();
        for (name, (_, root)) in &self.roots {
            let aside = root.join(ASIDE);
            let is_proc = SIGNS.iter().all(|sign| aside.join(sign).is_file());
            if is_proc && fs::rename(&aside, root.join("proc")).is_ok() {
                continue;
            }
            for found in super::folder::files(&aside, &ReadMonitor::default(), |_| true).unwrap_or_default().0 {
                captures.push((format!("{name}/{}", found.inside), found.path));
            }
        }
        captures
    }

    /// Returns true if there are copies, not counting files that are still set aside.
    pub fn has_trees(&self) -> bool {
        self.roots.values().any(|(_, root)| is_tree(root))
    }

    /// Returns the copies in the order in which they were found.
    pub fn trees(self) -> ProcTrees {
        let mut roots: Vec<_> = self.roots.into_iter().filter(|(_, (_, root))| is_tree(root)).collect();
        roots.sort_by_key(|(_, (number, _))| *number);
        let (mut locations, times) = (self.locations, self.times);
        let tree = |(name, (_, path)): (String, (usize, PathBuf))| {
            let locations = locations.remove(&name).unwrap_or_default();
            let at = times.get(&name).copied().unwrap_or_default();
            ProcTree { name, path, locations, at }
        };
        let trees = roots.into_iter().map(tree).collect();
        ProcTrees { trees, _folder: self.folder }
    }
}
