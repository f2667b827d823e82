//! Cache of decoded tails: a recording that is read in pieces decodes each tail only once.

use crate::error::StoreError;
use crate::schema::Table;
use crate::segment::TailByEntity;
use crate::tail::TailReader;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum size of the decoded tails in the cache; the newest always stays.
const MOST_BYTES: usize = 32 << 20;

/// Time that a recorder may take to write a sample.
const WRITING: Duration = Duration::from_millis(20);

/// A tail as it was when first read. Data appended later is not part of a recording that was opened before.
pub(super) struct ReadTail {
    pub(super) boot: String,
    pub(super) tables: Vec<Table>,
    pub(super) samples: TailByEntity,
}

impl ReadTail {
    /// Reads a tail; `None` if it is still empty, or was closed in the meantime.
    fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let mut length = 0;
        let reader = loop {
            let reader = match TailReader::open(path) {
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(None),
                other => other?,
            };
            let is_cut = reader.as_ref().is_some_and(TailReader::is_cut);
            let now = fs::metadata(path).map_or(0, |metadata| metadata.len());
            if !is_cut || std::mem::replace(&mut length, now) == now {
                break reader;
            }
            // A recorder may be writing the last sample.
            std::thread::sleep(WRITING);
        };
        let read = |reader: TailReader| {
            let header = reader.header().clone();
            Self { boot: header.boot, tables: header.tables, samples: TailByEntity::read(reader) }
        };
        Ok(reader.map(read))
    }
}

/// The most recently read tails, oldest first.
#[derive(Default)]
pub(super) struct TailCache(Mutex<Vec<(PathBuf, Arc<ReadTail>)>>);

impl TailCache {
    /// Returns a tail; `None` if it is still empty, or was closed in the meantime.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub(super) fn get(&self, path: &Path) -> Result<Option<Arc<ReadTail>>, StoreError> {
        // Held while a tail is decoded: the threads that read a recording read the same tail.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = all.iter().position(|(known, _)| known == path) {
            let found = all.remove(at);
            let tail = found.1.clone();
            all.push(found);
            return Ok(Some(tail));
        }
        let Some(read) = ReadTail::read(path)?.map(Arc::new) else { return Ok(None) };
        all.push((path.to_owned(), read.clone()));
        let mut bytes: usize = all.iter().map(|(_, tail)| tail.samples.bytes()).sum();
        while bytes > MOST_BYTES && all.len() > 1 {
            bytes -= all.remove(0).1.samples.bytes();
        }
        Ok(Some(read))
    }
}
