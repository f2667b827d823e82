//! What a thread waits for, by the kernel functions on its stack.

use crate::kallsyms::KernelFunctions;
use crate::root::Root;
use crate::source_error::SourceError;

/// What a thread waits for off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaitReason {
    /// A user-space lock held by another thread.
    Lock,
    /// Anything else in futex(2): work, a condition, the end of another thread.
    Futex,
    /// A page to be read, swapped in or reclaimed; throttling of dirty pages.
    Memory,
    BlockIo,
    /// The other end of a socket.
    Network,
    /// The other end of a pipe.
    Pipe,
    /// Any of several files.
    Poll,
    Timer,
    KernelLock,
}

/// Prefixes of function names, as compilers add suffixes. The first line that matches any function of a stack decides: a page fault
/// that reads from a disk is memory, a lock taken during I/O is I/O.
const PATTERNS: [(WaitReason, &[&str]); 8] = [
    (WaitReason::Futex, &["futex_wait", "futex_do_wait", "futex_lock_pi", "do_futex"]),
    (
        WaitReason::Memory,
        &["handle_mm_fault", "do_swap_page", "try_to_free", "shrink_", "balance_dirty_pages", "mem_cgroup_handle_over"],
    ),
    (
        WaitReason::BlockIo,
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
        WaitReason::Network,
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
    (
        WaitReason::Pipe,
        &["pipe_read", "anon_pipe_read", "pipe_write", "anon_pipe_write", "fifo_open", "wait_for_partner"],
    ),
    (WaitReason::Poll, &["ep_poll", "do_epoll_wait", "do_sys_poll", "do_select", "io_cqring_wait"]),
    (WaitReason::Timer, &["hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "do_sigtimedwait", "timerfd_read"]),
    (
        WaitReason::KernelLock,
        &["__mutex_lock", "mutex_lock", "rwsem_down", "down_read", "down_write", "__down", "percpu_rwsem"],
    ),
];

/// The line of [`PATTERNS`] that each function of the kernel matches.
#[derive(Debug)]
pub(super) struct WaitFunctions(KernelFunctions<Option<usize>>);

impl WaitFunctions {
    pub(super) fn read(root: &Root) -> Result<Self, SourceError> {
        let functions = Self::parse(&root.text("proc/kallsyms")?);
        if functions.0.is_empty() {
            return Err(SourceError::NotPermitted {
                why: "/proc/kallsyms hides the addresses of kernel functions".into(),
                remedy: "run as root, with kernel.kptr_restrict below 2".into(),
            });
        }
        Ok(functions)
    }

    fn parse(text: &str) -> Self {
        Self(KernelFunctions::parse(text, |name, _| matching_pattern(name)))
    }

    /// What a thread with this stack waits for.
    pub(super) fn reason(&self, stack: impl IntoIterator<Item = u64>) -> Option<WaitReason> {
        stack.into_iter().filter_map(|address| *self.0.find(address)?).min().map(|line| PATTERNS[line].0)
    }
}

fn matching_pattern(name: &str) -> Option<usize> {
    PATTERNS.iter().position(|(_, prefixes)| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "ffffffff81000010 T schedule\n\
        ffffffff81000000 T startup_64\n\
        ffffffff81000100 t futex_do_wait\n\
        ffffffff81000200 t handle_mm_fault\n\
        ffffffff81000300 T io_schedule\n\
        ffffffff81000400 t do_nanosleep.constprop.0\n\
        ffffffff81000500 D jiffies\n\
        ffffffff81000600 t nf_hook\t[nf_tables]\n";

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let functions = WaitFunctions::parse(SYMBOLS);
        let reason = |stack: &[u64]| functions.reason(stack.iter().map(|low| 0xffff_ffff_8100_0000 + low));
        assert_eq!(reason(&[0x20, 0x1ff]), Some(WaitReason::Futex));
        assert_eq!(reason(&[0x20, 0x310, 0x210]), Some(WaitReason::Memory));
        assert_eq!(reason(&[0x20, 0x310]), Some(WaitReason::BlockIo));
        assert_eq!(reason(&[0x20, 0x4ff]), Some(WaitReason::Timer));
        assert_eq!(reason(&[0x20, 0x650]), None);
        assert_eq!(reason(&[]), None);
        assert_eq!(functions.reason([0x1000]), None);
    }
}
