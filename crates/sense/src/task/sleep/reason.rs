//! For what a thread left its processor, by the kernel's functions it left from.

use crate::root::Root;
use crate::source::Miss;

/// What a thread waited for, off the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// A lock in user space that another thread held.
    Lock,
    /// Something else in futex(2): work, the next turn, another's end.
    Futex,
    /// Memory: a page that had to be read or swapped in, or reclaimed first; dirty pages to become fewer.
    Memory,
    /// Block I/O.
    BlockIo,
    /// A socket's other end.
    Network,
    /// A pipe's other end.
    Pipe,
    /// The first of several files to become ready.
    Poll,
    /// A time to pass.
    Timer,
    /// A lock within the kernel.
    KernelLock,
}

/// Functions by the beginnings of their names, since compilers add endings. The first line that fits any function of a
/// stack decides: a page fault that reads from a disk is memory, a lock in the midst of I/O is I/O.
const SIGNS: [(Reason, &[&str]); 8] = [
    (Reason::Futex, &["futex_wait", "futex_do_wait", "futex_lock_pi", "do_futex"]),
    (
        Reason::Memory,
        &["handle_mm_fault", "do_swap_page", "try_to_free", "shrink_", "balance_dirty_pages", "mem_cgroup_handle_over"],
    ),
    (
        Reason::BlockIo,
        &[
            "io_schedule",
            "blk_",
            "submit_bio_wait",
            "folio_wait",
            "jbd2_log_wait",
            "xlog_",
            "xfs_log_",
            "read_events",
            "__iomap_dio",
        ],
    ),
    (
        Reason::Network,
        &[
            "sk_wait_data",
            "rpc_wait",
            "sk_stream_wait",
            "inet_csk_accept",
            "inet_stream_connect",
            "__skb_wait_for",
            "unix_stream_",
            "unix_wait_for",
            "unix_dgram_",
        ],
    ),
    (Reason::Pipe, &["pipe_read", "anon_pipe_read", "pipe_write", "anon_pipe_write", "fifo_open", "wait_for_partner"]),
    (Reason::Poll, &["ep_poll", "do_epoll_wait", "do_sys_poll", "do_select", "io_cqring_wait"]),
    (Reason::Timer, &["hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "do_sigtimedwait", "timerfd_read"]),
    (
        Reason::KernelLock,
        &["__mutex_lock", "mutex_lock", "rwsem_down", "down_read", "down_write", "__down", "percpu_rwsem"],
    ),
];

/// Where the kernel's functions lie.
#[derive(Debug)]
pub(super) struct Functions {
    /// Where each begins, in order, with the line of [`SIGNS`] it is a sign of.
    begins: Vec<(u64, Option<usize>)>,
}

impl Functions {
    /// Reads /proc/kallsyms.
    ///
    /// # Errors
    /// It cannot be read, or the kernel hides the addresses (kernel.kptr_restrict).
    pub(super) fn read(root: &Root) -> Result<Self, Miss> {
        let functions = Self::parse(&root.text("proc/kallsyms")?);
        if functions.begins.is_empty() {
            return Err(Miss::NotPermitted {
                why: "/proc/kallsyms hides the addresses of kernel functions".into(),
                remedy: "run as root, with kernel.kptr_restrict below 2".into(),
            });
        }
        Ok(functions)
    }

    /// Reads lines `address type name [module]`; hidden addresses are 0.
    fn parse(text: &str) -> Self {
        let mut begins: Vec<_> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_ascii_whitespace();
                let (address, kind, name) = (fields.next()?, fields.next()?, fields.next()?);
                let address = u64::from_str_radix(address, 16).ok().filter(|a| *a != 0)?;
                "tTwW".contains(kind).then(|| (address, sign(name)))
            })
            .collect();
        begins.sort_unstable();
        Self { begins }
    }

    /// What a thread waits for that left its processor from these places; `None` where no function is a sign.
    pub(super) fn reason(&self, stack: impl IntoIterator<Item = u64>) -> Option<Reason> {
        stack.into_iter().filter_map(|at| self.sign_at(at)).min().map(|line| SIGNS[line].0)
    }

    fn sign_at(&self, address: u64) -> Option<usize> {
        let behind = self.begins.partition_point(|(begin, _)| *begin <= address);
        self.begins.get(behind.checked_sub(1)?)?.1
    }
}

/// The line of [`SIGNS`] a function is a sign of.
fn sign(name: &str) -> Option<usize> {
    SIGNS.iter().position(|(_, names)| names.iter().any(|n| name.starts_with(n)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SYMBOLS: &str = "ffffffff81000010 T schedule\n\
        ffffffff81000000 T startup_64\n\
        ffffffff81000100 t futex_do_wait\n\
        ffffffff81000200 t handle_mm_fault\n\
        ffffffff81000300 T io_schedule\n\
        ffffffff81000400 t do_nanosleep.constprop.0\n\
        ffffffff81000500 D jiffies\n\
        ffffffff81000600 t nf_hook\t[nf_tables]\n";

    #[test]
    fn the_first_sign_that_fits_decides() {
        let functions = Functions::parse(SYMBOLS);
        let reason = |stack: &[u64]| functions.reason(stack.iter().map(|low| 0xffff_ffff_8100_0000 + low));
        assert_eq!(reason(&[0x20, 0x1ff]), Some(Reason::Futex));
        assert_eq!(reason(&[0x20, 0x310, 0x210]), Some(Reason::Memory));
        assert_eq!(reason(&[0x20, 0x310]), Some(Reason::BlockIo));
        assert_eq!(reason(&[0x20, 0x4ff]), Some(Reason::Timer));
        assert_eq!(reason(&[0x20, 0x650]), None);
        assert_eq!(reason(&[]), None);
        assert_eq!(functions.reason([0x1000]), None);
    }

    #[test]
    fn hidden_addresses_are_none() {
        assert!(Functions::parse("0000000000000000 T schedule\n").begins.is_empty());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, at: u64) {
            let _ = Functions::parse(&text).reason([at]);
        }
    }
}
