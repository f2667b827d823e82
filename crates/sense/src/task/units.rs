//! The units the kernel counts in (sysconf(3)), and what it allows us (getrlimit(2), geteuid(2)).

use std::sync::LazyLock;

/// Bytes in a page of memory.
pub(crate) static PAGE_SIZE: LazyLock<u64> = LazyLock::new(|| sysconf(libc::_SC_PAGESIZE).unwrap_or(4096));

/// Nanoseconds in a clock tick (USER_HZ), in which /proc/PID/stat counts time.
static TICK_NS: LazyLock<u64> =
    LazyLock::new(|| 1_000_000_000 / sysconf(libc::_SC_CLK_TCK).unwrap_or(100).clamp(1, 1_000_000_000));

/// Clock ticks as nanoseconds.
pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(*TICK_NS)
}

/// How many files this process may have open.
pub(super) fn open_files_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit to be written to; on failure it stays zero.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

/// Whether this process acts as root.
pub(super) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn sysconf(name: libc::c_int) -> Option<u64> {
    // SAFETY: sysconf takes any number, touches no memory of ours, and answers -1 for a name it does not know.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).ok().filter(|v| *v > 0)
}
