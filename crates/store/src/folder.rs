//! Where a recording's files are.
//!
//! ```text
//! DIR/lock                               held by the recorder
//! DIR/1763742000123456789.tail           the running end, named by its first sample
//! DIR/TABLE/day=2026-11-21/16.parquet    closed hours
//! ```

use crate::error::StoreError;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

const TAIL: &str = "tail";
const DAY: &str = "day=";

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
    /// Where it cannot be made.
    pub(crate) fn make(path: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io(path))?;
        Ok(Self { path: path.to_owned() })
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
        let path = self.path.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(StoreError::io(&path))?;
        // SAFETY: flock takes a descriptor, which `file` keeps open, and touches no memory of ours.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
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
        for path in entries(&self.path)? {
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

    /// Every closed file, by its hour.
    ///
    /// # Errors
    /// Where a folder cannot be read.
    pub(crate) fn hours(&self) -> Result<Hours, StoreError> {
        let mut hours = Hours::new();
        for table in folders(&self.path)? {
            for day in folders(&table)? {
                for file in entries(&day)? {
                    let Some(hour) = hour_of(&day, &file) else { continue };
                    let bytes = fs::metadata(&file).map_or(0, |m| m.len());
                    let (files, sum) = hours.entry(hour).or_default();
                    files.push(file);
                    *sum += bytes;
                }
            }
        }
        Ok(hours)
    }
}

/// The hour whose rows are in a file; `None` for what is none of ours. Half-written ones count too: they are deleted with
/// the others.
fn hour_of(day: &Path, file: &Path) -> Option<Hour> {
    let day = day.file_name()?.to_str()?.strip_prefix(DAY)?.to_owned();
    let hour = file.file_name()?.to_str()?.get(..2)?.parse().ok()?;
    Some(Hour { day, hour })
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = fs::read_dir(folder).map_err(StoreError::io(folder))?;
    entries.map(|entry| Ok(entry.map_err(StoreError::io(folder))?.path())).collect()
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_dir()).collect())
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
