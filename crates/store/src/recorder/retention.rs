//! Deletes the oldest hours when the recording exceeds its limits.

use crate::error::StoreError;
use crate::folder::{Folder, Hour, Hours, is_closed_hour};
use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Limits of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Recorded time to keep; hours without a recording do not count.
    pub time: Duration,
    /// Bytes to keep, including tails.
    pub bytes: u64,
    /// True if fewer samples, and finally none, are recorded while the file system is nearly full. A recording of
    /// minutes needs hardly any space, and is useless with most of its samples missing.
    pub thin_when_full: bool,
}

impl Default for Retention {
    /// Returns 7 days or 1 GiB, whichever is less, with fewer samples while little space is free.
    fn default() -> Self {
        Self { time: Duration::from_secs(7 * 24 * 3600), bytes: 1 << 30, thin_when_full: true }
    }
}

pub(super) struct RetentionEnforcer {
    pub(super) limits: Retention,
    hours: Hours,
    /// Files known by their content to belong to the recording.
    ours: HashSet<PathBuf>,
}

impl RetentionEnforcer {
    pub(super) fn new(folder: &Folder, limits: Retention) -> Result<Self, StoreError> {
        Ok(Self { limits, hours: folder.hours()?, ours: HashSet::new() })
    }

    /// Reads the list of files again. Must be called after an hour's files were written.
    pub(super) fn recount(&mut self, folder: &Folder) -> Result<(), StoreError> {
        self.hours = folder.hours()?;
        let there: HashSet<&PathBuf> = self.hours.values().flat_map(|(files, _)| files).collect();
        self.ours.retain(|file| there.contains(file));
        Ok(())
    }

