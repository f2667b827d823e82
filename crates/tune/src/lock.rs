//! One run at a time changes settings: a lock on a file that names its holder, and that the kernel lets go of however the
//! holder ends (flock(2)).

use crate::clock;
use crate::error::Error;
use crate::store::PRIVATE;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use whyslow_model::tune::ChangedBy;

/// How often it is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// What the file says of its holder.
#[derive(Serialize, Deserialize)]
struct Holder {
    since: String,
    who: ChangedBy,
}

impl Lock {
    /// Takes the lock in a folder, waiting for another run for at most `wait`, or as long as it takes.
    ///
    /// # Errors
    /// [`Error::Busy`] names the holder; any other says why the file cannot be opened or locked.
    pub(crate) fn take(folder: &Path, who: &ChangedBy, wait: Option<Duration>) -> Result<Self, Error> {
        let path = folder.join("lock");
        let failed = |e: io::Error| Error::Journal(format!("{}: {e}", path.display()));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE)
            .open(&path)
            .map_err(failed)?;
        let give_up = wait.map(|wait| Instant::now() + wait);
        let how = if wait.is_some() { libc::LOCK_EX | libc::LOCK_NB } else { libc::LOCK_EX };
        while !locked(&file, how).map_err(failed)? {
            if give_up.is_some_and(|give_up| Instant::now() >= give_up) {
                return Err(Error::Busy(format!("another whyslow is running: {}", described(&mut file))));
            }
            std::thread::sleep(RETRY);
        }
        // The lock holds even if its holder cannot be written down.
        let _ = name_holder(&mut file, who);
        Ok(Self { _file: file })
    }
}

/// Whether no run is at work in a folder.
pub(crate) fn is_free(folder: &Path) -> bool {
    // Without a lock file no run ever took place; a lock taken here is released when the file is closed.
    File::open(folder.join("lock")).map_or(true, |file| locked(&file, libc::LOCK_SH | libc::LOCK_NB).unwrap_or(false))
}

/// Whether the lock was free and is ours now.
fn locked(file: &File, how: i32) -> io::Result<bool> {
    // SAFETY: the descriptor is open for as long as `file` is.
    if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
        e => Err(e),
    }
}

fn name_holder(file: &mut File, who: &ChangedBy) -> io::Result<()> {
    let holder = serde_json::to_vec(&Holder { since: clock::now(), who: who.clone() })?;
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
        None => "who, is not known".to_owned(),
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
        let folder = tempfile::tempdir().unwrap();
        let first = Lock::take(folder.path(), &who("whyslow tune set x=1"), Some(Duration::ZERO)).unwrap();
        let error = Lock::take(folder.path(), &who("second"), Some(Duration::ZERO)).unwrap_err().to_string();
        assert!(error.contains("'whyslow tune set x=1' (process 7, user ann) since "), "{error}");
        assert!(!is_free(folder.path()));
        drop(first);
        assert!(is_free(folder.path()));
        Lock::take(folder.path(), &who("second"), Some(Duration::ZERO)).unwrap();
    }
}
