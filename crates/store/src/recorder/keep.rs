//! What is kept and what goes: the oldest hour first.

use crate::error::StoreError;
use crate::folder::{Folder, Hours};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// For how long.
    pub time: Duration,
    /// How many bytes, the running tail included.
    pub bytes: u64,
}

impl Default for Keep {
    /// 7 days or 1 GiB, whichever is less.
    fn default() -> Self {
        Self { time: Duration::from_secs(7 * 24 * 3600), bytes: 1 << 30 }
    }
}

/// The closed hours, and the bound on them.
pub(super) struct Keeper {
    keep: Keep,
    hours: Hours,
}

impl Keeper {
    pub(super) fn new(folder: &Folder, keep: Keep) -> Result<Self, StoreError> {
        Ok(Self { keep, hours: folder.hours()? })
    }

    /// Counts anew: an hour was written.
    pub(super) fn recount(&mut self, folder: &Folder) -> Result<(), StoreError> {
        self.hours = folder.hours()?;
        Ok(())
    }

    /// Deletes the oldest hours until what is left, with the tails' bytes, is within the bound. `now` is nanoseconds since
    /// 1970.
    pub(super) fn enforce(&mut self, now: i64, tails: u64) -> Result<(), StoreError> {
        let mut bytes = tails + self.hours.values().map(|(_, bytes)| bytes).sum::<u64>();
        while let Some(oldest) = self.hours.first_entry() {
            let age = Duration::from_nanos(now.saturating_sub(oldest.key().end()).max(0).unsigned_abs());
            if age <= self.keep.time && bytes <= self.keep.bytes {
                break;
            }
            let (files, gone) = oldest.remove();
            files.iter().try_for_each(|file| delete(file))?;
            bytes -= gone;
        }
        Ok(())
    }
}

/// Deletes a file, and its day where that is empty then.
fn delete(file: &Path) -> Result<(), StoreError> {
    match fs::remove_file(file) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(StoreError::io(file)(e)),
        _ => {}
    }
    if let Some(day) = file.parent() {
        // It is not empty but at the end of the day.
        let _ = fs::remove_dir(day);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Hour;

    const HOUR: i64 = 3600 * 1_000_000_000;

    /// A folder with an hour of 100 bytes for each of these, in two tables.
    fn folder(hours: std::ops::Range<i64>) -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::make(dir.path()).unwrap();
        for hour in hours {
            let at = Hour::of(hour * HOUR);
            for (table, bytes) in [("cpu", 60), ("disk", 40)] {
                let day = folder.day(table, &at.day);
                fs::create_dir_all(&day).unwrap();
                fs::write(day.join(format!("{:02}.parquet", at.hour)), vec![0; bytes]).unwrap();
            }
        }
        (dir, folder)
    }

    fn left(folder: &Folder) -> Vec<u8> {
        folder.hours().unwrap().into_keys().map(|hour| hour.hour).collect()
    }

    #[test]
    fn the_oldest_goes_when_there_is_too_much() {
        let (_dir, folder) = folder(20..26);
        let mut keeper = Keeper::new(&folder, Keep { bytes: 350, ..Keep::default() }).unwrap();
        keeper.enforce(26 * HOUR, 0).unwrap();
        assert_eq!(left(&folder), [23, 0, 1]);
        keeper.enforce(26 * HOUR, 51).unwrap();
        assert_eq!(left(&folder), [0, 1], "the tail counts too");
        assert!(!folder.day("cpu", "1970-01-01").exists(), "a day that is empty goes with its last hour");
    }

    #[test]
    fn what_is_too_old_goes() {
        let (_dir, folder) = folder(0..4);
        let keep = Keep { time: Duration::from_secs(7200), ..Keep::default() };
        let mut keeper = Keeper::new(&folder, keep).unwrap();
        keeper.enforce(4 * HOUR, 0).unwrap();
        assert_eq!(left(&folder), [1, 2, 3]);
        keeper.enforce(4 * HOUR + 1, 0).unwrap();
        assert_eq!(left(&folder), [2, 3]);
    }
}
