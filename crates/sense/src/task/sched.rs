//! /proc/PID/sched and /proc/PID/task/TID/sched (kernel/sched/debug.c): kernels built with CONFIG_SCHED_DEBUG have them.

use super::pid_files::{number, pairs, words};

/// How often the thread moved to another processor; `None` where the file does not say.
///
/// The first line holds the thread's name as it is; with at most 15 bytes, no name can pass for the line looked for.
pub(super) fn migrations(text: &[u8]) -> Option<u64> {
    let (_, value) = pairs(text).find(|(name, _)| name.trim_ascii() == b"se.nr_migrations")?;
    number(words(value).next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_kernel_of_today() {
        let text = b"cat (1192, #threads: 1)\n---------------------\n\
            se.exec_start                                :      16223641.652630\n\
            se.nr_migrations                             :                   17\n\
            nr_switches                                  :                    1\n";
        assert_eq!(migrations(text), Some(17));
        assert_eq!(migrations(b"nr_switches : 1\n"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = migrations(&bytes);
        }
    }
}
