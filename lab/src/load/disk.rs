//! The server behind the disk of known physics: a FUSE file system of one file, opened with direct I/O, so that every
//! request of the loop device above it arrives here, and takes the time it is told to take.

use super::{Endless, ready};
use clap::Args;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, Session, WriteFlags,
};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const DISK: INodeNo = INodeNo(2);
const FOREVER: Duration = Duration::from_secs(3600);

/// Serves the disk of known physics.
#[derive(Args)]
pub struct Serve {
    /// The mount point.
    #[arg(long)]
    mount: PathBuf,
    /// The disk's size.
    #[arg(long)]
    bytes: u64,
    /// Time one request occupies a channel.
    #[arg(long)]
    latency_us: u64,
    /// Requests served at once.
    #[arg(long)]
    channels: usize,
    /// Bytes a second over all channels; 0 for no limit.
    #[arg(long)]
    rate: u64,
    /// Time one flush takes.
    #[arg(long)]
    flush_us: u64,
}

impl Serve {
    /// Ready when it is mounted; as fast as memory until a line comes on standard input.
    pub fn run(self) -> Endless {
        // A disk does not wait for a processor: on a busy machine its physics must stay what they are.
        // SAFETY: setpriority(2) takes three numbers. Where it is refused the disk is slower under load, no worse.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        let engaged = Arc::new(AtomicBool::new(false));
        let data = File::from(memfd_create(c"lab-disk", MFdFlags::MFD_CLOEXEC)?);
        data.set_len(self.bytes)?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("wslab-disk".into())];
        // Each channel is a thread that holds one request at a time.
        config.n_threads = Some(self.channels);
        let disk = Disk { data, bytes: self.bytes, physics: Physics::new(&self, engaged.clone()) };
        let session = Session::new(disk, &self.mount, &config)?;
        thread::spawn(move || {
            let mut line = String::new();
            let told = io::stdin().read_line(&mut line).is_ok_and(|n| n > 0);
            engaged.store(told, Ordering::Relaxed);
        });
        ready("")?;
        session.run()?;
        // Unmounted: the trial is over.
        std::process::exit(0)
    }
}

/// How long things take.
struct Physics {
    latency: Duration,
    flush: Duration,
    seconds_per_byte: f64,
    /// When the wire that all channels share is free again.
    wire: Mutex<Instant>,
    engaged: Arc<AtomicBool>,
}

impl Physics {
    fn new(serve: &Serve, engaged: Arc<AtomicBool>) -> Self {
        Self {
            latency: Duration::from_micros(serve.latency_us),
            flush: Duration::from_micros(serve.flush_us),
            seconds_per_byte: if serve.rate == 0 { 0.0 } else { 1.0 / serve.rate as f64 },
            wire: Mutex::new(Instant::now()),
            engaged,
        }
    }

    /// Takes the time that a request of `bytes` bytes takes: the latency, then its turn on the wire.
    fn transfer(&self, bytes: usize) {
        let ready = Instant::now() + self.latency;
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        let done = ready.max(*wire) + Duration::from_secs_f64(self.seconds_per_byte * bytes as f64);
        if self.engaged.load(Ordering::Relaxed) {
            if self.seconds_per_byte > 0.0 {
                *wire = done;
            }
            drop(wire);
            sleep_until(if self.seconds_per_byte > 0.0 { done } else { ready });
        }
    }

    fn flush(&self) {
        if self.engaged.load(Ordering::Relaxed) {
            thread::sleep(self.flush);
        }
    }
}

fn sleep_until(due: Instant) {
    thread::sleep(due.saturating_duration_since(Instant::now()));
}

struct Disk {
    data: File,
    bytes: u64,
    physics: Physics,
}

impl Disk {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let folder = inode == INodeNo::ROOT;
        let now = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size: if folder { 0 } else { self.bytes },
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: if folder { FileType::Directory } else { FileType::RegularFile },
            perm: if folder { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn errno(e: &io::Error) -> Errno {
    Errno::from_i32(e.raw_os_error().unwrap_or(libc::EIO))
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Else the kernel waits for each request of an asynchronous caller, or holds back all but a few of them.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_background(4096);
        let _ = config.set_congestion_threshold(4096);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "disk" {
            reply.entry(&FOREVER, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut buffer = vec![0; size as usize];
        let read = self.data.read_at(&mut buffer, offset);
        self.physics.transfer(buffer.len());
        match read {
            Ok(n) => reply.data(&buffer[..n]),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.data.write_at(data, offset);
        self.physics.transfer(data.len());
        match written {
            Ok(n) => reply.written(n as u32),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, length: u64, _: i32, reply: ReplyEmpty) {
        // The loop device asks for this to discard or to write zeroes; a hole reads as zeroes.
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        match fallocate(&self.data, hole, offset as i64, length as i64) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(Errno::from_i32(e as i32)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.physics.flush();
        reply.ok();
    }
}
