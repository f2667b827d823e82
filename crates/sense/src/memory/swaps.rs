//! /proc/swaps: swap areas. proc(5); `swap_show` in mm/swapfile.c.

use crate::text::{decimal, number, octal, unescape, word};
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Swap;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;

const PATH: &str = "proc/swaps";

/// Reads /proc/swaps.
pub(super) struct Swaps;

impl Source for Swaps {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "swap areas"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        parse(&root.kept_text(PATH)?, &mut out.memory.swap)
    }
}

/// Parses /proc/swaps: a header, then a line for each area, sizes in KiB. No area is an answer too.
pub(super) fn parse(text: &str, rows: &mut Vec<Swap>) -> Result<(), Miss> {
    for line in text.lines().skip(1) {
        rows.push(row(line).ok_or_else(|| Miss::malformed(PATH, line))?);
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
    fn areas_in_bytes_with_their_priority() {
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
    fn no_area_is_read_and_half_an_area_is_not() {
        let mut rows = Vec::new();
        assert_eq!(parse(HEADER, &mut rows), Ok(()));
        assert!(parse(&format!("{HEADER}/dev/sda2 partition 10"), &mut rows).is_err());
        assert!(rows.is_empty());
    }

    #[test]
    fn what_is_not_octal_stays_as_it_is() {
        assert_eq!(unescape(r"/a\0é\134b\", octal), r"/a\0é\b\");
    }
}
