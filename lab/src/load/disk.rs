//! Server of a simulated disk: a FUSE file system with one file. It is opened with direct I/O, so every request of the
//! loop device above it arrives here and is delayed.

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

/// Serves a simulated disk
#[derive(Args)]
pub struct DiskServer {
    /// Mount point
    #[arg(long)]
    mount: PathBuf,
    /// The disk's size
    #[arg(long)]
    bytes: u64,
    /// Time for which a request occupies a channel
    #[arg(long)]
    latency_us: u64,
    /// Requests served at once
    #[arg(long)]
    channels: usize,
    /// Bytes per second over all channels; 0 for unlimited
    #[arg(long)]
    bandwidth: u64,
    /// Time that a flush takes
    #[arg(long)]
    flush_us: u64,
}

impl DiskServer {
    /// Serves the disk. Ready when mounted; without delays until a line arrives on standard input.
    pub fn run(self) -> Endless {
        // A real disk does not wait for a CPU: the delays must stay the same on a busy machine. SAFETY: setpriority(2)
        // takes three numbers. If it is refused, the disk is only slower under load.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        let enabled = Arc::new(AtomicBool::new(false));
        let data = File::from(memfd_create(c"lab-disk", MFdFlags::MFD_CLOEXEC)?);
        data.set_len(self.bytes)?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("wslab-disk".into())];
        // Each channel is a thread that holds one request at a time.
        config.n_threads = Some(self.channels);
        let disk = DiskFile { data, bytes: self.bytes, delays: Delays::new(&self, enabled.clone()) };
        let session = Session::new(disk, &self.mount, &config)?;
        thread::spawn(move || {
            let mut line = String::new();
            let received = io::stdin().read_line(&mut line).is_ok_and(|n| n > 0);
            enabled.store(received, Ordering::Relaxed);
        });
        ready("")?;
        session.run()?;
        // Unmounted: the trial has ended.
        std::process::exit(0)
    }
}

struct Delays {
    latency: Duration,
    flush: Duration,
    seconds_per_byte: f64,
    /// Time when the bus that all channels share becomes free.
    bus_free: Mutex<Instant>,
    enabled: Arc<AtomicBool>,
}

impl Delays {
    fn new(server: &DiskServer, enabled: Arc<AtomicBool>) -> Self {
        Self {
            latency: Duration::from_micros(server.latency_us),
            flush: Duration::from_micros(server.flush_us),
            seconds_per_byte: if server.bandwidth == 0 { 0.0 } else { 1.0 / server.bandwidth as f64 },
            bus_free: Mutex::new(Instant::now()),
            enabled,
        }
    }

    /// Sleeps for the duration of a request of `bytes` bytes: the latency, then the transfer on the shared bus.
    fn transfer(&self, bytes: usize) {
        let ready = Instant::now() + self.latency;
        let mut bus_free = self.bus_free.lock().unwrap_or_else(PoisonError::into_inner);
        let done = ready.max(*bus_free) + Duration::from_secs_f64(self.seconds_per_byte * bytes as f64);
        if self.enabled.load(Ordering::Relaxed) {
            if self.seconds_per_byte > 0.0 {
                *bus_free = done;
            }
            drop(bus_free);
            sleep_until(if self.seconds_per_byte > 0.0 { done } else { ready });
        }
    }

    fn flush(&self) {
        if self.enabled.load(Ordering::Relaxed) {
            thread::sleep(self.flush);
        }
    }
}

fn sleep_until(due: Instant) {
    thread::sleep(due.saturating_duration_since(Instant::now()));
}

struct DiskFile {
    data: File,
    bytes: u64,
    delays: Delays,
}

impl DiskFile {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let directory = inode == INodeNo::ROOT;
        let now = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: inode,
            size: if directory { 0 } else { self.bytes },
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o700 } else { 0o600 },
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

impl Filesystem for DiskFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without these, the kernel waits for each request of an asynchronous caller, or holds back all but a few.
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
        self.delays.transfer(buffer.len());
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
        self.delays.transfer(data.len());
        match written {
            Ok(n) => reply.written(n as u32),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, length: u64, _: i32, reply: ReplyEmpty) {
        // The loop device uses this to discard and to write zeroes; a hole reads as zeroes.
        let hole = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        match fallocate(&self.data, hole, offset as i64, length as i64) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(Errno::from_i32(e as i32)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.delays.flush();
        reply.ok();
    }
}
