//! /proc/meminfo (Documentation/filesystems/proc.rst), whole or in part.

use crate::prelude::*;
use whyslow_model::catalogue::Meminfo;
use whyslow_proc::meminfo;

pub const FORMAT: Format = Format {
    name: "/proc/meminfo",
    versions: "all, whole or in part",
    shows: "what uses memory, and how much is unaccounted for",
    lacks: "whether tasks wait for memory",
    files: &["meminfo"],
    starts: |lines| lines.next_is(|line| is_own(line) && is_line(line)),
    read,
    ..Format::NEW
};

/// Whether a line is of a field that no other file has.
fn is_own(line: &str) -> bool {
    const OWN: [&str; 11] = [
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
    ];
    line.split_once(':').is_some_and(|(name, _)| OWN.contains(&name))
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let mut metric = String::new();
    let is_cut = |text: &str| text.trim().trim_matches('.').is_empty();
    while let Some(line) = lines.take_if(|text| is_line(text) || is_cut(text)) {
        if is_line(&line.text) {
            let row = run.row::<Meminfo>(0.0, line.number, MachineKey);
            if meminfo::take(&line.text, row, &mut metric).is_none() {
                return Err(lines.refuse_at(&line, "a name, an amount and its unit: MemTotal:  394292660 kB"));
            }
        }
    }
    Ok(())
}

/// A name that ends in a colon, then a number or what is left of one.
fn is_line(text: &str) -> bool {
    let Some((name, value)) = text.split_once(':') else { return false };
    let unit = value.trim_end().ends_with("kB") || name.starts_with("HugePages_");
    unit && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_()".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn lines_cut_out_are_absent() {
        let memory = row_of::<Meminfo>(&fixture("cases/016-nfsd-kernel-memory-leak-oom/meminfo.txt"));
        assert_eq!(memory.mem_total.get(), Some(394_292_660.0 * 1024.0));
        assert_eq!(memory.s_unreclaim.get(), Some(201_780.0 * 1024.0));
        assert_eq!(memory.active.get(), Some(325_936.0 * 1024.0));
        assert_eq!(memory.page_tables.get(), None);
    }
}
