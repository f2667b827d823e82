//! What a killed run left behind is named after its PID; the next run removes it.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// Calls `remove` for each entry named PREFIX and a PID that no process has. What cannot be removed is left to the next run.
pub(crate) fn remove(folder: &Path, prefix: &str, remove: impl Fn(&Path, &Metadata) -> io::Result<()>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u32>().ok());
        let is_dead = |pid| !Path::new(&format!("/proc/{pid}")).exists();
        if pid.is_some_and(is_dead)
            && let Ok(metadata) = entry.metadata()
        {
            let _ = remove(&entry.path(), &metadata);
        }
    }
}
