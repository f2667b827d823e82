//! Sleeping processes, like most processes of a machine.

use crate::child::Running;
use crate::failure::Result;
use crate::stop;

/// A number of sleeping processes, ended when dropped. They end by themselves after half an hour.
pub struct Sleepers(Vec<Running>);

impl Sleepers {
    /// Starts enough processes for the machine to have `processes` in total.
    ///
    /// # Errors
    /// Fails if no more processes can be started or a signal arrives.
    pub fn up_to(processes: usize) -> Result<Self> {
        let mut sleepers = Self(Vec::new());
        for _ in processes_now()?..processes {
            stop::check()?;
            sleepers.0.push(Running::start("sleep", &["1800"])?);
        }
        Ok(sleepers)
    }
}

/// Returns the number of processes.
///
/// # Errors
/// Fails if /proc cannot be read.
pub fn processes_now() -> Result<usize> {
    let numbered = |name: &std::ffi::OsStr| name.to_str().is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    Ok(std::fs::read_dir("/proc")?.flatten().filter(|entry| numbered(&entry.file_name())).count())
}
