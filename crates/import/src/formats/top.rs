//! top(1), batch mode or pasted: screens, with a line per CPU if that was requested.

use super::task_table::{TaskColumns, TaskKind, read_tasks};
use super::uptime::time_up;
use crate::clock::timed_fields;
use crate::command::CommandLine;
use crate::prelude::*;
use crate::run_options;
use crate::timeline::ReportClock;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Cpu, CpuMean, Meminfo, System};

pub const FORMAT: Format = Format {
    name: "top",
    versions: "procps 2 to 4 in any language, one snapshot or several, with or without a line per CPU, threads by -H; lines on CPUs and memory cut out of snapshots",
    shows: "CPU time by mode, steal, and the processes that use most",
    lacks: "storage; a single snapshot is an average over top's delay",
    programs: &[program("top")],
    files: &["top"],
    columns: &[&MEMORY, &SWAP],
    streamed: true,
    starts: |lines| lines.next_is(|line| is_title(line) || is_cpu_line(line) || is_memory_line(line)),
    read,
};

/// Interval of a screen if nothing else is known (top(1), -d).
const DELAY: f64 = 3.0;
/// Maximum number of lines to search for the next screen.
const MOST_LINES_OF_SCREEN: usize = 2000;
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
const MEMORY: MetricColumns<Meminfo> = columns![
    "total" => mem_total, "free" => mem_free, "buffers" => buffers, "buff/cache" => cached,
];
/// Old screens show the page cache on the line of swap, new ones show available memory there.
const SWAP: MetricColumns<Meminfo> = columns![
    "total" => swap_total, "free" => swap_free, "cached" => cached, "cache" => cached, "avail" => mem_available,
];

/// Returns true for `top - 15:23:05 up  1:28,  1 user,  load average: 0.52, 0.58, 0.59`; in German `Durchschnittslast: 0,52,
/// 0,58, 0,59`.
fn is_title(line: &str) -> bool {
    line.starts_with("top - ") && loads(line).is_some_and(|loads| record_load(&mut System::new(MachineKey), loads) == 3)
}

fn loads(title: &str) -> Option<&str> {
    title.rsplit_once(": ").map(|(_, loads)| loads)
}

/// Returns true for `%Cpu(s): 97.9 us,  2.1 sy, ...`.
fn is_cpu_line(line: &str) -> bool {
    let begin = line.trim_start();
    let named = is_cpu_name(begin);
    named && begin.split_once(':').is_some_and(|(_, shares)| shares_by_mode(shares).len() >= 4)
}

/// Returns true for `Cpu(s)`, `%Cpu0`, and `%CPU(s)` in German.
fn is_cpu_name(text: &str) -> bool {
    ["Cpu", "%Cpu", "%CPU"].iter().any(|name| text.starts_with(name))
}

/// Reads CPU lines without their screens: a repeated CPU belongs to the next screen.
fn cut_out(lines: &mut Lines<'_>, run: &mut ToolRun) -> ReadResult {
    let mut interval = ReportInterval { from: 0.0, to: DELAY };
    let mut seen = BTreeSet::new();
    while lines.next_is(is_cpu_line) {
        let name = lines.peek(0).and_then(|text| text.split_once(':')).map_or("", |(name, _)| name.trim()).to_owned();
        if !seen.insert(name.clone()) {
            seen = BTreeSet::from([name]);
            interval = ReportInterval { from: interval.to, to: interval.to + DELAY };
        }
        cpu(lines, run, interval)?;
    }
    run.has_assumed_times = true;
    Ok(())
}

/// Returns true for `KiB Mem :  8010000 total,   100000 free, ...`, a form that only top prints.
fn is_memory_line(line: &str) -> bool {
    let begins = ["KiB Mem", "MiB Mem", "GiB Mem"].iter().any(|name| line.trim_start().starts_with(name));
    begins && line.contains(" total,") && line.contains(" free") && memory(0, line.trim_start(), false).is_some()
}

