//! Processes and threads.

mod command_line;
mod cputime;
mod exits;
mod io;
mod iterator;
mod kernel_locks;
mod open_files;
mod pid_files;
mod proc_dir;
mod proc_reader;
mod process;
mod record;
mod records;
mod sleep;
mod stat;
mod system_call;
mod thread;
mod thread_stats;

#[cfg(test)]
mod agreement_tests;
#[cfg(test)]
mod exit_tests;
#[cfg(test)]
mod tests;

pub use command_line::command_line;

use crate::root::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use iterator::TaskIterator;
use proc_reader::ProcReader;
use whyslow_model::snapshot::Snapshot;

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(Tasks::default()),
        Box::new(sleep::Sleeps::default()),
        Box::new(kernel_locks::KernelLocks::default()),
        Box::new(open_files::OpenFiles::default()),
    ]
}

/// All processes, and all threads of those that have several: from a BPF iterator if possible, otherwise from /proc.
///
/// Only the cost depends on which, and the few metrics that say so in the catalogue, so falling back is no blind spot.
#[derive(Default)]
struct Tasks {
    reader: Option<TaskReader>,
}

enum TaskReader {
    Iterator(Box<TaskIterator>),
    Proc(ProcReader),
}

impl TaskReader {
    fn choose(root: &Root) -> Self {
        match TaskIterator::load(root) {
            Ok(iterator) => Self::Iterator(Box::new(iterator)),
            Err(_) => Self::Proc(ProcReader::default()),
        }
    }
}

impl Source for Tasks {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("tasks", "CPU, memory and waiting of processes and threads")
    }

    fn prepare(&mut self, root: &Root) {
        self.reader.get_or_insert_with(|| TaskReader::choose(root));
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        match self.reader.get_or_insert_with(|| TaskReader::choose(root)) {
            TaskReader::Iterator(iterator) => iterator.read(root, out),
            TaskReader::Proc(reader) => reader.read(root, out),
        }
    }
}
