//! The records of the task iterator: one per thread, the main thread's followed by that of its process; for an unchanged process
//! only its PID (crates/sense/bpf/record.h and used.h). Also the records of processes that exit (crates/sense/bpf/exit.bpf.c).

use crate::bpf::{c_struct, from_bytes};
use crate::os::tick_ns;
use whyslow_model::key::TaskKey;

/// TASK_COMM_LEN, include/linux/sched.h.
const NAME: usize = 16;

c_struct! {
    /// `struct used`: of one thread, or of all ended threads of a process, in the kernel's units.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(super) struct Used {
        pub(super) cpu: CpuTime,
        pub(super) minor_faults: u64,
        pub(super) major_faults: u64,
        pub(super) voluntary_switches: u64,
        pub(super) involuntary_switches: u64,
        pub(super) io: Io,
    }

    /// CPU time in nanoseconds: by mode as sampled by the tick, and in total as measured by the scheduler.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(super) struct CpuTime {
        pub(super) user: u64,
        pub(super) system: u64,
        pub(super) runtime: u64,
        /// The values /proc showed last.
        pub(super) shown_user: u64,
        pub(super) shown_system: u64,
    }

    /// struct task_io_accounting.
    #[derive(Debug, Default, PartialEq, Eq)]
    pub(super) struct Io {
        pub(super) read_chars: u64,
        pub(super) write_chars: u64,
        pub(super) read_calls: u64,
        pub(super) write_calls: u64,
        pub(super) read_bytes: u64,
        pub(super) write_bytes: u64,
        pub(super) cancelled_write_bytes: u64,
    }

    /// `struct thread_record`.
    #[derive(Debug, Default)]
    pub(super) struct ThreadRecord {
        pid: u64,
        tid: u64,
        /// Nanoseconds since boot.
        start: u64,
        state: u64,
        exit_state: u64,
        pub(super) flags: u64,
        static_priority: u64,
        pub(super) policy: u64,
        pub(super) processor: u64,
        pub(super) used: Used,
        /// As the next three: [`known`].
        pub(super) run_delay: u64,
        pub(super) block_delay: u64,
        pub(super) swap_delay: u64,
        pub(super) reclaim_delay: u64,
        pub(super) migrations: u64,
        /// Depth of our own pid namespace.
        pub(super) level: u64,
        name: [u8; NAME],
    }

    /// `struct process_record`.
    #[derive(Debug, Default)]
    pub(super) struct ProcessRecord {
        pub(super) parent: u64,
        pub(super) threads: u64,
        pub(super) user_id: u64,
        /// The set of cgroups: an address, which identifies the set as long as a process is in it, and the cgroup of the unified
        /// hierarchy.
        pub(super) groups: [u64; 2],
        /// Used by its ended threads.
        pub(super) ended: Used,
        pub(super) children_user: u64,
        pub(super) children_system: u64,
        memory: MemoryPages,
        /// If [`known`].
        pub(super) open_files: u64,
        pub(super) open_files_limit: u64,
        pub(super) open_files_hard_limit: u64,
        pub(super) processes_limit: u64,
    }

    #[derive(Debug, Default)]
    pub(super) struct MemoryPages {
        pub(super) size: u64,
        pub(super) page_table_bytes: u64,
        pub(super) mappings: u64,
        pub(super) file: u64,
        pub(super) anon: u64,
        pub(super) swap: u64,
        pub(super) shmem: u64,
    }

    /// `struct exit_record`.
    #[derive(Debug, Default)]
    pub(super) struct ExitRecord {
        /// Its number in the first pid namespace.
        pub(super) global_pid: u64,
        pub(super) pid: u64,
        /// Nanoseconds since boot, as is `parent_start`.
        pub(super) start: u64,
        pub(super) parent: u64,
        pub(super) parent_start: u64,
        pub(super) used: Used,
        pub(super) run_delay: u64,
        pub(super) children_user: u64,
        pub(super) children_system: u64,
        pub(super) name: [u8; NAME],
    }

    /// `struct final_record`: the total run time of a process, when its task_struct is freed.
    pub(super) struct FinalRecord {
        pub(super) global_pid: u64,
        pub(super) start: u64,
        pub(super) runtime: u64,
    }

    /// `struct unchanged_record`, and how every record of the iterator begins.
    struct RecordHead {
        pid: u64,
        tid: u64,
    }
}

/// Converts a value that the kernel may lack: all ones means `None`.
pub(super) fn known(value: u64) -> Option<u64> {
    (value != u64::MAX).then_some(value)
}

/// Position of a record; ordered by process, then by thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordSpan {
    pub(super) pid: u32,
    /// 0 for an unchanged process.
    tid: u32,
    at: usize,
}

impl RecordSpan {
    fn length(self) -> usize {
        match self.tid {
            0 => size_of::<RecordHead>(),
            tid if tid == self.pid => size_of::<ThreadRecord>() + size_of::<ProcessRecord>(),
            _ => size_of::<ThreadRecord>(),
        }
    }

