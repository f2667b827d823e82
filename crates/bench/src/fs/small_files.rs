//! Many small files: create, stat, read and delete, by name and in random order.

use crate::bench_session::BenchSession;
use crate::budget::SpaceNeeded;
use crate::load::LatencyHistogram;
use crate::permutation::Permutation;
use crate::remove_leftovers;
use crate::round::UsageSnapshot;
use crate::{Error, Progress, Result};
use nix::unistd::{getuid, syncfs};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;
use whyslow_documents::bench::{FileWork, Latency};

const PREFIX: &str = ".whyslow-bench-files-";
/// Content of each file, smaller than a block.
const CONTENT: [u8; 1024] = [0x5a; 1024];
/// Maximum number of files that are created with a sync each.
const MAX_SYNCED: u64 = 200;

/// Runs every step on `count` files in a temporary folder.
pub(super) fn measure(folder: &Path, count: u32, seed: u64, session: &mut BenchSession) -> Result<Vec<FileWork>> {
    remove_leftovers(folder, PREFIX, |path, meta| match meta.is_dir() && meta.uid() == getuid().as_raw() {
        true => fs::remove_dir_all(path),
        false => Ok(()),
    });
    session.reserve(folder, space_needed(folder, count))?;
    let files = SmallFiles::create(folder, count, seed)?;
    let steps: [(&str, bool, FileOp); 7] = [
        ("create", false, create),
        ("stat", false, stat),
        ("stat", true, stat),
        ("read", true, read),
        ("delete", false, delete),
        ("create", true, create),
        ("delete", true, delete),
    ];
    let mut done = Vec::new();
    for (what, random, step) in steps {
        done.extend(files.each(what, random, step, session)?);
    }
    done.extend(files.create_synced(session)?);
    Ok(done)
}

/// Measures files per second: created and then synced together, and each synced with its folder. Returns `None` if
/// stopped before the end.
pub(super) fn synced_rates(
    folder: &Path,
    count: u32,
    seed: u64,
    session: &mut BenchSession,
) -> Result<Option<[f64; 2]>> {
    let files = SmallFiles::create(folder, count, seed)?;
    let began = Instant::now();
    let created = files.each("create", false, create, session)?;
    files.sync()?;
    let seconds = began.elapsed().as_secs_f64();
    files.each("delete", false, delete, session)?;
    files.sync()?;
    let synced = files.create_synced(session)?;
    let rate = |work: FileWork| work.operations as f64 / seconds;
    Ok(created.map(rate).zip(synced.map(|work| work.rate)).map(|(created, synced)| [created, synced]))
}

pub(super) fn space_needed(folder: &Path, count: u32) -> SpaceNeeded {
    SpaceNeeded::small_files(folder, count, CONTENT.len() as u64)
}

type FileOp = fn(&Path) -> io::Result<()>;

fn create(path: &Path) -> io::Result<()> {
    new_file(path)?.write_all(&CONTENT)
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn stat(path: &Path) -> io::Result<()> {
    fs::symlink_metadata(path).map(drop)
}

fn read(path: &Path) -> io::Result<()> {
    fs::read(path).map(drop)
}

fn delete(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// A folder of numbered files; removed when dropped.
struct SmallFiles {
    folder: PathBuf,
    count: u32,
    order: Permutation,
}

impl SmallFiles {
    fn create(folder: &Path, count: u32, seed: u64) -> Result<Self> {
        let folder = folder.join(format!("{PREFIX}{}", std::process::id()));
        let created = fs::DirBuilder::new().mode(0o700).create(&folder);
        created.map_err(|e| Error::at(&folder, "cannot create the folder", &e))?;
        Ok(Self { folder, count, order: Permutation::new(count.into(), seed) })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}"))
    }

    /// Applies one step to every file. Returns `None` if stopped before.
    fn each(&self, what: &str, random: bool, step: FileOp, session: &mut BenchSession) -> Result<Option<FileWork>> {
        let order = if random { "random" } else { "sequential" };
        let file = |index: u64| self.path(if random { self.order.at(index) } else { index });
        self.time((what, order), self.count.into(), session, |index| {
            let path = file(index);
            step(&path).map_err(|e| Error::at(&path, what, &e))
        })
    }

    /// Syncs the whole file system.
    fn sync(&self) -> Result<()> {
        let failed = |e: io::Error| Error::at(&self.folder, "cannot be synced", &e);
        let folder = File::open(&self.folder).map_err(failed)?;
        syncfs(&folder).map_err(|e| failed(e.into()))
    }

    /// Creates files one after the other, each synced with its folder: the cost of a journal commit.
    fn create_synced(&self, session: &mut BenchSession) -> Result<Option<FileWork>> {
        let count = u64::from(self.count).min(MAX_SYNCED);
        let folder = File::open(&self.folder).map_err(|e| Error::at(&self.folder, "cannot be opened", &e))?;
        self.time(("create and sync", "sequential"), count, session, |index| {
            let path = self.path(index);
            let create = || -> io::Result<()> {
                let mut file = new_file(&path)?;
                file.write_all(&CONTENT)?;
                file.sync_all()?;
                folder.sync_all()
            };
            create().map_err(|e| Error::at(&path, "create and sync", &e))
        })
    }

    /// Repeats a step and times each repetition.
    fn time(
        &self,
        (what, order): (&str, &str),
        count: u64,
        session: &mut BenchSession,
        mut step: impl FnMut(u64) -> Result<()>,
    ) -> Result<Option<FileWork>> {
        let doing = format!("{what} small files, {order}");
        let (mut times, mut operations) = (LatencyHistogram::default(), 0);
        let (usage, began) = (UsageSnapshot::take(), Instant::now());
        let mut before = began;
        for index in 0..count {
            if session.stop.is_asked() {
                break;
            }
            step(index)?;
            let now = Instant::now();
            times.add(u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX));
            before = now;
            operations += 1;
            if operations % 1000 == 0 {
                session.report_progress(Progress {
                    doing: &doing,
                    elapsed: began.elapsed().as_secs_f64(),
                    whole: None,
                });
            }
        }
        let (used, seconds) = (usage.since(), began.elapsed().as_secs_f64());
        Ok((operations > 0).then(|| FileWork {
            what: what.to_owned(),
            order: order.to_owned(),
            operations,
            seconds,
            rate: operations as f64 / seconds,
            latency: times.latency(&Latency::SHARES),
            cost: Some((used.user + used.system) / operations as f64),
        }))
    }
}

impl Drop for SmallFiles {
    fn drop(&mut self) {
        // The next run removes what remains.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stop;

    #[test]
    fn every_step_runs_and_neither_this_run_nor_a_killed_one_leaves_files() {
        let folder = whyslow_testing::folder_in("/var/tmp");
        // Larger than any PID.
        let left = folder.path().join(format!("{PREFIX}4294967295"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("00000001"), "x").unwrap();
        let mut progress = |_: Progress| {};
        let mut session = BenchSession::begin(&Stop::default(), &mut progress);
        let done = measure(folder.path(), 50, 1, &mut session).unwrap();
        let what: Vec<_> = done.iter().map(|work| (&*work.what, &*work.order, work.operations)).collect();
        assert_eq!(what.len(), 8, "{what:?}");
        assert!(what.iter().all(|(.., operations)| *operations == 50));
        assert!(done.iter().all(|work| work.latency.count == 50 && work.rate > 0.0));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
