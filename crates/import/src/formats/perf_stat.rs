//! perf stat(1) as text: counters of one command, of a process, or of the whole machine.

use crate::number::ran_together;
use crate::prelude::*;
use whyslow_model::catalogue::{Process, System, Vmstat};

pub const FORMAT: Format = Format {
    name: "perf stat",
    versions: "perf 3 to 6, text; -a, -p",
    shows: "with -a context switches and faults of the machine, with -p those of a process; of one command nothing about the machine",
    lacks: "hardware counters, which are not evaluated",
    programs: &[word("perf")],
    columns: &[&SYSTEM, &FAULTS, &TASK],
    starts: |lines| lines.next_is(|line| PerfScope::parse(line).is_some()),
    read,
    ..Format::NEW
};

const SYSTEM: MetricColumns<System> = columns![
    "context-switches" => context_switches, "cs" => context_switches,
];
const FAULTS: MetricColumns<Vmstat> = columns![
    "page-faults" => pgfault, "faults" => pgfault, "major-faults" => pgmajfault,
];
const TASK: MetricColumns<Process> = columns![
    "task-clock" => cpu_time * NS_PER_MS, "cpu-clock" => cpu_time * NS_PER_MS, "cpu-migrations" => migrations,
    "CPU-migrations" => migrations, "migrations" => migrations, "major-faults" => major_faults,
];
/// Events in milliseconds; before perf 4 without their unit.
const CLOCKS: [&str; 2] = ["task-clock", "cpu-clock"];

#[derive(Debug, PartialEq)]
enum PerfScope {
    Machine,
    Process(u32),
    /// A command, whose PID is not printed, or some of the CPUs.
    Other,
}

impl PerfScope {
    /// Parses ` Performance counter stats for 'system wide':`.
    fn parse(line: &str) -> Option<Self> {
        let rest = line.trim_start().strip_prefix("Performance counter stats for ")?;
        if rest.starts_with("'system wide'") {
            return Some(Self::Machine);
        }
        let pid = rest.strip_prefix("process id '").and_then(|p| p.split('\'').next()).and_then(|p| p.parse().ok());
        Some(pid.map_or(Self::Other, Self::Process))
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    let Some(scope) = lines.take().and_then(|line| PerfScope::parse(&line.text)) else { return Ok(()) };
    let mut counts: Vec<(String, f64)> = Vec::new();
    let mut elapsed = None;
    while let Some(line) = lines.take_past_blanks_if(|text| text.starts_with(' ') && PerfScope::parse(text).is_none()) {
        let text = line.text.split('#').next().unwrap_or_default().trim();
        if text.split(' ').next().is_some_and(ran_together) {
            return Err(lines.refuse_at(&line, "a count and the name of an event"));
        }
        if let Some(seconds) = elapsed_time(text) {
            elapsed = decimal(seconds);
            if elapsed.is_none() {
                return Err(lines.refuse_at(&line, "a number of seconds"));
            }
        } else if !text.starts_with('<') {
            counts.extend(event(text).map_err(|expected| lines.refuse_at(&line, expected))?);
        }
    }
    let Some(seconds) = elapsed.filter(|s| *s > 0.0) else {
        run.note("perf stat", "its duration is missing, so there are no rates", "include its output to the end");
        return Ok(());
    };
    let row = TableRow::new(begin, "", counts.into_iter().map(|(name, count)| (name, count / seconds)));
    let interval = ReportInterval { from: 0.0, to: seconds };
    match scope {
        PerfScope::Machine => {
            run.rates(interval, MachineKey, &row, &SYSTEM);
            run.rates(interval, MachineKey, &row, &FAULTS);
        }
        PerfScope::Process(pid) => {
            run.rates(interval, process(pid), &row, &TASK);
        }
        PerfScope::Other => run.note(
            "perf stat of a command",
            "it shows what one command did, not why the machine is slow",
            "run it for the whole machine: perf stat -a sleep 10",
        ),
    }
    Ok(())
}

/// Returns the seconds in `10.01 seconds time elapsed`; with -r a mean: `1.0035 +- 0.0002 seconds time elapsed`.
fn elapsed_time(text: &str) -> Option<&str> {
    let seconds = text.split_once("seconds time elapsed")?.0;
    Some(seconds.split(" +- ").next().unwrap_or(seconds).trim())
}

/// Parses `  1,234      context-switches` or `  0.52 msec task-clock`. Returns `None` for events that are not used.
fn event(text: &str) -> Result<Option<(String, f64)>, &'static str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (value, unit, name) = match words[..] {
        [value, "msec", name, ..] => (value, "msec", name),
        [value, name, ..] => (value, "", name),
        _ => return Ok(None),
    };
    let name = name.split(':').next().unwrap_or(name);
    let count = if CLOCKS.contains(&name) {
        decimal(value).ok_or("milliseconds with two or more decimals")?
    } else if SYSTEM.has(name) || FAULTS.has(name) || TASK.has(name) {
        whole(value).filter(|_| unit.is_empty()).ok_or("a whole number and the name of an event")?
    } else {
        return Ok(None);
    };
    Ok(Some((name.to_owned(), count)))
}