/// Reads the lines on memory without their screen.
fn memory_alone(lines: &mut Lines<'_>, run: &mut ToolRun) {
    const SWAPS: [&str; 3] = ["KiB Swap", "MiB Swap", "GiB Swap"];
    if let Some(line) = lines.take()
        && let Some(row) = memory(line.number, line.text.trim_start(), false)
    {
        run.counts(0.0, MachineKey, &row, &MEMORY);
    }
    if let Some(line) = lines.take_if(|text| SWAPS.iter().any(|name| text.trim_start().starts_with(name)))
        && let Some(row) = memory(line.number, line.text.trim_start(), true)
    {
        run.counts(0.0, MachineKey, &row, &SWAP);
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if lines.next_is(is_memory_line) {
        memory_alone(lines, run);
        return Ok(());
    }
    if lines.next_is(is_cpu_line) {
        return cut_out(lines, run);
    }
    let mut screens = 0;
    // The first of several screens that top prints by itself covers the time since boot, and only marks the start of the next.
    let is_batch = context.command_of("top").is_some_and(|command| {
        let count = run_options::value(command, 'n', "iterations").or_else(|| bundled_count(command)).and_then(number);
        command.has('b') && !command.cuts_beginning() && count.is_none_or(|count| count > 1.0)
    });
    let covered = if is_batch && follows_another(lines) { 0.0 } else { DELAY };
    let mut interval = ReportInterval { from: 0.0, to: covered };
    let mut clock = ReportClock::default();
    let delay = context.command_of("top").and_then(|command| number(run_options::value(command, 'd', "delay")?));
    while let Some(title) = lines.take_past_blanks_if(is_title) {
        if let Some((time, _)) = timed_fields(title.text.trim_start_matches("top - ")) {
            let now = context.at_time_of_day(time);
            let at = run.note_clock_after(covered, clock.read(now, delay), title.number);
            // Times are printed in whole seconds.
            let step = delay.filter(|delay| *delay < 1.0).unwrap_or(0.0);
            let at = if at > interval.to { at } else { interval.to + step };
            if screens == 0 {
                run.start = now;
            } else if at > interval.to {
                interval = ReportInterval { from: interval.to, to: at };
            }
        }
        if let Some(loads) = loads(&title.text) {
            let system = run.row::<System>(interval.to, title.number, MachineKey);
            record_load(system, loads);
            system.uptime = time_up(&title.text);
        }
        screen(lines, run, interval)?;
        screens += 1;
    }
    // If a single screen was cut out of several, it is a later one.
    let is_later = context.command_of("top").is_some_and(|command| {
        !command.is_plain() && run_options::value(command, 'n', "iterations").and_then(number) > Some(1.0)
    });
    if screens == 1 && !is_later {
        let why = "top's only snapshot is an average over its delay, or since boot if it is the first";
        run.note("current CPU use", why, "capture several: top -b -d 2 -n 5");
    }
    Ok(())
}

/// Returns the count in `-bn2` or `-b -n2`.
fn bundled_count(command: &CommandLine) -> Option<&str> {
    command.arguments().find_map(|word| word.strip_prefix("-b")?.strip_prefix('n')).filter(|count| !count.is_empty())
}

/// Returns true if another screen follows the one that begins at the next line.
fn follows_another(lines: &mut Lines<'_>) -> bool {
    (1..MOST_LINES_OF_SCREEN).map_while(|at| lines.peek(at).map(is_title)).any(|is_title| is_title)
}

/// Records load averages and returns their number: `5,02, 5,45, 5,17`.
pub fn record_load(system: &mut System, loads: &str) -> usize {
    let loads: Vec<Option<f64>> = loads.split_whitespace().map(|w| number(w.trim_end_matches(','))).collect();
    let load = |nth: usize| loads.get(nth).copied().flatten();
    system.load_1m = load(0).into();
    system.load_5m = load(1).into();
    system.load_15m = load(2).into();
    loads.iter().flatten().count()
}

fn screen(lines: &mut Lines<'_>, run: &mut ToolRun, interval: ReportInterval) -> ReadResult {
    let mut seen_memory = false;
    let mut kind = TaskKind::Unknown;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.trim_start().to_owned();
        lines.skip(blanks);
        let line = lines.number();
        if is_cpu_name(&text) && !text.starts_with("%CPU ") {
            let shares = cpu(lines, run, interval);
            if lines.keep(shares)?.is_none() && lines.number() == line {
                lines.skip(1);
            }
            continue;
        }
        // The first one is printed with -H.
        for (name, named) in [("Threads:", TaskKind::Threads), ("Tasks:", TaskKind::Processes)] {
            kind = if text.starts_with(name) { named } else { kind };
        }
        if let Some(running) = running(&text) {
            run.row::<System>(interval.to, line, MachineKey).running = running.into();
        } else if let Some(row) = memory(line, &text, seen_memory) {
            // In other languages, the second line is that of swap.
            let is_swap = seen_memory || text.split(':').next().is_some_and(|name| name.contains("Swap"));
            run.counts(interval.to, MachineKey, &row, if is_swap { &SWAP } else { &MEMORY });
            seen_memory = true;
        } else if let Some(columns) = TaskColumns::parse(&text).or_else(|| wrapped_columns(lines)) {
            lines.skip(1);
            return read_tasks(lines, run, interval, &columns, kind);
        } else if another_output_starts(lines, FORMAT.name) || !is_table_near(lines) {
            break;
        }
        lines.skip(1);
    }
    Ok(())
}

