//! time(1) and the `time` of shells: run time of a command, and the part of it that used a CPU.

use crate::prelude::*;
use whyslow_model::catalogue::Transfer;

pub const FORMAT: Format = Format {
    name: "time",
    versions: "bash, dash, ksh, zsh, POSIX (-p), GNU time without -v",
    shows: "how long a command ran, and whether it used a CPU meanwhile or waited",
    lacks: "what it waited for",
    starts: |lines| measured(lines).is_some(),
    read,
    ..Format::NEW
};

/// Times of one command, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    elapsed: f64,
    cpu: f64,
}

/// Returns the times on the next lines, and the number of lines.
fn measured(lines: &mut Lines<'_>) -> Option<(Measured, usize)> {
    let first = lines.peek(0)?;
    if let Some(measured) = of_gnu(first).or_else(|| of_zsh(first)) {
        return Some((measured, 1));
    }
    let mut seconds = [labelled(first, "real")?, f64::NAN, f64::NAN];
    for (at, label) in [(1, "user"), (2, "sys")] {
        seconds[at] = labelled(lines.peek(at)?, label)?;
    }
    let [elapsed, user, system] = seconds;
    Some((Measured { elapsed, cpu: user + system }, 3))
}

/// Parses `real    0m6.770s`, `real 6.77`.
fn labelled(text: &str, label: &str) -> Option<f64> {
    let rest = text.trim().strip_prefix(label)?;
    let value = rest.starts_with([' ', '\t']).then(|| rest.trim())?;
    match value.split_once('m') {
        Some((minutes, seconds)) => Some(number(minutes)? * 60.0 + number(seconds.strip_suffix('s')?)?),
        None => number(value),
    }
}

/// Parses `0.04user 1.25system 1:02.30elapsed 99%CPU (0avgtext+0avgdata 1832maxresident)k`.
fn of_gnu(text: &str) -> Option<Measured> {
    let mut words = text.split_whitespace();
    let user = number(words.next()?.strip_suffix("user")?)?;
    let system = number(words.next()?.strip_suffix("system")?)?;
    let elapsed = words.next()?.strip_suffix("elapsed")?;
    let parts = elapsed.split(':').map(number).collect::<Option<Vec<f64>>>()?;
    let elapsed = parts.into_iter().fold(0.0, |sum, part| sum * 60.0 + part);
    Some(Measured { elapsed, cpu: user + system })
}

/// Parses `./test 1  0.04s user 1.25s system 99% cpu 1:02.30 total`.
fn of_zsh(text: &str) -> Option<Measured> {
    // Checked first, since every line is tested.
    if !text.ends_with(" total") {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let [.., user, "user", system, "system", share, "cpu", total, "total"] = words[..] else { return None };
    share.strip_suffix('%')?;
    let seconds = |text: &str| number(text.strip_suffix('s')?);
    let parts = total.split(':').map(number).collect::<Option<Vec<f64>>>()?;
    let elapsed = parts.into_iter().fold(0.0, |sum, part| sum * 60.0 + part);
    Some(Measured { elapsed, cpu: seconds(user)? + seconds(system)? })
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let line = lines.number();
    let Some((Measured { elapsed, cpu }, count)) = measured(lines) else { return Ok(()) };
    lines.skip(count);
    // Second line of GNU time.
    lines.take_if(|text| text.ends_with("swaps"));
    let program = context.command().map(|command| command.program()).filter(|name| !name.is_empty());
    let row = run.row::<Transfer>(0.0, line, format!("{}, line {line}", program.unwrap_or("a command")).into());
    row.tool = "time".into();
    row.what = program.unwrap_or("a command").into();
    row.time = (elapsed * SECOND).into();
    if elapsed > 0.0 {
        row.cpu_share = (cpu / elapsed).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn the_times_of_every_shell() {
        for text in [
            "$ time ./fill 1\n\nreal\t0m4.000s\nuser\t0m0.500s\nsys\t0m0.500s\n",
            "$ time ./fill 1\nreal 4.00\nuser 0.50\nsys 0.50\n",
            "$ /usr/bin/time ./fill 1\n0.50user 0.50system 0:04.00elapsed 25%CPU (0avgtext+0avgdata 1832maxresident)k\n",
            "$ time ./fill 1\n./fill 1  0.50s user 0.50s system 25% cpu 4.000 total\n",
        ] {
            let row = window_of(text).the::<Transfer>().unwrap().clone();
            let expected = (Some("time"), Some(4.0 * SECOND), Some(0.25));
            assert_eq!((row.tool.get(), row.time.get(), row.cpu_share.get()), expected, "{text}");
        }
        let hours = of_gnu("1.00user 1.00system 1:00:10elapsed 0%CPU (0avgtext+0avgdata 0maxresident)k");
        assert_eq!(hours, Some(Measured { elapsed: 3610.0, cpu: 2.0 }));
    }

    #[test]
    fn each_command_has_its_own() {
        let window = window_of(&fixture("time-bash.txt"));
        let rows = window.newest::<Transfer>();
        let shares: Vec<_> = rows.values().map(|row| (row.what.get(), row.cpu_share.get().map(|s| s > 0.5))).collect();
        assert_eq!(shares, [(Some("python3"), Some(true)), (Some("sleep"), Some(false))]);
    }
}
