//! Contention on the kernel's own locks (include/trace/events/lock.h): crates/sense/bpf/lock.bpf.c.

use crate::bpf::{Object, c_struct, include_object};
use crate::os::ns_to_ticks;
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::KernelLock;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("bpf/lock", "which processes wait for locks within the kernel").on_demand();

c_struct! {
    /// `struct lock_waiter`.
    struct LockWaiter {
        /// Nanoseconds since boot.
        start: u64,
        pid: u64,
    }

    /// `struct lock_waits`: nanoseconds by kind of lock, and the number of waits.
    struct LockWaits {
        spinning: u64,
        mutexes: u64,
        readers: u64,
        writers: u64,
        others: u64,
        times: u64,
    }
}

pub(super) fn load(root: &Root) -> Result<Object, SourceError> {
    Object::load("lock", include_object!("lock"), root)
}

pub(super) fn read(object: &mut Object, _: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let waits: Vec<(LockWaiter, LockWaits)> = object.entries("lock_waits")?;
    // PID 0 is the idle task.
    for (waiter, waits) in waits.into_iter().filter(|(waiter, _)| waiter.pid != 0) {
        let pid = waiter.pid as u32;
        out.task.kernel_lock.push(KernelLock {
            task: TaskKey { pid, tid: pid, start: ns_to_ticks(waiter.start) },
            spinning: waits.spinning.into(),
            mutexes: waits.mutexes.into(),
            readers: waits.readers.into(),
            writers: waits.writers.into(),
            others: waits.others.into(),
            waits: waits.times.into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::loaded;
    use crate::testing::{attached, read, wait_until};
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn threads_that_write_one_file_wait_for_its_lock() {
        let Some(mut source) = attached(loaded(INFO, load, super::read)) else { return };
        let file = tempfile::tempfile().unwrap();
        wait_until("threads have waited for a millisecond", || {
            // A write holds the inode lock while it copies.
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let block = vec![0; 1 << 20];
                        let mut file = &file;
                        for _ in 0..50 {
                            file.seek(SeekFrom::Start(0)).unwrap();
                            file.write_all(&block).unwrap();
                        }
                    });
                }
            });
            let rows = read(&mut *source).task.kernel_lock.clone();
            rows.iter().find(|row| row.task.pid == std::process::id()).is_some_and(|mine| {
                let waited = mine.mutexes.get().unwrap() + mine.writers.get().unwrap();
                mine.waits.get() > Some(0) && waited > 1_000_000
            })
        });
    }
}
