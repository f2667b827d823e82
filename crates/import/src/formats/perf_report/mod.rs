//! perf-report(1) and perf-top(1) as text: share of CPU time of each program and function.

mod call_graph;
mod shares;

use crate::prelude::*;
use call_graph::ChainLine;
use shares::ProgramShares;
use whyslow_model::catalogue::Profile;

pub const FORMAT: Format = Format {
    name: "perf report",
    versions: "perf 3 to 6, text: --stdio, the screen or its dump, with or without call graphs, children, headers; perf top",
    shows: "where CPU time goes: the kernel's share of each program, locks it spins for and the function that takes them, reclaim and compaction of memory",
    lacks: "how much CPU time that is; events other than CPU time; a list that is cut gives lower bounds",
    programs: &[word("perf")],
    files: &["perf_report", "perf-report", "perf_top", "perf-top", "perf.hist"],
    starts: |lines| {
        lines.next_is(|line| {
            event(line).is_some()
                || is_broken_header(line)
                || begins_header(line)
                || TableColumns::parse(line).is_some()
                || SampleRow::without_header(line).is_some()
        }) || broken_before_symbol(lines).is_some_and(|row| SampleRow::without_header(&row).is_some())
    },
    read,
    ..Format::NEW
};

/// Comment at the beginning of perf report.
const NO_HEADER: &str = "To display the perf.data header info";
/// First words of the header that perf report prints with --header, and of its line with the command.
const HEADER: [&str; 2] = ["captured on ", COMMAND_LINE];
const COMMAND_LINE: &str = "cmdline :";
/// Name of all programs together, if the profile does not separate them.
const ALL_PROGRAMS: &str = "all programs";
/// Maximum number of rows of a profile.
const MOST_ROWS: usize = 50_000;

/// Returns a line without the sign that perf puts before headers.
fn uncommented(line: &str) -> &str {
    line.trim_start().trim_start_matches('#').trim_start()
}

fn begins_header(line: &str) -> bool {
    let text = uncommented(line);
    text.starts_with(NO_HEADER) || line.starts_with('#') && HEADER.iter().any(|begin| text.starts_with(begin))
}

/// Columns of a table: one or two percentages, numbers, then words.
#[derive(Clone, Debug, PartialEq)]
struct TableColumns {
    children: bool,
    /// Number of numbers after the first percentage, or after the second if there are children.
    numbers: usize,
    command: bool,
    object: bool,
    symbol: bool,
}

impl TableColumns {
    /// Columns of a table without a header, which has all of them.
    const UNKNOWN: Self = Self { children: false, numbers: 0, command: true, object: true, symbol: true };

    /// Parses `Overhead  Command  Shared Object  Symbol` or `Children  Self  Samples  Pid:Command  Symbol`.
    fn parse(line: &str) -> Option<Self> {
        let text = uncommented(line);
        let (children, rest) = if let Some(rest) = text.strip_prefix("Children") {
            (true, rest.trim_start().strip_prefix("Self")?)
        } else {
            (false, text.strip_prefix("Overhead")?)
        };
        let mut columns = Self { children, numbers: 0, command: false, object: false, symbol: false };
        let mut rest = rest.trim_start();
        while let Some(at) = ["Samples", "Period", "sys", "usr"].iter().find(|name| rest.starts_with(**name)) {
            columns.numbers += 1;
            rest = rest[at.len()..].trim_start();
        }
        let mut take = |names: &[&str]| {
            let after = names.iter().find_map(|name| rest.strip_prefix(name));
            rest = after.map_or(rest, str::trim_start);
            after.is_some()
        };
        columns.command = take(&["Pid:Command", "Command"]);
        columns.object = take(&["Shared Object", "Shared O"]);
        columns.symbol = take(&["Symbol"]);
        // Other columns, or another order, are not supported; a header that was cut off at the symbol is.
        let ends = rest.is_empty() || (columns.symbol && rest.starts_with("IPC"));
        (ends && (columns.command || columns.object || columns.symbol)).then_some(columns)
    }
}

