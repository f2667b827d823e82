//! /proc/swaps: swap areas. proc(5); `swap_show` in mm/swapfile.c.

use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use crate::text::{decimal, number, octal, unescape, word};
use whyslow_model::catalogue::Swap;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;

pub(super) const INFO: SourceInfo = SourceInfo::new("proc/swaps", "swap areas");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    parse(&root.polled_text(INFO.name)?, &mut out.memory.swap)
}

/// A header, then one line for each area, sizes in KiB.
fn parse(text: &str, rows: &mut Vec<Swap>) -> Result<(), SourceError> {
    for line in text.lines().skip(1) {
        rows.push(row(line).ok_or_else(|| SourceError::malformed(INFO.name, line))?);
    }
    Ok(())
}

fn row(mut line: &str) -> Option<Swap> {
    let fields = &mut line;
    Some(Swap {
        area: unescape(word(fields)?, octal).into(),
        kind: word(fields)?.into(),
        size: kib(number(fields)?),
        used: kib(number(fields)?),
        priority: decimal(fields)?.into(),
    })
}

fn kib(value: u64) -> Gauge {
    value.saturating_mul(1024).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn areas_are_in_bytes_with_their_priority() {
        let mut rows = Vec::new();
        let text =
            format!("{HEADER}/dev/zram0 partition\t1048572\t\t4\t\t-2\n/swap\\040file\\040(deleted) file 8 0 5\n");
        assert_eq!(parse(&text, &mut rows), Ok(()));
        assert_eq!((&*rows[0].area, rows[0].kind.get()), ("/dev/zram0", Some("partition")));
        assert_eq!(rows[0].size.get(), Some(1_048_572.0 * 1024.0));
        assert_eq!(rows[0].used.get(), Some(4096.0));
        assert_eq!(rows[0].priority.get(), Some(-2.0));
        assert_eq!(&*rows[1].area, "/swap file (deleted)");
    }

    #[test]
    fn no_area_is_fine_and_half_an_area_an_error() {
        let mut rows = Vec::new();
        assert_eq!(parse(HEADER, &mut rows), Ok(()));
        let line = "/dev/sda2 partition 10";
        let outcome = parse(&format!("{HEADER}{line}"), &mut rows);
        assert_eq!(outcome, Err(SourceError::malformed(INFO.name, line)));
        assert!(rows.is_empty());
    }

    #[test]
    fn only_octal_escapes_are_decoded() {
        assert_eq!(unescape(r"/a\0é\134b\", octal), r"/a\0é\b\");
    }
}
