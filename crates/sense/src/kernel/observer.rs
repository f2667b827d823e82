//! What observing costs (getrusage(2), proc_pid_statm(5)).

use super::gauge;
use crate::os::page_size;
use crate::root::Root;
use crate::source::{Miss, Source};
use whyslow_model::catalogue::Observer;
use whyslow_model::key;
use whyslow_model::snapshot::Snapshot;

/// Reads whyslow's own processor time and memory.
pub(super) struct SelfCost;

impl Source for SelfCost {
    fn name(&self) -> &'static str {
        "getrusage"
    }

    fn tells(&self) -> &'static str {
        "whyslow's own overhead"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        root.require_live()?;
        let mut row = Observer::new(key::Machine);
        row.cpu_time = processor_time()?.into();
        row.rss = gauge(root.kept_word("proc/self/statm").as_deref().and_then(resident));
        row.pid = u64::from(std::process::id()).into();
        out.kernel.observer.push(row);
        Ok(())
    }
}

/// Nanoseconds of user and system time of this process, all its threads.
fn processor_time() -> Result<u64, Miss> {
    // SAFETY: rusage is plain numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage to be written to.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return Err(Miss::Failed(format!("getrusage: {}", std::io::Error::last_os_error())));
    }
    Ok(nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime))
}

fn nanoseconds(time: libc::timeval) -> u64 {
    let part = |value: i64, unit: u64| u64::try_from(value).unwrap_or(0).saturating_mul(unit);
    #[allow(clippy::useless_conversion, reason = "the fields are narrower on 32-bit machines")]
    part(time.tv_sec.into(), 1_000_000_000).saturating_add(part(time.tv_usec.into(), 1000))
}

/// Bytes resident, of `size resident shared ...` in pages.
fn resident(statm: &str) -> Option<u64> {
    statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(page_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_processor_time() {
        let cost = || {
            let mut out = Snapshot::default();
            SelfCost.read(&Root::live(), &mut out).unwrap();
            out.kernel.observer.remove(0)
        };
        let before = cost();
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 60 {
            std::hint::spin_loop();
        }
        let after = cost();
        assert!(after.cpu_time.get().unwrap() > before.cpu_time.get().unwrap());
        assert!(after.rss.get().unwrap() > 100_000.0);
        assert_eq!(after.pid.get(), Some(f64::from(std::process::id())));
    }

    #[test]
    fn a_captured_tree_has_no_observer() {
        let miss = SelfCost.read(&Root::captured("/nowhere"), &mut Snapshot::default());
        assert!(matches!(miss, Err(Miss::Absent(_))));
    }
}
