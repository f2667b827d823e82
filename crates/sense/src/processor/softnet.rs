//! /proc/net/softnet_stat: packet backlog work by processor. `softnet_seq_show` in net/core/net-procfs.c.

use crate::text::word;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Softnet;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

const PATH: &str = "proc/net/softnet_stat";

/// Column, from 0, that holds the processor's number since Linux 5.10.
const CPU_COLUMN: usize = 12;

/// Reads /proc/net/softnet_stat.
pub(super) struct SoftnetStat;

impl Source for SoftnetStat {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "packets the backlog dropped, and work it left undone"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        parse(&root.kept_text(PATH)?, &mut out.processor.softnet)
    }
}

/// Parses /proc/net/softnet_stat: one line for each online processor, columns in hexadecimal.
pub(super) fn parse(text: &str, rows: &mut Vec<Softnet>) -> Result<(), Miss> {
    for (line_number, line) in text.lines().enumerate() {
        let mut columns = [None; CPU_COLUMN + 1];
        let mut rest = line;
        for column in &mut columns {
            let Some(word) = word(&mut rest) else { break };
            *column = Some(u32::from_str_radix(word, 16).map_err(|_| Miss::malformed(PATH, line))?);
        }
        // Before 5.10 no line says whose it is; lines then are in the order of the online processors.
        let cpu = columns[CPU_COLUMN].unwrap_or(line_number as u32);
        let counter = |column: usize| columns[column].map(|v| Counter::from(u64::from(v))).unwrap_or_default();
        rows.push(Softnet {
            cpu,
            processed: counter(0),
            dropped: counter(1),
            squeezed: counter(2),
            received_rps: counter(9),
            flow_limited: counter(10),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_which_processor_it_is() {
        let mut rows = Vec::new();
        parse("00000a70 00000001 00000002 0 0 0 0 0 0 00000003 00000004 00000000 00000007 0 0\n", &mut rows).unwrap();
        assert_eq!(rows[0].cpu, 7);
        assert_eq!(rows[0].processed.get(), Some(0xa70));
        assert_eq!(rows[0].squeezed.get(), Some(2));
        assert_eq!(rows[0].received_rps.get(), Some(3));
        assert_eq!(rows[0].flow_limited.get(), Some(4));
    }

    #[test]
    fn without_it_the_order_of_lines_does() {
        let mut rows = Vec::new();
        let line = "00000001 0 0 0 0 0 0 0 0 00000003\n";
        parse(&[line, line].concat(), &mut rows).unwrap();
        assert_eq!(rows[1].cpu, 1);
        assert_eq!(rows[1].received_rps.get(), Some(3));
        assert_eq!(rows[1].flow_limited.get(), None);
    }

    #[test]
    fn what_is_not_hexadecimal_is_an_error() {
        assert!(parse("00000001 xyz\n", &mut Vec::new()).is_err());
    }
}
