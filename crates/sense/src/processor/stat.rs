//! /proc/stat, /proc/loadavg and /proc/uptime: CPU time by mode, and the counters and load of the whole machine.
//! Documentation/filesystems/proc.rst, sections 1.7 and 1.8.
//!
//! One source reads all three because together they fill one row.

use crate::source::SourceInfo;
use crate::source_error::SourceError;
use crate::text::{decimal, word};
use crate::{Root, os};
use whyslow_model::catalogue::{Cpu, System};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::stat;

const STAT: &str = "proc/stat";
const LOADAVG: &str = "proc/loadavg";
const UPTIME: &str = "proc/uptime";

pub(super) const INFO: SourceInfo = SourceInfo::new(STAT, "CPU time by mode, context switches, forks, load");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut system = System::new(MachineKey);
    let results = [
        root.polled_text(STAT).and_then(|t| parse_stat(&t, os::tick_ns(), &mut out.processor.cpu, &mut system)),
        root.polled_text(LOADAVG).and_then(|t| parse_loadavg(&t, &mut system)),
        root.polled_text(UPTIME).and_then(|t| parse_uptime(&t, &mut system)),
    ];
    if results.iter().any(Result::is_ok) {
        out.processor.system.push(system);
    }
    results.into_iter().collect()
}

/// Adds a row for each online CPU, and the counters of the machine.
fn parse_stat(text: &str, tick_ns: u64, cpus: &mut Vec<Cpu>, system: &mut System) -> Result<(), SourceError> {
    for line in text.lines() {
        stat::take(line, tick_ns, cpus, system).ok_or_else(|| SourceError::malformed(STAT, line))?;
    }
    if cpus.is_empty() { Err(SourceError::Failed(format!("/{STAT} names no CPU"))) } else { Ok(()) }
}

/// Parses `0.07 0.07 0.03 1/91 6057`; the number after the slash counts tasks.
fn parse_loadavg(text: &str, system: &mut System) -> Result<(), SourceError> {
    let mut fields = text;
    for load in [&mut system.load_1m, &mut system.load_5m, &mut system.load_15m] {
        *load = decimal(&mut fields).ok_or_else(|| SourceError::malformed(LOADAVG, text))?.into();
    }
    let tasks = word(&mut fields).and_then(|f| f.split_once('/')?.1.parse::<u64>().ok());
    system.tasks = tasks.ok_or_else(|| SourceError::malformed(LOADAVG, text))?.into();
    Ok(())
}

/// Parses the seconds since boot, which the idle time of all CPUs follows.
fn parse_uptime(text: &str, system: &mut System) -> Result<(), SourceError> {
    let mut fields = text;
    let seconds = decimal(&mut fields).filter(|&s| s >= 0.0).ok_or_else(|| SourceError::malformed(UPTIME, text))?;
    system.uptime = ((seconds * 1e9) as u64).into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 10_000_000;

    fn parse(text: &str) -> (Result<(), SourceError>, Vec<Cpu>, System) {
        let (mut cpus, mut system) = (Vec::new(), System::new(MachineKey));
        let result = parse_stat(text, TICK, &mut cpus, &mut system);
        (result, cpus, system)
    }

    #[test]
    fn ticks_become_nanoseconds_and_offline_cpus_have_no_row() {
        let (result, cpus, system) = parse(
            "cpu  3 0 4 9 1 0 0 0 0 0\ncpu0 1 0 2 5 1 0 0 0 0 0\ncpu3 2 0 2 4 0 0 0 7 0 0\nintr 158306 0 1 2\n\
             ctxt 300698\nbtime 1795256256\nprocesses 6057\nprocs_running 3\nprocs_blocked 0\nsoftirq 1 2 3\n",
        );
        assert_eq!(result, Ok(()));
        assert_eq!(cpus.iter().map(|c| c.cpu).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(cpus[1].user.get(), Some(2 * TICK));
        assert_eq!(cpus[1].steal.get(), Some(7 * TICK));
        assert_eq!(system.interrupts.get(), Some(158_306));
        assert_eq!(system.context_switches.get(), Some(300_698));
        assert_eq!(system.forks.get(), Some(6057));
        assert_eq!(system.running.get(), Some(3.0));
        assert_eq!(system.blocked.get(), Some(0.0));
    }

    #[test]
    fn modes_missing_on_an_old_kernel_are_absent() {
        let (result, cpus, _) = parse("cpu0 1 2 3 4 5 6 7\n");
        assert_eq!(result, Ok(()));
        assert_eq!(cpus[0].softirq.get(), Some(7 * TICK));
        assert_eq!(cpus[0].steal.get(), None);
    }

    #[test]
    fn a_truncated_line_is_an_error_and_the_rows_before_it_are_kept() {
        let (result, cpus, _) = parse("cpu0 1 2 3 4 5\ncpu1 1 2\n");
        assert_eq!(result, Err(SourceError::malformed(STAT, "cpu1 1 2")));
        assert_eq!(cpus.len(), 1);
        assert!(matches!(parse("").0, Err(SourceError::Failed(_))));
        assert_eq!(parse("cpu0 1 2 x 4\n").0, Err(SourceError::malformed(STAT, "cpu0 1 2 x 4")));
    }

    #[test]
    fn load_and_uptime_are_read() {
        let mut system = System::new(MachineKey);
        parse_loadavg("0.07 1.50 12.00 1/91 6057\n", &mut system).unwrap();
        parse_uptime("2208.33 4345.97\n", &mut system).unwrap();
        assert_eq!(system.load_5m.get(), Some(1.5));
        assert_eq!(system.tasks.get(), Some(91.0));
        assert_eq!(system.uptime.get(), Some(2_208_330_000_000));
        assert_eq!(parse_loadavg("0.07 1.50", &mut system), Err(SourceError::malformed(LOADAVG, "0.07 1.50")));
        assert_eq!(parse_uptime("-1", &mut system), Err(SourceError::malformed(UPTIME, "-1")));
    }
}
