//! /proc/PID/schedstat and /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).
//!
//! Both speak of one thread: that of a process is its main thread's.

use super::pid_files::{number, words};

/// What the scheduler keeps of one thread, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SchedStat {
    /// Time on a processor.
    pub(super) run: u64,
    /// Time on a run queue, waiting for a processor.
    pub(super) delay: u64,
}

/// Reads a schedstat line; `None` where it is none.
///
/// A kernel that does not account this says `0 0 0` of every thread, which only a thread that has never yet been given
/// a processor says truly; for neither is there anything to tell.
pub(super) fn parse(line: &[u8]) -> Option<SchedStat> {
    let mut fields = words(line).map(number);
    let (run, delay, slices) = (fields.next()??, fields.next()??, fields.next()??);
    (run, delay, slices).ne(&(0, 0, 0)).then_some(SchedStat { run, delay })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zeros_are_no_reading() {
        assert_eq!(parse(b"492790 12 1\n"), Some(SchedStat { run: 492_790, delay: 12 }));
        assert_eq!(parse(b"0 0 0\n"), None);
        assert_eq!(parse(b"1 2\n"), None);
        assert_eq!(parse(b""), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
