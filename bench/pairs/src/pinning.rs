//! Pins programs and kernel workers to CPUs.

use crate::failure::Result;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::{fs, io};

/// CPU mask of unbound kernel workers (Documentation/core-api/workqueue.rst).
const WORKERS: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Pins this thread, the programs it starts, and the kernel's workers (which serve loop devices), until dropped.
///
/// Unpinned, the rate of a ping-pong, or of a loop device at depth 1, doubles or halves from one second to the next,
/// depending on where the scheduler places both sides and how fast the host wakes a virtual CPU.
pub struct Pinning {
    threads: CpuSet,
    workers: String,
}

impl Pinning {
    /// Pins all to the last allowed CPU, because device interrupts mostly go to the first. Nothing waits for another
    /// CPU to wake up.
    ///
    /// # Errors
    /// Fails without root.
    pub fn on_one() -> Result<Self> {
        let (_, last) = ends()?;
        Self::to(last, last)
    }

    /// Pins this thread to the first CPU and workers to the last: each wakes the other.
    ///
    /// # Errors
    /// Fails without root.
    pub fn on_two() -> Result<Self> {
        let (first, last) = ends()?;
        Self::to(first, last)
    }

    fn to(thread: usize, worker: usize) -> Result<Self> {
        let held = Self { threads: allowed()?, workers: fs::read_to_string(WORKERS)? };
        let mut one = CpuSet::new();
        one.set(thread).map_err(io::Error::from)?;
        sched_setaffinity(THIS, &one).map_err(io::Error::from)?;
        fs::write(WORKERS, mask(worker))?;
        Ok(held)
    }

    /// Unpins this thread; programs it started and the kernel's workers stay pinned.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn unpin_this_thread(&self) -> Result<()> {
        Ok(sched_setaffinity(THIS, &self.threads).map_err(io::Error::from)?)
    }
}

impl Drop for Pinning {
    fn drop(&mut self) {
        // Restore the previous settings.
        let _ = self.unpin_this_thread();
        let _ = fs::write(WORKERS, self.workers.trim());
    }
}

/// The calling thread (`sched_setaffinity`(2)).
const THIS: Pid = Pid::from_raw(0);

fn allowed() -> Result<CpuSet> {
    Ok(sched_getaffinity(THIS).map_err(io::Error::from)?)
}

fn ends() -> Result<(usize, usize)> {
    let allowed = allowed()?;
    let mut all = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let first = all.next().unwrap_or(0);
    Ok((first, all.next_back().unwrap_or(first)))
}

/// Returns a CPU mask in the kernel's format: words of 32 CPUs in hexadecimal, the last first (lib/bitmap-str.c).
fn mask(cpu: usize) -> String {
    format!("{:x}{}", 1_u32 << (cpu % 32), ",00000000".repeat(cpu / 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_a_bit_of_its_word() {
        assert_eq!([0, 1, 31, 32, 65].map(mask), ["1", "2", "80000000", "1,00000000", "2,00000000,00000000"]);
    }
}
