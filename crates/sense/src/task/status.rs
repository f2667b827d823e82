//! /proc/PID/status and /proc/PID/task/TID/status (proc_pid_status(5)).

use super::pid_files::{number, pairs, words};

/// What is taken from a status file. Memory is in bytes; a thread of the kernel has none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// The user it acts as (effective user).
    pub(super) user_id: Option<u64>,
    pub(super) rss_anon: Option<u64>,
    pub(super) rss_file: Option<u64>,
    pub(super) rss_shmem: Option<u64>,
    pub(super) swap: Option<u64>,
    /// Of this thread only, like the next.
    pub(super) voluntary_switches: Option<u64>,
    pub(super) involuntary_switches: Option<u64>,
}

/// Reads a status file; what it does not hold stays `None`.
pub(super) fn parse(text: &[u8]) -> Status {
    let mut status = Status::default();
    for (name, value) in pairs(text) {
        match name {
            b"Uid" => status.user_id = words(value).nth(1).and_then(number),
            b"RssAnon" => status.rss_anon = kilobytes(value),
            b"RssFile" => status.rss_file = kilobytes(value),
            b"RssShmem" => status.rss_shmem = kilobytes(value),
            b"VmSwap" => status.swap = kilobytes(value),
            b"voluntary_ctxt_switches" => status.voluntary_switches = number(value),
            b"nonvoluntary_ctxt_switches" => status.involuntary_switches = number(value),
            _ => {}
        }
    }
    status
}

/// `1234 kB` in bytes.
fn kilobytes(value: &[u8]) -> Option<u64> {
    number(words(value).next()?)?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_and_a_kernel_thread() {
        let text = b"Name:\tUid:\t9\nState:\tS (sleeping)\nUid:\t1000\t33\t33\t33\nVmSwap:\t       4 kB\n\
            RssAnon:\t     100 kB\nRssFile:\t      50 kB\nRssShmem:\t       0 kB\n\
            voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let expected = Status {
            user_id: Some(33),
            rss_anon: Some(102_400),
            rss_file: Some(51_200),
            rss_shmem: Some(0),
            swap: Some(4096),
            voluntary_switches: Some(150),
            involuntary_switches: Some(545),
        };
        assert_eq!(parse(text), expected);
        let kernel = parse(b"Name:\tkswapd0\nUid:\t0\t0\t0\t0\nvoluntary_ctxt_switches:\t1\n");
        assert_eq!((kernel.swap, kernel.rss_anon, kernel.user_id), (None, None, Some(0)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn no_value_makes_it_panic(value in "[0-9 kB\t-]{0,40}") {
            let _ = parse(format!("VmSwap:{value}\nUid:{value}\n").as_bytes());
        }
    }
}
