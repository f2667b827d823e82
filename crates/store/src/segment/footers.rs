//! Cache of parsed file footers. Each footer describes every column of every segment of an hour, and reading a
//! recording in pieces opens the files again for each piece.

use super::hour::Footer;
use crate::error::StoreError;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of parts described by all cached footers, about forty megabytes. An hour has about ten thousand
/// parts; with many restarts ten times as many.
const MOST_PARTS: usize = 200_000;

/// Identity of one version of a file: a new version has a new inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl FileVersion {
    pub(super) fn read(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Footers by file; the least recently used are dropped.
#[derive(Default)]
pub(crate) struct FooterCache(Mutex<Footers>);

#[derive(Default)]
struct Footers {
    by_path: HashMap<PathBuf, KnownFooter>,
    parts: usize,
    /// Counter of uses.
    now: u64,
}

struct KnownFooter {
    version: FileVersion,
    footer: Arc<Footer>,
    used: u64,
}

impl FooterCache {
    /// Returns the footer of a version of a file, parsing it unless it is cached.
    ///
    /// # Errors
    /// Fails if it cannot be parsed.
    pub(super) fn get(
        &self,
        path: &Path,
        version: FileVersion,
        parse: impl FnOnce() -> Result<Footer, StoreError>,
    ) -> Result<Arc<Footer>, StoreError> {
        if let Some(known) = self.locked(|all| all.known(path, version)) {
            return Ok(known);
        }
        let footer = Arc::new(parse()?);
        self.locked(|all| all.add(path, version, &footer));
        Ok(footer)
    }

    fn locked<T>(&self, work: impl FnOnce(&mut Footers) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Footers {
    fn known(&mut self, path: &Path, version: FileVersion) -> Option<Arc<Footer>> {
        self.now += 1;
        let known = self.by_path.get_mut(path).filter(|known| known.version == version)?;
        known.used = self.now;
        Some(known.footer.clone())
    }

    fn add(&mut self, path: &Path, version: FileVersion, footer: &Arc<Footer>) {
        let added = KnownFooter { version, footer: footer.clone(), used: self.now };
        self.parts += footer.parts();
        if let Some(old) = self.by_path.insert(path.to_owned(), added) {
            self.parts -= old.footer.parts();
        }
        if self.parts > MOST_PARTS {
            self.drop_old();
        }
    }

    /// Drops the half that was unused for the longest time.
    fn drop_old(&mut self) {
        let mut uses: Vec<u64> = self.by_path.values().map(|known| known.used).collect();
        uses.sort_unstable();
        let middle = uses.get(uses.len() / 2).copied().unwrap_or(0);
        self.by_path.retain(|_, known| known.used >= middle);
        self.parts = self.by_path.values().map(|known| known.footer.parts()).sum();
    }
}
