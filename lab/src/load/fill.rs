//! Filling file systems up.

use super::{Endless, Pace, ready};
use clap::Args;
use std::fs::{File, remove_file};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Fills a file system up and keeps trying.
#[derive(Args)]
pub struct Fill {
    /// The file system's folder.
    #[arg(long)]
    dir: PathBuf,
    /// Use up the inodes, not the space.
    #[arg(long)]
    inodes: bool,
    /// Keep the file open that fills it.
    #[arg(long)]
    hold: bool,
    /// Delete that file, which stays open.
    #[arg(long, requires = "hold")]
    deleted: bool,
    /// The pause between two tries once it is full.
    #[arg(long)]
    every_ms: u64,
}

impl Fill {
    /// Ready when it is full; ends on any other error than that.
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
            while !full(file.write_all(&chunk))? {}
            // What was only promised must be there, or the last blocks come back.
            full(file.sync_all())?;
            if self.deleted {
                remove_file(&path)?;
            }
            held = Some(file).filter(|_| self.hold);
        }
        ready("")?;
        let mut pace = Pace::every(Duration::from_millis(self.every_ms));
        loop {
            pace.wait();
            full(match &mut held {
                Some(file) => file.write_all(&[1; 4096]),
                None => try_once(&self.dir.join("more")),
            })?;
        }
    }
}

fn try_once(path: &Path) -> io::Result<()> {
    File::options().append(true).create(true).open(path)?.write_all(&[1; 4096])
}

/// Whether the file system is full; any other error stays one.
fn full(end: io::Result<()>) -> io::Result<bool> {
    match end {
        Ok(()) => Ok(false),
        Err(e) if e.kind() == ErrorKind::StorageFull => Ok(true),
        Err(e) => Err(e),
    }
}
