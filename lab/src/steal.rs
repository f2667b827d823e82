//! Steal time during a trial. Much of it is found, rightly, but is not the trial's doing.

use crate::error::{Error, Result};
use std::fs;

/// Share of all CPU time from which whyslow may find steal time.
const SUBSTANTIAL: f64 = 0.05;

/// CPU time since boot, in clock ticks (proc(5), /proc/stat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTicks {
    total: u64,
    steal: u64,
}

impl CpuTicks {
    /// # Errors
    /// If /proc/stat cannot be parsed.
    pub fn now() -> Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat")?).ok_or_else(|| Error::failed("/proc/stat: unexpected content"))
    }

    /// The last columns, time of guests, are contained in user time already.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map(|t| t.parse().ok()).collect::<Option<_>>()?;
        Some(Self { total: ticks.iter().sum(), steal: *ticks.get(7)? })
    }

    /// Whether much time was stolen since then.
    ///
    /// # Errors
    /// If /proc/stat cannot be parsed.
    pub fn substantial_since(self) -> Result<bool> {
        Self::now().map(|now| self.substantial_until(now))
    }

    fn substantial_until(self, now: Self) -> bool {
        now.steal.saturating_sub(self.steal) as f64 > SUBSTANTIAL * now.total.saturating_sub(self.total) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_substantial_and_a_hundredth_is_not() {
        let ticks = |stat| CpuTicks::parse(stat).unwrap();
        let before = ticks("cpu  100 0 50 800 10 0 10 30 7 0\ncpu0 1 1 1 1 1 1 1 1\n");
        assert_eq!(before, CpuTicks { total: 1000, steal: 30 });
        assert!(before.substantial_until(ticks("cpu  190 0 50 800 10 0 10 40 7 0\n")));
        assert!(!before.substantial_until(ticks("cpu  199 0 50 800 10 0 10 31 7 0\n")));
        assert_eq!([CpuTicks::parse(""), CpuTicks::parse("cpu  1 2 3\n"), CpuTicks::parse("cpu  a\n")], [None; 3]);
    }
}