/// Samples in one function of one program, as shares of all samples.
#[derive(Clone, Debug, PartialEq)]
struct SampleRow {
    line: u32,
    /// Share including the functions that it called.
    with_children: Option<f64>,
    own: f64,
    command: Option<String>,
    symbol: Option<String>,
    kernel: bool,
    chain: Vec<ChainLine>,
    /// Whether its call graph lost its shape, so that the callers are unknown.
    is_graph_lost: bool,
}

impl SampleRow {
    /// Parses `+   97.98%     0.01%  fio      fio     [.] fio_libaio_commit`. Returns `None` for any other line.
    fn parse(line: &str, columns: &TableColumns) -> Option<Self> {
        let text = line.trim_start();
        let text = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start();
        let (first, mut rest) = percent(text)?;
        let mut second = None;
        if columns.children {
            let (own, after) = percent(rest.trim_start())?;
            (second, rest) = (Some(own), after);
        }
        for _ in 0..columns.numbers {
            let (number, after) = rest.trim_start().split_once(' ')?;
            number.bytes().all(|b| b.is_ascii_digit() || b == b'%' || b == b'.').then_some(())?;
            rest = after;
        }
        let (words, symbol, in_kernel) = match marked(rest) {
            Some((before, mark, symbol)) => (before, Some(symbol), mark == 'k'),
            None if columns.symbol => return None,
            None => (rest, None, false),
        };
        // Two rows are on one line.
        if words.contains('%') {
            return None;
        }
        let (command, object) = program_and_object(words, columns);
        let kernel = if symbol.is_some() { in_kernel } else { object.is_some_and(is_kernel_object) };
        let own = second.unwrap_or(first);
        let with_children = second.map(|_| first);
        let fits = own <= first + 0.005 && first <= 1.000_5;
        let command = command.map(name_of_program);
        fits.then(|| Self {
            line: 0,
            with_children,
            own,
            command,
            symbol: symbol.map(str::to_owned),
            kernel,
            chain: Vec::new(),
            is_graph_lost: false,
        })
    }

    /// Parses a row of a table whose header was cut off: `12.34%  fio  [kernel.kallsyms]  [k] futex_wake`. A second percentage
    /// indicates children, a word before the object indicates programs.
    fn without_header(line: &str) -> Option<(Self, TableColumns)> {
        let text = line.trim_start();
        let (_, rest) = percent(text.strip_prefix(['+', '-']).unwrap_or(text).trim_start())?;
        let children = percent(rest.trim_start());
        let words = marked(children.map_or(rest, |(_, rest)| rest))?.0;
        let command = words.split_whitespace().count() > 1;
        let columns = TableColumns { children: children.is_some(), command, ..TableColumns::UNKNOWN };
        Some((Self::parse(line, &columns)?, columns))
    }
}

/// Splits `12.34%  fio` into the share and the rest.
fn percent(text: &str) -> Option<(f64, &str)> {
    let (number_text, rest) = text.split_once('%')?;
    let plain = (1..=7).contains(&number_text.len()) && number_text.contains('.');
    let value = number(number_text).filter(|_| plain)?;
    rest.starts_with([' ', '\t']).then_some((value / 100.0, rest))
}

/// Splits `fio  [kernel.kallsyms]  [k] futex_wake` into the text before the mark of the symbol, the mark, and the symbol.
fn marked(text: &str) -> Option<(&str, char, &str)> {
    let (at, mark) =
        ['k', '.', 'g', 'u', 'H'].iter().filter_map(|mark| Some((text.find(&format!("[{mark}] "))?, *mark))).min()?;
    let symbol = text[at + 4..].trim();
    let symbol = if mark == 'k' { symbol.split_whitespace().next().unwrap_or_default() } else { symbol };
    (!symbol.is_empty()).then_some((text[..at].trim(), mark, symbol))
}

