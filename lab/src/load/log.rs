//! A program that must not lose a record: a database's log, a mail server.

use super::{Endless, Pace, ready};
use clap::Args;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

/// The log is begun anew at this length.
const LENGTH: u64 = 16 << 20;

/// Appends a record and, unless told otherwise, makes it durable.
#[derive(Args)]
pub struct Log {
    /// The log.
    #[arg(long)]
    path: PathBuf,
    /// Bytes a record.
    #[arg(long)]
    size: usize,
    /// The pause from one record to the next; 0 for none.
    #[arg(long, default_value_t = 0)]
    every_ms: u64,
    /// Leave it to the kernel when a record is written.
    #[arg(long)]
    lazy: bool,
}

impl Log {
    /// Ends on the first error.
    pub fn run(self) -> Endless {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&self.path)?;
        let record = vec![b'x'; self.size];
        let mut pace = Pace::every(Duration::from_millis(self.every_ms));
        let mut at = 0;
        ready("")?;
        loop {
            pace.wait();
            file.write_all_at(&record, at)?;
            at = (at + record.len() as u64) % LENGTH;
            if !self.lazy {
                file.sync_all()?;
            }
        }
    }
}
