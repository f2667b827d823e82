//! Keeps work to one processor.

use crate::failure::Result;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::{fs, io};

/// Where those of the kernel's workers may run that belong to no processor, as a mask (Documentation/core-api/workqueue.rst).
const WORKERS: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Keeps this thread, what it starts, and what the kernel has its workers do for them (a loop device's requests) to one
/// processor until dropped.
///
/// On two, how fast two that talk to each other are depends on where the scheduler happens to put them, and on how long the
/// host takes to wake a virtual processor: the rate of a ping-pong, or of a loop device with one request at a time, then
/// doubles or halves from one second to the next. On one it stands still, and all that is done on their way shows.
pub struct OneProcessor {
    threads: CpuSet,
    workers: String,
}

impl OneProcessor {
    /// The last of those that this thread may have: device interrupts mostly go to the first.
    ///
    /// # Errors
    /// Without root.
    pub fn keep_to() -> Result<Self> {
        let threads = sched_getaffinity(THIS).map_err(io::Error::from)?;
        let held = Self { threads, workers: fs::read_to_string(WORKERS)? };
        let last = (0..CpuSet::count()).rev().find(|cpu| threads.is_set(*cpu).unwrap_or(false)).unwrap_or(0);
        let mut one = CpuSet::new();
        one.set(last).map_err(io::Error::from)?;
        sched_setaffinity(THIS, &one).map_err(io::Error::from)?;
        fs::write(WORKERS, mask(last))?;
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

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // They had these before.
        let _ = self.let_this_thread_go();
        let _ = fs::write(WORKERS, self.workers.trim());
    }
}

/// The calling thread (`sched_setaffinity`(2)).
const THIS: Pid = Pid::from_raw(0);

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
