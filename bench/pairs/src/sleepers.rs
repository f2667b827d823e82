//! Processes that sleep, as most of a machine do.

use crate::child::Running;
use crate::failure::Result;
use crate::stop;

/// A number of sleeping processes, ended when dropped. They end by themselves after half an hour.
pub struct Sleepers(Vec<Running>);

impl Sleepers {
    /// As many as make the machine have `processes` in all.
    ///
    /// # Errors
    /// Where no more processes can be had, or a signal came.
    pub fn up_to(processes: usize) -> Result<Self> {
        let mut sleepers = Self(Vec::new());
        for _ in processes_now()?..processes {
            stop::check()?;
            sleepers.0.push(Running::start("sleep", &["1800"])?);
        }
        Ok(sleepers)
    }
}

/// How many processes there are.
///
/// # Errors
/// Where /proc cannot be read.
pub fn processes_now() -> Result<usize> {
    let numbered = |name: &std::ffi::OsStr| name.to_str().is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
    Ok(std::fs::read_dir("/proc")?.flatten().filter(|entry| numbered(&entry.file_name())).count())
}
