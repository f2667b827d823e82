//! /proc/net/softnet_stat: packet backlog work by CPU. `softnet_seq_show` in net/core/net-procfs.c.

use crate::text::word;
use whyslow_model::catalogue::Softnet;
use whyslow_model::value::Counter;

/// The column with the CPU number, from 0 (since Linux 5.10).
const CPU_COLUMN: usize = 12;

/// Parses a line of hexadecimal columns; `line_number` counts from 0.
pub fn row(line: &str, line_number: u32) -> Option<Softnet> {
    let mut columns = [None; CPU_COLUMN + 1];
    let mut rest = line;
    for column in &mut columns {
        let Some(word) = word(&mut rest) else { break };
        *column = Some(u32::from_str_radix(word, 16).ok()?);
    }
    // Before 5.10 the lines have no CPU number, and are in the order of the online CPUs.
    let cpu = columns[CPU_COLUMN].unwrap_or(line_number);
    let counter = |column: usize| columns[column].map(|v| Counter::from(u64::from(v))).unwrap_or_default();
    Some(Softnet {
        cpu,
        processed: counter(0),
        dropped: counter(1),
        squeezed: counter(2),
        received_rps: counter(9),
        flow_limited: counter(10),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_which_processor_it_is() {
        let row = row("00000a70 00000001 00000002 0 0 0 0 0 0 00000003 00000004 00000000 00000007 0 0", 0).unwrap();
        assert_eq!(row.cpu, 7);
        assert_eq!(row.processed.get(), Some(0xa70));
        assert_eq!(row.squeezed.get(), Some(2));
        assert_eq!(row.received_rps.get(), Some(3));
        assert_eq!(row.flow_limited.get(), Some(4));
    }

    #[test]
    fn without_it_the_order_of_lines_does() {
        let row = row("00000001 0 0 0 0 0 0 0 0 00000003", 1).unwrap();
        assert_eq!(row.cpu, 1);
        assert_eq!(row.received_rps.get(), Some(3));
        assert_eq!(row.flow_limited.get(), None);
    }

    #[test]
    fn what_is_not_hexadecimal_is_none() {
        assert_eq!(row("00000001 xyz", 0), None);
    }
}
