//! /proc/stat: CPU time by mode, and the counters of the whole machine (Documentation/filesystems/proc.rst, section 1.7).

use crate::text::{number, numbered, word};
use whyslow_model::catalogue::{Cpu, System};

/// Parses a line into a CPU's row or a counter of the machine. Skips lines that the catalogue lacks, and the sum of all
/// CPUs. `None` if the line is malformed.
pub fn take(line: &str, tick_ns: u64, cpus: &mut Vec<Cpu>, system: &mut System) -> Option<()> {
    let mut rest = line;
    let name = word(&mut rest).unwrap_or_default();
    match name {
        "intr" => system.interrupts = number(&mut rest)?.into(),
        "ctxt" => system.context_switches = number(&mut rest)?.into(),
        "processes" => system.forks = number(&mut rest)?.into(),
        "procs_running" => system.running = number(&mut rest)?.into(),
        "procs_blocked" => system.blocked = number(&mut rest)?.into(),
        _ => {
            if let Some(cpu) = numbered(name, "cpu") {
                cpus.push(cpu_row(cpu, rest, tick_ns)?);
            }
        }
    }
    Some(())
}

/// Parses the modes of one CPU. Old kernels lack the later columns (iowait, irq and softirq came with 2.6, steal with
/// 2.6.11, guest with 2.6.24, guest_nice with 2.6.33).
fn cpu_row(cpu: u32, mut columns: &str, tick_ns: u64) -> Option<Cpu> {
    let mut row = Cpu::new(cpu);
    for mode in [
        &mut row.user,
        &mut row.nice,
        &mut row.system,
        &mut row.idle,
        &mut row.iowait,
        &mut row.irq,
        &mut row.softirq,
        &mut row.steal,
        &mut row.guest,
        &mut row.guest_nice,
    ] {
        match number(&mut columns) {
            Some(ticks) => *mode = ticks.saturating_mul(tick_ns).into(),
            None if columns.trim_ascii().is_empty() => break,
            None => return None,
        }
    }
    row.idle.get().is_some().then_some(row)
}
