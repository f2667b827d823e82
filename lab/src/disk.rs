//! A disk of known physics: a file of the load `disk` (see load/disk.rs) under a loop device with direct I/O.

use crate::error::{During, Error, Result};
use crate::stage::Stage;
use crate::tool;
use crate::worker::{Launch, Worker};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::mount::{MntFlags, umount2};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a disk can do. Its ceiling is `channels / latency` requests a second, and `rate` bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Physics {
    /// Time one request occupies a channel.
    pub latency: Duration,
    /// Requests served at once.
    pub channels: u64,
    /// Bytes a second over all channels; 0 for no limit.
    pub rate: u64,
    /// Time one flush takes.
    pub flush: Duration,
}

impl Physics {
    /// A disk limited by its request rate only, whose flush costs nothing.
    pub fn new(latency: Duration, channels: u64) -> Self {
        Self { latency, channels, rate: 0, flush: Duration::ZERO }
    }
}

/// A loop device.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Its node, `/dev/loopN`.
    pub node: PathBuf,
    /// Its kernel name, `loopN`.
    pub name: String,
}

impl Loop {
    /// Puts a loop device with direct I/O over a file.
    ///
    /// # Errors
    /// Where losetup(8) is missing or refuses.
    pub fn over(stage: &mut Stage, file: &Path) -> Result<Self> {
        let node = tool::run("losetup", &["--find", "--show", "--direct-io=on", &file.to_string_lossy()])?;
        let name = node.trim_start_matches("/dev/").to_string();
        let gone = node.clone();
        stage.undo(move || tool::undo("losetup", &["-d", &gone]));
        Ok(Self { node: PathBuf::from(node), name })
    }

    /// Sets how far the kernel reads ahead, in bytes, of what is opened from now on.
    ///
    /// # Errors
    /// Where the setting is refused.
    pub fn read_ahead(&self, stage: &mut Stage, bytes: u64) -> Result<()> {
        self.set(stage, "read_ahead_kb", bytes >> 10)
    }

    /// Sets the largest request that its queue takes, in bytes.
    ///
    /// # Errors
    /// Where the setting is refused.
    pub fn largest_request(&self, stage: &mut Stage, bytes: u64) -> Result<()> {
        self.set(stage, "max_sectors_kb", bytes >> 10)
    }

    /// Changes a setting of its queue. The device keeps it when the file below it is taken away, so the old one is put back.
    fn set(&self, stage: &mut Stage, name: &str, value: u64) -> Result<()> {
        let setting = PathBuf::from(format!("/sys/block/{}/queue/{name}", self.name));
        let before = fs::read_to_string(&setting).during(setting.display())?;
        fs::write(&setting, value.to_string()).during(setting.display())?;
        stage.undo(move || drop(fs::write(&setting, before.trim())));
        Ok(())
    }

    /// Makes ext4 on it and mounts that at `DIR/NAME`. `options` are mkfs.ext4's own.
    ///
    /// # Errors
    /// Where mkfs.ext4 or the mount fails.
    pub fn ext4(&self, stage: &mut Stage, name: &str, options: &[&str]) -> Result<PathBuf> {
        let node = self.node.to_string_lossy();
        // Nothing is left for the kernel to initialise in the background: it would be load of its own.
        let whole = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];
        tool::run("mkfs.ext4", &[&whole[..], options, &[&*node]].concat())?;
        let dir = stage.path(name);
        fs::create_dir_all(&dir)?;
        nix::mount::mount(Some(&self.node), &dir, Some("ext4"), nix::mount::MsFlags::empty(), None::<&str>)
            .during(format!("mounting {node}"))?;
        let gone = dir.clone();
        stage.undo(move || unmount(&gone));
        Ok(dir)
    }
}

/// A disk of known physics.
pub struct Disk {
    /// The block device.
    pub device: Loop,
    server: Worker,
}

impl Disk {
    /// Makes a disk of `bytes` bytes. It is as fast as memory until [`Disk::engage`], so that setting up costs no time.
    ///
    /// # Errors
    /// Where FUSE or loop devices are missing.
    pub fn new(stage: &mut Stage, bytes: u64, physics: Physics) -> Result<Self> {
        if !Path::new("/dev/fuse").exists() {
            return Err(Error::Missing("/dev/fuse".into()));
        }
        let dir = stage.path("physics");
        fs::create_dir_all(&dir)?;
        let server = Launch::new("disk")
            .with("mount", dir.display())
            .with("bytes", bytes)
            .with("latency-us", physics.latency.as_micros())
            .with("channels", physics.channels)
            .with("rate", physics.rate)
            .with("flush-us", physics.flush.as_micros())
            .start(stage)?;
        let mounted = dir.clone();
        stage.undo(move || unmount(&mounted));
        let device = Loop::over(stage, &dir.join("disk"))?;
        Ok(Self { device, server })
    }

    /// From here on the disk is as slow as its physics say.
    ///
    /// # Errors
    /// Where its server has ended.
    pub fn engage(&mut self) -> Result<()> {
        self.server.tell("engage")
    }
}

/// Unmounts, if need be as soon as nobody uses it any more.
pub fn unmount(dir: &Path) {
    if umount2(dir, MntFlags::empty()).is_err()
        && let Err(e) = umount2(dir, MntFlags::MNT_DETACH)
    {
        eprintln!("whyslow-lab: cleaning up: unmounting {}: {e}", dir.display());
    }
}

/// Writes a file of `bytes` bytes that are really there, and leaves none of them in the page cache.
///
/// # Errors
/// The file's own.
pub fn fill_file(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path)?;
    let chunk = vec![0x5a; 1 << 20];
    for at in (0..bytes).step_by(chunk.len()) {
        file.write_all_at(&chunk[..chunk.len().min((bytes - at) as usize)], at)?;
    }
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).during("posix_fadvise")
}
