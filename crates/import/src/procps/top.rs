//! top(1), batch or pasted: one screen of it, by processor where that was asked for.

use super::tasks::{self, Columns};
use crate::clock::{self, Moment};
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND, Step};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Cpu, CpuMean, Meminfo, System};
use whyslow_model::key::Machine;

/// The format.
pub const FORMAT: Format = Format {
    name: "top",
    versions: "procps 2 to 4, one screen or several, with or without one line a processor",
    tells: "how busy the processors are and with what; the processes that use most; steal",
    starts,
    read,
};

/// The time a screen stands for, where nothing else is known (top(1), -d).
const DELAY: f64 = 3.0;
/// The modes as top abbreviates them, and their counters.
const MODES: [(&str, &str); 8] = [
    ("us", "user"),
    ("sy", "system"),
    ("ni", "nice"),
    ("id", "idle"),
    ("wa", "iowait"),
    ("hi", "irq"),
    ("si", "softirq"),
    ("st", "steal"),
];

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| is_head(line) || is_processor(line))
}

fn is_head(line: &str) -> bool {
    line.starts_with("top - ") && line.contains("load average:")
}

/// `%Cpu(s): 97.9 us,  2.1 sy, ...`
fn is_processor(line: &str) -> bool {
    let begin = line.trim_start();
    let named = begin.starts_with("Cpu") || begin.starts_with("%Cpu");
    named && begin.split_once(':').is_some_and(|(_, shares)| modes(shares).len() >= 4)
}

/// Lines of processors that were cut from their screens: each that comes again is of the next.
fn cut_out(lines: &mut Lines<'_>, run: &mut Run) -> Result<(), Refusal> {
    let mut step = Step { from: 0.0, to: DELAY };
    let mut seen = BTreeSet::new();
    while let Some((name, line)) = lines
        .peek(0)
        .filter(|line| is_processor(line))
        .and_then(|text| text.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .map(|name| (name, lines.number()))
    {
        if !seen.insert(name.clone()) {
            seen = BTreeSet::from([name]);
            step = Step { from: step.to, to: step.to + DELAY };
        }
        processor(lines, run, step, line)?;
    }
    run.note(
        "the interval",
        format!("not printed: {DELAY} s assumed, on which no rate depends"),
        "paste the whole screens",
    );
    Ok(())
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    if lines.peek(0).is_some_and(is_processor) {
        return cut_out(lines, run);
    }
    let mut screens = 0;
    let mut step = Step { from: 0.0, to: DELAY };
    let mut clock = clock::Clock::default();
    // In batch mode a blank line stands between two screens.
    while let Some(blanks) = lines.peek_past_blanks(0).filter(|(_, text)| is_head(text)).map(|(blanks, _)| blanks) {
        lines.skip(blanks);
        let head = lines.take().map(|l| l.text).unwrap_or_default();
        let fields: Vec<&str> = head.split_whitespace().skip(2).collect();
        if let Some((time, _)) = clock::time_of_day(&fields) {
            let at = clock.read(time);
            if screens == 0 {
                run.start = Moment { date: None, time: Some(time) };
            } else if at > step.to - DELAY {
                step = Step { from: step.to, to: at + DELAY };
            }
        }
        load(run, lines.number() - 1, &head, step.to);
        screen(lines, run, step)?;
        screens += 1;
    }
    if screens == 1 {
        let why = "an average over top's delay, or since boot where it is its first";
        run.note("the only screen", why, "capture several: top -b -d 2 -n 5");
    }
    Ok(())
}

/// `load average: 5,02, 5,45, 5,17`
fn load(run: &mut Run, line: u32, head: &str, at: f64) {
    let Some((_, loads)) = head.split_once("load average:") else { return };
    let loads: Vec<Option<f64>> = loads.split_whitespace().map(|w| number(w.trim_end_matches(','))).collect();
    let load = |nth: usize| loads.get(nth).copied().flatten();
    let system = run.row::<System>(at, line, Machine);
    system.load_1m = load(0).into();
    system.load_5m = load(1).into();
    system.load_15m = load(2).into();
}

fn screen(lines: &mut Lines<'_>, run: &mut Run, step: Step) -> Result<(), Refusal> {
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        let begin = text.trim_start();
        lines.skip(blanks);
        let line = lines.number();
        if begin.starts_with("Tasks:") || begin.starts_with("Threads:") {
            let running = text.split_once(" running").and_then(|(b, _)| number(b.trim().rsplit([' ', ',']).next()?));
            run.row::<System>(step.to, line, Machine).running = running.into();
            lines.skip(1);
        } else if begin.starts_with("Cpu") || begin.starts_with("%Cpu") {
            processor(lines, run, step, line)?;
        } else if ["Mem", "KiB Mem", "MiB Mem", "GiB Mem", "Swap", "KiB Swap", "MiB Swap", "GiB Swap"]
            .iter()
            .any(|w| begin.starts_with(w))
        {
            memory(run, step.to, line, begin);
            lines.skip(1);
        } else if let Some(columns) = Columns::of(&text) {
            lines.skip(1);
            tasks::read(lines, run, step, &columns)?;
            break;
        } else {
            break;
        }
    }
    Ok(())
}

