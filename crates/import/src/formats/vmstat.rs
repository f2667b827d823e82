//! vmstat(8) of procps 2 to 4: a row per interval, the first of which covers the time since boot.

use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use crate::table::{TableHeader, is_header, take_header, take_row};
use crate::zone::Zone;
use whyslow_model::catalogue::{CpuMean, Meminfo, System, Vmstat};

pub const FORMAT: Format = Format {
    name: "vmstat",
    versions: "procps 2 to 4; all columns, -w, -t, -a, -S; rows without header if their shares leave no doubt",
    shows: "whether tasks wait for CPUs, memory or storage",
    lacks: "which device or process; how many CPUs there are, so waiting tasks are a lower bound (r counts vmstat itself in procps 4: one is subtracted until a row has r = 0); niced work; steal on old kernels",
    programs: &[program("vmstat")],
    files: &["vmstat"],
    columns: &[&CPU, &SYSTEM, &PAGING, &MEMORY],
    streamed: true,
    starts,
    read,
};

const PERCENT: f64 = SECOND / 100.0;
/// Assumed page size, which no capture shows; the diagnosis assumes the same.
const PAGE: f64 = 4096.0;

/// The kernel counts guests within user; this tool counts them separately.
const CPU: MetricColumns<CpuMean> = columns![
    "us" => user * PERCENT, "gu" += user * PERCENT, "sy" => system * PERCENT, "id" => idle * PERCENT,
    "wa" => iowait * PERCENT, "st" => steal * PERCENT,
];
const SYSTEM: MetricColumns<System> = columns![
    "in" => interrupts, "cs" => context_switches, "r" => running, "b" => blocked,
];
/// Swap and memory are in the unit of `-S`; a block is always 1024 bytes.
const PAGING: MetricColumns<Vmstat> = columns![
    "si" => pswpin * 1.0 / PAGE, "so" => pswpout * 1.0 / PAGE, "bi" => pgpgin * KIB, "bo" => pgpgout * KIB,
];
const MEMORY: MetricColumns<Meminfo> = columns![
    "free" => mem_free, "buff" => buffers, "cache" => cached,
];
const IN_MEMORY_UNIT: [&str; 5] = ["si", "so", "free", "buff", "cache"];

/// All columns of all versions: `w` in 2.2, `st` since 2.6.11, `gu` since procps 4.0.5.
const COLUMNS: &[&str] = &[
    "r", "b", "w", "swpd", "free", "buff", "cache", "inact", "active", "si", "so", "bi", "bo", "in", "cs", "us", "sy",
    "id", "wa", "st", "gu",
];
/// Columns of a row without header: the first 16, 17 or 18 of these, the last 4, 5 or 6 of which add up to 100.
const HEADERLESS: [&str; 18] =
    ["r", "b", "swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa", "st", "gu"];
/// Number of columns before the shares.
const BEFORE_SHARES: usize = 12;

fn headerless(line: &str) -> Option<TableHeader> {
    let numbers: Vec<u64> = line.split_whitespace().map(|w| w.parse().ok()).collect::<Option<_>>()?;
    let shares = numbers.len().checked_sub(BEFORE_SHARES).filter(|shares| (4..=6).contains(shares))?;
    let is_whole = |last: usize| {
        let sum = numbers[numbers.len() - last..].iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        (sum as f64 - 100.0).abs() <= last as f64 / 2.0
    };
    // Kernels before 2.6 also had 16 columns, but three shares.
    let certain = is_whole(shares) && (shares > 4 || !is_whole(3));
    certain.then(|| TableHeader::new(&HEADERLESS[..numbers.len()], 0))
}

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.next_is(|first| headerless(first).is_some() || is_column_header(first))
        || (lines.next_is(is_group_header) && lines.peek(1).is_some_and(is_column_header))
}

/// Returns true for `procs -----------memory---------- ---swap-- ...`.
fn is_group_header(line: &str) -> bool {
    let mut words = line.split_whitespace().map(|w| w.trim_matches('-'));
    words.next() == Some("procs") && words.next() == Some("memory")
}

