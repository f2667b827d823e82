//! Keeps files that are read at every sample open: opening and closing a file under /proc or /sys costs five times as much as
//! reading it.
//!
//! An open file outlives what it describes: once the device or cgroup is gone, reading fails and the path is opened again.
//! An open file keeps no cgroup alive, but it does keep a network namespace alive, so only files of the observer's own
//! namespace are cached.

use crate::os;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use whyslow_model::value::Name;

/// The kernel needs about 5 KB for each open file.
const MAX_FILES: usize = 2048;
/// Files unused for this long are closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const SETTING_TTL: Duration = Duration::from_secs(10);
/// Most files fit into this many bytes. Most files return at most a page per read, but the kernel formats the whole of
/// /proc/vmstat again for each read.
const INITIAL_SIZE: usize = 16 * 1024;
/// A read shorter than this, with room for more, has reached the end of the file. seq_file (fs/seq_file.c) fills a buffer of at
/// least a page with whole records and stops early only if the next one does not fit. A record of /proc/self/mountstats can be
/// longer than the rest of a page, so [`Root::text_of_long_records`](crate::Root) reads that file instead.
const SHORT_READ: usize = 1024;

thread_local! {
    /// Allocating and clearing a buffer for each of sixty files takes longer than copying what was read.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; INITIAL_SIZE]);
}

/// Open files and settings, by path.
#[derive(Debug, Default)]
pub(crate) struct FdCache {
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    files: HashMap<Box<str>, CacheEntry>,
    /// `None` for a setting that cannot be read.
    settings: HashMap<Box<str>, (Instant, Option<Name>)>,
    last_sweep: Option<Instant>,
}

#[derive(Debug)]
struct CacheEntry {
    file: Arc<CachedFile>,
    last_used: Instant,
}

#[derive(Debug)]
struct CachedFile {
    file: File,
    last_length: AtomicUsize,
}

impl CachedFile {
    fn open(path: &Path) -> io::Result<(Vec<u8>, Self)> {
        let file = File::open(path)?;
        let bytes = read_all(&file)?;
        let last_length = AtomicUsize::new(bytes.len());
        Ok((bytes, Self { file, last_length }))
    }

    /// Offers a buffer slightly larger than the previous content: for a file under /proc/sys the kernel allocates and clears as
    /// much memory as the reader offers (fs/proc/proc_sysctl.c), which evicts everything else from the CPU caches.
    fn read(&self) -> io::Result<Vec<u8>> {
        let bytes = read_into(&self.file, self.last_length.load(Ordering::Relaxed) + SHORT_READ + 1)?;
        self.last_length.store(bytes.len(), Ordering::Relaxed);
        Ok(bytes)
    }
}

impl FdCache {
    /// Returns the current content of the file `name` at `path`.
    pub(crate) fn read(&self, name: &str, path: impl FnOnce() -> PathBuf) -> io::Result<Vec<u8>> {
        let cached = self.lock().file(name);
        // Read without the lock, so that a file that hangs does not block the others.
        if let Some(file) = cached {
            match file.read() {
                Ok(bytes) => return Ok(bytes),
                Err(_) => drop(self.lock().files.remove(name)),
            }
        }
        let (bytes, file) = CachedFile::open(&path())?;
        self.lock().insert(name, file);
        Ok(bytes)
    }

    /// Returns a setting; calls `read` at most once in ten seconds.
    pub(crate) fn setting(&self, name: &str, read: impl FnOnce() -> Option<String>) -> Option<Name> {
        if let Some((at, value)) = self.lock().settings.get(name)
            && at.elapsed() < SETTING_TTL
        {
            return value.clone();
        }
        let value = read().map(Name::from);
        self.lock().settings.insert(name.into(), (Instant::now(), value.clone()));
        value
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn file(&mut self, name: &str) -> Option<Arc<CachedFile>> {
        let entry = self.files.get_mut(name)?;
        entry.last_used = Instant::now();
        Some(entry.file.clone())
    }

    /// Caches a file. The cache uses at most half of the files this process may open.
    fn insert(&mut self, name: &str, file: CachedFile) {
        let now = Instant::now();
        if self.last_sweep.is_none_or(|at| now - at > IDLE_TIMEOUT) {
            self.files.retain(|_, entry| now - entry.last_used < IDLE_TIMEOUT);
            self.last_sweep = Some(now);
        }
        if self.files.len() < MAX_FILES.min(os::open_files_limit() as usize / 2) {
            self.files.insert(name.into(), CacheEntry { file: Arc::new(file), last_used: now });
        }
    }
}

/// Reads a whole file and closes it.
pub(crate) fn read_once(path: &Path) -> io::Result<Vec<u8>> {
    read_all(&File::open(path)?)
}

/// Reads a whole file from its start. Files under /proc have size 0, so the buffer grows until a read is short.
pub(crate) fn read_all(file: &File) -> io::Result<Vec<u8>> {
    read_into(file, INITIAL_SIZE)
}

fn read_into(file: &File, mut offered: usize) -> io::Result<Vec<u8>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut length = 0;
        loop {
            if buffer.len() < offered {
                buffer.resize(offered, 0);
            }
            let read = match file.read_at(&mut buffer[length..offered], length as u64) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            length += read;
            if length == offered {
                offered *= 2;
            } else if read < SHORT_READ {
                return Ok(buffer[..length].to_vec());
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_open_file_returns_its_current_content() {
        let folder = whyslow_testing::folder();
        let path = folder.path().join("level");
        let cache = FdCache::default();
        // Much longer than the buffer, slightly longer, and shorter again.
        let (long, longer) = ("x".repeat(3 * INITIAL_SIZE), "y".repeat(2 * SHORT_READ));
        for text in ["12\n", longer.as_str(), "12\n", long.as_str(), ""] {
            fs::write(&path, text).unwrap();
            assert_eq!(cache.read("level", || path.clone()).unwrap(), text.as_bytes());
        }
        assert_eq!(cache.lock().files.len(), 1);
    }

    #[test]
    fn a_file_that_fails_to_read_is_opened_again() {
        let cache = FdCache::default();
        // Reading a directory fails, as reading the file of a removed device does.
        let directory = CachedFile { file: File::open("/proc").unwrap(), last_length: AtomicUsize::new(0) };
        cache.lock().insert("proc/uptime", directory);
        assert!(!cache.read("proc/uptime", || "/proc/uptime".into()).unwrap().is_empty());
        assert!(!cache.read("proc/uptime", || unreachable!("it is open")).unwrap().is_empty());
        let missing = cache.read("nowhere", || "/proc/no such file".into());
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_setting_is_read_once_in_ten_seconds() {
        let cache = FdCache::default();
        let read = |value: Option<&str>| cache.setting("limit", || value.map(str::to_owned));
        assert_eq!((read(Some("1")), read(Some("2"))), (Some("1".into()), Some("1".into())));
        cache.lock().settings.get_mut("limit").unwrap().0 -= SETTING_TTL;
        assert_eq!((read(None), read(Some("3"))), (None, None));
    }

    #[test]
    fn the_number_of_open_files_is_bounded() {
        let cache = FdCache::default();
        for i in 0..MAX_FILES + 10 {
            cache.lock().insert(&i.to_string(), CachedFile::open(Path::new("/proc/uptime")).unwrap().1);
        }
        let expected = MAX_FILES.min(os::open_files_limit() as usize / 2);
        assert_eq!(cache.lock().files.len(), expected);
    }
}
