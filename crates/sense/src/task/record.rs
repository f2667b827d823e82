//! The records of the task iterator: one per thread, the main thread's followed by that of its process; for an unchanged process
//! only its number (crates/sense/bpf/record.h and used.h).

use crate::os::tick_ns;
use whyslow_model::key::TaskKey;

/// In place of a value that the kernel does not have.
const UNKNOWN: u64 = u64::MAX;

/// TASK_COMM_LEN, include/linux/sched.h.
const NAME: usize = 16;

/// `struct used`: of one thread, or of all ended threads of a process, in the kernel's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) cpu: CpuTime,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) voluntary_switches: u64,
    pub(super) involuntary_switches: u64,
    pub(super) io: Io,
}

/// CPU time in nanoseconds: by mode as sampled by the tick, and in total as measured by the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) runtime: u64,
    /// The values /proc showed last.
    pub(super) shown_user: u64,
    pub(super) shown_system: u64,
}

/// struct task_io_accounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Io {
    pub(super) read_chars: u64,
    pub(super) write_chars: u64,
    pub(super) read_calls: u64,
    pub(super) write_calls: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) cancelled_write_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadRecord {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Nanoseconds since boot.
    pub(super) start: u64,
    pub(super) state: u64,
    pub(super) exit_state: u64,
    pub(super) flags: u64,
    pub(super) static_priority: u64,
    pub(super) policy: u64,
    pub(super) processor: u64,
    pub(super) used: Used,
    pub(super) run_delay: Option<u64>,
    pub(super) block_delay: Option<u64>,
    pub(super) swap_delay: Option<u64>,
    pub(super) reclaim_delay: Option<u64>,
    pub(super) migrations: u64,
    /// Depth of our own pid namespace.
    pub(super) level: u64,
    pub(super) name: [u8; NAME],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessRecord {
    pub(super) parent: u64,
    pub(super) threads: u64,
    pub(super) user_id: u64,
    /// The set of cgroups: an address, which identifies the set as long as a process is in it, and the cgroup of the unified
    /// hierarchy.
    pub(super) groups: (u64, u64),
    /// Used by its ended threads.
    pub(super) ended: Used,
    pub(super) children_user: u64,
    pub(super) children_system: u64,
    pub(super) memory: Option<MemoryPages>,
    pub(super) open_files: Option<u64>,
    pub(super) open_files_limit: u64,
    pub(super) open_files_hard_limit: u64,
    pub(super) processes_limit: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExitRecord {
    /// Its number in the first pid namespace.
    pub(super) global_pid: u32,
    pub(super) pid: u32,
    /// Nanoseconds since boot, as is `parent_start`.
    pub(super) start: u64,
    pub(super) parent: u32,
    pub(super) parent_start: u64,
    pub(super) used: Used,
    pub(super) run_delay: u64,
    pub(super) children_user: u64,
    pub(super) children_system: u64,
    pub(super) name: [u8; NAME],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemoryPages {
    pub(super) size: u64,
    pub(super) file: u64,
    pub(super) anon: u64,
    pub(super) swap: u64,
    pub(super) shmem: u64,
}

/// Sizes of the record of an unchanged process, of a thread, and of a process.
const UNCHANGED: usize = 2 * 8;
const THREAD: usize = 31 * 8 + NAME;
const PROCESS: usize = 32 * 8;

/// Where a record is; ordered by process, then by thread.
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
            0 => UNCHANGED,
            tid if tid == self.pid => THREAD + PROCESS,
            _ => THREAD,
        }
    }

    /// Whether the process is unchanged since the last sample.
    pub(super) fn is_unchanged(self) -> bool {
        self.tid == 0
    }

    pub(super) fn read(self, bytes: &[u8]) -> Option<(ThreadRecord, Option<ProcessRecord>)> {
        let mut fields = RecordFields(bytes.get(self.at..)?);
        let thread = fields.thread()?;
        let process = if self.pid == self.tid { Some(fields.process()?) } else { None };
        Some((thread, process))
    }
}

pub(super) struct RecordSpans<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> RecordSpans<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

impl Iterator for RecordSpans<'_> {
    type Item = RecordSpan;

    /// Skips a truncated record at the end.
    fn next(&mut self) -> Option<RecordSpan> {
        let mut fields = RecordFields(self.bytes.get(self.at..)?);
        let span = RecordSpan { pid: fields.id()?, tid: fields.id()?, at: self.at };
        self.at += span.length();
        (self.at <= self.bytes.len()).then_some(span)
    }
}

/// Takes fields off the front of a record.
struct RecordFields<'b>(&'b [u8]);

