//! /proc/PID/limits (proc_pid_limits(5)).

use super::pid_files::{number, words};

/// The soft limits that run out in practice; `None` where there is none (`unlimited`).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Files the process may have open.
    pub(super) open_files: Option<u64>,
    /// Processes its user may have.
    pub(super) processes: Option<u64>,
}

/// Reads a limits file.
pub(super) fn parse(text: &[u8]) -> Limits {
    let mut limits = Limits::default();
    for line in text.split(|b| *b == b'\n') {
        if let Some(values) = line.strip_prefix(b"Max open files") {
            limits.open_files = words(values).next().and_then(number);
        } else if let Some(values) = line.strip_prefix(b"Max processes") {
            limits.processes = words(values).next().and_then(number);
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_soft_limit_counts_and_unlimited_is_none() {
        let text = b"Limit                     Soft Limit           Hard Limit           Units     \n\
            Max processes             unlimited            unlimited            processes \n\
            Max open files            1024                 20000                files     \n";
        assert_eq!(parse(text), Limits { open_files: Some(1024), processes: None });
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
