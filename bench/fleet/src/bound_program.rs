//! Programs that end with this one.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use whyslow_pairs::failure::{Failure, Result};

/// A program that is killed when this is dropped, or when this process is killed.
pub struct BoundProgram {
    child: Child,
}

impl BoundProgram {
    /// Starts a program without input. Ctrl-C does not reach it: this process ends it.
    ///
    /// # Errors
    /// Fails if it cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        // SAFETY: prctl(2) is async-signal-safe.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            })
        };
        let child = command.stdin(Stdio::null()).process_group(0).spawn();
        let child = child.map_err(|error| Failure::new(format!("cannot start {name}: {error}")))?;
        Ok(Self { child })
    }

    /// Returns the first line that it prints; empty if it ends without one.
    ///
    /// # Errors
    /// Fails if its output cannot be read.
    pub fn first_line(&mut self) -> Result<String> {
        let out = self.child.stdout.take().ok_or_else(|| Failure::new("nothing to read from"))?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Returns its exit status if it has ended.
    ///
    /// # Errors
    /// Fails if the status cannot be determined.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for BoundProgram {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