/// Splits words into program and object. The program's name may contain a space: two spaces separate columns, unless a page
/// collapsed them.
fn program_and_object<'t>(words: &'t str, columns: &TableColumns) -> (Option<&'t str>, Option<&'t str>) {
    let words = words.trim();
    let (command, object) = match (columns.command, columns.object) {
        (true, true) => words.split_once("  ").or_else(|| words.rsplit_once(' ')).unwrap_or(("", words)),
        (true, false) => (words, ""),
        (false, _) => ("", words),
    };
    let known = |name: &'t str| Some(name.trim()).filter(|name| !name.is_empty());
    (known(command), known(object))
}

/// Returns true for the kernel and its modules, but not for mappings of programs without a file.
fn is_kernel_object(object: &str) -> bool {
    const OF_PROGRAMS: [&str; 7] = ["[vdso", "[vsyscall", "[unknown", "[heap", "[stack", "[JIT", "[anon"];
    object.starts_with('[') && !OF_PROGRAMS.iter().any(|begin| object.starts_with(begin))
}

/// Returns the name without a PID before it or the number of a kernel thread after it: all kernel workers count as one.
fn name_of_program(text: &str) -> String {
    let name = match text.split_once(':') {
        Some((pid, name)) if pid.trim().bytes().all(|b| b.is_ascii_digit()) => name.trim(),
        _ => text,
    };
    match name.split_once('/') {
        Some((thread, number)) if number.starts_with(|c: char| c.is_ascii_digit() || c == 'u') => thread.to_owned(),
        _ => name.to_owned(),
    }
}

/// Returns the next row, if it was broken before its symbol.
fn broken_before_symbol(lines: &mut Lines<'_>) -> Option<String> {
    let is_broken = |row: &&str| begins_with_percentage(row) && ["[k]", "[.]"].iter().any(|mark| row.ends_with(mark));
    let row = lines.peek(0).filter(is_broken)?.to_owned();
    let symbol = lines.peek(1).filter(|next| is_symbol(next))?;
    Some(format!("{row} {symbol}"))
}

/// Returns true for `build_skb`, `std::vector<int>::push_back`.
fn is_symbol(text: &str) -> bool {
    const LONGEST: usize = 100;
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"_.:<>~$@".contains(&b);
    (1..=LONGEST).contains(&text.len()) && text.contains(['_', ':']) && text.bytes().all(is_part)
}

/// Returns true if an event measures CPU time in both modes: `cycles`, `cpu-clock:ppp`, `cpu_core/cycles/P`.
fn is_cpu_time(event: &str) -> bool {
    let (name, modifiers) = event.rsplit_once([':', '/']).unwrap_or((event, ""));
    let is_clock = ["cycles", "cpu-clock", "task-clock"].iter().any(|clock| name.contains(clock));
    is_clock && !name.contains("stall") && modifiers.contains('u') == modifiers.contains('k')
}

/// Returns the event in `Samples: 39K of event 'cpu-clock:ppp'` or `PerfTop: 7861 irqs/sec ... [4000Hz cpu-clock:ppp], (all, 2
/// CPUs)`.
fn event(line: &str) -> Option<&str> {
    let text = uncommented(line);
    if let Some(top) = text.strip_prefix("PerfTop:") {
        let settings = top.split_once('[')?.1.split_once(']')?.0;
        return Some(settings.rsplit(' ').next().unwrap_or(settings));
    }
    let (_, name) = text.strip_prefix("Samples:")?.split_once(" of event")?;
    let quoted = name.trim_start_matches('s').trim_start().strip_prefix('\'')?;
    Some(quoted.split(['\'', ',']).next().unwrap_or(quoted))
}

/// Returns the kernel's share of all samples, listed or not, in `PerfTop: 7861 irqs/sec  kernel:89.6%  exact:  0.0% ...`.
fn kernel_share(line: &str) -> Option<f64> {
    let share = uncommented(line).strip_prefix("PerfTop:")?.split_once("kernel:")?.1.split_once('%')?.0;
    number(share.trim()).map(|percent| percent / 100.0).filter(|share| *share <= 1.0)
}