/// Returns true if the table of tasks follows: the lines above it may have been broken into several.
fn is_table_near(lines: &mut Lines<'_>) -> bool {
    /// Maximum number of lines above the table.
    const MOST: usize = 6;
    let is_header = |text: &str| TaskColumns::parse(text).is_some() || begins_header(text);
    (1..=MOST).any(|at| lines.peek(at).is_some_and(is_header))
}

/// Returns true for `  PID USER      PR  NI`, which may continue on the next line.
fn begins_header(text: &str) -> bool {
    text.split_whitespace().take(3).eq(["PID", "USER", "PR"])
}

/// Joins a table whose header a mail program broke, and returns its columns.
fn wrapped_columns(lines: &mut Lines<'_>) -> Option<TaskColumns> {
    let is_begun = lines.next_is(begins_header);
    let joined = |lines: &mut Lines<'_>| lines.peek(0).and_then(TaskColumns::parse);
    let columns = is_begun.then(|| lines.look_at_joined(joined)).flatten()?;
    lines.join_wrapped_table();
    Some(columns)
}

/// Returns the number of running tasks: `Tasks: 227 total,   1 running, 226 sleeping,   0 stopped,   0 zombie`, in any
/// language.
fn running(line: &str) -> Option<f64> {
    let (name, counts) = line.split_once(':')?;
    let counts: Vec<&str> = counts.split(',').collect();
    let count = |text: &str| number(text.split_whitespace().next()?);
    let all_counts = counts.iter().all(|text| text.split_whitespace().count() > 1 && count(text).is_some());
    (!name.trim().contains(' ') && counts.len() == 5 && all_counts).then(|| count(counts[1]))?
}

/// Reads ` Cpu0 : 38.7%us,  4.2%sy, ...` or `%Cpu(s):  0,4 us,  0,4 sy, ...`, the latter sometimes wrapped.
fn cpu(lines: &mut Lines<'_>, run: &mut ToolRun, interval: ReportInterval) -> ReadResult {
    let Some(line) = lines.take_if(|text| text.contains(':')) else {
        return Err(lines.refuse("a CPU, a colon and its shares"));
    };
    let (name, shares) = line.text.split_once(':').unwrap_or_default();
    let mut shares = shares.to_owned();
    if shares.trim_end().ends_with(',')
        && let Some(rest) = lines.take_if(|next| next.split_whitespace().count() <= 4)
    {
        shares.push_str(&rest.text);
    }
    let shares = shares_by_mode(&shares);
    if shares.len() < 4 || !(90.0..=102.0).contains(&shares.values().sum()) {
        return Err(lines.refuse_at(&line, "CPU shares that add up to 100"));
    }
    let rates: Vec<_> = shares.into_iter().map(|(mode, share)| (mode, Some(share / 100.0 * SECOND))).collect();
    match name.trim().trim_start_matches(['%', 'C', 'p', 'u']).trim().parse::<u32>() {
        Ok(cpu) => {
            run.grow::<Cpu>(interval, line.number, cpu, &rates);
        }
        Err(_) => {
            run.grow::<CpuMean>(interval, line.number, MachineKey, &rates);
        }
    }
    Ok(())
}

