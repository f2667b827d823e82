//! /proc/PID/stat and /proc/PID/task/TID/stat (proc_pid_stat(5), fs/proc/array.c).

use super::pid_files::{number, signed};
use std::borrow::Cow;

/// The fields of a stat line except the name. Times are in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    state: u8,
    pub(super) parent: u64,
    flags: u64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) children_user: u64,
    pub(super) children_system: u64,
    pub(super) nice: i64,
    pub(super) threads: u64,
    pub(super) start: u64,
    pub(super) virtual_size: u64,
    pub(super) rss_pages: u64,
    pub(super) processor: Option<u64>,
    policy: Option<u64>,
    /// Zero if delay accounting is off.
    pub(super) block_delay: Option<u64>,
}

/// PF_KTHREAD of `flags`, include/linux/sched.h.
pub(super) const KERNEL_THREAD: u64 = 0x0020_0000;
/// PF_EXITING of `flags`.
const ENDING: u64 = 0x4;
/// PF_WQ_WORKER of `flags`: a kernel worker, which is named after its current work.
pub(super) const WORKER: u64 = 0x20;

impl Stat {
    /// Parses the numbers and the name; replaces bytes of the name that are not UTF-8.
    pub(super) fn parse(line: &[u8]) -> Option<(Self, Cow<'_, str>)> {
        // The name can contain anything, including parentheses, but the fields after it cannot.
        let open = line.iter().position(|b| *b == b'(')?;
        let close = line.iter().rposition(|b| *b == b')')?;
        let comm = line.get(open + 1..close)?;
        let mut fields = line[close + 1..].trim_ascii().split(|b| *b == b' ');
        // Each call skips that many fields and takes the next; the numbers in the comments are the field numbers of the manual
        // page.
        let state = *fields.next()?.first()?; // 3
        let mut next = |skip: usize| fields.nth(skip);
        let stat = Self {
            state,
            parent: number(next(0)?)?,             // 4
            flags: number(next(4)?)?,              // 9
            minor_faults: number(next(0)?)?,       // 10
            major_faults: number(next(1)?)?,       // 12
            user: number(next(1)?)?,               // 14
            system: number(next(0)?)?,             // 15
            children_user: number(next(0)?)?,      // 16
            children_system: number(next(0)?)?,    // 17
            nice: signed(next(1)?)?,               // 19
            threads: number(next(0)?)?,            // 20
            start: number(next(1)?)?,              // 22
            virtual_size: number(next(0)?)?,       // 23
            rss_pages: number(next(0)?)?,          // 24
            processor: next(14).and_then(number),  // 39
            policy: next(1).and_then(number),      // 41
            block_delay: next(0).and_then(number), // 42
        };
        Some((stat, String::from_utf8_lossy(comm)))
    }

    pub(super) fn state(&self) -> &'static str {
        match self.state {
            b'R' => "R",
            b'S' => "S",
            b'D' => "D",
            b'T' => "T",
            b't' => "t",
            b'Z' => "Z",
            b'I' => "I",
            b'X' | b'x' => "X",
            b'P' => "P",
            b'W' => "W",
            b'K' => "K",
            _ => "?",
        }
    }

    /// Whether it is in interruptible sleep.
    pub(super) fn is_asleep(&self) -> bool {
        self.state == b'S'
    }

    pub(super) fn is_runnable(&self) -> bool {
        self.state == b'R'
    }

    pub(super) fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Whether the process has begun to exit; it may be a zombie by now.
    pub(super) fn is_ending(&self) -> bool {
        self.flags & ENDING != 0
    }

    /// Tests the flag, because in a container process 2 is an ordinary process, not the parent of kernel threads.
    pub(super) fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }

    pub(super) fn policy(&self) -> Option<&'static str> {
        policy(self.policy?)
    }
}

/// Names a scheduling policy (sched(7)).
pub(super) fn policy(number: u64) -> Option<&'static str> {
    Some(match number {
        0 => "NORMAL",
        1 => "FIFO",
        2 => "RR",
        3 => "BATCH",
        5 => "IDLE",
        6 => "DEADLINE",
        7 => "EXT",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(comm: &str) -> String {
        format!(
            "77 ({comm}) D 1 77 77 0 -1 2097216 11 12 13 14 150 160 17 18 20 -5 3 0 4242 8192 9 \
             18446744073709551615 1 2 3 4 5 6 7 8 9 10 0 0 17 1 0 3 250 0 0 1 2 3 4 5 6 7 0\n"
        )
    }

    #[test]
    fn fields_are_those_of_the_manual_page() {
        let text = line("mysqld");
        let (stat, _) = Stat::parse(text.as_bytes()).unwrap();
        assert_eq!((stat.parent, stat.minor_faults, stat.major_faults), (1, 11, 13));
        assert_eq!((stat.user, stat.system, stat.children_user, stat.children_system), (150, 160, 17, 18));
        assert_eq!((stat.nice, stat.threads, stat.start), (-5, 3, 4242));
        assert_eq!((stat.virtual_size, stat.rss_pages, stat.processor), (8192, 9, Some(1)));
        assert_eq!((stat.policy(), stat.block_delay, stat.state()), (Some("BATCH"), Some(250), "D"));
        assert!(stat.state() == "D" && stat.is_kernel_thread());
    }

    #[test]
    fn a_name_can_imitate_the_rest_of_the_line() {
        for name in ["a) R 1 (b", ")", "(", "", "a\nb) S 9", "kworker/u8:2-events"] {
            let text = line(name);
            let (stat, command) = Stat::parse(text.as_bytes()).unwrap();
            assert_eq!((command.as_ref(), stat.state(), stat.parent), (name, "D", 1));
        }
    }

    #[test]
    fn fields_missing_on_an_old_kernel_are_none() {
        let text = "1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9 4096 2 4294967295";
        let (stat, _) = Stat::parse(text.as_bytes()).unwrap();
        assert_eq!((stat.processor, stat.policy(), stat.block_delay), (None, None, None));
        assert!(!stat.is_kernel_thread());
    }

    proptest! {
        #[test]
        fn any_name_is_returned_unchanged(name in "[^\0]{0,15}") {
            let text = line(&name);
            let (_, command) = Stat::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(command, name);
        }
    }
}