/// Returns true for the header of the columns. The time zone heads the time stamps of `-t`.
fn is_column_header(line: &str) -> bool {
    let known: Vec<&str> = line.split_whitespace().take_while(|w| COLUMNS.contains(w)).collect();
    known.len() >= 10 && known[0] == "r" && line.split_whitespace().count() <= known.len() + 1
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if lines.next_is(is_group_header) {
        lines.skip(1);
    }
    let headerless = lines.peek(0).and_then(headerless);
    let zone = lines.peek(0).and_then(|header| Zone::read(header.split_whitespace().last()?)).unwrap_or_default();
    // The header is repeated once per screen, and people do not paste a single row below such a header.
    let is_headed = headerless.is_none();
    let header = headerless.unwrap_or_else(|| take_columns(lines));
    let unit = memory_unit(context);
    let mut intervals = ReportIntervals::since_boot().headed(is_headed);
    // procps 4 prints procs_running unchanged, which counts the vmstat process that reads it; older versions subtract one. The
    // layout does not distinguish them, but r = 0 only occurs with the older ones. Until then, the smaller number is certain.
    let mut counts_itself = true;
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if is_group_header(text) {
            lines.skip(blanks + 1);
        } else if is_column_header(text) {
            lines.skip(blanks);
            take_columns(lines);
        } else if text.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            lines.skip(blanks);
            let row = take_row(lines, &header.names, 0);
            let row = row.and_then(|row| check_shares(lines, &header, row));
            let Some(mut row) = lines.keep(row)? else { continue };
            row.scale(|column| IN_MEMORY_UNIT.contains(&column), unit);
            counts_itself &= row.get("r") != Some(0.0);
            if counts_itself {
                row.add("r", -1.0);
            }
            let when = time_stamp(&row, zone).map(|when| (when, row.line));
            for (row, interval) in intervals.next(row, when, context, run) {
                record(run, &row, interval);
            }
        } else {
            break;
        }
    }
    for (row, interval) in intervals.finish(context, run) {
        record(run, &row, interval);
    }
    Ok(())
}

/// Takes the header, without the time zone.
fn take_columns(lines: &mut Lines<'_>) -> TableHeader {
    if lines.next_is(|line| is_header(line, COLUMNS, 10)) {
        return take_header(lines, COLUMNS);
    }
    let number = lines.number();
    let text = lines.take().map(|line| line.text).unwrap_or_default();
    TableHeader::new(text.split_whitespace().filter(|w| COLUMNS.contains(w)), number)
}

/// Checks the sum of the CPU shares, which are rounded to whole per cents; a machine that has just booted may have counted
/// nothing yet.
fn check_shares(lines: &Lines<'_>, header: &TableHeader, row: TableRow) -> Result<TableRow, Refusal> {
    let sum = CPU.sum(&row) / PERCENT;
    let shares = header.names.iter().filter(|name| CPU.has(name)).count();
    if sum != 0.0 && (sum - 100.0).abs() > shares as f64 {
        let expected = format!("CPU shares that add up to 100, under the header of line {}", header.line);
        return Err(Refusal::new(lines.file(), row.line, expected, &format!("a sum of {sum:.0}")));
    }
    Ok(row)
}

fn time_stamp(row: &TableRow, zone: Zone) -> Option<PrintedTime> {
    let fields: Vec<&str> = row.rest.iter().map(String::as_str).collect();
    let date = clock::date(fields.first()?)?;
    let (time, _) = clock::time_of_day(&fields[1..])?;
    Some(PrintedTime { zone, ..PrintedTime::new(Some(date), time) })
}

/// Returns the unit of memory and swap, from `-S` (vmstat(8)).
fn memory_unit(context: OutputContext<'_>) -> f64 {
    let arguments: Vec<&str> = context.arguments().collect();
    let after = arguments.iter().position(|a| *a == "-S").and_then(|at| arguments.get(at + 1).copied());
    let attached = arguments.iter().find_map(|a| a.strip_prefix("-S")).filter(|unit| !unit.is_empty());
    match after.or(attached) {
        Some("k") => 1e3,
        Some("m") => 1e6,
        Some("M") => MIB,
        _ => KIB,
    }
}

