//! /proc/meminfo (Documentation/filesystems/proc.rst), whole or in part.

use crate::prelude::*;
use std::borrow::Cow;
use whyslow_model::catalogue::{Hugepages, Meminfo};
use whyslow_proc::meminfo;

pub const FORMAT: Format = Format {
    name: "/proc/meminfo",
    versions: "all, whole or in part",
    shows: "what uses memory, how much is unaccounted for, and how many huge pages are unused",
    lacks: "whether tasks wait for memory",
    files: &["meminfo"],
    starts: |lines| lines.next_is(|line| is_own(line) && is_line(line)),
    read,
    ..Format::NEW
};

/// Returns true if a line has a field that no other file has.
fn is_own(line: &str) -> bool {
    const OWN: [&str; 13] = [
        "MemTotal",
        "MemFree",
        "MemAvailable",
        "AnonPages",
        "Slab",
        "SReclaimable",
        "SUnreclaim",
        "KernelStack",
        "PageTables",
        "CommitLimit",
        "Committed_AS",
        "HugePages_Total",
        "HugePages_Free",
    ];
    line.split_once(':').is_some_and(|(name, _)| OWN.contains(&name))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut metric = String::new();
    let (mut pool, mut pool_line) = (HugePages::default(), lines.number());
    let is_cut = |text: &str| text.trim().trim_matches('.').is_empty();
    while let Some(line) = lines.take_if(|text| is_line(text) || is_cut(text)) {
        if is_line(&line.text) {
            if pool.take(&line.text) {
                pool_line = line.number;
            }
            let row = run.row::<Meminfo>(0.0, line.number, MachineKey);
            if meminfo::take(&in_kib(&line.text), row, &mut metric).is_none() {
                return Err(lines.refuse_at(&line, "a name, an amount and its unit: MemTotal:  394292660 kB"));
            }
        }
    }
    if let Some(read) = pool.row() {
        let row = run.row::<Hugepages>(0.0, pool_line, read.size);
        (row.total, row.free, row.reserved, row.surplus) = (read.total, read.free, read.reserved, read.surplus);
    }
    Ok(())
}

/// Pool of huge pages of the default size, which takes five lines, of which a selection may leave two out.
#[derive(Default)]
struct HugePages {
    size: Option<u64>,
    counts: [Option<u64>; 4],
}

impl HugePages {
    /// Takes a line. Returns true if it is one of the five.
    fn take(&mut self, line: &str) -> bool {
        const COUNTS: [&str; 4] = ["HugePages_Total", "HugePages_Free", "HugePages_Rsvd", "HugePages_Surp"];
        let Some((name, value)) = meminfo::entry(line) else { return false };
        match COUNTS.iter().position(|count| *count == name) {
            Some(at) => self.counts[at] = Some(value),
            None if name == "Hugepagesize" => self.size = Some(value),
            None => return false,
        }
        true
    }

    /// Returns the row, or `None` if the size, the total or the free pages are missing, or the lines are inconsistent.
    fn row(&self) -> Option<Hugepages> {
        let [Some(total), Some(free), reserved, surplus] = self.counts else { return None };
        let is_plausible = free <= total && reserved.is_none_or(|n| n <= free) && surplus.is_none_or(|n| n <= total);
        let row = Hugepages::new(self.size.filter(|_| is_plausible)?);
        Some(Hugepages {
            total: total.into(),
            free: free.into(),
            reserved: reserved.into(),
            surplus: surplus.into(),
            ..row
        })
    }
}

/// Units that people convert the kernel's to, in KiB. The kernel's kB is one, and so are those of awk and numfmt.
const UNITS: [(&str, f64); 7] = [
    ("kB", 1.0),
    ("MiB", 1024.0),
    ("MB", 1024.0),
    ("GiB", 1_048_576.0),
    ("GB", 1_048_576.0),
    (" M", 1024.0),
    (" G", 1_048_576.0),
];

/// Converts a line in another unit to the kernel's: `PageTables:  68.0 GB`. Leaves other lines as they are.
fn in_kib(line: &str) -> Cow<'_, str> {
    let converted = || {
        let (name, value) = line.split_once(':')?;
        let (unit, factor) = UNITS.iter().find(|(unit, _)| value.trim_end().ends_with(unit))?;
        let digits = value.trim_end().strip_suffix(unit)?.trim();
        if *factor == 1.0 && !digits.contains(['.', ',']) {
            return None;
        }
        let number = number(digits)?;
        if name.starts_with("HugePages_") {
            return (number == 0.0).then(|| format!("{name}: 0"));
        }
        Some(format!("{name}: {:.0} kB", number * factor))
    };
    converted().map_or(Cow::Borrowed(line), Cow::Owned)
}

/// Returns true for a name that ends in a colon, followed by a number or its remnant.
fn is_line(text: &str) -> bool {
    let Some((name, value)) = text.split_once(':') else { return false };
    let has_unit = |value: &str| UNITS.iter().any(|(unit, _)| value.ends_with(unit));
    (has_unit(value.trim_end()) || name.starts_with("HugePages_"))
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_()".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};

    #[test]
    fn amounts_in_other_units_are_the_same() {
        let row = row_of::<Meminfo>(
            "MemTotal:           251.6 GB\nMemFree:  1331 MiB\nPageTables:          68,5 GB\nHugePages_Total:      0.0 GB\n",
        );
        assert_eq!(row.page_tables.get(), Some(68.5 * GIB));
        assert_eq!(row.mem_free.get(), Some(1331.0 * MIB));
    }

    #[test]
    fn huge_pages_are_read_if_all_their_lines_are_there() {
        let text = fixture("layouts/meminfo-hugepages.txt");
        let pool = row_of::<Hugepages>(&text);
        assert_eq!((pool.size, pool.total.get(), pool.free.get()), (2 << 20, Some(24_000.0), Some(23_500.0)));
        assert_eq!(pool.reserved.get(), Some(300.0));
        let found = |text: &str| !window_of(text).newest::<Hugepages>().is_empty();
        assert!(found(&text) && !found(&text.replace("Hugepagesize", "Hugepag")));
        assert!(!found(&text.replace("HugePages_Free:    23500", "HugePages_Free:    93500")), "more than there are");
    }

    #[test]
    fn lines_cut_out_are_absent() {
        let memory = row_of::<Meminfo>(&fixture("cases/016-nfsd-kernel-memory-leak-oom/meminfo.txt"));
        assert_eq!(memory.mem_total.get(), Some(394_292_660.0 * 1024.0));
        assert_eq!(memory.s_unreclaim.get(), Some(201_780.0 * 1024.0));
        assert_eq!(memory.active.get(), Some(325_936.0 * 1024.0));
        assert_eq!(memory.page_tables.get(), None);
    }
}