/// ` Cpu0 : 38.7%us,  4.2%sy, ...`, `%Cpu(s):  0,4 us,  0,4 sy, ...`, the latter sometimes wrapped.
fn processor(lines: &mut Lines<'_>, run: &mut Run, step: Step, line: u32) -> Result<(), Refusal> {
    let text = lines.take().map(|l| l.text).unwrap_or_default();
    let Some((name, shares)) = text.split_once(':') else {
        return Err(lines.refuse("a processor, a colon and its shares"));
    };
    let mut shares = shares.to_owned();
    if shares.trim_end().ends_with(',')
        && let Some(rest) = lines.peek(0).filter(|l| l.split_whitespace().count() <= 4)
    {
        shares.push_str(rest);
        lines.skip(1);
    }
    let modes = modes(&shares);
    let sum: f64 = modes.values().sum();
    if modes.len() < 4 || !(90.0..=102.0).contains(&sum) {
        let expected = "shares of a processor's time that add up to 100";
        return Err(Refusal::new(lines.file(), line, expected, &text));
    }
    let rates: Vec<(&'static str, Option<f64>)> =
        modes.iter().map(|(counter, share)| (*counter, Some(share / 100.0 * SECOND))).collect();
    let number = name.trim().trim_start_matches(['%', 'C', 'p', 'u']).trim();
    match number.parse::<u32>() {
        Ok(cpu) => {
            run.grow::<Cpu>(step, line, cpu, &rates);
        }
        Err(_) => {
            run.grow::<CpuMean>(step, line, Machine, &rates);
        }
    }
    Ok(())
}

/// The share of each mode. A last word that was cut off at the screen's edge is the one mode it can still be.
fn modes(shares: &str) -> BTreeMap<&'static str, f64> {
    let mut plain = shares.replace('%', " ");
    // A share of 100 fills its column: `0.0 us,100.0 sy`.
    for (mode, _) in MODES {
        plain = plain.replace(&format!("{mode},"), &format!("{mode} "));
    }
    let words: Vec<&str> = plain.split_whitespace().map(|w| w.trim_end_matches(',')).collect();
    let mut modes = BTreeMap::new();
    for pair in words.chunks(2) {
        let [share, word] = pair else { continue };
        let Some(share) = number(share) else { continue };
        let possible = MODES.iter().filter(|(short, counter)| short.starts_with(word) && !modes.contains_key(counter));
        if let [(_, counter)] = possible.collect::<Vec<_>>()[..] {
            modes.insert(*counter, share);
        }
    }
    modes
}

