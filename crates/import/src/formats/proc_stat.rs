//! /proc/stat: CPU time by mode since boot, and the counters of the whole machine.

use crate::prelude::*;
use whyslow_model::catalogue::{Cpu, System};
use whyslow_proc::stat;

pub const FORMAT: Format = Format {
    name: "/proc/stat",
    versions: "2.6 on, whole",
    shows: "CPU time by mode since boot; runnable and blocked tasks; of two copies, rates",
    lacks: "who uses the time; what happens now, if read once",
    starts: |lines| lines.next_is(|line| is_cpu(line, "cpu")) && lines.peek(1).is_some_and(|line| is_cpu(line, "cpu0")),
    read,
    ..Format::NEW
};

/// Nanoseconds per tick: USER_HZ is 100 on all current machines (include/asm-generic/param.h).
const TICK: u64 = 10_000_000;
/// Number of modes, from user mode to steal time.
const MODES: usize = 8;
const FEWEST_MODES: usize = 4;

/// Returns true for `cpu  3 0 4 9 1 0 0 0 0 0`.
fn is_cpu(line: &str, name: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_whole = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    words.next() == Some(name) && words.clone().count() >= FEWEST_MODES && words.all(is_whole)
}

/// Returns true for the lines of the file (fs/proc/stat.c).
fn is_own(line: &str) -> bool {
    const NAMES: [&str; 8] =
        ["intr", "ctxt", "btime", "processes", "procs_running", "procs_blocked", "softirq", "page"];
    line.split_whitespace().next().is_some_and(|name| name.starts_with("cpu") || NAMES.contains(&name))
}

/// Reads copies that follow one another directly as one run; the CPU time counted between them gives the time between them.
fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    // Every CPU has the same modes as the sum.
    let mut modes = None;
    let mut first = None;
    loop {
        let counted = lines.peek(0).map_or(0, ticks);
        let Copy { line, cpus, system } = copy(lines, &mut modes)?;
        let since = counted.saturating_sub(*first.get_or_insert(counted));
        let at = since.saturating_mul(TICK) as f64 / 1e9 / cpus.len().max(1) as f64;
        cpus.into_iter().for_each(|(line, cpu)| run.put(at, line, cpu));
        run.put(at, line, system);
        // A copy of another machine, or of one that was restarted, is a separate run.
        let is_later = lines.peek(0).is_some_and(|line| is_cpu(line, "cpu") && ticks(line) > counted);
        if !is_later || !lines.peek(1).is_some_and(|line| is_cpu(line, "cpu0")) {
            return Ok(());
        }
    }
}

/// Returns the ticks that all CPUs counted in all modes. Guest time is part of user time.
fn ticks(sum: &str) -> u64 {
    let modes = sum.split_whitespace().skip(1).take(MODES).filter_map(|word| word.parse::<u64>().ok());
    modes.fold(0, u64::saturating_add)
}

/// A reading of the file.
struct Copy {
    line: u32,
    cpus: Vec<(u32, Cpu)>,
    system: System,
}

fn copy(lines: &mut Lines<'_>, modes: &mut Option<usize>) -> Result<Copy, Refusal> {
    let mut copy = Copy { line: lines.number(), cpus: Vec::new(), system: System::new(MachineKey) };
    let mut sum_seen = false;
    while let Some(text) = lines.peek(0).filter(|text| is_own(text)).map(str::to_owned) {
        // A repeated sum begins the next reading.
        if is_cpu(&text, "cpu") && std::mem::replace(&mut sum_seen, true) {
            break;
        }
        let mut cpus: Vec<Cpu> = Vec::new();
        let taken = stat::take(&text, TICK, &mut cpus, &mut copy.system);
        let count = text.split_whitespace().count();
        let is_whole = !text.starts_with("cpu") || *modes.get_or_insert(count) == count;
        let taken = taken
            .filter(|_| is_whole)
            .ok_or_else(|| lines.refuse("a name and as many whole numbers as the kernel prints"));
        let line = lines.number();
        lines.skip(1);
        if lines.keep(taken)?.is_some() {
            copy.cpus.extend(cpus.into_iter().map(|cpu| (line, cpu)));
        }
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{read_text, refusal_of, window_of};

    const COPY: &str = "cpu  300 20 400 900 100 0 0 0 0 0\ncpu0 100 10 200 500 100 0 0 0 0 0\ncpu1 200 10 200 400 0 0 0 0 0 0\n\
        intr 158306 0 1 2\nctxt 300698\nbtime 1795256256\nprocesses 6057\nprocs_running 3\nprocs_blocked 1\nsoftirq 1 2 3\n";

    #[test]
    fn a_row_for_each_cpu_and_one_for_the_machine() {
        let window = window_of(COPY);
        let cpus = window.newest::<Cpu>();
        assert_eq!((cpus.len(), cpus[&1].user.get()), (2, Some(2_000_000_000)));
        let system = window.the::<System>().unwrap();
        assert_eq!((system.context_switches.get(), system.running.get()), (Some(300_698), Some(3.0)));
        assert_eq!(refusal_of(&COPY.replace("ctxt 300698", "ctxt 300x")).line, 5);
    }

    #[test]
    fn copies_without_times_are_as_far_apart_as_the_cpus_counted() {
        let later = COPY.replace("cpu  300 20 400 900", "cpu  1300 20 400 1900").replace("ctxt 300698", "ctxt 300798");
        let later = later.replace("cpu0 100 10 200 500", "cpu0 100 10 200 1500").replace("cpu1 200", "cpu1 1200");
        let window = window_of(&format!("{COPY}{later}"));
        assert_eq!(window.change::<System>().unwrap().rate(|s| s.context_switches), Some(10.0));
        assert_eq!(window.changes::<Cpu>()[1].rate(|c| c.user), Some(1e9));
        // If the machine was restarted in between, they are two captures.
        let anew = COPY.replace("cpu  300", "cpu  30");
        assert_eq!(read_text(&format!("{later}{anew}")).map(|captures| captures.len()), Ok(2));
    }

    #[test]
    fn two_copies_with_their_times_are_rates() {
        let later = COPY.replace("ctxt 300698", "ctxt 300798").replace("cpu1 200", "cpu1 700");
        let both = format!("Sat Nov 21 16:54:34 UTC 2026\n{COPY}Sat Nov 21 16:54:44 UTC 2026\n{later}");
        let window = window_of(&both);
        assert_eq!(window.change::<System>().unwrap().rate(|s| s.context_switches), Some(10.0));
        assert_eq!(window.changes::<Cpu>()[1].rate(|c| c.user), Some(0.5e9));
    }
}
