//! Trials with file systems without space or inodes.

use super::disk::start_writer_elsewhere;
use crate::disk::{DiskSpec, SimulatedDisk, write_file};
use crate::error::Result;
use crate::expect::EntityPattern::{self, Process};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "fs.full",
        what: "a file system is full, and a program keeps trying to write to it",
        quick: true,
        finding: Some("fs.full"),
        never: &["fs.inodes_full", "fs.readonly", "disk.saturated"],
        setup: |bed| {
            let bytes = bed.range(32..=128) << 20;
            let dir = file_system(bed, bytes, &["-m", "0"])?;
            filler(bed, &dir).start(bed)?;
            Ok(Expect::subject([EntityPattern::mount(&dir)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "fs.full.held",
        what: "one open file, deleted or not, fills a file system, while another program writes more to another one",
        finding: Some("fs.full"),
        never: &["fs.inodes_full", "fs.readonly", "disk.saturated"],
        setup: |bed| {
            let bytes = bed.range(32..=128) << 20;
            let dir = file_system(bed, bytes, &["-m", "0"])?;
            start_writer_elsewhere(bed)?;
            let mut fill = filler(bed, &dir).flag("hold");
            if bed.coin() {
                fill = fill.flag("deleted");
            }
            let fill = fill.start(bed)?;
            Ok(Expect::subject([EntityPattern::mount(&dir)]).culprit([Process(fill.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "fs.inodes_full",
        what: "a file system has space but no inodes left, and a program keeps trying to create files",
        finding: Some("fs.inodes_full"),
        never: &["fs.full", "fs.readonly"],
        setup: |bed| {
            let inodes = bed.range(500..=2000).to_string();
            let dir = file_system(bed, 128 << 20, &["-N", &inodes])?;
            filler(bed, &dir).flag("inodes").start(bed)?;
            Ok(Expect::subject([EntityPattern::mount(&dir)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "fs.filling",
        what: "a program fills the last part of a file system steadily, and it lasts for about a minute",
        finding: Some("fs.filling"),
        never: &["fs.full", "fs.inodes_full", "fs.readonly", "disk.saturated"],
        setup: |bed| {
            let dir = file_system(bed, 512 << 20, &["-m", "0"])?;
            let free = occupy(&dir, bed.range(86..=92))?;
            filler(bed, &dir).with("rate", free / bed.range(40..=80)).flag("hold").start(bed)?;
            Ok(Expect::subject([EntityPattern::mount(&dir)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "rotating-log",
        what: "a program writes into a file system that is nearly full as fast as one that fills it, but over the same file",
        setup: |bed| {
            let dir = file_system(bed, 512 << 20, &["-m", "0"])?;
            occupy(&dir, bed.range(86..=92))?;
            let append = LoadCommand::new("append").with("path", dir.join("log").display());
            // The log reaches its full length within two seconds.
            append.with("size", 1 << 20).with("every-ms", bed.range(50..=100)).flag("lazy").start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "fs-85",
        what: "a file system is 85 % full and stays so",
        setup: |bed| {
            let bytes = bed.range(128..=512) << 20;
            let dir = file_system(bed, bytes, &[])?;
            occupy(&dir, bed.range(80..=86))?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Creates ext4 on a fast disk. `options` are those of mkfs.ext4.
fn file_system(bed: &mut Testbed, bytes: u64, options: &[&str]) -> Result<PathBuf> {
    let disk = SimulatedDisk::new(bed, bytes, DiskSpec::new(Duration::ZERO, 4))?;
    disk.device.ext4(bed, "full", options)
}

/// Uses up this percentage of the available space, and returns how many bytes are left.
fn occupy(dir: &Path, percent: u64) -> Result<u64> {
    let space = nix::sys::statvfs::statvfs(dir)?;
    let available = space.blocks_available() * space.fragment_size();
    let used = available * percent / 100;
    write_file(&dir.join("data"), used)?;
    Ok(available - used)
}

fn filler(bed: &mut Testbed, dir: &Path) -> LoadCommand {
    LoadCommand::new("fill").with("dir", dir.display()).with("every-ms", bed.range(5..=50))
}