/// `Mem:   4142992k total, ...`, `MiB Mem :   7941,7 total, ...`: amounts before their words.
fn memory(run: &mut Run, at: f64, line: u32, text: &str) {
    let Some((name, amounts)) = text.split_once(':') else { return };
    let unit = match name.split(' ').next() {
        Some("MiB") => 1_048_576.0,
        Some("GiB") => 1_073_741_824.0,
        _ => 1024.0,
    };
    let words: Vec<&str> = amounts.split_whitespace().map(|w| w.trim_end_matches([',', '.'])).collect();
    let of = |word: &str| {
        let at = words.iter().position(|w| *w == word)?;
        number(words.get(at.checked_sub(1)?)?.trim_end_matches(['k', '+'])).map(|n| n * unit)
    };
    let row = run.row::<Meminfo>(at, line, Machine);
    if name.contains("Swap") {
        row.swap_total = of("total").into();
        row.swap_free = of("free").into();
        // Old screens show the page cache on this line, new ones what can be had.
        if let Some(cached) = of("cached").or(of("cache")) {
            row.cached = cached.into();
        }
        row.mem_available = of("avail").into();
    } else {
        row.mem_total = of("total").into();
        row.mem_free = of("free").into();
        row.buffers = of("buffers").into();
        row.cached = of("buff/cache").into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::Process;

    #[test]
    fn one_line_a_processor_and_a_word_cut_off() {
        let window = window_of(&fixture("cases/037-zvm-steal-old-top/top.txt"));
        let steal: Vec<f64> = window.changes::<Cpu>().iter().map(|c| c.rate(|c| c.steal).unwrap() / SECOND).collect();
        assert_eq!(steal.len(), 6);
        assert!((steal[4] - 0.455).abs() < 0.001);
    }

    #[test]
    fn decimal_commas_and_wrapped_lines() {
        let window = window_of(&fixture("cases/024-sdcard-small-random-writes/top.txt"));
        let mean = window.change::<CpuMean>().unwrap();
        assert!((mean.rate(|c| c.iowait).unwrap() / SECOND - 0.502).abs() < 0.001);
        let processes = window.newest::<Process>();
        assert!(processes.values().any(|p| p.command.get() == Some("lxterminal")), "{:?}", processes.len());
        assert_eq!(window.the::<Meminfo>().unwrap().mem_available.get(), Some(7359.6 * 1_048_576.0));
    }

    #[test]
    fn lines_cut_out_of_screens() {
        let text = "%Cpu(s): 97.0 us,  3.0 sy,  0.0 ni,  0.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n";
        let window = window_of(&format!("{text}{}", text.replace("97.0 us", "87.0 us").replace("0.0 id", "10.0 id")));
        assert!((window.change::<CpuMean>().unwrap().rate(|c| c.user).unwrap() / SECOND - 0.92).abs() < 0.001);
        assert!(refusal_of(&text.replace("97.0", "67.0")).expected.contains("add up"));
    }

    #[test]
    fn screens_of_batch_mode_follow_one_another() {
        let screen = |time: &str, user: &str, idle: &str| {
            format!(
                "top - {time} up 12:02,  0 user,  load average: 1.14, 1.62, 3.05
Tasks:   1 total,   1 running,   0 sleeping,   0 stopped,   0 zombie
%Cpu(s): {user} us,  0.0 sy,  0.0 ni, {idle} id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st

  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
    1 root      20   0   40424  10032   6312 S   0.0   0.0   4:13.87 init
"
            )
        };
        let (first, second) = (screen("22:20:25", " 0.0", "100.0"), screen("22:20:27", "50.0", " 50.0"));
        let window = window_of(&format!("{first}\n{second}"));
        // The first is of three seconds, which is assumed, the second of two.
        assert!((window.change::<CpuMean>().unwrap().rate(|c| c.user).unwrap() / SECOND - 0.2).abs() < 0.001);
    }

    #[test]
    fn a_share_of_a_hundred_touches_the_word_before() {
        let text = "%Cpu(s):  0.0 us,100.0 sy,  0.0 ni,  0.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n";
        let window = window_of(&text.repeat(2));
        assert!((window.change::<CpuMean>().unwrap().rate(|c| c.system).unwrap() / SECOND - 1.0).abs() < 1e-9);
    }

    #[test]
    fn shares_that_are_not_the_whole_are_refused() {
        let text = fixture("cpu-top-threads-hidden.txt").replace("99.1% id", "9.1% id");
        assert!(refusal_of(&text).expected.contains("add up"));
    }
}
