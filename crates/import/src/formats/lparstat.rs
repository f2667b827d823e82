//! lparstat(8) of powerpc-utils, and /proc/ppc64/lparcfg: share of the physical processors that a logical partition of a Power
//! machine gets.

use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use crate::table::{TableHeader, is_header, take_header, take_row};
use whyslow_model::catalogue::{CpuMean, LogicalPartition};

pub const REPORT: Format = Format {
    name: "lparstat",
    versions: "powerpc-utils 1.3, with or without an interval",
    shows: "CPU use of a partition of a Power machine, and how much of what it is entitled to it uses",
    lacks: "which process uses the CPUs, and what other partitions use",
    programs: &[program("lparstat")],
    files: &["lparstat"],
    columns: &[&CPU, &PARTITION],
    starts: |lines| {
        (lines.next_is(|line| line.trim() == TITLE) && lines.peek(1).is_some_and(|line| configuration(line).is_some()))
            || lines.next_is(|line| configuration(line).is_some() || is_columns(line))
    },
    read,
    ..Format::NEW
};

pub const CONFIGURATION: Format = Format {
    name: "lparcfg",
    versions: "/proc/ppc64/lparcfg, or lines of it",
    shows: "what a partition of a Power machine is entitled to",
    lacks: "how much of it is used: lparstat 1 10",
    files: &["lparcfg"],
    starts: |lines| lines.next_is(|line| line.starts_with("lparcfg ") || parameter(line).is_some()),
    read: read_parameters,
    ..Format::NEW
};

const TITLE: &str = "System Configuration";
const PERCENT: f64 = SECOND / 100.0;
/// The kernel gives entitlements in hundredths of a processor (arch/powerpc/platforms/pseries/lparcfg.c).
const HUNDREDTHS: f64 = 100.0;

const CPU: MetricColumns<CpuMean> = columns![
    "%user" => user * PERCENT, "%sys" => system * PERCENT, "%wait" => iowait * PERCENT, "%idle" => idle * PERCENT,
];
const PARTITION: MetricColumns<LogicalPartition> = columns!["physc" => used];
/// All columns of the report; `app` since 1.3.11.
const COLUMNS: &[&str] =
    &["%user", "%sys", "%wait", "%idle", "physc", "%entc", "lbusy", "app", "vcsw", "phint", "%nsp", "%utcyc"];

fn is_columns(line: &str) -> bool {
    is_header(line, COLUMNS, 6)
}

/// Parses `type=Shared mode=Capped smt=8 lcpu=4 mem=16384000 kB cpus=0 ent=2.00`.
fn configuration(line: &str) -> Option<LogicalPartition> {
    let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let flag = |name: &str, on: &str, off: &str| match field(name)? {
        value if value == on => Some(1.0),
        value if value == off => Some(0.0),
        _ => None,
    };
    let shared = flag("type", "Shared", "Dedicated")?;
    let capped = flag("mode", "Capped", "Uncapped")?;
    let logical = number(field("lcpu")?)?;
    // With the size of the pool, AIX and powerpc-utils' option -l count the threads of each virtual processor.
    let processors = match field("psize") {
        Some(_) => field("smt").and_then(number).filter(|threads| *threads >= 1.0).map(|threads| logical / threads),
        None => Some(logical),
    };
    Some(LogicalPartition {
        entitled: field("ent").and_then(number).into(),
        capped: capped.into(),
        shared: shared.into(),
        processors: processors.into(),
        ..LogicalPartition::new(MachineKey)
    })
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if lines.next_is(|line| line.trim() == TITLE) {
        lines.skip(1);
    }
    let configured = lines.take_if(|text| configuration(text).is_some());
    let configured = configured.and_then(|line| Some((line.number, configuration(&line.text)?)));
    let mut end = 0.0;
    let Some((blanks, _)) = lines.peek_past_blanks(0).filter(|(_, text)| is_columns(text)) else {
        if let Some((line, partition)) = configured {
            run.put(0.0, line, partition);
        }
        return Ok(());
    };
    lines.skip(blanks);
    let header = take_header(lines, COLUMNS);
    let mut intervals = if context.interval().is_some() {
        ReportIntervals::without_first()
    } else {
        ReportIntervals::since_boot().headed(true)
    };
    while let Some(text) = lines.peek(0) {
        if text.trim_start().starts_with("---") {
            lines.skip(1);
        } else if is_columns(text) {
            take_header(lines, COLUMNS);
        } else if text.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            let row = take_row(lines, &header.names, 0);
            let Some(row) = lines.keep(row.and_then(|row| check_shares(lines, &header, row)))? else { continue };
            for (row, interval) in intervals.next(row, None, context, run) {
                end = record(run, &row, interval);
            }
        } else {
            break;
        }
    }
    for (row, interval) in intervals.finish(context, run) {
        end = record(run, &row, interval);
    }
    if let Some((line, partition)) = configured {
        run.put(end, line, partition);
    }
    Ok(())
}

