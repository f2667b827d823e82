//! Processes and threads.

mod affinity;
mod cgroup_sets;
mod command_line;
mod cputime;
mod descriptors;
mod direct_reclaim;
mod exits;
mod guest;
mod iterator;
mod kernel_locks;
mod numa_maps;
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
pub use descriptors::descriptors;
#[cfg(test)]
pub(crate) use guest::{add_guest, monitored_guest};
#[cfg(test)]
pub(crate) use iterator::read_records;
pub(crate) use sleep::reason::{WaitFunctions, of_functions as wait_reason};
pub(crate) use system_call::awaited_lock;

use crate::root::Root;
use crate::source::{Source, SourceInfo, loaded, stateless};
use iterator::TaskIterator;
use proc_reader::ProcReader;

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        tasks(),
        loaded(sleep::INFO, sleep::SleepTracer::load, sleep::SleepTracer::read),
        loaded(kernel_locks::INFO, kernel_locks::load, kernel_locks::read),
        loaded(direct_reclaim::INFO, direct_reclaim::load, direct_reclaim::read),
        Box::new(open_files::OpenFiles),
        Box::new(numa_maps::NumaMaps::default()),
        stateless(guest::SETTINGS, guest::read_settings),
        stateless(guest::STATISTICS, guest::read_statistics),
        stateless(affinity::INFO, affinity::read),
    ]
}

const INFO: SourceInfo = SourceInfo::new("tasks", "CPU, memory and waiting of processes and threads");

enum TaskReader {
    Iterator(Box<TaskIterator>),
    Proc(ProcReader),
}

/// Reads all processes, and all threads of multi-threaded ones: from a BPF iterator if possible, otherwise from /proc.
///
/// The choice affects only the cost and the few metrics marked so in the catalogue, so falling back is not a blind spot.
fn tasks() -> Box<dyn Source> {
    let load = |root: &Root| match TaskIterator::load(root) {
        Ok(iterator) => Ok(TaskReader::Iterator(Box::new(iterator))),
        Err(_) => Ok(TaskReader::Proc(ProcReader::default())),
    };
    loaded(INFO, load, |reader, root, out| match reader {
        TaskReader::Iterator(iterator) => iterator.read(root, out),
        TaskReader::Proc(reader) => reader.read(root, out),
    })
}
