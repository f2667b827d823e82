//! Layout of a recording's folder, and the files in it that belong to whyslow.
//!
//! ```text
//! DIR/lock                               held by the recorder
//! DIR/1763742000123456789.tail           the newest samples, named by the time of the first
//! DIR/TABLE/day=2026-11-21/16.parquet    closed hours
//! ```

use crate::error::StoreError;
use crate::permissions::{create_folder, restrict_file, restrict_folder};
use crate::tail::MAGIC_PREFIX;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use whyslow_model::catalogue::{Family, Sample};

/// Key in a file's metadata under which the file lists its segments.
pub(crate) const SEGMENTS: &str = "whyslow.segments";

const TAIL_EXTENSION: &str = "tail";
const DAY_PREFIX: &str = "day=";
const LOCK_NAME: &str = "lock";
/// Content of the lock file: it shows that a folder is a recording even if all its rows have expired.
const LOCK_CONTENT: &[u8] = b"whyslow recording\n";
/// Other entries that a state folder may contain before the first recording: baselines, the delivery state of `ship`,
/// the journal of `tune`, and the folder that mkfs(8) creates.
const NEIGHBOURS: [&str; 4] = ["baselines", "ship", "tune", "lost+found"];

pub(crate) const NOTHING_RECORDED: &str = "nothing has been recorded here; 'whyslow record' starts a recording";

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// An hour in UTC; files are named after it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hour {
    /// `2026-11-21`.
    pub(crate) day: String,
    /// 0..24.
    pub(crate) hour: u8,
}

/// All closed files by hour, with their total size.
pub(crate) type Hours = BTreeMap<Hour, (Vec<PathBuf>, u64)>;

impl Hour {
    /// Returns the hour of a time in nanoseconds since 1970; a time beyond the calendar counts as 1970.
    pub(crate) fn from_ns(wall_ns: i64) -> Self {
        let time = Timestamp::from_nanosecond(wall_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
        let time = time.to_zoned(TimeZone::UTC);
        Self { day: time.date().to_string(), hour: time.hour().unsigned_abs() }
    }

    /// Returns the end of the hour, nanoseconds since 1970.
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
    /// Opens a folder to record into, creating it if necessary.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or contains foreign files and no recording.
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        create_folder(path).map_err(StoreError::io(path))?;
        let folder = Self { path: path.to_owned() };
        if folder.may_be_recorded_into()? {
            restrict_folder(path);
            return Ok(folder);
        }
        Err(StoreError::invalid(path, "not a recording, and not empty: name an empty or a new folder to record into"))
    }

    /// Returns whether the folder contains only entries of whyslow, or has a recording already.
    fn may_be_recorded_into(&self) -> Result<bool, StoreError> {
        if is_lock(&self.path.join(LOCK_NAME)) {
            return Ok(true);
        }
        let mut has_foreign_files = false;
        for (path, kind) in entries(&self.path)? {
            let name = path.file_name().unwrap_or_default();
            // Older versions left the lock file empty.
            let is_neighbour = kind.is_dir() && NEIGHBOURS.iter().any(|neighbour| name == *neighbour);
            let is_old_lock = name == LOCK_NAME && kind.is_file() && fs::metadata(&path).is_ok_and(|m| m.len() == 0);
            has_foreign_files |= !is_neighbour && !is_old_lock;
        }
        Ok(!has_foreign_files || self.holds_a_recording()?)
    }

    /// Returns whether the content of any file shows that it belongs to a recording.
    fn holds_a_recording(&self) -> Result<bool, StoreError> {
        if self.tails()?.iter().any(|tail| is_tail(tail)) {
            return Ok(true);
        }
        Ok(self.hours()?.values().flat_map(|(files, _)| files).any(|file| is_closed_hour(file)))
    }

