//! /sys/kernel/debug/vmmemctl: memory of a guest that VMware's hypervisor has reclaimed (drivers/misc/vmw_balloon.c:
//! vmballoon_debug_show).

use crate::prelude::*;
use whyslow_model::catalogue::Vmstat;

pub const FORMAT: Format = Format {
    name: "vmmemctl",
    versions: "/sys/kernel/debug/vmmemctl since Linux 2.6.34",
    shows: "how much of the guest's memory the balloon holds",
    lacks: "what the hypervisor swaps of it: vmware-toolbox-cmd stat swap",
    files: &["vmmemctl"],
    starts: |lines| {
        lines.next_is(|line| line.starts_with("balloon capabilities:"))
            || lines.next_is(|line| pages(line, "target").is_some())
                && lines.peek(1).is_some_and(|line| pages(line, "current").is_some())
    },
    read,
    ..Format::NEW
};

/// Parses `current:             3059712 pages`.
fn pages(line: &str, name: &str) -> Option<u64> {
    let (own, rest) = line.split_once(':')?;
    let count = rest.trim().strip_suffix("pages")?;
    (own.trim() == name).then(|| count.trim().parse().ok())?
}

/// Lines above the statistics, which add nothing.
const LINES: [&str; 7] = [
    "balloon capabilities",
    "used capabilities",
    "is resetting",
    "target",
    "current",
    "rateSleepAlloc",
    "rateNoSleepAlloc",
];

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(line) = lines.take_if(|text| LINES.contains(&text.split(':').next().unwrap_or_default())) {
        if let Some(held) = pages(&line.text, "current") {
            let row = run.row::<Vmstat>(0.0, line.number, MachineKey);
            row.balloon_inflate = held.into();
            row.balloon_deflate = 0.into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn what_the_balloon_holds() {
        let row = row_of::<Vmstat>(&fixture("layouts/vmmemctl.txt"));
        assert_eq!((row.balloon_inflate.get(), row.balloon_deflate.get()), (Some(3_059_712), Some(0)));
    }
}
