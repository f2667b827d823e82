//! perf stat(1) as text: counts of one run, of a process that was watched, or of the whole machine.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND, Step};
use whyslow_model::catalogue::{Process, System, Vmstat};
use whyslow_model::key::{Machine, TaskKey};

/// The format.
pub const FORMAT: Format = Format {
    name: "perf stat",
    versions: "perf 3 to 6, text; -a, -p",
    tells: "with -a context switches and faults of the machine, with -p those of a process; of one command nothing about the machine",
    starts: |lines| lines.peek(0).is_some_and(|line| of_what(line).is_some()),
    read,
};

/// Whom the counts are of.
#[derive(Debug, PartialEq)]
enum Of {
    Machine,
    Process(u32),
    /// A command, of which no process number is told, or some processors of the machine.
    Other,
}

/// ` Performance counter stats for 'system wide':`
fn of_what(line: &str) -> Option<Of> {
    let rest = line.trim_start().strip_prefix("Performance counter stats for ")?;
    if rest.starts_with("'system wide'") {
        return Some(Of::Machine);
    }
    let process = rest.strip_prefix("process id '").and_then(|p| p.split('\'').next()).and_then(|p| p.parse().ok());
    Some(process.map_or(Of::Other, Of::Process))
}

/// The events that are taken.
#[derive(Default)]
struct Counts {
    switches: Option<f64>,
    migrations: Option<f64>,
    faults: Option<f64>,
    major_faults: Option<f64>,
    /// Seconds of processor time.
    clock: Option<f64>,
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let Some(of) = lines.peek(0).and_then(of_what) else { return Ok(()) };
    let begin = lines.number();
    lines.skip(1);
    let mut counts = Counts::default();
    let mut elapsed = None;
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        if !text.starts_with(' ') || of_what(&text).is_some() {
            break;
        }
        lines.skip(blanks);
        if crate::number::ran_together(text.split_whitespace().next().unwrap_or_default()) {
            return Err(lines.refuse("a count and the name of an event"));
        }
        let told = text.split('#').next().unwrap_or_default();
        if let Some(seconds) = told.trim().strip_suffix("seconds time elapsed").or(elapsed_of_many(told)) {
            elapsed = decimal(seconds.trim());
            if elapsed.is_none() {
                return Err(lines.refuse("a number of seconds"));
            }
        } else if !told.trim_start().starts_with('<') {
            event(lines, told, &mut counts)?;
        }
        lines.skip(1);
    }
    tell(run, begin, &of, &counts, elapsed);
    Ok(())
}

/// With -r the time is a mean: `1.0035 +- 0.0002 seconds time elapsed`.
fn elapsed_of_many(text: &str) -> Option<&str> {
    let (mean, rest) = text.trim().split_once(" +- ")?;
    rest.contains("seconds time elapsed").then_some(mean)
}

/// `  1,234      context-switches`, `  0.52 msec task-clock`.
fn event(lines: &mut Lines<'_>, text: &str, counts: &mut Counts) -> Result<(), Refusal> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (value, unit, name) = match words[..] {
        [value, "msec", name, ..] => (value, "msec", name),
        [value, name, ..] => (value, "", name),
        _ => return Ok(()),
    };
    let name = name.split(':').next().unwrap_or(name);
    let slot = match name {
        "context-switches" | "cs" => &mut counts.switches,
        "cpu-migrations" | "CPU-migrations" | "migrations" => &mut counts.migrations,
        "page-faults" | "faults" => &mut counts.faults,
        "major-faults" => &mut counts.major_faults,
        // Before perf 4 the unit was not printed.
        "task-clock" | "cpu-clock" => {
            let clock = decimal(value).map(|ms| ms / 1e3);
            counts.clock = Some(clock.ok_or_else(|| lines.refuse("milliseconds with two or more decimals"))?);
            return Ok(());
        }
        _ => return Ok(()),
    };
    let count = whole(value).filter(|_| unit.is_empty());
    *slot = Some(count.ok_or_else(|| lines.refuse("a whole number and the name of an event"))?);
    Ok(())
}

/// A whole number, its thousands set apart as the locale has it.
fn whole(text: &str) -> Option<f64> {
    let mut groups = text.split([',', '.', '\'', '\u{a0}', '\u{202f}']);
    let first = groups.next().filter(|g| !g.is_empty() && g.len() <= 18)?;
    let rest: Vec<&str> = groups.collect();
    let digits = |group: &str| group.bytes().all(|b| b.is_ascii_digit());
    let fits = digits(first) && rest.iter().all(|g| g.len() == 3 && digits(g)) && (rest.is_empty() || first.len() <= 3);
    fits.then(|| [&[first], rest.as_slice()].concat().concat().parse().ok())?
}

/// A number with decimals: what is behind the last mark is decimals, as perf prints two of them or more than three.
fn decimal(text: &str) -> Option<f64> {
    let at = text.rfind([',', '.'])?;
    let (before, after) = (&text[..at], &text[at + 1..]);
    let decimals = after.len() != 3 && !after.is_empty() && after.bytes().all(|b| b.is_ascii_digit());
    format!("{}.{after}", whole(before)?).parse().ok().filter(|_| decimals)
}

fn tell(run: &mut Run, line: u32, of: &Of, counts: &Counts, elapsed: Option<f64>) {
    let Some(seconds) = elapsed.filter(|s| *s > 0.0) else {
        run.note("perf stat", "the time it took is not told, so that no rate can be had", "paste it to its end");
        return;
    };
    let step = Step { from: 0.0, to: seconds };
    let rate = |count: Option<f64>| count.map(|count| count / seconds);
    match of {
        Of::Machine => {
            run.grow::<System>(step, line, Machine, &[("context_switches", rate(counts.switches))]);
            let faults = [("pgfault", rate(counts.faults)), ("pgmajfault", rate(counts.major_faults))];
            run.grow::<Vmstat>(step, line, Machine, &faults);
        }
        Of::Process(pid) => {
            let task = TaskKey { pid: *pid, tid: *pid, start: 0 };
            let rates = [
                ("cpu_time", rate(counts.clock).map(|cpus| cpus * SECOND)),
                ("migrations", rate(counts.migrations)),
                ("major_faults", rate(counts.major_faults)),
            ];
            run.grow::<Process>(step, line, task, &rates);
        }
        Of::Other => run.note(
            "perf stat of a command",
            "it tells what one command did, not why the machine is slow",
            "run it over the machine: perf stat -a sleep 10",
        ),
    }
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
    fn rates_of_the_machine() {
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
    fn numbers_of_several_locales() {
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
