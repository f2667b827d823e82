//! top of BusyBox (its procps/top.c), in batch mode or pasted.

use super::top::record_load;
use crate::prelude::*;
use whyslow_model::catalogue::{CpuMean, Meminfo, Process, System};

pub const FORMAT: Format = Format {
    name: "top of BusyBox",
    versions: "BusyBox 1.x, with or without a column for the CPU",
    shows: "CPU time by mode, memory, load, and the processes that use most",
    lacks: "storage, steal; a single snapshot is of a tenth of a second",
    files: &[],
    streamed: true,
    starts: |lines| memory(lines).is_some() && lines.peek(1).is_some_and(|line| shares(line).is_some()),
    read,
    ..Format::NEW
};

/// Interval of a screen if nothing else is known (-d).
const DELAY: f64 = 5.0;
/// CPU modes by BusyBox's words for them; it does not count steal time.
const MODES: [(&str, &str); 7] = [
    ("usr", "user"),
    ("sys", "system"),
    ("nic", "nice"),
    ("idle", "idle"),
    ("io", "iowait"),
    ("irq", "irq"),
    ("sirq", "softirq"),
];

/// Returns the bytes by name in `Mem: 1987728K used, 38912K free, 1204K shrd, 120334K buff, 1688120K cached`.
fn memory(lines: &mut Lines<'_>) -> Option<Vec<(String, f64)>> {
    let text = lines.peek(0)?.trim_start().strip_prefix("Mem: ")?;
    let amount = |part: &str| {
        let (amount, name) = part.trim().split_once(' ')?;
        Some((name.to_owned(), number(amount.strip_suffix('K')?)? * KIB))
    };
    let amounts: Option<Vec<_>> = text.split(',').map(amount).collect();
    amounts.filter(|amounts| amounts.len() >= 3 && amounts[0].0 == "used")
}

/// Parses `CPU:   2% usr   1% sys   0% nic  96% idle   0% io   0% irq   0% sirq`.
fn shares(line: &str) -> Option<Vec<(&'static str, f64)>> {
    let words: Vec<&str> = line.trim_start().strip_prefix("CPU:")?.split_whitespace().collect();
    let share = |pair: &[&str]| {
        let [share, word] = pair else { return None };
        let (_, mode) = MODES.iter().find(|(own, _)| own == word)?;
        Some((*mode, number(share.strip_suffix('%')?)? / 100.0))
    };
    let shares: Option<Vec<_>> = words.chunks(2).map(share).collect();
    shares.filter(|shares| shares.len() >= 4)
}

/// Positions of the columns in a row.
struct Columns {
    names: Vec<String>,
}

impl Columns {
    fn parse(line: &str) -> Option<Self> {
        let names: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let is_header = names.starts_with(&["PID".into(), "PPID".into(), "USER".into(), "STAT".into()])
            && names.last().is_some_and(|name| name == "COMMAND");
        is_header.then_some(Self { names })
    }

    /// Splits a row into words in the order of the columns; `S <` counts as one.
    fn cells<'t>(&self, line: &'t str) -> Option<Vec<&'t str>> {
        let mut cells: Vec<&str> = line.split_whitespace().collect();
        if cells.get(4).is_some_and(|word| matches!(*word, "<" | "N")) {
            cells.remove(4);
        }
        let fits = |(name, cell): (&String, &&str)| match name.as_str() {
            "PID" | "PPID" => cell.parse::<u32>().is_ok(),
            "STAT" => cell.bytes().all(|b| b.is_ascii_uppercase() || matches!(b, b'<' | b'+')),
            "VSZ" => scaled(cell, KIB, KIB).is_some(),
            "CPU" => number(cell).is_some(),
            "%VSZ" | "%CPU" => cell.strip_suffix('%').and_then(number).is_some(),
            _ => true,
        };
        (cells.len() >= self.names.len() && self.names.iter().zip(&cells).all(fits)).then_some(cells)
    }

    fn cell<'t>(&self, cells: &[&'t str], name: &str) -> Option<&'t str> {
        let at = self.names.iter().position(|own| own == name)?;
        cells.get(at).copied()
    }
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let command = context.command_of("top");
    let asked = command.and_then(|command| command.arguments().skip_while(|word| *word != "-d").nth(1)?.parse().ok());
    let delay: f64 = asked.filter(|delay| *delay > 0.0).unwrap_or(DELAY);
    let mut interval = ReportInterval { from: 0.0, to: delay };
    let mut screens = 0;
    while let Some(amounts) = memory(lines) {
        if screens > 0 {
            interval = ReportInterval { from: interval.to, to: interval.to + delay };
        }
        let line = lines.number();
        lines.skip(1);
        let bytes = |name: &str| amounts.iter().find(|(own, _)| own == name).map(|(_, bytes)| *bytes);
        let row = run.row::<Meminfo>(interval.to, line, MachineKey);
        row.mem_free = bytes("free").into();
        row.mem_total = bytes("free").zip(bytes("used")).map(|(free, used)| free + used).into();
        row.buffers = bytes("buff").into();
        row.cached = bytes("cached").into();
        screen(lines, run, interval)?;
        screens += 1;
        while lines.next_is(|text| text.trim().is_empty()) {
            lines.skip(1);
        }
    }
    run.has_assumed_times = true;
    Ok(())
}

