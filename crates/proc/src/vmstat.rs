//! /proc/vmstat: events of the virtual memory system (`vmstat_text` in mm/vmstat.c;
//! Documentation/filesystems/proc.rst).
//!
//! The catalogue uses the kernel's names, except where they changed over time.

use crate::text::{number, word};
use whyslow_model::catalogue::{Family, Vmstat};
use whyslow_model::value::Counter;

/// Suffixes of counters that are kept per memory zone.
const ZONES: [&str; 6] = ["dma", "dma32", "normal", "high", "movable", "device"];

/// Parses a line. Skips names that the catalogue lacks. `None` if the line is malformed.
pub fn take(line: &str, row: &mut Vmstat) -> Option<()> {
    let mut rest = line;
    let name = word(&mut rest).unwrap_or_default();
    let value = number(&mut rest)?;
    if let Some(sum) = sum_of_zones(row, name) {
        *sum = sum.get().unwrap_or(0).saturating_add(value).into();
        return Some(());
    }
    match name {
        // The kernel counts these in KiB.
        "pgpgin" | "pgpgout" => row.set(name, value.saturating_mul(1024)),
        // Before 5.9 these counted only file pages.
        "workingset_refault" => row.set("workingset_refault_file", value),
        "workingset_activate" => row.set("workingset_activate_file", value),
        "workingset_restore" => row.set("workingset_restore_file", value),
        _ => row.set(name, value),
    };
    Some(())
}

/// Returns the metric that `name` counts for one zone: `allocstall` since 4.10, scans and steals before 4.8.
fn sum_of_zones<'r>(row: &'r mut Vmstat, name: &str) -> Option<&'r mut Counter> {
    let (total, zone) = name.rsplit_once('_')?;
    let sum = match total {
        "allocstall" => &mut row.allocstall,
        "pgscan_kswapd" => &mut row.pgscan_kswapd,
        "pgscan_direct" => &mut row.pgscan_direct,
        "pgsteal_kswapd" => &mut row.pgsteal_kswapd,
        "pgsteal_direct" => &mut row.pgsteal_direct,
        _ => return None,
    };
    ZONES.contains(&zone).then_some(sum)
}
