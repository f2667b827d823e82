//! The form /proc/interrupts and /proc/softirqs share: a header that names processors, then lines of `NAME: count ...`
//! with a column for each of them.

use crate::Miss;
use crate::text::{number, numbered, word};

/// Hands each line that has a column for every processor to `row`: its name, the counts by processor, and the text
/// behind the columns. Lines with fewer columns (`ERR:`, `MIS:`) count for the machine as a whole and are left out.
pub(super) fn parse(text: &str, path: &str, mut row: impl FnMut(&str, &[(u32, u64)], &str)) -> Result<(), Miss> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let cpus = processors(header).ok_or_else(|| Miss::malformed(path, header))?;
    let mut counts = Vec::with_capacity(cpus.len());
    for line in lines {
        let (name, mut rest) = line.split_once(':').ok_or_else(|| Miss::malformed(path, line))?;
        counts.clear();
        counts.extend(cpus.iter().map_while(|&cpu| Some((cpu, number(&mut rest)?))));
        if counts.len() == cpus.len() {
            row(name.trim_ascii(), &counts, rest.trim_ascii());
        }
    }
    Ok(())
}

/// The processors a header names: offline ones are left out of it, so that columns are not processor numbers.
fn processors(mut header: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    while let Some(name) = word(&mut header) {
        cpus.push(numbered(name, "CPU")?);
    }
    (!cpus.is_empty()).then_some(cpus)
}