/// Returns true if a mail program broke the line above perf top's table. The ruler below is wider, so the width does not reveal
/// it.
fn is_broken_header(line: &str) -> bool {
    uncommented(line).starts_with("PerfTop:") && !line.contains('[')
}

/// Returns that line, joined with its rest.
fn broken_header(lines: &mut Lines<'_>) -> Option<String> {
    let first = lines.peek(0).filter(|line| is_broken_header(line))?.to_owned();
    let rest = lines.peek(1).filter(|rest| rest.contains('[') && rest.contains(']'))?;
    Some(format!("{} {}", first.trim_end(), rest.trim_start()))
}

/// Returns true if a line is one of perf's comments, rulers or remarks. A prompt of root begins with the same sign as a
/// comment.
fn is_comment(line: &str) -> bool {
    let text = line.trim();
    if let Some(comment) = text.strip_prefix('#').filter(|comment| !begins_with_percentage(comment)) {
        let word = comment.trim_start().split(' ').next().unwrap_or_default();
        let is_command = comment.starts_with(' ')
            && word.starts_with(|c: char| c.is_ascii_lowercase() || "./".contains(c))
            && word.contains(|c: char| c.is_ascii_alphanumeric())
            && !comment.contains(':');
        return !is_command;
    }
    // A mail program may have broken off a part of a ruler.
    text.len() > 3 && (text.bytes().all(|b| b == b'-') || text.bytes().all(|b| b". ".contains(&b)))
}

/// Returns true if a line begins with the share of a row.
fn begins_with_percentage(line: &str) -> bool {
    let text = line.trim_start();
    percent(text.strip_prefix(['+', '-']).unwrap_or(text).trim_start()).is_some()
}

/// Returns true if a line begins something new, and is not a piece that a mail program broke off the previous line.
fn begins_line(line: &str) -> bool {
    let is_drawn = line.starts_with([' ', '|', '-', '+', '\t']);
    is_drawn || is_comment(line) || event(line).is_some() || begins_with_percentage(line)
}

/// Returns true if a mail program broke a line of a call graph in its drawn part: elsewhere the drawing is indented.
fn is_broken_graph(line: &str) -> bool {
    line.starts_with('|') || line.starts_with("--")
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut profiled = context.command_of("perf").and_then(|command| cpus_of(command.arguments()));
    let mut columns: Option<TableColumns> = None;
    let mut rows: Vec<SampleRow> = Vec::new();
    let mut is_time = true;
    let mut event_read = false;
    let mut kernel = None;
    let mut are_rows_lost = false;
    let mut wrap = lines.wrap();
    while let Some((mut count, mut line)) = lines.peek_whole(&mut wrap, FORMAT.name, begins_line) {
        if let Some(whole) = broken_before_symbol(lines).or_else(|| broken_header(lines)).filter(|_| count == 1) {
            (count, line.text) = (2, whole);
        }
        let text = line.text.as_str();
        profiled = profiled_cpus(text).or(profiled);
        if let Some(name) = event(text) {
            // A second screen of perf top, or the next event, begins.
            if event_read && !rows.is_empty() {
                break;
            }
            event_read = true;
            kernel = kernel_share(text);
            is_time = is_cpu_time(name);
            if !is_time {
                let why = format!("samples of {name} do not show where CPU time goes");
                run.note("perf report", why, "record CPU time: perf record -a -g sleep 10");
            }
        } else if let Some(header) = TableColumns::parse(text) {
            columns = Some(header);
        } else if text.trim().is_empty() || is_comment(text) {
        } else if let Some(row) = row(uncommented(text), &mut columns) {
            if rows.len() < MOST_ROWS {
                rows.push(SampleRow { line: line.number, ..row });
            }
        } else if let Some((chain, row)) = ChainLine::parse(text).zip(rows.last_mut()) {
            row.is_graph_lost |= is_broken_graph(text);
            row.chain.push(chain);
        } else if columns.is_some() && begins_with_percentage(uncommented(text)) {
            lines.leave_out_line(&line, "a row of a profile: percentages, the program, its object and the symbol")?;
            are_rows_lost = true;
        } else {
            break;
        }
        lines.skip(count);
    }
    if let Some(cpus) = profiled.filter(|_| is_time && !rows.is_empty()) {
        let what = "where the CPU time of the whole machine goes";
        run.note(what, format!("the profile is of CPU {cpus} alone"), "profile all CPUs: perf record -a -g sleep 10");
    } else if is_time && !rows.is_empty() {
        record(&rows, kernel, are_rows_lost, run);
    }
    Ok(())
}