    /// Whether the process is unchanged since the last sample.
    pub(super) fn is_unchanged(self) -> bool {
        self.tid == 0
    }

    pub(super) fn read(self, bytes: &[u8]) -> Option<(ThreadRecord, Option<ProcessRecord>)> {
        let bytes = bytes.get(self.at..)?;
        let process = bytes.get(size_of::<ThreadRecord>()..).filter(|_| self.pid == self.tid).and_then(from_bytes);
        Some((from_bytes(bytes)?, process))
    }
}

/// Iterates over the positions of the records; skips a truncated one at the end.
pub(super) fn spans(bytes: &[u8]) -> impl Iterator<Item = RecordSpan> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head: RecordHead = from_bytes(bytes.get(at..)?)?;
        let span = RecordSpan { pid: head.pid as u32, tid: head.tid as u32, at };
        at += span.length();
        (at <= bytes.len()).then_some(span)
    })
}

impl ProcessRecord {
    pub(super) fn memory(&self) -> Option<MemoryPages> {
        known(self.memory.size).map(|_| self.memory)
    }
}

impl ExitRecord {
    pub(super) fn key(&self) -> TaskKey {
        key(self.pid, self.pid, self.start)
    }

    pub(super) fn parent_key(&self) -> TaskKey {
        key(self.parent, self.parent, self.parent_start)
    }

    pub(super) fn name(&self) -> &[u8] {
        until_zero(&self.name)
    }
}

impl ThreadRecord {
    pub(super) fn key(&self) -> TaskKey {
        key(self.pid, self.tid, self.start)
    }

    pub(super) fn name(&self) -> &[u8] {
        until_zero(&self.name)
    }

    /// Returns the state as a letter, as fs/proc/array.c derives it (`task_state_index` of include/linux/sched.h).
    pub(super) fn state(&self) -> &'static str {
        const REPORTED: u64 = 0x7f;
        const UNINTERRUPTIBLE: u64 = 0x2;
        const NO_LOAD: u64 = 0x400;
        const RT_LOCK_WAIT: u64 = 0x1000;
        const FROZEN: u64 = 0x8000;
        if self.state & (UNINTERRUPTIBLE | NO_LOAD) == UNINTERRUPTIBLE | NO_LOAD {
            return "I";
        }
        if self.state & (RT_LOCK_WAIT | FROZEN) != 0 {
            return "D";
        }
        match ((self.state | self.exit_state) & REPORTED).checked_ilog2() {
            None => "R",
            Some(bit) => ["S", "D", "T", "t", "X", "Z", "P"][bit as usize],
        }
    }

    /// Returns the nice value (NICE_TO_PRIO of include/linux/sched/prio.h).
    pub(super) fn nice(&self) -> f64 {
        self.static_priority as f64 - 120.0
    }
}

fn until_zero(name: &[u8; NAME]) -> &[u8] {
    let end = name.iter().position(|b| *b == 0).unwrap_or(NAME);
    &name[..end]
}

/// Builds a key; `start` is in nanoseconds since boot.
fn key(pid: u64, tid: u64, start: u64) -> TaskKey {
    TaskKey { pid: pid as u32, tid: tid as u32, start: start / tick_ns() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn state(state: u64, exit_state: u64) -> &'static str {
        ThreadRecord { state, exit_state, ..ThreadRecord::default() }.state()
    }

    #[test]
    fn states_are_named_as_in_proc() {
        assert_eq!([state(0, 0), state(1, 0), state(2, 0), state(4, 0), state(8, 0)], ["R", "S", "D", "T", "t"]);
        assert_eq!([state(0x80, 0x20), state(0x80, 0x10), state(0x40, 0)], ["Z", "X", "P"]);
        assert_eq!([state(0x402, 0), state(0x1000, 0), state(0x8000, 0)], ["I", "D", "D"]);
    }

    #[test]
    fn a_truncated_record_is_skipped() {
        let words = |bytes: usize, first: &[u64]| -> Vec<u8> {
            (0..bytes / 8).flat_map(|i| first.get(i).copied().unwrap_or(0).to_ne_bytes()).collect()
        };
        let (thread, process) = (size_of::<ThreadRecord>(), size_of::<ProcessRecord>());
        let main = [words(thread, &[7, 7]), words(process, &[1, 2])].concat();
        let all = [words(thread, &[7, 8]), main].concat();
        let read = |bytes: &[u8]| -> Vec<_> {
            let records = spans(bytes).filter_map(|span| span.read(bytes));
            records.map(|(t, p)| (t.tid, p.map(|p| (p.parent, p.threads)))).collect()
        };
        assert_eq!(read(&all), [(8, None), (7, Some((1, 2)))]);
        assert_eq!(read(&all[..all.len() - 1]), [(8, None)]);
        assert_eq!(read(&all[..thread - 1]), []);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = from_bytes::<ExitRecord>(&bytes).map(|exit| exit.name().len());
            for (thread, _) in spans(&bytes).filter_map(|span| span.read(&bytes)) {
                let _ = (thread.name(), thread.state(), thread.nice());
            }
        }
    }
}
