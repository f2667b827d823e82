//! /proc/vmstat, whole or cut out: paging, reclaim and refaults since boot.

use crate::prelude::*;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Vmstat;
use whyslow_proc::vmstat;

pub const FORMAT: Format = Format {
    name: "/proc/vmstat",
    versions: "2.6 on, whole or in part",
    shows: "pages read, swapped, reclaimed and read again since boot; of two copies with times, rates",
    lacks: "which process; what happens now, if read once",
    starts: |lines| lines.next_is(is_known) && lines.peek(1).is_some_and(is_known),
    read,
    ..Format::NEW
};

/// How the kernel's names begin (`vmstat_text`, mm/vmstat.c).
const BEGINNINGS: [&str; 9] =
    ["nr_", "pg", "pswp", "workingset_", "allocstall", "oom_kill", "compact_", "kswapd_", "thp_"];

/// `pgpgin 48732`
fn entry(line: &str) -> Option<&str> {
    let (name, count) = line.trim_end().split_once(' ')?;
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    (is_name(name) && !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit())).then_some(name)
}

fn is_known(line: &str) -> bool {
    entry(line).is_some_and(|name| BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)))
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let mut seen = BTreeSet::new();
    while let Some(text) = lines.peek(0).filter(|text| entry(text).is_some()).map(str::to_owned) {
        // A name again belongs to the next reading.
        if entry(&text).is_some_and(|name| !seen.insert(name.to_owned())) {
            break;
        }
        let row = run.row::<Vmstat>(0.0, lines.number(), MachineKey);
        if vmstat::take(&text, row).is_none() {
            return Err(lines.refuse("a name and a whole number: pgpgin 48732"));
        }
        lines.skip(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{row_of, window_of};

    #[test]
    fn lines_cut_out_are_read() {
        let row = row_of::<Vmstat>(
            "pgpgin 2\npgpgout 7\npswpin 0\nworkingset_refault_file 9\nallocstall_dma 1\nallocstall_normal 2\n",
        );
        assert_eq!((row.pgpgin.get(), row.workingset_refault_file.get()), (Some(2048), Some(9)));
        assert_eq!((row.allocstall.get(), row.oom_kill.get()), (Some(3), None));
    }

    #[test]
    fn two_copies_with_their_times_are_rates() {
        let text =
            "Sat Nov 21 16:54:34 UTC 2026\npgpgin 2\npswpin 5\nSat Nov 21 16:54:44 UTC 2026\npgpgin 2\npswpin 105\n";
        assert_eq!(window_of(text).change::<Vmstat>().unwrap().rate(|v| v.pswpin), Some(10.0));
    }
}
