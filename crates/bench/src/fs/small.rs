//! Many small files: made, looked at and removed, by name and in any order.

use crate::budget::Need;
use crate::error::{Error, Result};
use crate::load::{Permutation, Spread};
use crate::round::{Progress, Reading};
use crate::session::Session;
use nix::unistd::getuid;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;
use whyslow_model::bench::{FileWork, Latency};

const PREFIX: &str = ".whyslow-bench-files-";
/// What each file holds: less than a block.
const CONTENT: [u8; 1024] = [0x5a; 1024];

/// Does all there is to do with `count` files in a folder made for it, which is removed.
///
/// # Errors
/// Where the folder cannot be made, or something with the files fails.
pub(super) fn work(folder: &Path, count: u32, seed: u64, session: &mut Session) -> Result<Vec<FileWork>> {
    remove_leftovers(folder);
    session.claim(folder, need(folder, count))?;
    let files = Files::make(folder, count, seed)?;
    let steps: [(&str, bool, Step); 7] = [
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
        if let Some(work) = files.each(what, random, step, session)? {
            done.push(work);
        }
    }
    done.extend(files.lasting(session)?);
    Ok(done)
}

/// What that takes up.
pub(super) fn need(folder: &Path, count: u32) -> Need {
    Need::small_files(folder, count, CONTENT.len() as u64)
}

type Step = fn(&Path) -> io::Result<()>;

fn create(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(&CONTENT)
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
struct Files {
    folder: PathBuf,
    count: u32,
    order: Permutation,
}

impl Files {
    fn make(folder: &Path, count: u32, seed: u64) -> Result<Self> {
        let folder = folder.join(format!("{PREFIX}{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|e| Error::at(&folder, "no folder can be made", &e))?;
        Ok(Self { folder, count, order: Permutation::new(count.into(), seed) })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:08}"))
    }

    /// Does one thing with every file. None where it was stopped before.
    fn each(&self, what: &str, random: bool, step: Step, session: &mut Session) -> Result<Option<FileWork>> {
        let order = if random { "random" } else { "sequential" };
        let file = |index: u64| self.path(if random { self.order.at(index) } else { index });
        self.time((what, order), self.count.into(), session, |index| {
            let path = file(index);
            step(&path).map_err(|e| Error::at(&path, what, &e))
        })
    }

    /// Files that are made to last, name and content, before the next: what each commit of the journal costs.
    fn lasting(&self, session: &mut Session) -> Result<Option<FileWork>> {
        let count = u64::from(self.count).min(200);
        let folder = File::open(&self.folder).map_err(|e| Error::at(&self.folder, "cannot be opened", &e))?;
        self.time(("create and sync", "sequential"), count, session, |index| {
            let path = self.path(index);
            let made = || -> io::Result<()> {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
                file.write_all(&CONTENT)?;
                file.sync_all()?;
                folder.sync_all()
            };
            made().map_err(|e| Error::at(&path, "create and sync", &e))
        })
    }

    /// Does something so many times, and takes the time of each.
    fn time(
        &self,
        (what, order): (&str, &str),
        count: u64,
        session: &mut Session,
        mut step: impl FnMut(u64) -> Result<()>,
    ) -> Result<Option<FileWork>> {
        let doing = format!("{what} small files, {order}");
        let (mut spread, mut operations) = (Spread::default(), 0);
        let (usage, began) = (Reading::take(), Instant::now());
        let mut before = began;
        for index in 0..count {
            if session.stop.is_asked() {
                break;
            }
            step(index)?;
            let now = Instant::now();
            spread.add(u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX));
            before = now;
            operations += 1;
            if operations % 1000 == 0 {
                session.tell(Progress { doing: &doing, elapsed: began.elapsed().as_secs_f64(), whole: None });
            }
        }
        let (used, seconds) = (usage.since(), began.elapsed().as_secs_f64());
        Ok((operations > 0).then(|| FileWork {
            what: what.to_owned(),
            order: order.to_owned(),
            operations,
            seconds,
            rate: operations as f64 / seconds,
            latency: spread.latency(&Latency::SHARES),
            cost: Some((used.user + used.system) / operations as f64),
        }))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What cannot be removed now, the next run removes.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes folders of programs that were killed: ours, of numbers that no process has.
fn remove_leftovers(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        let ours = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == getuid().as_raw());
        if ours && pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // What cannot be removed is left to the next.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Stop;

    #[test]
    fn all_is_done_and_nothing_is_left_and_what_a_killed_one_left_is_removed() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        // No process has a number beyond the largest there can be.
        let left = folder.path().join(format!("{PREFIX}4294967295"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("00000001"), "x").unwrap();
        let mut watch = |_: Progress| {};
        let mut session = Session::begin(&Stop::default(), &mut watch);
        let done = work(folder.path(), 50, 1, &mut session).unwrap();
        let what: Vec<_> = done.iter().map(|work| (&*work.what, &*work.order, work.operations)).collect();
        assert_eq!(what.len(), 8, "{what:?}");
        assert!(what.iter().all(|(.., operations)| *operations == 50));
        assert!(done.iter().all(|work| work.latency.count == 50 && work.rate > 0.0));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
