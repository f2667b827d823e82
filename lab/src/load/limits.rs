//! Loads of processes that reach limits.

use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::getppid;
use std::fs::{self, File};
use std::io;
use std::time::Duration;

/// Opens files up to its own limit
#[derive(Args)]
pub struct Files {
    /// RLIMIT_NOFILE
    #[arg(long)]
    limit: u64,
    /// Files to open; beyond the limit it keeps trying
    #[arg(long)]
    open: u64,
    /// Interval between two attempts at the limit
    #[arg(long, default_value_t = 10)]
    every_ms: u64,
}

impl Files {
    /// Runs the load. Ready when all files are open or the limit is reached.
    pub fn run(self) -> Endless {
        setrlimit(Resource::RLIMIT_NOFILE, self.limit, self.limit)?;
        let mut held = Vec::new();
        while (held.len() as u64) < self.open
            && let Ok(file) = File::open("/dev/null")
        {
            held.push(file);
        }
        ready("")?;
        if held.len() as u64 == self.open {
            sleep_forever();
        }
        let mut pacer = Pacer::every(Duration::from_millis(self.every_ms));
        loop {
            pacer.wait();
            // Fails with EMFILE, as intended.
            drop(File::open("/dev/null"));
        }
    }
}

/// Creates memory mappings up to vm.max_map_count
#[derive(Args)]
pub struct Mappings {
    /// How many of those that it can have, in percent; at 100 it keeps trying to create more
    #[arg(long)]
    percent: u64,
}

impl Mappings {
    /// Runs the load. Ready when all mappings exist or the limit is reached.
    pub fn run(self) -> Endless {
        let limit = fs::read_to_string("/proc/sys/vm/max_map_count")?;
        let limit: usize = limit.trim().parse().map_err(io::Error::other)?;
        let region = Region::new(limit)?;
        // Each page that differs from both its neighbours is a mapping, and so is the gap before it.
        let mut wanted = (1..limit).step_by(2).take(limit * self.percent as usize / 200);
        let all_made = wanted.all(|page| region.allow_reading(page));
        ready("")?;
        if self.percent < 100 {
            return if all_made { sleep_forever() } else { Err(io::Error::last_os_error()) };
        }
        let mut pacer = Pacer::every(Duration::from_millis(20));
        loop {
            pacer.wait();
            // Fails with ENOMEM, as intended.
            region.allow_reading(limit);
        }
    }
}

/// Address space without access.
struct Region {
    start: *mut libc::c_void,
}

const PAGE: usize = 4096;

impl Region {
    fn new(pages: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping wherever there is room; nothing is accessed.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), (pages + 2) * PAGE, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { start }) }
    }

    /// Makes a page readable, so that it becomes a mapping of its own. Returns whether that succeeded.
    fn allow_reading(&self, page: usize) -> bool {
        // SAFETY: the page is within the region, which nothing else uses.
        unsafe { libc::mprotect(self.start.byte_add(page * PAGE), PAGE, libc::PROT_READ) == 0 }
    }
}

/// Sends messages that no one receives: kernel memory that cannot be reclaimed
#[derive(Args)]
pub struct Messages {
    /// Bytes of kernel memory per second
    #[arg(long)]
    rate: u64,
    /// Bytes at most
    #[arg(long)]
    most: u64,
}

/// Size of a message; with its header it takes a page (ipc/msgutil.c).
const MESSAGE: usize = 4000;

#[repr(C)]
struct Message {
    kind: libc::c_long,
    text: [u8; MESSAGE],
}

impl Messages {
    pub fn run(self) -> Endless {
        refuse_hosts_ipc()?;
        fs::write("/proc/sys/kernel/msgmnb", i32::MAX.to_string())?;
        // SAFETY: msgget(2) takes two numbers. The queue is destroyed with its namespace.
        let queue = unsafe { libc::msgget(libc::IPC_PRIVATE, libc::IPC_CREAT | 0o600) };
        let message = Message { kind: 1, text: [0; MESSAGE] };
        let mut pacer = Pacer::rate(self.rate, 100 * PAGE as u64);
        ready("")?;
        for _ in 0..self.most.div_ceil(100 * PAGE as u64) {
            pacer.wait();
            for _ in 0..100 {
                // SAFETY: `message` begins with its type, and its text is as long as stated.
                let sent = unsafe { libc::msgsnd(queue, (&raw const message).cast(), MESSAGE, 0) };
                if sent != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        sleep_forever()
    }
}

/// Refuses to run in the host's IPC namespace, whose limits apply to all its programs.
fn refuse_hosts_ipc() -> io::Result<()> {
    if fs::read_link("/proc/self/ns/ipc")? == fs::read_link(format!("/proc/{}/ns/ipc", getppid()))? {
        return Err(io::Error::other("refusing to change the limits of the host's IPC namespace"));
    }
    Ok(())
}

/// Creates shared memory segments up to the limit of its own IPC namespace
#[derive(Args)]
pub struct Shm {
    /// kernel.shmmni
    #[arg(long)]
    limit: u64,
    /// Bytes per segment
    #[arg(long)]
    size: usize,
}

impl Shm {
    /// Runs the load. Ready when the limit is reached; then keeps trying.
    pub fn run(self) -> Endless {
        refuse_hosts_ipc()?;
        fs::write("/proc/sys/kernel/shmmni", self.limit.to_string())?;
        while self.create() {}
        ready("")?;
        let mut pacer = Pacer::every(Duration::from_millis(20));
        loop {
            pacer.wait();
            // Fails with ENOSPC, as intended.
            self.create();
        }
    }

    /// Creates one more segment and returns whether that succeeded. Segments are destroyed with their namespace.
    fn create(&self) -> bool {
        // SAFETY: shmget(2) takes three numbers.
        unsafe { libc::shmget(libc::IPC_PRIVATE, self.size, libc::IPC_CREAT | 0o600) >= 0 }
    }
}
