//! The reason why a thread waits, from the kernel functions on its stack.

use crate::kallsyms::{KernelFunctions, KernelSymbols};
use crate::root::Root;
use crate::source_error::SourceError;
use whyslow_documents::time_breakdown::TimeKind;

/// Prefixes of function names, as compilers add suffixes. The first line that matches any function of a stack decides: a page
/// fault that reads from a disk is memory, a lock taken during I/O is I/O, a journal commit that fsync(2) waits for is fsync.
const PATTERNS: &[(TimeKind, &[&str])] = &[
    (TimeKind::Futex, &["futex_wait", "futex_do_wait", "futex_lock_pi", "do_futex"]),
    (
        TimeKind::Stopped,
        &["do_signal_stop", "ptrace_stop", "ptrace_do_notify", "do_jobctl_trap", "__refrigerator", "do_freezer_trap"],
    ),
    (TimeKind::Reclaim, &["try_to_free", "shrink_", "mem_cgroup_handle_over", "throttle_direct_reclaim"]),
    (TimeKind::Writeback, &["balance_dirty_pages"]),
    (TimeKind::PageFault, &["handle_mm_fault", "do_swap_page"]),
    (
        TimeKind::Fsync,
        &[
            "vfs_fsync",
            "do_fsync",
            "generic_write_sync",
            "ext4_sync_file",
            "xfs_file_fsync",
            "btrfs_sync_file",
            "blkdev_fsync",
            "file_write_and_wait",
            "sync_file_range",
            "ksys_sync",
            "sync_filesystem",
            "__do_sys_msync",
            "__x64_sys_msync",
        ],
    ),
    (
        TimeKind::DirectIo,
        &[
            "__iomap_dio",
            "iomap_dio",
            "blkdev_direct_IO",
            "__blkdev_direct",
            "do_blockdev_direct",
            "read_events",
            "dio_await",
        ],
    ),
    (
        TimeKind::Journal,
        &[
            "jbd2_",
            "__jbd2_",
            "wait_transaction_locked",
            "start_this_handle",
            "add_transaction_credits",
            "xlog_",
            "xfs_log_",
        ],
    ),
    (TimeKind::Nfs, &["rpc_wait", "nfs_wait", "nfs4_", "nfs_file"]),
    (
        TimeKind::Read,
        &[
            "filemap_read",
            "filemap_get_pages",
            "filemap_fault",
            "page_cache_ra",
            "page_cache_sync_ra",
            "page_cache_async_ra",
            "ext4_bread",
            "xfs_buf_read",
            "__bread",
        ],
    ),
    (
        TimeKind::Write,
        &["generic_perform_write", "iomap_file_buffered_write", "iomap_write_begin", "ext4_buffered_write"],
    ),
    (TimeKind::BlockIo, &["io_schedule", "blk_", "submit_bio_wait", "folio_wait"]),
    (TimeKind::Connect, &["inet_stream_connect", "inet_wait_for_connect", "unix_wait_for_peer"]),
    (TimeKind::Send, &["sk_stream_wait", "sock_alloc_send", "unix_stream_sendmsg", "tcp_sendmsg"]),
    (
        TimeKind::Receive,
        &["sk_wait_data", "inet_csk_accept", "__skb_wait_for", "unix_stream_", "unix_wait_for", "unix_dgram_"],
    ),
    (
        TimeKind::Pipe,
        &["pipe_read", "anon_pipe_read", "pipe_write", "anon_pipe_write", "fifo_open", "wait_for_partner"],
    ),
    (TimeKind::Poll, &["ep_poll", "do_epoll_wait", "do_sys_poll", "do_poll", "do_select", "io_cqring_wait"]),
    (
        TimeKind::Sleep,
        &[
            "hrtimer_nanosleep",
            "do_nanosleep",
            "common_nsleep",
            "do_sigtimedwait",
            "timerfd_read",
            "sigsuspend",
            "__do_sys_pause",
            "__x64_sys_pause",
        ],
    ),
    (
        TimeKind::FileLock,
        &[
            "locks_lock_inode_wait",
            "fcntl_setlk",
            "do_lock_file_wait",
            "flock_lock_inode_wait",
            "posix_lock_inode_wait",
        ],
    ),
    (TimeKind::Ipc, &["do_semtimedop", "__do_semtimedop", "do_msgrcv", "do_msgsnd", "do_mq_timed", "wq_sleep"]),
    (TimeKind::Child, &["do_wait", "kernel_wait4", "kernel_clone", "wait_for_vfork_done", "mm_release"]),
    (
        TimeKind::KernelLock,
        &["__mutex_lock", "mutex_lock", "rwsem_down", "down_read", "down_write", "__down", "percpu_rwsem"],
    ),
];

/// The line of [`PATTERNS`] that each function of the kernel matches.
#[derive(Debug)]
pub(crate) struct WaitFunctions(KernelFunctions<Option<usize>>);

impl WaitFunctions {
    pub(crate) fn read(root: &Root) -> Result<Self, SourceError> {
        Self::parse(&root.text("proc/kallsyms")?).unless_hidden()
    }

    /// Matches symbols that were read already.
    pub(crate) fn from_symbols(symbols: &KernelSymbols) -> Result<Self, SourceError> {
        Self(symbols.map(|(name, _)| matching_pattern(name))).unless_hidden()
    }

    fn unless_hidden(self) -> Result<Self, SourceError> {
        if self.0.is_empty() {
            return Err(SourceError::NotPermitted {
                why: "/proc/kallsyms hides the addresses of kernel functions".into(),
                remedy: "run as root, with kernel.kptr_restrict below 2".into(),
            });
        }
        Ok(self)
    }

    fn parse(text: &str) -> Self {
        Self(KernelFunctions::parse(text, |name, _| matching_pattern(name)))
    }

    /// Returns the reason why a thread with this stack waits.
    pub(crate) fn reason(&self, stack: impl IntoIterator<Item = u64>) -> Option<TimeKind> {
        stack.into_iter().filter_map(|address| *self.0.find(address)?).min().map(|line| PATTERNS[line].0)
    }
}

/// Returns the reason why a thread waits in these functions.
pub(crate) fn of_functions<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<TimeKind> {
    names.into_iter().filter_map(matching_pattern).min().map(|line| PATTERNS[line].0)
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
        assert_eq!(reason(&[0x20, 0x1ff]), Some(TimeKind::Futex));
        assert_eq!(reason(&[0x20, 0x310, 0x210]), Some(TimeKind::PageFault));
        assert_eq!(reason(&[0x20, 0x310]), Some(TimeKind::BlockIo));
        assert_eq!(reason(&[0x20, 0x4ff]), Some(TimeKind::Sleep));
        assert_eq!(reason(&[0x20, 0x650]), None);
        assert_eq!(reason(&[]), None);
        assert_eq!(functions.reason([0x1000]), None);
    }
}
