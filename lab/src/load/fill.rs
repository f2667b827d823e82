//! Loads that fill file systems.

use super::{Endless, Pacer, ready};
use clap::Args;
use std::fs::{File, remove_file};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Fills a file system and keeps trying to write
#[derive(Args)]
pub struct Fill {
    /// Directory in the file system
    #[arg(long)]
    dir: PathBuf,
    /// Use up the inodes instead of the space
    #[arg(long)]
    inodes: bool,
    /// Keep the file that fills it open
    #[arg(long)]
    hold: bool,
    /// Delete that file while it is open
    #[arg(long, requires = "hold")]
    deleted: bool,
    /// Bytes per second until it is full, and ready at once; 0 for as many as possible
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Interval between two attempts once it is full
    #[arg(long)]
    every_ms: u64,
}

impl Fill {
    /// Runs the load. Ready when the file system is full; ends on any other error.
    pub fn run(self) -> Endless {
        let mut held = None;
        if self.inodes {
            for number in 0.. {
                if full(File::create(self.dir.join(number.to_string())).map(drop))? {
                    break;
                }
            }
        } else {
            let path = self.dir.join("fill");
            let (mut file, chunk) = (File::create(&path)?, vec![1; 64 << 10]);
            let mut pacer = Pacer::rate(self.rate, chunk.len() as u64);
            if self.rate > 0 {
                ready("")?;
            }
            while !full(file.write_all(&chunk))? {
                pacer.wait();
            }
            // Delayed allocation must be resolved, or the last blocks become free again.
            full(file.sync_all())?;
            if self.deleted {
                remove_file(&path)?;
            }
            held = Some(file).filter(|_| self.hold);
        }
        if self.rate == 0 {
            ready("")?;
        }
        let mut pacer = Pacer::every(Duration::from_millis(self.every_ms));
        loop {
            pacer.wait();
            full(match &mut held {
                Some(file) => file.write_all(&[1; 4096]),
                None => attempt(&self.dir.join("more")),
            })?;
        }
    }
}

fn attempt(path: &Path) -> io::Result<()> {
    File::options().append(true).create(true).open(path)?.write_all(&[1; 4096])
}

/// Returns whether the file system is full; passes on other errors.
fn full(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(e) if e.kind() == ErrorKind::StorageFull => Ok(true),
        Err(e) => Err(e),
    }
}
