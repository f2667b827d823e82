//! Appends records to a log, as databases and mail servers do.

use super::{Endless, Pacer, ready};
use clap::Args;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Length at which the log starts over.
const LENGTH: u64 = 16 << 20;

/// Appends records and flushes each (fsync)
#[derive(Args)]
pub struct Append {
    /// The log file
    #[arg(long)]
    path: PathBuf,
    /// Bytes per record
    #[arg(long)]
    size: usize,
    /// Interval between records; 0 for none
    #[arg(long, default_value_t = 0)]
    every_ms: u64,
    /// Worker threads, each with its own log, beside an idle main thread; 0 for only the main thread
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Do not flush: the kernel decides when a record reaches the disk
    #[arg(long)]
    lazy: bool,
}

impl Append {
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
        let mut pacer = Pacer::every(Duration::from_millis(self.every_ms));
        let mut at = 0;
        loop {
            pacer.wait();
            file.write_all_at(&record, at)?;
            at = (at + record.len() as u64) % LENGTH;
            if !self.lazy {
                file.sync_all()?;
            }
        }
    }
}
