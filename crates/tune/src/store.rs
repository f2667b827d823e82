//! Where the journal is, and who writes in it.

use crate::Error;
use nix::unistd::{User, getuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use whyslow_model::mask;
use whyslow_model::tune::ChangedBy;

/// Where a folder other than the standard one is named.
pub const STATE: &str = "WHYSLOW_STATE";

/// The mode of files beside the journal: command lines and values are for root alone.
pub(crate) const PRIVATE: u32 = 0o600;

/// The folder of the journal and its lock.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// `/var/lib/whyslow/tune`, unless the environment variable `WHYSLOW_STATE` names another place than /var/lib/whyslow.
    pub fn standard() -> Self {
        let named = std::env::var_os(STATE).map(PathBuf::from).filter(|path| path.is_absolute());
        Self::at(&named.unwrap_or_else(|| "/var/lib/whyslow".into()).join("tune"))
    }

    /// A folder of one's own.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder where it is not there yet.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        whyslow_trusted::create_folder(&self.folder, 0o755, 0o700).map_err(|e| self.refused(&e))?;
        self.tighten();
        // Fails before anything is tried if the user may not change settings.
        let is_writable = whyslow_trusted::open_or_create(&self.folder.join("lock"), PRIVATE);
        is_writable.map(|_| ()).map_err(|e| self.refused(&e))?;
        Ok(())
    }

    /// Takes from others what an earlier version let them read: who called what, and with which words.
    fn tighten(&self) {
        let tightened = |path: &Path, most: u32| {
            let Ok(meta) = fs::symlink_metadata(path) else { return };
            let mode = meta.permissions().mode() & 0o7777;
            if !meta.is_symlink() && mode & !most != 0 {
                // Where it is another's it stays as he wants it.
                let _ = fs::set_permissions(path, Permissions::from_mode(mode & most));
            }
        };
        tightened(&self.folder, 0o700);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                tightened(&entry.path(), PRIVATE);
            }
        }
    }

    fn refused(&self, error: &std::io::Error) -> Error {
        let remedy = if error.kind() == std::io::ErrorKind::PermissionDenied { "; run as root" } else { "" };
        Error::Journal(format!(
            "nothing is changed without a journal, and {} cannot be used: {error}{remedy}",
            self.folder.display()
        ))
    }
}

/// Who this is, for the journal: behind sudo, who called it.
pub fn who() -> ChangedBy {
    let uid = getuid();
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let caller = std::env::var("SUDO_USER").ok().filter(|name| !name.is_empty());
    ChangedBy {
        uid: uid.as_raw(),
        user: caller.or_else(|| Some(User::from_uid(uid).ok()??.name)),
        pid: std::process::id(),
        command: mask::words(&words).join(" "),
    }
}