fn check_shares(lines: &Lines<'_>, header: &TableHeader, row: TableRow) -> Result<TableRow, Refusal> {
    let sum = CPU.sum(&row) / PERCENT;
    if (sum - 100.0).abs() > 1.0 {
        let expected = format!("CPU shares that add up to 100, under the header of line {}", header.line);
        return Err(Refusal::new(lines.file(), row.line, expected, &format!("a sum of {sum:.0}")));
    }
    Ok(row)
}

/// Records a row and returns the end of the interval.
fn record(run: &mut ToolRun, row: &TableRow, interval: ReportInterval) -> f64 {
    run.rates(interval, MachineKey, row, &CPU);
    // Under KVM, the use of the partition is not counted, and 0 is printed.
    if row.get("physc").is_some_and(|used| used > 0.0) {
        run.rates(interval, MachineKey, row, &PARTITION);
    }
    interval.to
}

/// Parses a known parameter: `partition_entitled_capacity=50`. The file has others next to them.
fn parameter(line: &str) -> Option<(&str, f64)> {
    const NAMES: [&str; 4] =
        ["partition_entitled_capacity", "partition_active_processors", "capped", "shared_processor_mode"];
    let (name, value) = line.trim().split_once('=')?;
    NAMES.contains(&name).then_some((name, number(value)?))
}

fn read_parameters(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_other =
        |line: &str| line.starts_with("lparcfg ") || line.trim().split_once('=').is_some_and(|(name, _)| is_name(name));
    while let Some(line) = lines.take_if(is_other) {
        let Some((name, value)) = parameter(&line.text) else { continue };
        let row = run.row::<LogicalPartition>(0.0, line.number, MachineKey);
        match name {
            "partition_entitled_capacity" => row.entitled = (value / HUNDREDTHS).into(),
            "partition_active_processors" => row.processors = value.into(),
            "capped" => row.capped = value.into(),
            _ => row.shared = value.into(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, row_of, window_of};

    #[test]
    fn a_partition_says_what_it_gets() {
        let window = window_of(&fixture("layouts/lparstat.txt"));
        let partition = window.the::<LogicalPartition>().unwrap();
        assert_eq!((partition.entitled.get(), partition.processors.get()), (Some(1.0), Some(2.0)));
        assert_eq!(
            (partition.capped.get(), partition.shared.get(), partition.used.get()),
            (Some(0.0), Some(1.0), Some(1.07))
        );
        assert_eq!((window.change::<CpuMean>().unwrap().rate(|cpu| cpu.user).unwrap() / SECOND * 100.0).round(), 100.0);
        refusal_of(
            &fixture("layouts/lparstat.txt")
                .replace("100.00  0.00  0.00     0.00     1.07", "50.00  0.00  0.00     0.00     1.07"),
        );
    }

    #[test]
    fn entitlements_of_the_kernel_are_in_hundredths() {
        let partition = row_of::<LogicalPartition>(
            "lparcfg 1.9\nserial_number=IBM,0212345\npartition_entitled_capacity=50\ncapped=1\n\
             partition_active_processors=2\nshared_processor_mode=1\n",
        );
        assert_eq!((partition.entitled.get(), partition.capped.get()), (Some(0.5), Some(1.0)));
        assert_eq!((partition.processors.get(), partition.shared.get()), (Some(2.0), Some(1.0)));
    }
}
