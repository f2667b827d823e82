//! The time, for people and for deadlines.

use jiff::{Timestamp, Zoned};
use std::time::Duration;

/// Now, in RFC 3339 with the local zone's offset.
pub(crate) fn now() -> String {
    after(Duration::ZERO)
}

/// The time after `delay`, in RFC 3339.
pub(crate) fn after(delay: Duration) -> String {
    let at = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
    Zoned::new(at, jiff::tz::TimeZone::system()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// CLOCK_BOOTTIME: time since boot, suspended or not; it cannot be set.
pub(crate) fn boottime() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills `time`; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
