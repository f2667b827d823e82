//! Location of the journal, and the user who writes to it.

use crate::Error;
use nix::unistd::{User, getuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use whyslow_documents::tune::ChangedBy;
use whyslow_model::mask;

/// Environment variable that names a folder other than the standard one.
pub const STATE: &str = "WHYSLOW_STATE";

/// Mode of the files beside the journal: command lines and values are for root only.
pub(crate) const PRIVATE: u32 = 0o600;

/// The folder of the journal and its lock.
#[derive(Clone, Debug)]
pub struct TuneFolder {
    folder: PathBuf,
}

impl TuneFolder {
    /// Returns `/var/lib/whyslow/tune`, or the folder `tune` in the directory that the environment variable `WHYSLOW_STATE`
    /// names.
    pub fn standard() -> Self {
        let named = std::env::var_os(STATE).map(PathBuf::from).filter(|path| path.is_absolute());
        Self::at(&named.unwrap_or_else(|| "/var/lib/whyslow".into()).join("tune"))
    }

    /// Returns a store in a custom folder.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the folder if necessary.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        whyslow_trusted::create_folder(&self.folder, 0o755, 0o700).map_err(|e| self.refused(&e))?;
        self.tighten();
        // Fails early if the user may not change settings.
        let is_writable = whyslow_trusted::open_or_create(&self.folder.join("lock"), PRIVATE);
        is_writable.map(|_| ()).map_err(|e| self.refused(&e))?;
        Ok(())
    }

    /// Removes other users' access to files of earlier versions, which contain users and command lines.
    fn tighten(&self) {
        let tightened = |path: &Path, most: u32| {
            let Ok(meta) = fs::symlink_metadata(path) else { return };
            let mode = meta.permissions().mode() & 0o7777;
            if !meta.is_symlink() && mode & !most != 0 {
                // A file of another owner keeps the mode that the owner chose.
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

/// Returns the user of this process for the journal; under sudo, the user who called it.
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
