//! /proc/net/softnet_stat: packet backlog by CPU.

use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Softnet;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::softnet;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("proc/net/softnet_stat", "packets dropped by the backlog, and work left undone");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    parse(&root.polled_text(INFO.name)?, &mut out.processor.softnet)
}

/// One line for each online CPU.
fn parse(text: &str, rows: &mut Vec<Softnet>) -> Result<(), SourceError> {
    for (line_number, line) in (0..).zip(text.lines()) {
        rows.push(softnet::row(line, line_number).ok_or_else(|| SourceError::malformed(INFO.name, line))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;

    const LINE: &str = "00000001 0 0 0 0 0 0 0 0 00000003\n";

    #[test]
    fn each_cpu_has_a_line() {
        let mut rows = Vec::new();
        assert_eq!(parse(&[LINE, LINE].concat(), &mut rows), Ok(()));
        assert_eq!((rows.len(), rows[1].cpu), (2, 1));
        assert_eq!(parse("00000001 xyz\n", &mut rows), Err(SourceError::malformed(INFO.name, "00000001 xyz")));
    }

    #[test]
    fn no_text_makes_it_panic() {
        never_panics(LINE, |text| drop(parse(text, &mut Vec::new())));
    }
}