fn screen(lines: &mut Lines<'_>, run: &mut ToolRun, interval: ReportInterval) -> ReadResult {
    let Some(line) = lines.take() else { return Err(lines.refuse("CPU: and shares")) };
    let Some(shares) = shares(&line.text) else { return Err(lines.refuse_at(&line, "CPU: and shares")) };
    let times: Vec<_> = shares.into_iter().map(|(mode, share)| (mode, Some(share * SECOND))).collect();
    run.grow::<CpuMean>(interval, line.number, MachineKey, &times);
    if let Some(line) = lines.take_if(|text| text.trim_start().starts_with("Load average: "))
        && let Some((_, loads)) = line.text.split_once(": ")
    {
        record_load(run.row::<System>(interval.to, line.number, MachineKey), loads);
    }
    let Some(columns) = lines.peek(0).and_then(Columns::parse) else { return Ok(()) };
    lines.skip(1);
    let mut tasks = Vec::new();
    while let Some(line) = lines.take_if(|text| columns.cells(text).is_some()) {
        tasks.push(line);
    }
    // Shares are of all CPUs, whose number is not shown. There are at least as many CPUs as the highest CPU number of a process
    // implies.
    let processor = |text: &str| columns.cell(&columns.cells(text)?, "CPU").and_then(number);
    let highest = tasks.iter().filter_map(|line| processor(&line.text)).reduce(f64::max);
    for line in &tasks {
        let Some(cells) = columns.cells(&line.text) else { continue };
        let Some(pid) = cells[0].parse().ok() else { continue };
        let share = columns.cell(&cells, "%CPU").and_then(|share| number(share.trim_end_matches('%')));
        let processors = highest.map(|highest| highest + 1.0);
        let time = ("cpu_time", share.zip(processors).map(|(share, count)| share / 100.0 * count * SECOND));
        let command = cells[columns.names.len() - 1];
        let is_kernel_thread = command.starts_with('[');
        let row = run.grow::<Process>(interval, line.number, process(pid), &[time]);
        row.command = name_of(command).into();
        row.parent = columns.cell(&cells, "PPID").and_then(number).into();
        row.virtual_size = columns.cell(&cells, "VSZ").and_then(|size| scaled(size, KIB, KIB)).into();
        row.kernel_thread = Some(f64::from(u8::from(is_kernel_thread))).into();
        row.state = columns.cell(&cells, "STAT").and_then(|state| state.get(..1)).into();
    }
    Ok(())
}

/// Returns the name without its folder or brackets: `/usr/sbin/dnsmasq`, `{entry.sh}`, `[ksoftirqd/0]`.
fn name_of(command: &str) -> &str {
    match command.strip_prefix(['[', '{']) {
        Some(name) => name.trim_end_matches([']', '}']),
        None => command.rsplit('/').next().unwrap_or(command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{row_of, window_of};

    const SCREEN: &str = "\
Mem: 1987728K used, 38912K free, 1204K shrd, 120334K buff, 1688120K cached
CPU:  20% usr   1% sys   0% nic  76% idle   3% io   0% irq   0% sirq
Load average: 0.09 0.11 0.08 1/118 20331
  PID  PPID USER     STAT   VSZ %VSZ CPU %CPU COMMAND
 2210     1 root     R     712m  35%   1  19% /usr/bin/wg-portal -c x
 1820     1 dnsmasq  S <   8120   0%   3   0% /usr/sbin/dnsmasq -k
   10     2 root     SW       0   0%   0   0% [ksoftirqd/0]
";

    #[test]
    fn a_screen_shows_cpus_memory_and_processes() {
        let memory = row_of::<Meminfo>(SCREEN);
        assert_eq!(memory.mem_total.get(), Some((1_987_728.0 + 38_912.0) * KIB));
        assert_eq!(memory.cached.get(), Some(1_688_120.0 * KIB));
        assert_eq!(row_of::<System>(SCREEN).load_1m.get(), Some(0.09));
        let window = window_of(SCREEN);
        let last = |pid: u32| window.newest::<Process>()[&process(pid)].clone();
        let name = |pid: u32| last(pid).command.get().map(str::to_owned);
        assert_eq!(
            [2210, 1820, 10].map(name),
            ["wg-portal", "dnsmasq", "ksoftirqd/0"].map(|name| Some(name.to_owned()))
        );
        assert_eq!(last(10).kernel_thread.get(), Some(1.0));
        assert_eq!(last(1820).virtual_size.get(), Some(8120.0 * KIB));
    }

    #[test]
    fn several_screens_follow_one_another() {
        let window = window_of(&format!("{SCREEN}\n{SCREEN}"));
        assert_eq!(window.seconds(), 2.0 * DELAY);
    }
}
