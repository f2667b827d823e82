//! A program that must not lose a record: a database's log, a mail server.

use super::{Endless, Pace, ready};
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
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
    /// Threads that do so, each with a log of its own, beside a main thread that waits; 0 for the main thread alone.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Leave it to the kernel when a record is written.
    #[arg(long)]
    lazy: bool,
}

impl Log {
    /// Ends on the first error.
    pub fn run(self) -> Endless {
        let files: Vec<File> = (0..self.threads.max(1)).map(|number| self.open(number)).collect::<io::Result<_>>()?;
        ready("")?;
        if self.threads == 0 {
            return self.write(&files[0]);
        }
        let (this, (end, ends)) = (Arc::new(self), mpsc::channel());
        for file in files {
            let (this, end) = (this.clone(), end.clone());
            thread::spawn(move || end.send(this.write(&file)));
        }
        ends.recv().map_err(io::Error::other)?
    }

    fn open(&self, number: usize) -> io::Result<File> {
        let path = if number == 0 { self.path.clone() } else { self.path.with_extension(number.to_string()) };
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    fn write(&self, file: &File) -> Endless {
        let record = vec![b'x'; self.size];
        let mut pace = Pace::every(Duration::from_millis(self.every_ms));
        let mut at = 0;
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
