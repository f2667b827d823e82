//! Files that are read at every sample stay open in between: to open and close a file under /proc or /sys costs five
//! times what it costs to read it.
//!
//! An open file outlives what it speaks of: reading that of a device or control group that is gone fails, and then it is
//! opened anew. It keeps no control group alive. What belongs to a network namespace would keep that alive, so only the
//! observer's own is kept open.

use crate::os;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use whyslow_model::value::Name;

/// The most files kept open: the kernel holds some five kilobytes for each.
const MOST: usize = 2048;
/// A file not read for so long is closed, once room is looked for.
const UNUSED: Duration = Duration::from_secs(30);
/// How long a setting is taken to stand.
const SETTING_STANDS: Duration = Duration::from_secs(10);
/// What most files fit in, several pages: the kernel gives no more than a page of most at a time, and gathers all of
/// /proc/vmstat anew each time it is asked for more.
const USUAL: usize = 16 * 1024;
/// A reading shorter than this, with room for more, has reached the end. The kernel gives whole records out of a buffer of at
/// least a page (fs/seq_file.c), and stops early only where the next one does not fit: no record is as long as the rest of
/// that page.
const CERTAINLY_ALL: usize = 1024;

thread_local! {
    /// What is read into before it is known how long it is: to make room anew for each of sixty files, and to clear it, takes
    /// longer than to copy what was read.
    static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; USUAL]);
}

/// The open files, by path.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    files: HashMap<Box<str>, Entry>,
    /// Settings, and when each was read; `None` for one that cannot be.
    settings: HashMap<Box<str>, (Instant, Option<Name>)>,
    /// When those not used were last closed.
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    file: Arc<KeptFile>,
    used: Instant,
}

#[derive(Debug)]
struct KeptFile {
    file: File,
    /// How long it was last.
    length: AtomicUsize,
}

impl KeptFile {
    /// Its text, and the file to be kept.
    fn open(path: &Path) -> io::Result<(Vec<u8>, Self)> {
        let file = File::open(path)?;
        let bytes = read_all(&file)?;
        let length = AtomicUsize::new(bytes.len());
        Ok((bytes, Self { file, length }))
    }

    /// It is offered room for little more than it needed last time: of a file under /proc/sys the kernel makes and clears as
    /// much of its own as is offered (fs/proc/proc_sysctl.c), and that takes the caches from everything after it.
    fn read(&self) -> io::Result<Vec<u8>> {
        let bytes = read_into(&self.file, self.length.load(Ordering::Relaxed) + CERTAINLY_ALL + 1)?;
        self.length.store(bytes.len(), Ordering::Relaxed);
        Ok(bytes)
    }
}

impl Kept {
    /// What the file called `name` at `path` holds now.
    ///
    /// # Errors
    /// Those of opening and reading it.
    pub(crate) fn read(&self, name: &str, path: impl FnOnce() -> std::path::PathBuf) -> io::Result<Vec<u8>> {
        let known = self.lock().file(name);
        // Read unlocked: one that hangs must not hold up the others.
        if let Some(file) = known {
            match file.read() {
                Ok(bytes) => return Ok(bytes),
                Err(_) => drop(self.lock().files.remove(name)),
            }
        }
        let (bytes, file) = KeptFile::open(&path())?;
        self.lock().keep(name, file);
        Ok(bytes)
    }

    /// The words of a setting, which `read` has read within the last ten seconds.
    pub(crate) fn setting(&self, name: &str, read: impl FnOnce() -> Option<String>) -> Option<Name> {
        if let Some((at, words)) = self.lock().settings.get(name)
            && at.elapsed() < SETTING_STANDS
        {
            return words.clone();
        }
        let words = read().map(Name::from);
        self.lock().settings.insert(name.into(), (Instant::now(), words.clone()));
        words
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn file(&mut self, name: &str) -> Option<Arc<KeptFile>> {
        let entry = self.files.get_mut(name)?;
        entry.used = Instant::now();
        Some(entry.file.clone())
    }

    /// Keeps a file where there is room; half of the files this process may open are left for other uses.
    fn keep(&mut self, name: &str, file: KeptFile) {
        let now = Instant::now();
        if self.swept.is_none_or(|at| now - at > UNUSED) {
            self.files.retain(|_, entry| now - entry.used < UNUSED);
            self.swept = Some(now);
        }
        if self.files.len() < MOST.min(os::open_files_limit() as usize / 2) {
            self.files.insert(name.into(), Entry { file: Arc::new(file), used: now });
        }
    }
}

/// The whole of a file at `path`, which is not kept open.
pub(crate) fn read_once(path: &Path) -> io::Result<Vec<u8>> {
    read_all(&File::open(path)?)
}

/// The whole of a file, from its start. Files under /proc say size 0, so the room grows; a short reading is not the end,
/// unless it is very short.
pub(crate) fn read_all(file: &File) -> io::Result<Vec<u8>> {
    read_into(file, USUAL)
}

/// The same, offering so much room at first.
fn read_into(file: &File, mut offered: usize) -> io::Result<Vec<u8>> {
    ROOM.with_borrow_mut(|room| {
        let mut length = 0;
        loop {
            if room.len() < offered {
                room.resize(offered, 0);
            }
            let read = match file.read_at(&mut room[length..offered], length as u64) {
                Ok(read) => read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            length += read;
            if length == offered {
                offered *= 2;
            } else if read < CERTAINLY_ALL {
                return Ok(room[..length].to_vec());
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_kept_file_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("level");
        let long = "x".repeat(3 * USUAL);
        let kept = Kept::default();
        // Longer than there was room for, by little and by much, and shorter again.
        let longer = "y".repeat(2 * CERTAINLY_ALL);
        for text in ["12\n", longer.as_str(), "12\n", long.as_str(), ""] {
            fs::write(&path, text).unwrap();
            assert_eq!(kept.read("level", || path.clone()).unwrap(), text.as_bytes());
        }
        assert_eq!(kept.lock().files.len(), 1);
    }

    #[test]
    fn what_cannot_be_read_any_more_is_opened_anew() {
        let kept = Kept::default();
        // To read a folder fails, as it does for the file of a device that is gone.
        let folder = KeptFile { file: File::open("/proc").unwrap(), length: AtomicUsize::new(0) };
        kept.lock().keep("proc/uptime", folder);
        assert!(!kept.read("proc/uptime", || "/proc/uptime".into()).unwrap().is_empty());
        assert!(!kept.read("proc/uptime", || unreachable!("it is open")).unwrap().is_empty());
        assert!(kept.read("nowhere", || "/proc/no such file".into()).is_err());
    }

    #[test]
    fn a_setting_is_read_once_in_ten_seconds() {
        let kept = Kept::default();
        let read = |words: Option<&str>| kept.setting("limit", || words.map(str::to_owned));
        assert_eq!((read(Some("1")), read(Some("2"))), (Some("1".into()), Some("1".into())));
        kept.lock().settings.get_mut("limit").unwrap().0 -= SETTING_STANDS;
        assert_eq!((read(None), read(Some("3"))), (None, None));
    }

    #[test]
    fn there_is_an_end_to_keeping() {
        let kept = Kept::default();
        for i in 0..MOST + 10 {
            kept.lock().keep(&i.to_string(), KeptFile::open(Path::new("/proc/uptime")).unwrap().1);
        }
        assert!(kept.lock().files.len() <= MOST);
    }
}
