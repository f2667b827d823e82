//! The form /proc/interrupts and /proc/softirqs share: a header that names processors, then lines of `NAME: count ...`
//! with a column for each of them.

use crate::text::{number, numbered, word};

/// The processors a header names: offline ones are left out of it, so that columns are not processor numbers. `None`
/// where it is no such header.
pub fn processors(mut header: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    while let Some(name) = word(&mut header) {
        cpus.push(numbered(name, "CPU")?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Splits a line into its name and the text behind its columns, and puts the counts by processor into `counts`. Those are
/// fewer than the processors where a line counts for the machine as a whole (`ERR:`, `MIS:`), or was cut.
pub fn split<'t>(line: &'t str, cpus: &[u32], counts: &mut Vec<(u32, u64)>) -> Option<(&'t str, &'t str)> {
    let (name, mut rest) = line.split_once(':')?;
    counts.clear();
    counts.extend(cpus.iter().map_while(|&cpu| Some((cpu, number(&mut rest)?))));
    Some((name.trim_ascii(), rest.trim_ascii()))
}
