//! Reading /proc/interrupts and /proc/softirqs, which have one form.

use crate::Miss;
use whyslow_proc::per_cpu::{processors, split};

/// Hands each line that has a column for every processor to `row`: its name, the counts by processor, and the text
/// behind the columns. Lines with fewer columns (`ERR:`, `MIS:`) count for the machine as a whole and are left out.
pub(super) fn parse(text: &str, path: &str, mut row: impl FnMut(&str, &[(u32, u64)], &str)) -> Result<(), Miss> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let cpus = processors(header).ok_or_else(|| Miss::malformed(path, header))?;
    let mut counts = Vec::with_capacity(cpus.len());
    for line in lines {
        let (name, rest) = split(line, &cpus, &mut counts).ok_or_else(|| Miss::malformed(path, line))?;
        if counts.len() == cpus.len() {
            row(name, &counts, rest);
        }
    }
    Ok(())
}
