//! Waiting for locks within the kernel (include/trace/events/lock.h): crates/sense/bpf/lock.bpf.c.

use crate::bpf::{Object, entries, include_object};
use crate::os::tick_ns;
use crate::root::Root;
use crate::source::{Miss, Source, Tempo};
use aya::maps::{HashMap, MapData, MapError};
use whyslow_model::catalogue::KernelLock;
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;

const NAME: &str = "lock";

/// The source of family `kernel_lock`.
#[derive(Default)]
pub(super) struct KernelLocks {
    object: Option<Result<Object, Miss>>,
}

/// A process, as the program keeps it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Owner {
    /// Nanoseconds since boot.
    start: u64,
    pid: u64,
}

/// How long it waited, for each kind of lock, and how often in all.
#[derive(Clone, Copy)]
#[repr(C)]
struct Waited {
    spinning: u64,
    mutexes: u64,
    readers: u64,
    writers: u64,
    others: u64,
    times: u64,
}

// SAFETY: whole numbers without gaps between them, for which all bytes make a value.
unsafe impl aya::Pod for Owner {}
// SAFETY: as above.
unsafe impl aya::Pod for Waited {}

impl Source for KernelLocks {
    fn name(&self) -> &'static str {
        "bpf/lock"
    }

    fn tells(&self) -> &'static str {
        "kernel lock contention"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Asked
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        match self.object.get_or_insert_with(|| Object::load(NAME, include_object!("lock"), root)) {
            Ok(object) => read(object, out),
            Err(miss) => Err(miss.clone()),
        }
    }
}

fn read(object: &Object, out: &mut Snapshot) -> Result<(), Miss> {
    let waited: HashMap<&MapData, Owner, Waited> = HashMap::try_from(object.map("waited")?).map_err(failed)?;
    // Process 0 is an idle processor's.
    let waited = entries(&waited).map_err(failed)?;
    for (owner, waited) in waited.into_iter().filter(|(owner, _)| owner.pid != 0) {
        let pid = owner.pid as u32;
        out.task.kernel_lock.push(KernelLock {
            spinning: waited.spinning.into(),
            mutexes: waited.mutexes.into(),
            readers: waited.readers.into(),
            writers: waited.writers.into(),
            others: waited.others.into(),
            waits: waited.times.into(),
            ..KernelLock::new(TaskKey { pid, tid: pid, start: owner.start / tick_ns() })
        });
    }
    Ok(())
}

fn failed(error: MapError) -> Miss {
    Miss::Failed(format!("BPF {NAME}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::is_out_of_reach;
    use std::io::{Seek, SeekFrom, Write};

    #[test]
    fn threads_that_write_one_file_wait_for_its_lock() {
        if is_out_of_reach() {
            return;
        }
        let mut source = KernelLocks::default();
        let root = Root::live();
        source.read(&root, &mut Snapshot::default()).unwrap();
        let file = tempfile::tempfile().unwrap();
        // A write holds the inode's lock while it copies.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let block = vec![0; 1 << 20];
                    let mut file = &file;
                    for _ in 0..200 {
                        file.seek(SeekFrom::Start(0)).unwrap();
                        file.write_all(&block).unwrap();
                    }
                });
            }
        });
        let mut out = Snapshot::default();
        source.read(&root, &mut out).unwrap();
        let mine = out.task.kernel_lock.iter().find(|row| row.task.pid == std::process::id()).unwrap();
        assert!(mine.waits.get() > Some(0), "{mine:?}");
        let waited = mine.mutexes.get().unwrap() + mine.writers.get().unwrap();
        assert!(waited > 1_000_000, "{mine:?}");
    }
}
