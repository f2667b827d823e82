//! Keeps work to the processors it is to run on.

use crate::failure::Result;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::{fs, io};

/// Where those of the kernel's workers may run that belong to no processor, as a mask (Documentation/core-api/workqueue.rst).
const WORKERS: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Keeps this thread and what it starts to one processor, and what the kernel has its workers do for them (a loop device's
/// requests) to one too, until dropped.
///
/// Free on two, how fast two that talk to each other are depends on where the scheduler happens to put them, and on how long the
/// host takes to wake a virtual processor: the rate of a ping-pong, or of a loop device with one request at a time, then
/// doubles or halves from one second to the next.
pub struct Held {
    threads: CpuSet,
    workers: String,
}

impl Held {
    /// All on the last of those that this thread may have, for device interrupts mostly go to the first: nobody is waited for to
    /// wake up elsewhere, and all that is done on the way shows.
    ///
    /// # Errors
    /// Without root.
    pub fn on_one() -> Result<Self> {
        let (_, last) = ends()?;
        Self::to(last, last)
    }

    /// Threads on the first, and the kernel's workers on the last: each wakes the other up where it has gone to sleep.
    ///
    /// # Errors
    /// Without root.
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

    /// This thread may run where it could before; what it has started, and the kernel's workers, stay.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn let_this_thread_go(&self) -> Result<()> {
        Ok(sched_setaffinity(THIS, &self.threads).map_err(io::Error::from)?)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // They had these before.
        let _ = self.let_this_thread_go();
        let _ = fs::write(WORKERS, self.workers.trim());
    }
}

/// The calling thread (`sched_setaffinity`(2)).
const THIS: Pid = Pid::from_raw(0);

/// Processors this thread may have.
fn allowed() -> Result<CpuSet> {
    Ok(sched_getaffinity(THIS).map_err(io::Error::from)?)
}

/// The first and the last of them.
fn ends() -> Result<(usize, usize)> {
    let allowed = allowed()?;
    let mut all = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let first = all.next().unwrap_or(0);
    Ok((first, all.next_back().unwrap_or(first)))
}

/// A processor as the kernel writes a mask: 32 of them a word, in hexadecimal, the last first (lib/bitmap-str.c).
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