fn record(run: &mut ToolRun, row: &TableRow, interval: ReportInterval) {
    run.rates(interval, MachineKey, row, &CPU);
    run.rates(interval, MachineKey, row, &SYSTEM);
    run.rates(interval, MachineKey, row, &PAGING);
    run.rates(interval, MachineKey, row, &MEMORY);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{refusal_of, window_of};
    use whyslow_model::catalogue::Family;

    fn rate<F: Family>(text: &str, f: impl Fn(&F) -> whyslow_model::value::Counter) -> f64 {
        window_of(text).change::<F>().unwrap().rate(f).unwrap()
    }

    const NEW: &str = "# vmstat 2
procs -----------memory---------- ---swap-- -----io---- --system-- -----cpu------
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 191420   8688  35780    9    9     9     9 9006   31  1  4 96  0  0
 1  0      0 124468   9208  98020    4    0 15626  2074 1195  188 10 66  0 24  0
 0  3      0 110716   9316 110996    0    8  3268  4144 1365   84  0 94  0  6  0
";

    #[test]
    fn rates_come_back_and_the_row_since_boot_is_none() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 0.01, "{a} {b}");
        close(rate::<CpuMean>(NEW, |c| c.system) / SECOND, 0.80);
        close(rate::<CpuMean>(NEW, |c| c.iowait) / SECOND, 0.15);
        close(rate::<System>(NEW, |s| s.interrupts), 1280.0);
        close(rate::<Vmstat>(NEW, |v| v.pswpout), 1.0);
        close(rate::<Vmstat>(NEW, |v| v.pgpgin), 9447.0 * 1024.0);
        let window = window_of(NEW);
        assert_eq!(window.seconds(), 4.0);
        assert_eq!(window.change::<System>().unwrap().readings(|s| s.blocked).collect::<Vec<_>>(), [0.0, 3.0]);
        assert_eq!(window.origins().locations("system", "host").first().unwrap().to_string(), "x:5-6");
    }

    #[test]
    fn columns_of_all_versions_are_read() {
        let old = "   procs                      memory    swap          io     system         cpu
 r  b  w   swpd   free   buff  cache  si  so    bi    bo   in    cs  us  sy  id
 0  0  0   5120   2996   1704  35804   0   0     5     8  110    17   1   0  99
 1  0  0   5120   2996   1704  35804   0   0     0     0  200    17  25   5  70
";
        assert!((rate::<CpuMean>(old, |c| c.idle) / SECOND - 0.70).abs() < 0.001);
        assert_eq!(window_of(old).change::<CpuMean>().unwrap().rate(|c| c.iowait), None);
        let stamped = "--procs-- -----------------------memory---------------------- ---swap-- -----io---- -system-- ----------cpu---------- -----timestamp-----
   r    b         swpd         free         buff        cache   si   so    bi    bo   in   cs  us  sy  id  wa  st  gu                 UTC
   1    0            0      5566624       286528     10012424    0    0    20   202  900 1600   9   2  88   0   0   0 2024-06-01 23:59:58
   2    0            0      5566624       286528     10012424    0    0     0     0  900 1600  20   2  70   0   0   8 2024-06-02 00:00:08
";
        assert!((rate::<CpuMean>(stamped, |c| c.user) / SECOND - 0.28).abs() < 0.001);
        assert_eq!(window_of(stamped).seconds(), 10.0);
        assert!(window_of(stamped).last().unwrap().wall_ns > 0);
    }

    #[test]
    fn rows_cut_from_their_header_are_known_by_their_shares() {
        let rows: String = NEW.lines().skip(3).map(|line| format!("{line}\n")).collect();
        assert!((rate::<CpuMean>(&rows, |c| c.system) / SECOND - 0.80).abs() < 0.01);
        assert_eq!(refusal_of(&rows.replace("10 66  0 24  0", "10 66  0 54  0").replace("1  4 96", "1  4 56")).line, 1);
        let old = " 1  0  0   5120   2996   1704  35804   0   0     5     8  110     0   1   0  99\n";
        assert_eq!(refusal_of(old).line, 1, "16 columns of which 3 or 4 may be shares");
    }

    #[test]
    fn a_header_that_does_not_fit_is_refused_with_its_line() {
        let shifted = NEW.replace("4     0 15626", "0 4 0 15626").replace(" 1195  188 10", " 1195 10");
        assert_eq!(refusal_of(&shifted).line, 5);
        assert_eq!(refusal_of(&NEW.replace("0 94  0  6  0", "0 94  0  6")).line, 6);
    }
}
