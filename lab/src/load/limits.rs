//! Processes that run into limits.

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
    /// Ready when all are open or the limit is reached.
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
    /// Ready when the limit is reached; keeps trying.
    pub fn run(self) -> Endless {
        if fs::read_link("/proc/self/ns/ipc")? == fs::read_link(format!("/proc/{}/ns/ipc", getppid()))? {
            return Err(io::Error::other("refusing to change the limits of the host's IPC namespace"));
        }
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

    /// Whether one more could be created. Segments are destroyed with their namespace.
    fn create(&self) -> bool {
        // SAFETY: shmget(2) takes three numbers.
        unsafe { libc::shmget(libc::IPC_PRIVATE, self.size, libc::IPC_CREAT | 0o600) >= 0 }
    }
}
