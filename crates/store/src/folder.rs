//! Where a recording's files are.
//!
//! ```text
//! DIR/lock                               held by the recorder
//! DIR/1763742000123456789.tail           the running end, named by its first sample
//! DIR/TABLE/day=2026-11-21/16.parquet    closed hours
//! ```

use crate::error::StoreError;
use crate::segment::SEGMENTS;
use crate::tail::MAGIC_WORDS;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const TAIL: &str = "tail";
const DAY: &str = "day=";
const LOCK: &str = "lock";
/// What the lock file says, so that a folder whose rows have all expired is still known to be a recording.
const LOCK_WORDS: &[u8] = b"whyslow recording\n";
/// What else may stand in a state folder before anything was recorded there: baselines, the journal of `tune`, and what
/// mkfs(8) leaves.
const BESIDE: [&str; 3] = ["baselines", "tune", "lost+found"];

/// The folder of a recording.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// An hour, as files are named by it. UTC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hour {
    /// The day: `2026-11-21`.
    pub(crate) day: String,
    /// The hour, 0..24.
    pub(crate) hour: u8,
}

/// What closed files there are: all files of an hour, and their bytes.
pub(crate) type Hours = BTreeMap<Hour, (Vec<PathBuf>, u64)>;

impl Hour {
    /// The hour of a time in nanoseconds since 1970. A time no calendar has is taken for 1970.
    pub(crate) fn of(wall_ns: i64) -> Self {
        let time = Timestamp::from_nanosecond(wall_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
        let time = time.to_zoned(TimeZone::UTC);
        Self { day: time.date().to_string(), hour: time.hour().unsigned_abs() }
    }

    /// When it ends, in nanoseconds since 1970.
    pub(crate) fn end(&self) -> i64 {
        let start = self
            .day
            .parse::<Date>()
            .ok()
            .and_then(|day| day.at(self.hour.min(23) as i8, 0, 0, 0).to_zoned(TimeZone::UTC).ok());
        let start = start.map_or(0, |start| start.timestamp().as_second());
        (start + 3600).saturating_mul(1_000_000_000)
    }
}

impl Folder {
    /// The folder of this path, made where there is none.
    ///
    /// # Errors
    /// Where it cannot be made, or other people's files are in it and no recording.
    pub(crate) fn make(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io(path))?;
        let folder = Self { path: path.to_owned() };
        if folder.may_be_recorded_into()? {
            return Ok(folder);
        }
        Err(StoreError::senseless(path, "not a recording, and not empty: name an empty or a new folder to record into"))
    }

    /// Whether nothing is in it but what belongs to whyslow, or a recording is in it already.
    fn may_be_recorded_into(&self) -> Result<bool, StoreError> {
        if is_lock(&self.path.join(LOCK)) {
            return Ok(true);
        }
        let mut strangers = false;
        for (path, kind) in entries(&self.path)? {
            let name = path.file_name().unwrap_or_default();
            // An older whyslow left its lock empty.
            let is_beside = kind.is_dir() && BESIDE.iter().any(|known| name == *known);
            let is_old_lock = name == LOCK && kind.is_file() && fs::metadata(&path).is_ok_and(|m| m.len() == 0);
            strangers |= !is_beside && !is_old_lock;
        }
        Ok(!strangers || self.holds_a_recording()?)
    }

    /// Whether a file in it is proven to be a recording's by its content.
    fn holds_a_recording(&self) -> Result<bool, StoreError> {
        if self.tails()?.iter().any(|tail| is_tail(tail)) {
            return Ok(true);
        }
        Ok(self.hours()?.values().flat_map(|(files, _)| files).any(|file| is_closed_hour(file)))
    }

    /// The folder of this path, which must be there.
    ///
    /// # Errors
    /// Where it is not, or is not a folder.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        fs::read_dir(path).map_err(StoreError::io(path))?;
        Ok(Self { path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps any other recorder out for as long as the file lives.
    ///
    /// # Errors
    /// Where another one records here.
    pub(crate) fn lock(&self) -> Result<File, StoreError> {
        let path = self.path.join(LOCK);
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW).open(&path);
        let mut file = file.map_err(StoreError::io(&path))?;
        // SAFETY: flock takes a descriptor, which `file` keeps open, and touches no memory of ours.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                // On a full disk it stays empty, and the recording's files tell what the folder is.
                let _ = file.write_all(LOCK_WORDS);
            }
            return Ok(file);
        }
        let error = std::io::Error::last_os_error();
        Err(match error.kind() {
            ErrorKind::WouldBlock => StoreError::senseless(&self.path, "another whyslow records here already"),
            _ => StoreError::io(&path)(error),
        })
    }

    /// The tail that begins at this time.
    pub(crate) fn tail(&self, start_ns: i64) -> PathBuf {
        self.path.join(format!("{start_ns}.{TAIL}"))
    }

    /// The tails there are, oldest first.
    ///
    /// # Errors
    /// Where the folder cannot be read.
    pub(crate) fn tails(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut tails: Vec<(i64, PathBuf)> = Vec::new();
        for (path, _) in entries(&self.path)?.into_iter().filter(|(_, kind)| kind.is_file()) {
            let start = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            if let (Some(start), true) = (start, path.extension().is_some_and(|e| e == TAIL)) {
                tails.push((start, path));
            }
        }
        tails.sort();
        Ok(tails.into_iter().map(|(_, path)| path).collect())
    }

    /// Where a table's files of a day are.
    pub(crate) fn day(&self, table: &str, day: &str) -> PathBuf {
        self.path.join(table).join(format!("{DAY}{day}"))
    }

    /// Every file that is named as a closed one, by its hour. Links are not followed.
    ///
    /// # Errors
    /// Where a folder cannot be read.
    pub(crate) fn hours(&self) -> Result<Hours, StoreError> {
        let mut hours = Hours::new();
        for table in folders(&self.path)? {
            for day in folders(&table)?.into_iter().filter(|day| is_day(day)) {
                for (file, _) in entries(&day)?.into_iter().filter(|(_, kind)| kind.is_file()) {
                    let Some(hour) = hour_of(&day, &file) else { continue };
                    let bytes = fs::symlink_metadata(&file).map_or(0, |m| m.len());
                    let (files, sum) = hours.entry(hour).or_default();
                    files.push(file);
                    *sum += bytes;
                }
            }
        }
        Ok(hours)
    }
}