    /// Returns whether the names in it are those of a recording with samples.
    pub(crate) fn has_samples(&self) -> bool {
        let has_days =
            || folders(&self.path.join(Sample::INFO.name)).is_ok_and(|days| days.iter().any(|day| is_day(day)));
        self.tails().is_ok_and(|tails| !tails.is_empty()) || has_days()
    }

    /// Opens an existing folder.
    ///
    /// # Errors
    /// Fails if there is no such folder.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => StoreError::invalid(path, NOTHING_RECORDED),
            _ => StoreError::io(path)(error),
        };
        fs::read_dir(path).map_err(failed)?;
        Ok(Self { path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps other recorders out while the file is open.
    ///
    /// # Errors
    /// Fails if another recorder uses the folder.
    pub(crate) fn lock(&self) -> Result<File, StoreError> {
        let path = self.path.join(LOCK_NAME);
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW).open(&path);
        let mut file = file.map_err(StoreError::io(&path))?;
        restrict_file(&file);
        // SAFETY: flock takes a descriptor, which `file` keeps open, and touches no memory of ours.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
                // On a full disk it stays empty; the recording's files still show what the folder is.
                let _ = file.write_all(LOCK_CONTENT);
            }
            return Ok(file);
        }
        let error = std::io::Error::last_os_error();
        Err(match error.kind() {
            ErrorKind::WouldBlock => StoreError::invalid(&self.path, "another whyslow is already recording here"),
            _ => StoreError::io(&path)(error),
        })
    }

    /// Returns the path of a tail that starts at this time.
    pub(crate) fn tail(&self, start_ns: i64) -> PathBuf {
        self.path.join(format!("{start_ns}.{TAIL_EXTENSION}"))
    }

    /// Returns all tails, oldest first.
    ///
    /// # Errors
    /// Fails if the folder cannot be read.
    pub(crate) fn tails(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut tails: Vec<(i64, PathBuf)> = Vec::new();
        for (path, _) in entries(&self.path)?.into_iter().filter(|(_, kind)| kind.is_file()) {
            let start = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            if let (Some(start), true) = (start, path.extension().is_some_and(|e| e == TAIL_EXTENSION)) {
                tails.push((start, path));
            }
        }
        tails.sort();
        Ok(tails.into_iter().map(|(_, path)| path).collect())
    }

    /// Returns the folder of a table's files for one day.
    pub(crate) fn day(&self, table: &str, day: &str) -> PathBuf {
        self.path.join(table).join(format!("{DAY_PREFIX}{day}"))
    }

    /// Returns all files named like closed hours. Does not follow links.
    ///
    /// # Errors
    /// Fails if a folder cannot be read.
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

