//! What the task iterator writes: one record a thread, the main thread's with its process' part behind it; of a process
//! that stands still its number alone
//! (crates/sense/bpf/record.h and used.h, whose structures these are, field by field).

use crate::os::tick_ns;
use whyslow_model::key::TaskKey;

/// What stands where the kernel does not tell.
const UNKNOWN: u64 = u64::MAX;

/// Bytes of `comm` (TASK_COMM_LEN, include/linux/sched.h).
const NAME: usize = 16;

/// Figures of one thread, or of all ended threads of a process together, in the kernel's own units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) cpu: CpuTime,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) voluntary_switches: u64,
    pub(super) involuntary_switches: u64,
    pub(super) io: Io,
}

/// Processor time in nanoseconds: as the tick sampled it by mode, and as the scheduler measured it in sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTime {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) runtime: u64,
    /// What /proc showed last.
    pub(super) shown_user: u64,
    pub(super) shown_system: u64,
}

/// Input and output (struct task_io_accounting).
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

/// A thread.
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

/// What a process has as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessRecord {
    pub(super) parent: u64,
    pub(super) threads: u64,
    pub(super) user_id: u64,
    /// Which set of control groups: an address, that stands for the set as long as somebody is in it, and the unified
    /// hierarchy's group.
    pub(super) groups: (u64, u64),
    /// What its ended threads used.
    pub(super) ended: Used,
    pub(super) children_user: u64,
    pub(super) children_system: u64,
    pub(super) memory: Option<Pages>,
    pub(super) open_files: Option<u64>,
    pub(super) open_files_limit: u64,
    pub(super) processes_limit: u64,
}

/// A process that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ExitRecord {
    /// Its number in the first pid namespace.
    pub(super) global_pid: u32,
    pub(super) pid: u32,
    /// Nanoseconds since boot, like the next but one.
    pub(super) start: u64,
    pub(super) parent: u32,
    pub(super) parent_start: u64,
    pub(super) used: Used,
    pub(super) run_delay: u64,
    pub(super) children_user: u64,
    pub(super) children_system: u64,
    pub(super) name: [u8; NAME],
}

/// Memory in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) size: u64,
    pub(super) file: u64,
    pub(super) anon: u64,
    pub(super) swap: u64,
    pub(super) shmem: u64,
}

/// Bytes of what stands for a process that stands still, of a thread's record, and of the process' part that a main thread's
/// has behind it.
const STILL: usize = 2 * 8;
const THREAD: usize = 31 * 8 + NAME;
const PROCESS: usize = 31 * 8;

/// Where a record stands; in order of process, and of thread within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) pid: u32,
    /// 0 for a process that stands still.
    tid: u32,
    at: usize,
}

impl Place {
    fn length(self) -> usize {
        match self.tid {
            0 => STILL,
            tid if tid == self.pid => THREAD + PROCESS,
            _ => THREAD,
        }
    }

    /// Whether it stands for a process that is as it was at the last reading.
    pub(super) fn stands_still(self) -> bool {
        self.tid == 0
    }

    /// The record that stands there.
    pub(super) fn read(self, bytes: &[u8]) -> Option<(ThreadRecord, Option<ProcessRecord>)> {
        let mut fields = Fields(bytes.get(self.at..)?);
        let thread = fields.thread()?;
        let process = if self.pid == self.tid { Some(fields.process()?) } else { None };
        Some((thread, process))
    }
}

/// Finds the records in what was read.
pub(super) struct Places<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Places<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

impl Iterator for Places<'_> {
    type Item = Place;

    /// The next record; ends where the bytes do, one cut short left out.
    fn next(&mut self) -> Option<Place> {
        let mut fields = Fields(self.bytes.get(self.at..)?);
        let place = Place { pid: fields.id()?, tid: fields.id()?, at: self.at };
        self.at += place.length();
        (self.at <= self.bytes.len()).then_some(place)
    }
}

/// Takes fields off the front of a record.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }

    /// The number of a process or thread.
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
            processes_limit: self.number()?,
        })
    }

    /// `None` within where the process has no memory of its own.
    fn pages(&mut self) -> Option<Option<Pages>> {
        let pages = Pages {
            size: self.number()?,
            file: self.number()?,
            anon: self.number()?,
            swap: self.number()?,
            shmem: self.number()?,
        };
        Some((pages.size != UNKNOWN).then_some(pages))
    }
}

/// What a process ran in all, told when the last trace of it has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinalRecord {
    pub(super) global_pid: u32,
    pub(super) start: u64,
    /// Nanoseconds.
    pub(super) runtime: u64,
}

impl FinalRecord {
    /// Reads what crates/sense/bpf/exit.bpf.c wrote; `None` for records of another length.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let record = Self { global_pid: fields.id()?, start: fields.number()?, runtime: fields.number()? };
        fields.0.is_empty().then_some(record)
    }
}

impl ExitRecord {
    /// What tells the process from all others.
    pub(super) fn key(&self) -> TaskKey {
        key(self.pid, self.pid, self.start)
    }

    /// The key of its parent.
    pub(super) fn parent_key(&self) -> TaskKey {
        key(self.parent, self.parent, self.parent_start)
    }

    /// Reads what crates/sense/bpf/exit.bpf.c wrote; `None` where it is too short.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
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

    /// Its name, up to the first zero.
    pub(super) fn name(&self) -> &[u8] {
        until_zero(&self.name)
    }
}

impl ThreadRecord {
    /// What tells it from all others.
    pub(super) fn key(&self) -> TaskKey {
        key(self.pid, self.tid, self.start)
    }

    /// Its name, up to the first zero.
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

/// The key of a task that began so many nanoseconds after boot.
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
    fn states_are_those_of_proc() {
        assert_eq!([state(0, 0), state(1, 0), state(2, 0), state(4, 0), state(8, 0)], ["R", "S", "D", "T", "t"]);
        assert_eq!([state(0x80, 0x20), state(0x80, 0x10), state(0x40, 0)], ["Z", "X", "P"]);
        assert_eq!([state(0x402, 0), state(0x1000, 0), state(0x8000, 0)], ["I", "D", "D"]);
    }

    #[test]
    fn a_record_cut_short_is_left_out() {
        let words = |bytes: usize, first: &[u64]| -> Vec<u8> {
            (0..bytes / 8).flat_map(|i| first.get(i).copied().unwrap_or(0).to_ne_bytes()).collect()
        };
        let main = [words(THREAD, &[7, 7]), words(PROCESS, &[1, 2])].concat();
        let all = [words(THREAD, &[7, 8]), main].concat();
        let read = |bytes: &[u8]| -> Vec<_> {
            let records = Places::new(bytes).filter_map(|place| place.read(bytes));
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
            for (thread, _) in Places::new(&bytes).filter_map(|place| place.read(&bytes)) {
                let _ = (thread.name(), thread.state(), thread.nice());
            }
        }
    }
}
