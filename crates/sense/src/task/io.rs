//! /proc/PID/io (proc_pid_io(5), Documentation/filesystems/proc.rst): sums over all threads, also those that ended.

use super::pid_files::{number, pairs};
use whyslow_model::catalogue::ProcessRow;

pub(super) fn fill(row: &mut ProcessRow, text: &[u8]) {
    for (name, value) in pairs(text) {
        let Some(value) = number(value) else { continue };
        let slot = match name {
            b"rchar" => &mut row.read_chars,
            b"wchar" => &mut row.write_chars,
            b"syscr" => &mut row.read_calls,
            b"syscw" => &mut row.write_calls,
            b"read_bytes" => &mut row.read_bytes,
            b"write_bytes" => &mut row.write_bytes,
            b"cancelled_write_bytes" => &mut row.cancelled_write_bytes,
            _ => continue,
        };
        *slot = value.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_line_has_its_metric() {
        let mut row = ProcessRow::default();
        fill(
            &mut row,
            b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n",
        );
        let read = [row.read_chars, row.write_chars, row.read_calls, row.write_calls, row.read_bytes];
        assert_eq!(read.map(|c| c.get().unwrap()), [1, 2, 3, 4, 5]);
        assert_eq!((row.write_bytes.get(), row.cancelled_write_bytes.get()), (Some(6), Some(7)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            fill(&mut ProcessRow::default(), &bytes);
        }
    }
}
