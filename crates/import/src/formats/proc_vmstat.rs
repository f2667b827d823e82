//! /proc/vmstat, whole or in part: paging, reclaim and refaults since boot.

use crate::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Vmstat;
use whyslow_model::value::Counter;
use whyslow_proc::vmstat;

pub const FORMAT: Format = Format {
    name: "/proc/vmstat",
    versions: "2.6 on, whole or in part",
    shows: "pages read, swapped, reclaimed and read again since boot; of two copies with times, rates",
    lacks: "which process; what happens now, if read once",
    starts: |lines| lines.next_is(is_known) && lines.peek(1).is_some_and(is_known) && !is_of_zone(lines),
    read,
    ..Format::NEW
};

/// Prefixes of the kernel's names (`vmstat_text`, mm/vmstat.c).
const BEGINNINGS: [&str; 9] =
    ["nr_", "pg", "pswp", "workingset_", "allocstall", "oom_kill", "compact_", "kswapd_", "thp_"];

/// Parses `pgpgin 48732`.
fn entry(line: &str) -> Option<&str> {
    let (name, count) = line.trim_end().split_once(' ')?;
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    (is_name(name) && !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit())).then_some(name)
}

/// Returns the counters that are sums over zones.
fn vmstat_sum<'r>(row: &'r mut Vmstat, name: &str) -> Option<&'r mut Counter> {
    match name {
        "allocstall" => Some(&mut row.allocstall),
        "pgscan_kswapd" => Some(&mut row.pgscan_kswapd),
        "pgscan_direct" => Some(&mut row.pgscan_direct),
        "pgsteal_kswapd" => Some(&mut row.pgsteal_kswapd),
        "pgsteal_direct" => Some(&mut row.pgsteal_direct),
        _ => None,
    }
}

/// Returns the name on a line that is a damaged entry: without its number, or with another entry after it.
fn damaged_name(line: &str) -> Option<&str> {
    let name = line.split_whitespace().next().filter(|_| entry(line).is_none())?;
    let is_one = name.contains('_') && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    is_one.then_some(name)
}

/// Returns true if these are the counters of one node in /proc/zoneinfo: those of its first zone follow.
fn is_of_zone(lines: &mut Lines<'_>) -> bool {
    /// Maximum number of counters of a node.
    const MOST: usize = 80;
    let is_end = |text: &str| text.trim_start().starts_with("pages free");
    let own = (0..MOST)
        .map_while(|at| lines.peek(at).filter(|text| is_end(text) || entry(text.trim_start()).is_some()).map(is_end));
    own.into_iter().any(|is_end| is_end)
}

fn is_known(line: &str) -> bool {
    entry(line).is_some_and(|name| BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    const EXPECTED: &str = "a name and a whole number: pgpgin 48732";
    let mut seen = BTreeSet::new();
    // Counters with a damaged part from one zone.
    let lost = RefCell::new(BTreeSet::new());
    let is_damaged = |text: &str| {
        let name = damaged_name(text);
        lost.borrow_mut().extend(name.and_then(|name| Some(name.rsplit_once('_')?.0.to_owned())));
        name.is_some()
    };
    // A repeated name belongs to the next reading.
    while lines.peek(0).and_then(entry).is_none_or(|name| !seen.contains(name))
        && let Some(line) =
            lines.take_own(|text| entry(text).is_some_and(|name| !seen.contains(name)), is_damaged, EXPECTED)?
    {
        seen.extend(entry(&line.text).map(str::to_owned));
        let row = run.row::<Vmstat>(0.0, line.number, MachineKey);
        if vmstat::take(&line.text, row).is_none() {
            return Err(lines.refuse_at(&line, EXPECTED));
        }
    }
    let row = run.row::<Vmstat>(0.0, 0, MachineKey);
    for name in lost.into_inner() {
        if let Some(sum) = vmstat_sum(row, &name) {
            *sum = Counter::default();
        }
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
