//! Ensures that only one run at a time changes settings: a lock on a file that names its holder. The kernel releases it however
//! the holder ends (flock(2)).

use crate::Error;
use crate::machine;
use crate::store::PRIVATE;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use whyslow_documents::tune::ChangedBy;

/// Interval between attempts.
const RETRY: Duration = Duration::from_millis(50);

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// The holder, as recorded in the file.
#[derive(Serialize, Deserialize)]
struct Holder {
    since: String,
    who: ChangedBy,
}

impl Lock {
    /// Takes the lock in a folder; waits for another run for at most `wait`, or without limit.
    ///
    /// # Errors
    /// [`Error::Busy`] names the holder; other errors say why the file cannot be opened or locked.
    pub(crate) fn take(folder: &Path, who: &ChangedBy, wait: Option<Duration>) -> Result<Self, Error> {
        let path = folder.join("lock");
        let failed = |e: io::Error| Error::Journal(format!("{}: {e}", path.display()));
        let mut file = whyslow_trusted::open_or_create(&path, PRIVATE).map_err(failed)?;
        let give_up = wait.map(|wait| Instant::now() + wait);
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(e)) => return Err(failed(e)),
                Err(TryLockError::WouldBlock) if give_up.is_some_and(|give_up| Instant::now() >= give_up) => {
                    return Err(Error::Busy(format!("another whyslow is running: {}", described(&mut file))));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY),
            }
        }
        // The lock is valid even if the holder cannot be recorded.
        let _ = name_holder(&mut file, who);
        Ok(Self { _file: file })
    }
}

/// Whether no run is active in a folder.
pub(crate) fn is_free(folder: &Path) -> bool {
    // Without a lock file there was never a run; a lock taken here is released when the file is closed.
    File::open(folder.join("lock")).map_or(true, |file| file.try_lock_shared().is_ok())
}

fn name_holder(file: &mut File, who: &ChangedBy) -> io::Result<()> {
    let holder = serde_json::to_vec(&Holder { since: machine::now(), who: who.clone() })?;
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&holder)
}

fn described(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text));
    match read.ok().and_then(|_| serde_json::from_str::<Holder>(&text).ok()) {
        Some(Holder { since, who }) => {
            let user = who.user.unwrap_or_else(|| who.uid.to_string());
            format!(
                "'{}' (process {}, user {user}) since {since}; wait for it, or end it, which rolls its changes back",
                who.command, who.pid
            )
        }
        None => "its process is not known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(command: &str) -> ChangedBy {
        ChangedBy { uid: 0, user: Some("ann".into()), pid: 7, command: command.into() }
    }

    #[test]
    fn a_second_run_is_told_who_holds_it() {
        let folder = whyslow_testing::folder();
        let first = Lock::take(folder.path(), &who("whyslow tune set x=1"), Some(Duration::ZERO)).unwrap();
        let error = Lock::take(folder.path(), &who("second"), Some(Duration::ZERO)).unwrap_err().to_string();
        assert!(error.contains("'whyslow tune set x=1' (process 7, user ann) since "), "{error}");
        assert!(!is_free(folder.path()));
        drop(first);
        assert!(is_free(folder.path()));
        Lock::take(folder.path(), &who("second"), Some(Duration::ZERO)).unwrap();
    }
}
