//! What the hypervisor takes while a trial is looked at: where that is much it is found, rightly, and not the trial's doing.

use crate::error::{Error, Result};
use std::fs;

/// The part of all processor time from which on it may be found.
const MUCH: f64 = 0.05;

/// Processor time so far, in clock ticks: all, and what was stolen (proc(5), /proc/stat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// As of now.
    ///
    /// # Errors
    /// Where /proc/stat makes no sense.
    pub fn now() -> Result<Self> {
        Self::of(&fs::read_to_string("/proc/stat")?).ok_or_else(|| Error::failed("/proc/stat makes no sense"))
    }

    /// Time of guests, which comes last, is counted as the user's already.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).map(|t| t.parse().ok()).collect::<Option<_>>()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// Whether much was stolen since.
    ///
    /// # Errors
    /// Where /proc/stat makes no sense.
    pub fn much_since(self) -> Result<bool> {
        Self::now().map(|now| self.much_until(now))
    }

    fn much_until(self, now: Self) -> bool {
        now.stolen.saturating_sub(self.stolen) as f64 > MUCH * now.all.saturating_sub(self.all) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_much_and_a_hundredth_is_not() {
        let ticks = |stat| Ticks::of(stat).unwrap();
        let before = ticks("cpu  100 0 50 800 10 0 10 30 7 0\ncpu0 1 1 1 1 1 1 1 1\n");
        assert_eq!(before, Ticks { all: 1000, stolen: 30 });
        assert!(before.much_until(ticks("cpu  190 0 50 800 10 0 10 40 7 0\n")));
        assert!(!before.much_until(ticks("cpu  199 0 50 800 10 0 10 31 7 0\n")));
        assert_eq!([Ticks::of(""), Ticks::of("cpu  1 2 3\n"), Ticks::of("cpu  a\n")], [None; 3]);
    }
}