impl RecordFields<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }

    /// A pid or tid.
    fn id(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn known(&mut self) -> Option<Option<u64>> {
        self.number().map(|n| (n != UNKNOWN).then_some(n))
    }

    fn used(&mut self) -> Option<Used> {
        Some(Used {
            cpu: CpuTime {
                user: self.number()?,
                system: self.number()?,
                runtime: self.number()?,
                shown_user: self.number()?,
                shown_system: self.number()?,
            },
            minor_faults: self.number()?,
            major_faults: self.number()?,
            voluntary_switches: self.number()?,
            involuntary_switches: self.number()?,
            io: Io {
                read_chars: self.number()?,
                write_chars: self.number()?,
                read_calls: self.number()?,
                write_calls: self.number()?,
                read_bytes: self.number()?,
                write_bytes: self.number()?,
                cancelled_write_bytes: self.number()?,
            },
        })
    }

    fn thread(&mut self) -> Option<ThreadRecord> {
        Some(ThreadRecord {
            pid: self.id()?,
            tid: self.id()?,
            start: self.number()?,
            state: self.number()?,
            exit_state: self.number()?,
            flags: self.number()?,
            static_priority: self.number()?,
            policy: self.number()?,
            processor: self.number()?,
            used: self.used()?,
            run_delay: self.known()?,
            block_delay: self.known()?,
            swap_delay: self.known()?,
            reclaim_delay: self.known()?,
            migrations: self.number()?,
            level: self.number()?,
            name: self.bytes()?,
        })
    }

    fn process(&mut self) -> Option<ProcessRecord> {
        Some(ProcessRecord {
            parent: self.number()?,
            threads: self.number()?,
            user_id: self.number()?,
            groups: (self.number()?, self.number()?),
            ended: self.used()?,
            children_user: self.number()?,
            children_system: self.number()?,
            memory: self.pages()?,
            open_files: self.known()?,
            open_files_limit: self.number()?,
            open_files_hard_limit: self.number()?,
            processes_limit: self.number()?,
        })
    }

    fn pages(&mut self) -> Option<Option<MemoryPages>> {
        let pages = MemoryPages {
            size: self.number()?,
            file: self.number()?,
            anon: self.number()?,
            swap: self.number()?,
            shmem: self.number()?,
        };
        Some((pages.size != UNKNOWN).then_some(pages))
    }
}

/// The total run time of a process, when its task_struct is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinalRecord {
    pub(super) global_pid: u32,
    pub(super) start: u64,
    pub(super) runtime: u64,
}

impl FinalRecord {
    /// A record of crates/sense/bpf/exit.bpf.c; `None` for records of another length.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = RecordFields(bytes);
        let record = Self { global_pid: fields.id()?, start: fields.number()?, runtime: fields.number()? };
        fields.0.is_empty().then_some(record)
    }
}

impl ExitRecord {
    pub(super) fn key(&self) -> TaskKey {
        key(self.pid, self.pid, self.start)
    }

    pub(super) fn parent_key(&self) -> TaskKey {
        key(self.parent, self.parent, self.parent_start)
    }

    /// A record of crates/sense/bpf/exit.bpf.c.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = RecordFields(bytes);
        Some(Self {
            global_pid: fields.id()?,
            pid: fields.id()?,
            start: fields.number()?,
            parent: fields.id()?,
            parent_start: fields.number()?,
            used: fields.used()?,
            run_delay: fields.number()?,
            children_user: fields.number()?,
            children_system: fields.number()?,
            name: fields.bytes()?,
        })
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

    /// The state as a letter, as fs/proc/array.c derives it (`task_state_index` of include/linux/sched.h).
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

    /// Its nice value (NICE_TO_PRIO of include/linux/sched/prio.h).
    pub(super) fn nice(&self) -> f64 {
        self.static_priority as f64 - 120.0
    }
}

fn until_zero(name: &[u8; NAME]) -> &[u8] {
    let end = name.iter().position(|b| *b == 0).unwrap_or(NAME);
    &name[..end]
}

/// `start` is in nanoseconds since boot.
fn key(pid: u32, tid: u32, start: u64) -> TaskKey {
    TaskKey { pid, tid, start: start / tick_ns() }
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
        let main = [words(THREAD, &[7, 7]), words(PROCESS, &[1, 2])].concat();
        let all = [words(THREAD, &[7, 8]), main].concat();
        let read = |bytes: &[u8]| -> Vec<_> {
            let records = RecordSpans::new(bytes).filter_map(|span| span.read(bytes));
            records.map(|(t, p)| (t.tid, p.map(|p| (p.parent, p.threads)))).collect()
        };
        assert_eq!(read(&all), [(8, None), (7, Some((1, 2)))]);
        assert_eq!(read(&all[..all.len() - 1]), [(8, None)]);
        assert_eq!(read(&all[..THREAD - 1]), []);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = (ExitRecord::parse(&bytes).map(|exit| exit.name().len()), FinalRecord::parse(&bytes));
            for (thread, _) in RecordSpans::new(&bytes).filter_map(|span| span.read(&bytes)) {
                let _ = (thread.name(), thread.state(), thread.nice());
            }
        }
    }
}
