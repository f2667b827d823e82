//! /proc/meminfo: memory by use. Documentation/filesystems/proc.rst, section 1.2.

use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Meminfo;
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::meminfo::take;

pub(super) const INFO: SourceInfo = SourceInfo::new("proc/meminfo", "what holds memory");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut row = Meminfo::new(MachineKey);
    let result = parse(&root.polled_text(INFO.name)?, &mut row);
    out.memory.meminfo.push(row);
    result
}

/// Skips lines that are not in the catalogue.
fn parse(text: &str, row: &mut Meminfo) -> Result<(), SourceError> {
    let mut metric = String::with_capacity(32);
    for line in text.lines() {
        take(line, row, &mut metric).ok_or_else(|| SourceError::malformed(INFO.name, line))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_lines_are_absent_and_a_truncated_line_an_error() {
        let mut row = Meminfo::new(MachineKey);
        assert_eq!(parse("MemTotal: 4 kB\nHugePages_Total:       5\n", &mut row), Ok(()));
        assert_eq!(row.mem_available.get(), None);
        assert_eq!(parse("MemFree: 4 kB\nCach", &mut row), Err(SourceError::malformed(INFO.name, "Cach")));
        assert_eq!(row.mem_free.get(), Some(4096.0));
    }
}
