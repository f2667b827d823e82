//! Everything that one trial sets up. It is torn down in reverse order, also after an error or a signal.

use crate::command::ChildGuard;
use crate::error::{Context, Result};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rand::distr::uniform::{SampleRange, SampleUniform};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::any::Any;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Prefix of every name that the lab assigns, so that leftovers are recognised.
pub const PREFIX: &str = "wslab-";

/// Directory of the lab's mount points and results.
pub const WORK: &str = "/run/wslab-work";

/// Returns the entries of a directory that have the lab's prefix.
pub fn entries(dir: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|n| n.starts_with(PREFIX)).collect()
}

pub struct Testbed {
    /// Process whose IPC namespace whyslow must run in, if not the lab's own.
    pub ipc_namespace_of: Option<u32>,
    /// File of the network namespace that whyslow must run in, if not the lab's own.
    pub netns: Option<PathBuf>,
    rng: SmallRng,
    guards: Vec<Box<dyn Any>>,
    /// Name and process of each running load.
    loads: Vec<(String, Pid)>,
    /// Directory of the trial.
    dir: PathBuf,
    /// Directory for the files of the part that is being set up: the trial's directory or one below it.
    folder: PathBuf,
}

impl Testbed {
    /// Creates an empty testbed with its own directory. All random parameters derive from the run's seed and the
    /// trial's name, not from the trials that ran before.
    pub fn new(name: &str, seed: u64) -> Result<Self> {
        let dir = Path::new(WORK).join(name);
        fs::create_dir_all(&dir).context(dir.display())?;
        let mut bed = Self::at(dir.clone(), name, seed);
        bed.defer(move || drop(fs::remove_dir_all(&dir)));
        Ok(bed)
    }

    pub(crate) fn at(dir: PathBuf, name: &str, seed: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, name).hash(&mut hasher);
        let rng = SmallRng::seed_from_u64(hasher.finish());
        Self {
            ipc_namespace_of: None,
            netns: None,
            rng,
            guards: Vec::new(),
            loads: Vec::new(),
            folder: dir.clone(),
            dir,
        }
    }

    /// Returns a random number from a range such as `2..=8`.
    pub fn range<T: SampleUniform>(&mut self, range: impl SampleRange<T>) -> T {
        self.rng.random_range(range)
    }

    /// Returns one of several values at random.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.range(0..choices.len())]
    }

    /// Returns true or false at random.
    pub fn coin(&mut self) -> bool {
        self.rng.random()
    }

    /// Returns a port that is probably free: above most registered ports, below the ephemeral ones.
    pub fn port(&mut self) -> u16 {
        self.range(20_000..=32_000)
    }

    /// Returns a path in the trial's directory, or in that of the part that is being set up.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns a path in the trial's directory, where the next run looks for records of what a killed one has changed.
    pub fn record_path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Sets up a part of the trial with its own directory.
    pub fn part<T>(&mut self, name: &str, setup: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let folder = self.dir.join(name);
        fs::create_dir_all(&folder).context(folder.display())?;
        let before = std::mem::replace(&mut self.folder, folder);
        let result = setup(self);
        self.folder = before;
        result
    }

    /// Keeps a guard until the end of the trial.
    pub fn keep<G: 'static>(&mut self, guard: G) {
        self.guards.push(Box::new(guard));
    }

    /// Keeps a load that must run until the end of the trial.
    pub fn keep_load(&mut self, name: &str, load: ChildGuard) {
        self.loads.push((name.to_owned(), Pid::from_raw(load.0.id().cast_signed())));
        self.keep(load);
    }

    /// Describes how a load ended that should still be running, if there is one.
    pub fn exited_load(&self) -> Result<Option<String>> {
        for (name, pid) in &self.loads {
            // The child is not reaped, so that its PID cannot be reused.
            let peek = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            match waitid(Id::Pid(*pid), peek)? {
                WaitStatus::StillAlive => {}
                WaitStatus::Signaled(_, signal, _) => {
                    return Ok(Some(format!("the load {name} was killed by {signal}")));
                }
                _ => return Ok(Some(format!("the load {name} ended"))),
            }
        }
        Ok(None)
    }

    /// Runs `action` at the end of the trial.
    pub fn defer(&mut self, action: impl FnOnce() + 'static) {
        self.keep(Deferred(Some(Box::new(action))));
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // A Vec drops its first element first, but what was set up last must be torn down first.
        while let Some(guard) = self.guards.pop() {
            drop(guard);
        }
    }
}

struct Deferred(Option<Box<dyn FnOnce()>>);

impl Drop for Deferred {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::rc::Rc;

    fn bed(name: &str, seed: u64) -> Testbed {
        Testbed::at(PathBuf::new(), name, seed)
    }

    #[test]
    fn teardown_runs_in_reverse_order() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut bed = bed("", 0);
        for n in 0..3 {
            let order = order.clone();
            bed.defer(move || order.borrow_mut().push(n));
        }
        drop(bed);
        assert_eq!(*order.borrow(), [2, 1, 0]);
    }

    #[test]
    fn parameters_follow_from_seed_and_name() {
        let numbers = |name, seed| {
            let mut bed = bed(name, seed);
            [bed.range(0..=u64::MAX), bed.range(0..=u64::MAX)]
        };
        assert_eq!(numbers("x", 7), numbers("x", 7));
        assert_ne!(numbers("x", 7), numbers("y", 7));
        assert_ne!(numbers("x", 7), numbers("x", 8));
    }

    #[test]
    fn each_part_has_its_own_files() {
        let dir = whyslow_testing::folder();
        let mut bed = Testbed::at(dir.path().to_owned(), "x", 7);
        let in_part = bed.part("a", |bed| Ok((bed.path("fs"), bed.record_path("fs")))).unwrap();
        assert_eq!(in_part, (dir.path().join("a/fs"), dir.path().join("fs")));
        assert_eq!(bed.path("fs"), dir.path().join("fs"));
    }

    #[test]
    fn the_first_parameter_takes_every_value_of_its_range() {
        let firsts: BTreeSet<u64> = (0..100).map(|seed| bed("x", seed).range(3..=7)).collect();
        assert_eq!(firsts, (3..=7).collect());
    }
}