/// The hour whose rows are in a file, `16.parquet` or `16-1.parquet`; `None` where it has another name.
fn hour_of(day: &Path, file: &Path) -> Option<Hour> {
    let day = day.file_name()?.to_str()?.strip_prefix(DAY)?;
    let name = file.file_name()?.to_str()?.strip_suffix(".parquet")?;
    let (hour, part) = name.split_once('-').map_or((name, None), |(hour, part)| (hour, Some(part)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_ours = hour.len() == 2 && digits(hour) && part.is_none_or(digits) && day.parse::<Date>().is_ok();
    let hour = hour.parse().ok().filter(|hour| is_ours && *hour < 24)?;
    Some(Hour { day: day.to_owned(), hour })
}

fn is_day(folder: &Path) -> bool {
    let name = folder.file_name().and_then(OsStr::to_str);
    name.and_then(|name| name.strip_prefix(DAY)).is_some_and(|day| day.parse::<Date>().is_ok())
}

/// Opens a regular file that is not a link. A pipe of that name would wait for a writer.
fn open_plain(path: &Path) -> Option<File> {
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

fn is_lock(path: &Path) -> bool {
    let mut words = Vec::new();
    let read = open_plain(path).map(|file| file.take(LOCK_WORDS.len() as u64 + 1).read_to_end(&mut words));
    matches!(read, Some(Ok(_))) && words == LOCK_WORDS
}

/// Whether a file is a tail by its content: begun by a whyslow of any version, or cut before it said so.
pub(crate) fn is_tail(path: &Path) -> bool {
    let mut magic = Vec::new();
    let read = open_plain(path).map(|file| file.take(MAGIC_WORDS.len() as u64).read_to_end(&mut magic));
    matches!(read, Some(Ok(_))) && MAGIC_WORDS.starts_with(&magic)
}

/// Whether a file is a closed hour by its content: Parquet whose footer names segments of a recording.
pub(crate) fn is_closed_hour(path: &Path) -> bool {
    open_plain(path).and_then(names_segments).unwrap_or(false)
}

/// The footer ends with its length and `PAR1` (parquet-format, README.md).
fn names_segments(mut file: File) -> Option<bool> {
    const MOST: u64 = 64 << 20;
    let length = file.metadata().ok()?.len();
    let mut end = [0; 8];
    file.seek(SeekFrom::Start(length.checked_sub(8)?)).ok()?;
    file.read_exact(&mut end).ok()?;
    let [a, b, c, d, magic @ ..] = end;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    file.seek(SeekFrom::Start(length.checked_sub(8)?.checked_sub(footer)?)).ok()?;
    let mut bytes = Vec::new();
    file.take(footer.min(MOST)).read_to_end(&mut bytes).ok()?;
    let key = SEGMENTS.as_bytes();
    Some(&magic == b"PAR1" && bytes.windows(key.len()).any(|window| window == key))
}

/// Whether a half-written file is ours: our drafts begin as Parquet does.
pub(crate) fn is_draft(path: &Path) -> bool {
    let mut magic = Vec::new();
    let read = open_plain(path).map(|file| file.take(4).read_to_end(&mut magic));
    matches!(read, Some(Ok(_))) && b"PAR1".starts_with(&magic)
}

fn entries(folder: &Path) -> Result<Vec<(PathBuf, fs::FileType)>, StoreError> {
    let entries = fs::read_dir(folder).map_err(StoreError::io(folder))?;
    let known = |entry: std::io::Result<fs::DirEntry>| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)));
    // One that is gone meanwhile is none.
    let there = |entry: &std::io::Result<_>| !matches!(entry, Err(e) if e.kind() == ErrorKind::NotFound);
    entries.map(known).filter(there).map(|entry| entry.map_err(StoreError::io(folder))).collect()
}

/// The folders in a folder, but not links to some; those that may not be looked into are not ours.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let is_ours = |(path, kind): &(PathBuf, fs::FileType)| {
        kind.is_dir() && !BESIDE.iter().any(|known| path.file_name() == Some(OsStr::new(known)))
    };
    Ok(entries(folder)?.into_iter().filter(is_ours).map(|(path, _)| path).collect())
}

/// Makes sure that a file's new name survives a power cut.
///
/// # Errors
/// Where the folder cannot be opened or written.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(StoreError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_named_in_utc_and_knows_its_end() {
        let hour = Hour::of(1_763_742_000_123_456_789);
        assert_eq!((hour.day.as_str(), hour.hour), ("2025-11-21", 16));
        assert_eq!(hour.end(), 1_763_744_400_000_000_000);
        assert_eq!(Hour::of(hour.end()).hour, 17);
        assert_eq!(Hour::of(i64::MIN).hour, Hour::of(i64::MIN).hour, "no time makes it panic");
    }

    #[test]
    fn one_recorder_to_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::make(dir.path()).unwrap();
        let held = folder.lock().unwrap();
        assert!(folder.lock().unwrap_err().to_string().ends_with("another whyslow records here already"));
        drop(held);
        assert!(folder.lock().is_ok());
    }
}
