//! /proc/diskstats: requests since boot by block device and partition.

use super::copy;
use crate::format::Format;
use whyslow_proc::diskstats;

/// The format.
pub const FORMAT: Format = Format {
    name: "/proc/diskstats",
    versions: "2.6 on",
    tells: "requests in flight; of two copies with their times, requests, queue, wait and use of each device",
    starts: |lines| lines.peek(0).is_some_and(is_line),
    read: |lines, _, run| copy(lines, run, is_line, |text, _| Some(diskstats::row(text)?.disk), EXPECTED),
};

const EXPECTED: &str = "a device's two numbers and its name, then 4, 11, 15 or 17 counts";

/// `   8       0 sda 1 2 3 4 5 6 7 8 9 10 11`
fn is_line(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let mut number = || words.next().is_some_and(|w| w.len() <= 7 && w.bytes().all(|b| b.is_ascii_digit()));
    let device = number() && number();
    let named = words.next().is_some_and(|w| w.starts_with(|c: char| c.is_ascii_alphabetic()));
    device && named && words.next().is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::Disk;

    #[test]
    fn one_copy_is_no_rate_and_two_with_their_times_are() {
        let one = fixture("proc-diskstats.txt");
        assert_eq!(window_of(&one).changes::<Disk>().iter().filter_map(|c| c.rate(|d| d.reads)).count(), 0);
        let two = "Sat Nov 21 16:54:34 UTC 2026\n   8  0 sda 10 0 80 5 1 0 8 1 0 5 6\nSat Nov 21 16:54:44 UTC 2026\n   8  0 sda 110 0 880 105 1 0 8 1 2 1005 2006\n";
        let window = window_of(two);
        let changes = window.changes::<Disk>();
        assert_eq!(changes[0].rate(|d| d.reads), Some(10.0));
        assert_eq!(changes[0].rate(|d| d.busy_time), Some(0.1 * 1e9));
    }

    #[test]
    fn a_line_that_was_cut_is_refused() {
        assert_eq!(refusal_of("   8  0 sda 10 0 80 5 1 0 8 1 0 5 6\n   8 16 sdb 10 0 80 5 1\n").line, 2);
    }
}
