//! Values that the C library reports about the running kernel: clocks, tick length, page size, limits.

use std::sync::LazyLock;
use std::time::Duration;

/// Returns the nanoseconds per clock tick of user space (USER_HZ, proc(5)), the unit of CPU times in /proc.
pub(crate) fn tick_ns() -> u64 {
    static TICK_NS: LazyLock<u64> =
        LazyLock::new(|| 1_000_000_000 / sysconf(libc::_SC_CLK_TCK).unwrap_or(100).clamp(1, 1_000_000_000));
    *TICK_NS
}

pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
    ticks.saturating_mul(tick_ns())
}

pub(crate) fn ns_to_ticks(ns: u64) -> u64 {
    ns / tick_ns()
}

pub(crate) fn page_size() -> u64 {
    static PAGE_SIZE: LazyLock<u64> = LazyLock::new(|| sysconf(libc::_SC_PAGESIZE).unwrap_or(4096));
    *PAGE_SIZE
}

/// Returns the limit on the number of files this process may open (RLIMIT_NOFILE, getrlimit(2)).
pub(crate) fn open_files_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit for the call to fill; on failure it stays zero.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Gives this thread the lowest CPU priority, so that it delays no other thread. Programs that it starts inherit the priority.
pub(crate) fn lower_priority() {
    // SAFETY: setpriority takes numbers only; 0 is the calling thread. If it is refused, the thread keeps its priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

/// Returns nanoseconds since 1970.
pub(crate) fn wall_ns() -> i64 {
    i64::try_from(clock(libc::CLOCK_REALTIME).as_nanos()).unwrap_or(i64::MAX)
}

/// Returns nanoseconds since boot, including suspend.
pub(crate) fn boot_ns() -> u64 {
    nanoseconds(clock(libc::CLOCK_BOOTTIME))
}

/// Returns nanoseconds since boot, excluding suspend: the clock of BPF programs.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(clock(libc::CLOCK_MONOTONIC))
}

/// Returns the CPU time of all threads of this process: a source may read in threads of its own while the rest of the process
/// waits for them.
pub(crate) fn process_cpu_ns() -> u64 {
    nanoseconds(clock(libc::CLOCK_PROCESS_CPUTIME_ID))
}

/// Converts a duration to nanoseconds; saturates after 584 years.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads a sysconf(3) value. Returns `None` if the C library does not know it or it is not positive.
fn sysconf(name: libc::c_int) -> Option<u64> {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let value = unsafe { libc::sysconf(name) };
    u64::try_from(value).ok().filter(|&v| v > 0)
}

/// Reads a clock. A time before the clock's epoch reads as zero.
fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill; on failure it stays zero.
    unsafe { libc::clock_gettime(id, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
