//! /proc/softirqs: softirqs by vector and CPU. Documentation/filesystems/proc.rst, section 1.2.

use super::per_cpu;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Softirq;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::softirqs;

const PATH: &str = "proc/softirqs";

/// Reads /proc/softirqs.
pub(super) struct Softirqs;

impl Source for Softirqs {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "softirqs by vector and CPU"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        parse(&root.kept_text(PATH)?, &mut out.processor.softirq)
    }
}

/// Parses /proc/softirqs.
pub(super) fn parse(text: &str, rows: &mut Vec<Softirq>) -> Result<(), Miss> {
    per_cpu::parse(text, PATH, |vector, counts, _| softirqs::take(vector, counts, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::key::PerCpu;

    #[test]
    fn a_row_for_each_vector_and_processor_that_counted() {
        let mut rows = Vec::new();
        let text = "                    CPU0       CPU1       \n          HI:          0          0\n      NET_RX:       1616       1723\n";
        parse(text, &mut rows).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].vector, PerCpu { name: "NET_RX".into(), cpu: 1 });
        assert_eq!(rows[1].count.get(), Some(1723));
    }
}
