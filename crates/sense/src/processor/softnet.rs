//! /proc/net/softnet_stat: packet backlog work by processor.

use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Softnet;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::softnet;

const PATH: &str = "proc/net/softnet_stat";

/// Reads /proc/net/softnet_stat.
pub(super) struct SoftnetStat;

impl Source for SoftnetStat {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "packets dropped from the backlog, and exhausted softirq budgets"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        parse(&root.kept_text(PATH)?, &mut out.processor.softnet)
    }
}

/// Parses /proc/net/softnet_stat: one line for each online processor.
pub(super) fn parse(text: &str, rows: &mut Vec<Softnet>) -> Result<(), Miss> {
    for (line_number, line) in (0..).zip(text.lines()) {
        rows.push(softnet::row(line, line_number).ok_or_else(|| Miss::malformed(PATH, line))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_processor() {
        let mut rows = Vec::new();
        let line = "00000001 0 0 0 0 0 0 0 0 00000003\n";
        parse(&[line, line].concat(), &mut rows).unwrap();
        assert_eq!((rows.len(), rows[1].cpu), (2, 1));
        assert!(parse("00000001 xyz\n", &mut Vec::new()).is_err());
    }
}
