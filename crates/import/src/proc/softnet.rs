//! /proc/net/softnet_stat: packet backlog work since boot by processor.

use super::copy;
use crate::format::Format;
use whyslow_proc::softnet;

/// The format.
pub const FORMAT: Format = Format {
    name: "/proc/net/softnet_stat",
    versions: "all",
    tells: "packets that the backlog dropped since boot; of two copies with their times, rates",
    starts: |lines| lines.peek(0).is_some_and(is_line),
    read: |lines, _, run| copy(lines, run, is_line, softnet::row, "columns of eight hexadecimal digits"),
};

/// From so many columns on it is a line of that file: Linux 2.6 has 9 of them.
const LEAST: usize = 9;

/// `00000a70 00000000 ...`
fn is_line(text: &str) -> bool {
    let column = |word: &str| word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
    text.split_whitespace().count() >= LEAST && text.split_whitespace().all(column)
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::Softnet;

    #[test]
    fn a_row_for_each_processor() {
        let window = window_of(&fixture("proc-softnet_stat.txt"));
        let rows = window.newest::<Softnet>();
        assert_eq!(rows.len(), 2);
        assert!(rows[&0].processed.get().is_some_and(|packets| packets > 0));
    }
}
