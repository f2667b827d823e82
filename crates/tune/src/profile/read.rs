//! Files of profiles: regular ones, of a bounded size, and of all together no more than that either. Who writes a profile may name
//! any file in it, and none of what such a file holds is repeated in an error.

use crate::machine::Machine;
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;

/// Bytes of all files together: some ten times what 300,000 lines take.
const MOST: u64 = 64 << 20;

/// How much may still be read.
pub(super) struct Budget(Cell<u64>);

impl Default for Budget {
    fn default() -> Self {
        Self(Cell::new(MOST))
    }
}

impl Budget {
    /// The text of a file, by its path from the root.
    ///
    /// # Errors
    /// It is not there, no regular file, or too large.
    pub(super) fn text(&self, machine: &Machine, path: &str) -> Result<String, String> {
        let failed = |e: std::io::Error| format!("/{path}: {e}");
        // A pipe or a device would otherwise keep whoever opens it waiting.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(machine.root().at(path));
        let file = opened.map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(format!("/{path}: not a regular file"));
        }
        let left = self.0.get();
        let mut bytes = Vec::new();
        file.take(left + 1).read_to_end(&mut bytes).map_err(failed)?;
        let read = bytes.len() as u64;
        if read > left {
            return Err(format!("/{path}: too large: profiles take {} MiB together at most", MOST >> 20));
        }
        self.0.set(left - read);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
