//! Running into limits.

use super::{Endless, Pace, ready, rest};
use clap::Args;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::getppid;
use std::fs::{self, File};
use std::io;
use std::time::Duration;

/// Opens files up to a limit of its own.
#[derive(Args)]
pub struct Files {
    /// The limit, RLIMIT_NOFILE.
    #[arg(long)]
    limit: u64,
    /// How many to open; beyond the limit it keeps trying.
    #[arg(long)]
    open: u64,
    /// The pause between two tries at the limit.
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
            rest();
        }
        let mut pace = Pace::every(Duration::from_millis(self.every_ms));
        loop {
            pace.wait();
            // It fails with EMFILE; that is the point.
            drop(File::open("/dev/null"));
        }
    }
}

/// Makes shared memory segments up to a limit, in an IPC namespace of its own.
#[derive(Args)]
pub struct Shm {
    /// The limit, kernel.shmmni.
    #[arg(long)]
    limit: u64,
    /// Bytes a segment.
    #[arg(long)]
    size: usize,
}

impl Shm {
    /// Ready when the limit is reached; keeps trying.
    pub fn run(self) -> Endless {
        if fs::read_link("/proc/self/ns/ipc")? == fs::read_link(format!("/proc/{}/ns/ipc", getppid()))? {
            return Err(io::Error::other("the host's own IPC namespace is not ours to change"));
        }
        fs::write("/proc/sys/kernel/shmmni", self.limit.to_string())?;
        while self.make() {}
        ready("")?;
        let mut pace = Pace::every(Duration::from_millis(20));
        loop {
            pace.wait();
            // It fails with ENOSPC; that is the point.
            self.make();
        }
    }

    /// Whether there was room for one more. Segments end with their namespace.
    fn make(&self) -> bool {
        // SAFETY: shmget(2) takes three numbers.
        unsafe { libc::shmget(libc::IPC_PRIVATE, self.size, libc::IPC_CREAT | 0o600) >= 0 }
    }
}