/// Returns the share of each mode. A last word cut off at the screen's edge is the one mode it can still be. If all eight are
/// there, a word of another language is identified by its position.
fn shares_by_mode(shares: &str) -> BTreeMap<&'static str, f64> {
    let mut plain = shares.replace('%', " ");
    // A share of 100 fills its column: `0.0 us,100.0 sy`.
    for (mode, _) in MODES {
        plain = plain.replace(&format!("{mode},"), &format!("{mode} "));
    }
    let words: Vec<&str> = plain.split_whitespace().map(|w| w.trim_end_matches(',')).collect();
    let mut found = BTreeMap::new();
    let pairs: Vec<&[&str]> = words.chunks(2).collect();
    for (nth, pair) in pairs.iter().enumerate() {
        let [share, word] = pair else { continue };
        let Some(share) = number(share) else { continue };
        let possible = MODES.iter().filter(|(short, counter)| short.starts_with(word) && !found.contains_key(counter));
        match possible.collect::<Vec<_>>()[..] {
            [(_, counter)] => drop(found.insert(*counter, share)),
            [] if pairs.len() == MODES.len() => drop(found.insert(MODES[nth].1, share)),
            _ => {}
        }
    }
    found
}

/// Parses `Mem:   4142992k total, ...` or `MiB Mem :   7941,7 total, ...`: amounts before their names. In other languages the
/// unit is the same, and names are identified by their positions.
fn memory(line: u32, text: &str, is_swap: bool) -> Option<TableRow> {
    const MEMORY_ORDER: [&str; 4] = ["total", "free", "used", "buff/cache"];
    const SWAP_ORDER: [&str; 4] = ["total", "free", "used", "avail"];
    let (name, amounts) = text.split_once(':')?;
    let (unit, kind) = name.trim().split_once(' ').unwrap_or(("KiB", name.trim()));
    let is_english = ["Mem", "Swap"].contains(&kind);
    // Without a unit before the name, each amount has its own unit.
    let has_units =
        || amounts.split_whitespace().any(|word| word.ends_with('k') && number(word.trim_end_matches('k')).is_some());
    if kind == name.trim() && (!is_english || !has_units()) {
        return None;
    }
    let unit = match unit {
        "KiB" => KIB,
        "MiB" => MIB,
        "GiB" => GIB,
        _ => return None,
    };
    let words: Vec<&str> = amounts.split_whitespace().map(|w| w.trim_end_matches([',', '.'])).collect();
    let pairs = words
        .windows(2)
        .filter_map(|pair| Some((pair[1].to_owned(), number(pair[0].trim_end_matches(['k', '+']))? * unit)));
    if kind == name.trim() || (is_english && amounts.contains("free")) {
        return Some(TableRow::new(line, "", pairs));
    }
    let order = if is_swap { SWAP_ORDER } else { MEMORY_ORDER };
    let amounts = pairs.map(|(_, amount)| amount);
    Some(TableRow::new(line, "", order.into_iter().map(str::to_owned).zip(amounts)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::Process;

    /// Returns the idle time of each step, in percent, and the seconds of the step.
    fn idle(command: &str, screens: &[(&str, f64)]) -> Vec<(f64, f64)> {
        let screen = |(time, idle): &(&str, f64)| {
            format!(
                "top - {time} up 10 days,  1 user,  load average: 0.10, 0.10, 0.10\n\
                 Tasks: 100 total,   1 running,  99 sleeping,   0 stopped,   0 zombie\n\
                 %Cpu(s): {:.1} us,  0.0 sy,  0.0 ni, {idle:.1} id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n\n",
                100.0 - idle
            )
        };
        let window = window_of(&format!("{command}{}", screens.iter().map(screen).collect::<String>()));
        let change = window.change::<CpuMean>().unwrap();
        change.steps(|cpu| cpu.idle).map(|(seconds, grown)| (seconds, grown.unwrap() / seconds / 1e7)).collect()
    }

    #[test]
    fn the_first_screen_that_top_prints_by_itself_covers_the_time_since_boot() {
        let screens = [("10:00:00", 90.0), ("10:00:05", 10.0), ("10:00:10", 20.0)];
        assert_eq!(idle("$ top -b -d 5 -n 3\n", &screens), [(5.0, 10.0), (5.0, 20.0)]);
        assert_eq!(idle("$ top -bn3 | head -60\n", &screens), [(5.0, 10.0), (5.0, 20.0)]);
        assert_eq!(idle("", &screens), [(3.0, 90.0), (5.0, 10.0), (5.0, 20.0)], "pasted from a terminal");
    }

    #[test]
    fn a_clock_that_is_set_back_loses_no_screen() {
        let screens = [("01:59:55", 90.0), ("01:59:58", 10.0), ("01:00:01", 20.0), ("01:00:04", 30.0)];
        assert_eq!(idle("", &screens), [(3.0, 90.0), (3.0, 10.0), (3.0, 20.0), (3.0, 30.0)]);
        let fast = [("10:00:00", 90.0), ("10:00:00", 10.0), ("10:00:01", 20.0)];
        assert_eq!(idle("$ top -b -d 0.5\n", &fast), [(0.5, 10.0), (0.5, 20.0)]);
    }

    /// German, and French with words for the modes too.
    #[test]
    fn other_languages_are_read_by_place() {
        let german = "top - 15:23:05 an  1:28,  1 Benutzer,  Durchschnittslast: 8,52, 7,58, 4,59\n\
            Tasks: 227 gesamt,   9 laufend, 218 schlafend,   0 gestoppt,   0 Zombie\n\
            %CPU(s): 97,3 us,  2,4 sy,  0,0 ni,  0,1 id,  0,1 wa,  0,0 hi,  0,1 si,  0,0 st \n\
            MiB Spch:   7849,3 gesamt,   2563,5 frei,   2405,6 belegt,   2880,2 Puff/Cache   \n\
            MiB Swap:   2048,0 gesamt,   2040,0 frei,      8,0 belegt.   4926,9 verfü Spch \n\n    \
            PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM    ZEIT+ BEFEHL\n   \
            4711 root      20   0    2,3g   1,1g   1536 R 198,7   0,0   0:42,11 ffmpeg\n";
        let french = "top - 15:23:05 up  1:28,  1 utilisateur,  charge moyenne : 8,52, 7,58, 4,59\n\
            Tâches: 227 total,   9 en cours, 218 en veille,   0 arrêté,   0 zombie\n\
            %Cpu(s): 97,3 ut,  2,4 sy,  0,0 ni,  0,1 id,  0,1 wa,  0,0 hi,  0,1 si,  0,0 st \n\
            MiB Mem :   7849,3 total,   2563,5 libr,   2405,6 util,   2880,2 tamp/cache   \n\
            MiB Éch :   2048,0 total,   2040,0 libr,      8,0 util.   4926,9 dispo Mem \n\n    \
            PID UTIL.     PR  NI    VIRT    RES    SHR S  %CPU  %MEM    TEMPS+ COM.\n   \
            4711 root      20   0    2,3g   1,1g   1536 R 198,7   0,0   0:42.11 ffmpeg\n";
        for text in [german, french] {
            let window = window_of(text);
            let system = window.the::<System>().unwrap();
            assert_eq!((system.load_1m.get(), system.running.get()), (Some(8.52), Some(9.0)), "{text}");
            let memory = window.the::<Meminfo>().unwrap();
            let found = (memory.mem_total.get(), memory.mem_free.get(), memory.cached.get());
            assert_eq!(found, (Some(7849.3 * MIB), Some(2563.5 * MIB), Some(2880.2 * MIB)), "{text}");
            let swap = (memory.swap_total.get(), memory.swap_free.get(), memory.mem_available.get());
            assert_eq!(swap, (Some(2048.0 * MIB), Some(2040.0 * MIB), Some(4926.9 * MIB)), "{text}");
            let user = window.change::<CpuMean>().unwrap().rate(|c| c.user).unwrap();
            assert!((user / SECOND - 0.973).abs() < 1e-6, "{text}: {user}");
            let processes = window.newest::<Process>();
            let (_, process) = processes.first_key_value().unwrap();
            assert_eq!((process.command.get(), process.rss.get()), (Some("ffmpeg"), Some(1.1 * GIB)), "{text}");
        }
    }

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
        // The first interval is assumed to be three seconds; the second is two.
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

    /// procps 4.0 shows the use of the whole process for its first thread.
    #[test]
    fn a_first_thread_that_may_be_the_whole_process_is_left_out() {
        let window = window_of(&fixture("layouts/top-H.txt"));
        let tasks = window.changes::<Process>();
        let busy: Vec<Option<f64>> = tasks.iter().map(|t| t.rate(|t| t.cpu_time).map(|ns| ns / 1e9)).collect();
        assert_eq!(busy, [None, Some(0.999), Some(0.0)]);
    }

    /// A thread whose name has two words, and first threads that fill a CPU by themselves or, in procps 4.0, together with the
    /// others.
    #[test]
    fn a_first_thread_that_fills_a_cpu_is_that_thread() {
        let screen = |first: &str, second: &str, third: &str| {
            format!(
                "top - 09:10:28 up 15:53,  0 user,  load average: 1.19, 1.91, 0.81
Threads:   3 total,   1 running,   2 sleeping,   0 stopped,   0 zombie
%Cpu(s): 20.0 us,  5.0 sy,  0.0 ni, 75.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st

  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
 4711 qemu      20   0 9123456 8388608  14212 R  {first}  26.6 120:11.00 qemu-kvm
 4720 qemu      20   0 9123456 8388608  14212 S  {second}  26.6  20:44.00 CPU 0/KVM
 4721 qemu      20   0 9123456 8388608  14212 S  {third}  26.6   0:12.00 vnc_worker
"
            )
        };
        let shares = |text: &str| {
            let window = window_of(text);
            let tasks = window.changes::<Process>();
            assert_eq!(tasks[1].last().command.get(), Some("CPU 0/KVM"));
            tasks.iter().map(|t| t.rate(|t| t.cpu_time).map(|ns| (ns / 1e7).round())).collect::<Vec<_>>()
        };
        assert_eq!(shares(&screen("98.7", "12.0", " 0.0")), [Some(99.0), Some(12.0), Some(0.0)]);
        assert_eq!(shares(&screen("110.7", "12.0", " 0.0")), [Some(99.0), Some(12.0), Some(0.0)]);
        // More threads may be unlisted; the sum may be just one CPU.
        assert_eq!(shares(&screen("150.7", "52.0", "41.0"))[0], None);
        assert_eq!(shares(&screen("99.7", "52.0", "41.0"))[0], None);
    }

    #[test]
    fn threads_have_no_memory_of_their_own() {
        let text = "top - 14:42:28 up 15:53,  0 user,  load average: 2.19, 4.91, 7.81
Threads: 141 total,   3 running, 137 sleeping,   0 stopped,   1 zombie
%Cpu(s): 50.0 us,  0.0 sy,  0.0 ni, 50.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st

  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
   59 root      20   0   46408  14924   6372 R  99.9   0.1   0:00.57 vsock-con+
   60 root      20   0   46408  14924   6372 S   0.0   0.1   0:00.90 spawner
";
        let window = window_of(text);
        let tasks = window.newest::<Process>();
        assert!(tasks.values().all(|t| t.rss.get().is_none() && t.threads.get() == Some(1.0)));
        let tasks = window_of(&text.replace("Threads:", "Tasks:  "));
        assert!(tasks.newest::<Process>().values().all(|t| t.rss.get() == Some(14924.0 * KIB)));
    }
}
