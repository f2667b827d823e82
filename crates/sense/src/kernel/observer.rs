//! The cost of observing: whyslow's own CPU time and memory (getrusage(2), proc_pid_statm(5)).

use crate::os::page_size;
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Observer;
use whyslow_model::key;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo = SourceInfo::new("getrusage", "the cost of observing");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    root.require_live()?;
    let mut row = Observer::new(key::MachineKey);
    row.cpu_time = cpu_time()?.into();
    row.rss = root.polled_word("proc/self/statm").as_deref().and_then(resident).into();
    row.pid = u64::from(std::process::id()).into();
    out.kernel.observer.push(row);
    Ok(())
}

/// Returns the user and system time of all threads, nanoseconds.
fn cpu_time() -> Result<u64, SourceError> {
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage to be written to.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return Err(SourceError::Failed(format!("getrusage: {}", std::io::Error::last_os_error())));
    }
    Ok(nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime))
}

fn nanoseconds(time: libc::timeval) -> u64 {
    let part = |value: i64, unit: u64| u64::try_from(value).unwrap_or(0).saturating_mul(unit);
    #[allow(clippy::useless_conversion, reason = "the fields are narrower on 32-bit machines")]
    part(time.tv_sec.into(), 1_000_000_000).saturating_add(part(time.tv_usec.into(), 1000))
}

/// Parses `size resident shared ...` in pages; returns the resident bytes.
fn resident(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(page_size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wait_until;

    #[test]
    fn work_costs_cpu_time() {
        let cost = || {
            let mut out = Snapshot::default();
            assert_eq!(read(&Root::live(), &mut out), Ok(()));
            out.kernel.observer.remove(0)
        };
        let before = cost();
        wait_until("the CPU time grows", || cost().cpu_time.get() > before.cpu_time.get());
        assert!(before.rss.get().unwrap() > 100_000.0);
        assert_eq!(before.pid.get(), Some(f64::from(std::process::id())));
    }

    #[test]
    fn a_captured_tree_has_no_observer() {
        let outcome = read(&Root::captured("/nowhere"), &mut Snapshot::default());
        assert!(matches!(outcome, Err(SourceError::Absent(_))), "{outcome:?}");
    }
}
