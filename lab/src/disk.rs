//! Simulated disks, each a FUSE file with delays (load/disk.rs) under a loop device with direct I/O, and their file systems.

use crate::command;
use crate::error::{Context, Error, Result};
use crate::load_process::{LoadCommand, LoadProcess};
use crate::testbed::Testbed;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Speed of a disk: at most `channels / latency` requests and `bandwidth` bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct DiskSpec {
    /// Time for which a request occupies a channel.
    pub latency: Duration,
    /// Number of requests served at once.
    pub channels: u64,
    /// Bytes per second over all channels; 0 for unlimited.
    pub bandwidth: u64,
    /// Duration of a flush.
    pub flush: Duration,
}

impl DiskSpec {
    /// Creates the spec of a disk that is limited only by its request rate.
    pub fn new(latency: Duration, channels: u64) -> Self {
        Self { latency, channels, bandwidth: 0, flush: Duration::ZERO }
    }
}

#[derive(Clone, Debug)]
pub struct LoopDevice {
    /// Device node, `/dev/loopN`.
    pub node: PathBuf,
    /// Name, `loopN`.
    pub name: String,
}

impl LoopDevice {
    /// Sets up a loop device with direct I/O over a file.
    pub fn over(bed: &mut Testbed, file: &Path) -> Result<Self> {
        let node = command::run("losetup", &["--find", "--show", "--direct-io=on", &file.to_string_lossy()])?;
        let name = node.trim_start_matches("/dev/").to_string();
        let attached = node.clone();
        bed.defer(move || command::run_cleanup("losetup", &["-d", &attached]));
        Ok(Self { node: PathBuf::from(node), name })
    }

    /// Sets the read-ahead, in bytes, for files opened from now on.
    pub fn set_read_ahead(&self, bed: &mut Testbed, bytes: u64) -> Result<()> {
        self.set(bed, "read_ahead_kb", bytes >> 10)
    }

    /// Sets the largest request that its queue accepts, in bytes.
    pub fn set_max_request(&self, bed: &mut Testbed, bytes: u64) -> Result<()> {
        self.set(bed, "max_sectors_kb", bytes >> 10)
    }

    /// Sets an attribute of its queue until the end of the trial: a loop device keeps it after its file is detached.
    fn set(&self, bed: &mut Testbed, name: &str, value: u64) -> Result<()> {
        let file = PathBuf::from(format!("/sys/block/{}/queue/{name}", self.name));
        let before = fs::read_to_string(&file).context(file.display())?;
        fs::write(&file, value.to_string()).context(file.display())?;
        bed.defer(move || drop(fs::write(&file, before.trim())));
        Ok(())
    }

    /// Returns a load that reads the device in blocks of `size` bytes.
    pub fn reader(&self, size: u64) -> LoadCommand {
        LoadCommand::new("read").with("path", self.node.display()).with("size", size)
    }

    /// Creates ext4 on it and mounts it at NAME in the trial's directory. `options` are those of mkfs.ext4.
    pub fn ext4(&self, bed: &mut Testbed, name: &str, options: &[&str]) -> Result<PathBuf> {
        let node = self.node.to_string_lossy();
        // Leave nothing for the kernel to initialise in the background, which would add load.
        let complete = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];
        command::run("mkfs.ext4", &[&complete[..], options, &[&*node]].concat())?;
        let dir = bed.path(name);
        fs::create_dir_all(&dir)?;
        nix::mount::mount(Some(&self.node), &dir, Some("ext4"), nix::mount::MsFlags::empty(), None::<&str>)
            .context(format!("mounting {node}"))?;
        let mounted = dir.clone();
        bed.defer(move || unmount(&mounted));
        Ok(dir)
    }
}

pub struct SimulatedDisk {
    pub device: LoopDevice,
    spec: DiskSpec,
    server: LoadProcess,
}

impl SimulatedDisk {
    /// Sets up a disk of `bytes` bytes. It has no delays until [`enable_delays`](Self::enable_delays), so that its
    /// setup is quick.
    pub fn new(bed: &mut Testbed, bytes: u64, spec: DiskSpec) -> Result<Self> {
        if !Path::new("/dev/fuse").exists() {
            return Err(Error::Missing("/dev/fuse".into()));
        }
        let dir = bed.path("disk");
        fs::create_dir_all(&dir)?;
        let server = LoadCommand::new("disk")
            .with("mount", dir.display())
            .with("bytes", bytes)
            .with("latency-us", spec.latency.as_micros())
            .with("channels", spec.channels)
            .with("bandwidth", spec.bandwidth)
            .with("flush-us", spec.flush.as_micros())
            .start(bed)?;
        let mounted = dir.clone();
        bed.defer(move || unmount(&mounted));
        let device = LoopDevice::over(bed, &dir.join("disk"))?;
        Ok(Self { device, spec, server })
    }

    /// Returns the maximum requests per second, if its bandwidth does not limit it.
    pub fn ceiling(&self) -> f64 {
        self.spec.channels as f64 / self.spec.latency.as_secs_f64()
    }

    /// Ends the disk before everything set up so far: programs that wait for a request that never completes cannot be
    /// killed.
    pub fn end_first(&self, bed: &mut Testbed) {
        let server = Pid::from_raw(self.server.pid.cast_signed());
        // All requests in flight fail once the server is gone.
        bed.defer(move || {
            let _ = kill(server, Signal::SIGKILL);
        });
    }

    /// Makes the disk as slow as its spec.
    pub fn enable_delays(&mut self) -> Result<()> {
        self.server.send("enable-delays")
    }
}

/// Unmounts a file system, or detaches it if it is still in use.
pub fn unmount(dir: &Path) {
    if umount2(dir, MntFlags::empty()).is_err()
        && let Err(e) = umount2(dir, MntFlags::MNT_DETACH)
    {
        eprintln!("whyslow-lab: cleaning up: unmounting {}: {e}", dir.display());
    }
}

/// Writes a file of `bytes` bytes to the disk and drops it from the page cache.
pub fn write_file(path: &Path, bytes: u64) -> Result<()> {
    let file = File::create(path)?;
    let chunk = vec![0x5a; 1 << 20];
    for at in (0..bytes).step_by(chunk.len()) {
        file.write_all_at(&chunk[..chunk.len().min((bytes - at) as usize)], at)?;
    }
    file.sync_all()?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).context("posix_fadvise")
}

// FIFREEZE and FITHAW, include/uapi/linux/fs.h; the argument is not used.
nix::ioctl_readwrite!(fifreeze, b'X', 119, libc::c_int);
nix::ioctl_readwrite!(fithaw, b'X', 120, libc::c_int);

/// Freezes the file system at `dir` until the end of the trial.
pub fn freeze(bed: &mut Testbed, dir: PathBuf) -> Result<()> {
    let file = File::open(&dir)?;
    // SAFETY: the descriptor is open, and the argument, which the kernel does not use, is a valid int.
    unsafe { fifreeze(file.as_raw_fd(), &mut 0) }.context("FIFREEZE")?;
    bed.defer(move || thaw_if_frozen(&dir));
    Ok(())
}

pub fn thaw_if_frozen(dir: &Path) {
    if let Ok(file) = File::open(dir) {
        // SAFETY: as above. The only usual error is EINVAL: not frozen.
        let _ = unsafe { fithaw(file.as_raw_fd(), &mut 0) };
    }
}
