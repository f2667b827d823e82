//! /proc/softirqs: softirqs by vector and CPU (Documentation/filesystems/proc.rst, section 1.2).

use whyslow_model::catalogue::Softirq;
use whyslow_model::key::PerCpu;
use whyslow_model::value::Name;

/// Parses the counts of a vector. There is a column for every possible CPU, so zeros are left out.
pub fn take(vector: &str, counts: &[(u32, u64)], rows: &mut Vec<Softirq>) {
    let name = Name::from(vector);
    for &(cpu, count) in counts.iter().filter(|(_, count)| *count > 0) {
        rows.push(Softirq { vector: PerCpu { name: name.clone(), cpu }, count: count.into() });
    }
}
