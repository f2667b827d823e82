//! Where one fault is made: everything put on the stage is taken off it in reverse order, whatever happens.

use crate::dice::Dice;
use crate::error::{During, Result};
use crate::leash::Leash;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};

/// What every name the lab gives begins with, so that leftovers can be told from other people's things.
pub const PREFIX: &str = "wslab-";

/// Where the lab keeps mount points and results.
pub const WORK: &str = "/run/wslab-work";

/// The scene of one trial.
pub struct Stage {
    /// The trial's numbers.
    pub dice: Dice,
    /// The process whose IPC namespace whyslow must be run in, where that is not the lab's own.
    pub ipc_of: Option<u32>,
    /// The file of the network namespace whyslow must be run in, where that is not the lab's own.
    pub netns: Option<PathBuf>,
    guards: Vec<Box<dyn Any>>,
    /// The loads at work: their names and processes.
    loads: Vec<(String, Pid)>,
    dir: PathBuf,
}

impl Stage {
    /// An empty stage with a folder of its own.
    ///
    /// # Errors
    /// Where the folder cannot be made.
    pub fn new(name: &str, dice: Dice) -> Result<Self> {
        let dir = Path::new(WORK).join(name);
        fs::create_dir_all(&dir).during(dir.display())?;
        let mut stage =
            Self { dice, ipc_of: None, netns: None, guards: Vec::new(), loads: Vec::new(), dir: dir.clone() };
        stage.undo(move || drop(fs::remove_dir_all(&dir)));
        Ok(stage)
    }

    /// A path on the stage.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Keeps a guard until the end of the trial.
    pub fn keep<G: 'static>(&mut self, guard: G) {
        self.guards.push(Box::new(guard));
    }

    /// Keeps a load until the end of the trial, which is to run for as long.
    pub fn keep_load(&mut self, name: &str, load: Leash) {
        self.loads.push((name.to_owned(), Pid::from_raw(load.0.id().cast_signed())));
        self.keep(load);
    }

    /// What became of a load that does not run any more, in words.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub fn ended_load(&self) -> Result<Option<String>> {
        for (name, pid) in &self.loads {
            // Not waited for: until then the number is nobody else's.
            let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            match waitid(Id::Pid(*pid), look)? {
                WaitStatus::StillAlive => {}
                WaitStatus::Signaled(_, signal, _) => {
                    return Ok(Some(format!("the load {name} was killed by {signal}")));
                }
                _ => return Ok(Some(format!("the load {name} ended"))),
            }
        }
        Ok(None)
    }

    /// Has `action` done at the end of the trial.
    pub fn undo(&mut self, action: impl FnOnce() + 'static) {
        self.keep(Undo(Some(Box::new(action))));
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A Vec drops its first element first; what was made last must go first.
        while let Some(guard) = self.guards.pop() {
            drop(guard);
        }
    }
}

struct Undo(Option<Box<dyn FnOnce()>>);

impl Drop for Undo {
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
    use std::rc::Rc;

    #[test]
    fn the_last_made_goes_first() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut stage = Stage {
            dice: Dice::new(0, ""),
            ipc_of: None,
            netns: None,
            guards: Vec::new(),
            loads: Vec::new(),
            dir: PathBuf::new(),
        };
        for n in 0..3 {
            let order = order.clone();
            stage.undo(move || order.borrow_mut().push(n));
        }
        drop(stage);
        assert_eq!(*order.borrow(), [2, 1, 0]);
    }
}
