//! Processes and threads.

mod cgroup;
mod cputime;
mod exits;
mod futex;
mod io;
mod iterator;
mod kernel_locks;
mod limits;
mod pid_files;
mod proc_dir;
mod proc_reader;
mod process;
mod record;
mod records;
mod sched;
mod schedstat;
mod sleep;
mod source;
mod stat;
mod status;
mod thread;
mod thread_stats;

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(source::Tasks::default()),
        Box::new(sleep::Sleeps::default()),
        Box::new(kernel_locks::KernelLocks::default()),
    ]
}

#[cfg(test)]
mod agreement_tests;
#[cfg(test)]
mod crowd;
#[cfg(test)]
mod exit_tests;
#[cfg(test)]
mod tests;