    /// Deletes the oldest hours until the rest, plus `tails` bytes, is within the limits. `now` is nanoseconds since
    /// 1970.
    pub(super) fn enforce(&mut self, now: i64, tails: u64) -> Result<(), StoreError> {
        let mut bytes = tails + self.bytes();
        if bytes > self.limits.bytes {
            self.forget_foreign_files();
            bytes = tails + self.bytes();
        }
        while let Some((hour, _)) = self.hours.first_key_value() {
            if !self.is_too_old(hour, now) && bytes <= self.limits.bytes {
                break;
            }
            let Some((_, (files, gone))) = self.hours.pop_first() else { break };
            files.iter().filter(|file| is_closed_hour(file)).try_for_each(|file| delete(file))?;
            bytes = bytes.saturating_sub(gone);
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.hours.values().map(|(_, bytes)| bytes).sum()
    }

    /// Returns whether the oldest hour exceeds the limit both by the clock and by the hours recorded since: setting the
    /// clock forward must not delete anything.
    fn is_too_old(&self, oldest: &Hour, now: i64) -> bool {
        let age = Duration::from_nanos(now.saturating_sub(oldest.end()).max(0).unsigned_abs());
        let since = HOUR.saturating_mul(u32::try_from(self.hours.len() - 1).unwrap_or(u32::MAX));
        age > self.limits.time && since >= self.limits.time
    }

    /// Leaves out files that merely have names like ours. If they counted, our files would be deleted to make room for
    /// them.
    fn forget_foreign_files(&mut self) {
        for (files, bytes) in self.hours.values_mut() {
            files.retain(|file| {
                let ours = self.ours.contains(file) || is_closed_hour(file);
                if ours {
                    self.ours.insert(file.clone());
                } else {
                    *bytes = bytes.saturating_sub(fs::symlink_metadata(file).map_or(0, |metadata| metadata.len()));
                }
                ours
            });
        }
        self.hours.retain(|_, (files, _)| !files.is_empty());
    }
}

/// Deletes a file, and then its day's directory if that is empty.
fn delete(file: &Path) -> Result<(), StoreError> {
    match fs::remove_file(file) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(StoreError::io(file)(e)),
        _ => {}
    }
    if let Some(day) = file.parent() {
        let _ = fs::remove_dir(day);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::SEGMENTS;

    const HOUR: i64 = 3600 * 1_000_000_000;

    /// Creates a folder with a file of 100 bytes for each of these hours, in two tables.
    fn folder(hours: std::ops::Range<i64>) -> (tempfile::TempDir, Folder) {
        let dir = whyslow_testing::folder();
        let folder = Folder::create(dir.path()).unwrap();
        for hour in hours {
            let at = Hour::from_ns(hour * HOUR);
            for (table, bytes) in [("cpu", 60), ("disk", 40)] {
                let day = folder.day(table, &at.day);
                fs::create_dir_all(&day).unwrap();
                fs::write(day.join(format!("{:02}.parquet", at.hour)), closed(bytes)).unwrap();
            }
        }
        (dir, folder)
    }

    /// Creates this many bytes, ending like the footer of a closed hour.
    fn closed(bytes: usize) -> Vec<u8> {
        let mut file = vec![0; bytes - SEGMENTS.len() - 8];
        file.extend(SEGMENTS.as_bytes());
        file.extend((SEGMENTS.len() as u32).to_le_bytes());
        file.extend(b"PAR1");
        file
    }

    fn left(folder: &Folder) -> Vec<u8> {
        folder.hours().unwrap().into_keys().map(|hour| hour.hour).collect()
    }

    #[test]
    fn the_oldest_hour_is_deleted_when_there_is_too_much() {
        let (_dir, folder) = folder(20..26);
        let mut enforcer = RetentionEnforcer::new(&folder, Retention { bytes: 350, ..Retention::default() }).unwrap();
        enforcer.enforce(26 * HOUR, 0).unwrap();
        assert_eq!(left(&folder), [23, 0, 1]);
        enforcer.enforce(26 * HOUR, 51).unwrap();
        assert_eq!(left(&folder), [0, 1], "the tail counts too");
        assert!(!folder.day("cpu", "1970-01-01").exists(), "a day that is empty goes with its last hour");
    }

    #[test]
    fn hours_that_are_too_old_are_deleted() {
        let (_dir, folder) = folder(0..4);
        let limits = Retention { time: Duration::from_secs(7200), ..Retention::default() };
        let mut enforcer = RetentionEnforcer::new(&folder, limits).unwrap();
        enforcer.enforce(4 * HOUR, 0).unwrap();
        assert_eq!(left(&folder), [1, 2, 3]);
        enforcer.enforce(4 * HOUR + 1, 0).unwrap();
        assert_eq!(left(&folder), [2, 3]);
    }

    #[test]
    fn setting_the_clock_forward_deletes_nothing() {
        let (_dir, folder) = folder(0..4);
        let limits = Retention { time: Duration::from_secs(7200), ..Retention::default() };
        let mut enforcer = RetentionEnforcer::new(&folder, limits).unwrap();
        // Two years later, with an hour recorded there.
        let later = 2 * 365 * 24;
        enforcer.enforce(later * HOUR, 0).unwrap();
        assert_eq!(left(&folder), [2, 3], "two hours were recorded after those that go");
    }

    #[test]
    fn other_peoples_files_are_neither_deleted_nor_counted() {
        let (dir, folder) = folder(20..26);
        // A foreign dataset with the layout of a recording, in a folder and behind a link.
        let theirs = dir.path().join("events/day=1969-01-01");
        fs::create_dir_all(&theirs).unwrap();
        let elsewhere = whyslow_testing::folder();
        let linked = elsewhere.path().join("day=1970-01-01");
        fs::create_dir(&linked).unwrap();
        let files = [
            theirs.join("05.parquet"),
            theirs.join("05-big.csv"),
            theirs.join("0500"),
            dir.path().join("cpu/day=1970-01-01/20.csv"),
            dir.path().join("cpu/day=1970-01-01/19.parquet"),
            linked.join("01.parquet"),
        ];
        files.iter().for_each(|file| fs::write(file, vec![1; 5000]).unwrap());
        // One of our files behind a link counts as foreign, too.
        fs::write(linked.join("02.parquet"), closed(50)).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("disk_link")).unwrap();
        std::os::unix::fs::symlink(&linked, dir.path().join("cpu/day=1970-01-05")).unwrap();
        let mut enforcer =
            RetentionEnforcer::new(&folder, Retention { time: Duration::ZERO, bytes: 600, ..Retention::default() })
                .unwrap();
        enforcer.enforce(0, 0).unwrap();
        let ours = |enforcer: &RetentionEnforcer| enforcer.hours.keys().map(|hour| hour.hour).collect::<Vec<_>>();
        assert_eq!(ours(&enforcer), [20, 21, 22, 23, 0, 1], "600 bytes of ours, whatever others have");
        enforcer.enforce(i64::MAX, 0).unwrap();
        assert!(enforcer.hours.is_empty());
        assert!(files.iter().all(|file| file.exists()) && linked.join("02.parquet").exists());
    }
}
