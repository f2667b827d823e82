//! Processes and threads.

mod cgroup;
mod columns;
mod command_line;
mod cputime;
mod exits;
mod files;
mod folder;
mod futex;
mod io;
mod iterator;
mod kernel_locks;
mod limits;
mod open_files;
mod process;
mod record;
mod records;
mod sched;
mod schedstat;
mod sleep;
mod source;
mod stat;
mod status;
mod tally;
mod thread;

pub use command_line::command_line;

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(source::Tasks::default()),
        Box::new(sleep::Sleeps::default()),
        Box::new(kernel_locks::KernelLocks::default()),
        Box::new(open_files::OpenFiles::default()),
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
