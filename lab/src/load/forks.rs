//! Load of short-lived processes.

use super::{Endless, ready};
use clap::Args;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::wait;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::{self, sleep};
use std::time::Duration;

/// Starts one short-lived program after another, and waits for each
#[derive(Args)]
pub struct Forks {
    /// The program
    #[arg(long, default_value = "/bin/true")]
    program: String,
    /// Programs at a time
    #[arg(long, default_value_t = 1)]
    together: usize,
}

impl Forks {
    pub fn run(self) -> Endless {
        ready("")?;
        loop {
            let start = || Command::new(&self.program).spawn();
            let children: Vec<_> = (0..self.together).map(|_| start()).collect::<Result<_, _>>()?;
            for mut child in children {
                child.wait()?;
            }
        }
    }
}

/// Keeps a number of computing jobs running, as make(1) does
#[derive(Args)]
pub struct Build {
    /// Jobs at a time
    #[arg(long)]
    jobs: u64,
    /// CPU time of each job
    #[arg(long)]
    work_ms: u64,
}

impl Build {
    pub fn run(self) -> Endless {
        ready("")?;
        for _ in 1..self.jobs {
            let work = self.work_ms;
            thread::spawn(move || slot(work));
        }
        slot(self.work_ms)
    }
}

fn slot(work_ms: u64) -> Endless {
    let mut job = Command::new("/proc/self/exe");
    job.arg0("lab-job").args(["load", "job", "--work-ms", &work_ms.to_string()]);
    crate::command::kill_with_parent(&mut job);
    loop {
        job.spawn()?.wait()?;
    }
}

/// Computes for a while and ends
#[derive(Args)]
pub struct Job {
    /// CPU time
    #[arg(long)]
    work_ms: u64,
}

impl Job {
    pub fn run(self) -> Endless {
        super::cpu::compute(Duration::from_millis(self.work_ms));
        std::process::exit(0)
    }
}

/// Waits in vfork, in state D, for one child after another
#[derive(Args)]
pub struct Vfork {
    /// Lifetime of each child
    #[arg(long)]
    hold_ms: u64,
}

impl Vfork {
    pub fn run(self) -> Endless {
        ready("")?;
        loop {
            // SAFETY: without CLONE_VM this is fork(2), except that the parent waits until the child ends, as in vfork(2).
            // This process has no other thread that could hold a lock in the child's copy.
            match unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_VFORK | libc::SIGCHLD, 0, 0, 0, 0) } {
                0 => self.child(),
                -1 => return Err(io::Error::last_os_error()),
                _ => drop(wait()?),
            }
        }
    }

    fn child(&self) -> ! {
        let _ = prctl::set_pdeathsig(Signal::SIGKILL);
        sleep(Duration::from_millis(self.hold_ms));
        // SAFETY: _exit(2) does not touch the parent's buffers.
        unsafe { libc::_exit(0) }
    }
}