/// Returns the CPUs that a profile was limited to: 3 for `-C 3`, 0-3 for `--cpu=0-3`.
fn cpus_of<'w>(mut words: impl Iterator<Item = &'w str>) -> Option<String> {
    let is_list = |list: &&str| !list.is_empty() && list.bytes().all(|b| b.is_ascii_digit() || b"-,".contains(&b));
    while let Some(word) = words.next() {
        let list = match word {
            "-C" | "--cpu" => words.next(),
            _ => word.strip_prefix("--cpu=").or_else(|| word.strip_prefix("-C")),
        };
        if let Some(list) = list.filter(is_list) {
            return Some(list.to_owned());
        }
    }
    None
}

/// Returns the same from perf's output: `# cmdline : /usr/bin/perf record -C 3 -g`, `PerfTop: ... (all, CPU: 3)`.
fn profiled_cpus(line: &str) -> Option<String> {
    let text = uncommented(line);
    if let Some(command) = text.strip_prefix(COMMAND_LINE) {
        return cpus_of(command.split_whitespace());
    }
    let (_, cpus) = text.strip_prefix("PerfTop:")?.split_once("CPU: ").or_else(|| text.split_once("CPU(s): "))?;
    Some(cpus.trim_end_matches(')').to_owned())
}

/// Parses a row, by the columns of the header or, without a header, by its own.
fn row(text: &str, columns: &mut Option<TableColumns>) -> Option<SampleRow> {
    match columns {
        Some(columns) => SampleRow::parse(text, columns),
        None => {
            let (row, own) = SampleRow::without_header(text)?;
            *columns = Some(own);
            Some(row)
        }
    }
}

/// Records the shares. `kernel` is the kernel's share of all samples, if known; `are_rows_lost` is true if some rows were
/// unreadable: the largest one may be among them.
fn record(rows: &[SampleRow], kernel: Option<f64>, are_rows_lost: bool, run: &mut ToolRun) {
    let listed: f64 = rows.iter().map(|row| row.own).sum();
    if listed > 1.01 {
        let why = "the shares of its rows add up to more than 100 %: its columns are not known";
        run.note("perf report", why, "include the header of its table");
        return;
    }
    for mut program in ProgramShares::from_rows(rows) {
        if are_rows_lost {
            (program.function, program.spinning_in) = (None, None);
        }
        let name = program.name.unwrap_or(ALL_PROGRAMS);
        let row = run.row::<Profile>(0.0, program.line, name.into());
        row.share = program.share.into();
        row.unlisted = (1.0 - listed).max(0.0).into();
        let all = kernel.filter(|_| program.name.is_none()).map(|share| share - program.idle);
        row.kernel = all.into_iter().chain(program.kernel).reduce(f64::max).into();
        row.spinning = program.spinning.into();
        row.reclaim = program.reclaim.into();
        row.compaction = program.compaction.into();
        row.slow_clock = program.slow_clock.into();
        row.function_share = program.function.as_ref().map(|(_, share)| *share).into();
        for (state, text) in [
            (&mut row.spinning_in, program.spinning_in.as_deref()),
            (&mut row.reclaim_for, program.reclaim_for),
            (&mut row.function, program.function.as_ref().map(|(name, _)| name.as_str())),
        ] {
            if let Some(text) = text {
                *state = text.into();
            }
        }
    }
}

#[cfg(test)]
mod tests;