/// Returns the hour of a file named `16.parquet` or `16-1.parquet`; `None` for any other name.
fn hour_of(day: &Path, file: &Path) -> Option<Hour> {
    let day = day.file_name()?.to_str()?.strip_prefix(DAY_PREFIX)?;
    let name = file.file_name()?.to_str()?.strip_suffix(".parquet")?;
    let (hour, part) = name.split_once('-').map_or((name, None), |(hour, part)| (hour, Some(part)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_ours = hour.len() == 2 && digits(hour) && part.is_none_or(digits) && day.parse::<Date>().is_ok();
    let hour = hour.parse().ok().filter(|hour| is_ours && *hour < 24)?;
    Some(Hour { day: day.to_owned(), hour })
}

fn is_day(folder: &Path) -> bool {
    let name = folder.file_name().and_then(OsStr::to_str);
    name.and_then(|name| name.strip_prefix(DAY_PREFIX)).is_some_and(|day| day.parse::<Date>().is_ok())
}

/// Opens a regular file, but not a link or pipe: opening a pipe would wait for a writer.
fn open_plain(path: &Path) -> Option<File> {
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

fn is_lock(path: &Path) -> bool {
    let mut words = Vec::new();
    let read = open_plain(path).map(|file| file.take(LOCK_CONTENT.len() as u64 + 1).read_to_end(&mut words));
    matches!(read, Some(Ok(_))) && words == LOCK_CONTENT
}

/// Returns whether the content is that of a tail: written by any version, or truncated within its magic.
pub(crate) fn is_tail(path: &Path) -> bool {
    let mut magic = Vec::new();
    let read = open_plain(path).map(|file| file.take(MAGIC_PREFIX.len() as u64).read_to_end(&mut magic));
    matches!(read, Some(Ok(_))) && MAGIC_PREFIX.starts_with(&magic)
}

/// Returns whether the content is that of a closed hour: Parquet with a footer that lists segments.
pub(crate) fn is_closed_hour(path: &Path) -> bool {
    open_plain(path).and_then(lists_segments).unwrap_or(false)
}

/// Reads the footer, which ends with its length and `PAR1` (parquet-format, README.md).
fn lists_segments(mut file: File) -> Option<bool> {
    const LARGEST_FOOTER: u64 = 64 << 20;
    let length = file.metadata().ok()?.len();
    let mut end = [0; 8];
    file.seek(SeekFrom::Start(length.checked_sub(8)?)).ok()?;
    file.read_exact(&mut end).ok()?;
    let [a, b, c, d, magic @ ..] = end;
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    file.seek(SeekFrom::Start(length.checked_sub(8)?.checked_sub(footer)?)).ok()?;
    let mut bytes = Vec::new();
    file.take(footer.min(LARGEST_FOOTER)).read_to_end(&mut bytes).ok()?;
    let key = SEGMENTS.as_bytes();
    Some(&magic == b"PAR1" && bytes.windows(key.len()).any(|window| window == key))
}

/// Returns whether an unfinished file is ours: our drafts start like Parquet files.
pub(crate) fn is_draft(path: &Path) -> bool {
    let mut magic = Vec::new();
    let read = open_plain(path).map(|file| file.take(4).read_to_end(&mut magic));
    matches!(read, Some(Ok(_))) && b"PAR1".starts_with(&magic)
}

fn entries(folder: &Path) -> Result<Vec<(PathBuf, fs::FileType)>, StoreError> {
    let entries = fs::read_dir(folder).map_err(StoreError::io(folder))?;
    let with_type =
        |entry: std::io::Result<fs::DirEntry>| entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)));
    // An entry may disappear while the folder is read.
    let exists = |entry: &std::io::Result<_>| !matches!(entry, Err(e) if e.kind() == ErrorKind::NotFound);
    entries.map(with_type).filter(exists).map(|entry| entry.map_err(StoreError::io(folder))).collect()
}

/// Returns the subfolders that may be tables or days. Does not follow links.
fn folders(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let is_ours = |(path, kind): &(PathBuf, fs::FileType)| {
        kind.is_dir() && !NEIGHBOURS.iter().any(|neighbour| path.file_name() == Some(OsStr::new(neighbour)))
    };
    Ok(entries(folder)?.into_iter().filter(is_ours).map(|(path, _)| path).collect())
}

/// Flushes a folder, so that new names in it survive a power failure.
///
/// # Errors
/// Fails if the folder cannot be opened or flushed.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(StoreError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_in_utc_and_knows_its_end() {
        let hour = Hour::from_ns(1_763_742_000_123_456_789);
        assert_eq!((hour.day.as_str(), hour.hour), ("2025-11-21", 16));
        assert_eq!(hour.end(), 1_763_744_400_000_000_000);
        assert_eq!(Hour::from_ns(hour.end()).hour, 17);
        assert_eq!(Hour::from_ns(i64::MIN).hour, Hour::from_ns(i64::MIN).hour, "an extreme time does not panic");
    }

    #[test]
    fn a_folder_takes_one_recorder() {
        let dir = whyslow_testing::folder();
        let folder = Folder::create(dir.path()).unwrap();
        let held = folder.lock().unwrap();
        assert!(folder.lock().unwrap_err().to_string().ends_with("another whyslow is already recording here"));
        drop(held);
        folder.lock().unwrap();
    }
}
