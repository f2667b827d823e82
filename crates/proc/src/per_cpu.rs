//! The format shared by /proc/interrupts and /proc/softirqs: a header with the CPUs, then lines of `NAME: count ...` with a
//! column for each.

use crate::text::{number, numbered, word};

/// The CPUs in a header: offline ones are left out, so columns are not CPU numbers. `None` if it is not such a header.
pub fn processors(mut header: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    while let Some(name) = word(&mut header) {
        cpus.push(numbered(name, "CPU")?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Splits a line into its name and the text after its columns, and puts the counts by CPU into `counts`. There are fewer counts
/// than CPUs if a line counts for the whole machine (`ERR:`, `MIS:`) or is truncated.
pub fn split<'t>(line: &'t str, cpus: &[u32], counts: &mut Vec<(u32, u64)>) -> Option<(&'t str, &'t str)> {
    let (name, mut rest) = line.split_once(':')?;
    counts.clear();
    counts.extend(cpus.iter().map_while(|&cpu| Some((cpu, number(&mut rest)?))));
    Some((name.trim_ascii(), rest.trim_ascii()))
}
