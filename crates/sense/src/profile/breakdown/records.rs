//! The structures of bpf/breakdown.bpf.c.

use crate::bpf::c_struct;

/// Flags of a watched process: account its time, follow its children.
pub(super) const ACCOUNT: u32 = 1;
pub(super) const FOLLOW: u32 = 2;

// States of a thread.
pub(super) const ON_CPU: u32 = 0;
pub(super) const QUEUED: u32 = 1;
pub(super) const BLOCKED: u32 = 2;
pub(super) const UNSEEN: u32 = 3;
pub(super) const SAMPLE_USER: u32 = 4;
pub(super) const SAMPLE_KERNEL: u32 = 5;

// Flags of a wait.
pub(super) const INTERRUPT: u32 = 1;
pub(super) const LOCK: u32 = 2;
pub(super) const MAIN: u32 = 4;
pub(super) const POLLS_IN: u32 = 8;
pub(super) const POLLS_OUT: u32 = 16;
pub(super) const SERVES: u32 = 32;

c_struct! {
    /// `struct watch`.
    pub(super) struct Watch {
        pub(super) began: u64,
        pub(super) ended: u64,
        pub(super) lived: u64,
        pub(super) what: u32,
        pub(super) born: u32,
        pub(super) root: u32,
        pub(super) pad: u32,
        pub(super) comm: [u8; 16],
    }

    /// `struct thread`.
    pub(super) struct ThreadRecord {
        pub(super) born: u64,
        pub(super) since: u64,
        pub(super) stack: u64,
        pub(super) on_cpu: u64,
        pub(super) queued: u64,
        pub(super) blocked: u64,
        pub(super) tgid: u32,
        pub(super) state: u32,
        pub(super) device: u32,
        pub(super) first: i32,
        pub(super) lock: u32,
        pub(super) polled: u32,
        pub(super) shared: u32,
        pub(super) serves: u32,
        pub(super) wanted: u64,
        pub(super) got: u64,
        pub(super) acquired: u64,
        pub(super) kept_stack: u64,
        pub(super) kept_by: u32,
        pub(super) kept_by_thread: u32,
        pub(super) peer: u32,
        pub(super) asked: u32,
    }

    /// `struct slice`.
    #[derive(Debug, Default, PartialEq, Eq, Hash)]
    pub(super) struct Slice {
        pub(super) stack: u64,
        pub(super) released: u64,
        pub(super) tgid: u32,
        pub(super) state: u32,
        pub(super) other: u32,
        pub(super) other_thread: u32,
        pub(super) device: u32,
        pub(super) first: i32,
        pub(super) flags: u32,
        pub(super) thread: u32,
        pub(super) peer: u32,
        pub(super) pad: u32,
    }

    /// `struct spent`.
    #[derive(Debug, Default)]
    pub(super) struct Spent {
        pub(super) ns: u64,
        pub(super) times: u64,
    }

    /// `struct destination`.
    pub(super) struct DestinationRecord {
        pub(super) address: [u8; 16],
        pub(super) port: u16,
        pub(super) local_port: u16,
        pub(super) family: u32,
    }

    /// `struct totals` of bpf/stacks.h.
    pub(super) struct StackTotals {
        pub(super) idle: u64,
        pub(super) lost: u64,
    }
}

impl Spent {
    pub(super) fn add(&mut self, more: Self) {
        self.ns = self.ns.saturating_add(more.ns);
        self.times = self.times.saturating_add(more.times);
    }
}

impl Slice {
    /// Whether it counts samples rather than elapsed time.
    pub(super) fn is_sample(&self) -> bool {
        matches!(self.state, SAMPLE_USER | SAMPLE_KERNEL)
    }
}

impl ThreadRecord {
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self.state, BLOCKED | UNSEEN)
    }

    /// Returns the slice that the thread is in now, like `wait_of` in the BPF program.
    pub(super) fn open_slice(&self, tid: u32, thread: u32) -> Slice {
        let of_state = Slice { tgid: self.tgid, state: self.state, thread, ..Slice::default() };
        if !self.is_blocked() {
            return of_state;
        }
        let flag = |holds: bool, flag: u32| if holds { flag } else { 0 };
        let reads = self.polled & libc::POLLIN as u32 != 0;
        let peer = if self.asked != 0 { self.peer } else { 0 };
        Slice {
            stack: self.stack,
            device: self.device,
            first: if self.state == UNSEEN { tid as i32 } else { self.first },
            peer,
            flags: flag(self.lock != 0, LOCK)
                | flag(tid == self.tgid, MAIN)
                | flag(peer != 0 && self.serves != 0, SERVES)
                | flag(self.polled != 0, if reads { POLLS_IN } else { POLLS_OUT }),
            ..of_state
        }
    }
}