/// Parses a whole number with the thousands separators of any locale.
fn whole(text: &str) -> Option<f64> {
    let mut groups = text.split([',', '.', '\'', '\u{a0}', '\u{202f}']);
    let first = groups.next().filter(|g| !g.is_empty() && g.len() <= 18)?;
    let rest: Vec<&str> = groups.collect();
    let digits = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
    let fits = digits(first) && rest.iter().all(|g| g.len() == 3 && digits(g)) && (rest.is_empty() || first.len() <= 3);
    fits.then(|| [&[first], rest.as_slice()].concat().concat().parse().ok())?
}

/// Parses a number with decimals after its last separator: perf prints two of them, or more than three.
fn decimal(text: &str) -> Option<f64> {
    let at = text.rfind([',', '.'])?;
    let (before, after) = (&text[..at], &text[at + 1..]);
    let decimals = after.len() != 3 && !after.is_empty() && after.bytes().all(|b| b.is_ascii_digit());
    format!("{}.{after}", whole(before)?).parse().ok().filter(|_| decimals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{refusal_of, window_of};

    const MACHINE: &str = " Performance counter stats for 'system wide':

         20,034.12 msec cpu-clock                 #    2.000 CPUs utilized
         1,234,567      context-switches          #   61.6 K/sec
               789      cpu-migrations
   <not supported>      cycles
             1,000      page-faults

      10.017060000 seconds time elapsed

";

    #[test]
    fn rates_of_the_machine_are_read() {
        let window = window_of(MACHINE);
        let switches = window.change::<System>().unwrap().rate(|s| s.context_switches).unwrap();
        assert!((switches / (1_234_567.0 / 10.017_06) - 1.0).abs() < 1e-6);
        assert_eq!(refusal_of(&MACHINE.replace("1,234,567 ", "1,234,5678 ")).line, 4);
    }

    #[test]
    fn a_process_and_a_command() {
        let window = window_of(&MACHINE.replace("'system wide'", "process id '812'"));
        let cpu = window.changes::<Process>()[0].rate(|p| p.cpu_time).unwrap();
        assert!((cpu / (20.034_12 / 10.017_06 * SECOND) - 1.0).abs() < 1e-6);
        let window = window_of(&MACHINE.replace("'system wide'", "'true'"));
        assert!(window.changes::<Process>().is_empty() && window.change::<System>().is_none());
    }

    #[test]
    fn numbers_of_several_locales_are_read() {
        assert_eq!(
            (whole("1,234,567"), whole("1.234"), whole("12,34"), whole("1234,567")),
            (Some(1_234_567.0), Some(1234.0), None, None)
        );
        assert_eq!(
            (decimal("20,034.12"), decimal("0,52"), decimal("1,234"), decimal("12")),
            (Some(20_034.12), Some(0.52), None, None)
        );
    }
}
