//! vmstat(8) of procps 2 to 4: a row an interval, the first of which is of the time since boot.

use crate::clock::{self, Moment};
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::pace::Pace;
use crate::refusal::Refusal;
use crate::run::{Run, SECOND, Step};
use crate::table::{Header, Row, is_header, take_header, take_row};
use whyslow_model::catalogue::{CpuMean, Meminfo, System, Vmstat};
use whyslow_model::key::Machine;

/// The format.
pub const FORMAT: Format = Format {
    name: "vmstat",
    versions: "procps 2 to 4; all columns, -w, -t, -a, -S",
    tells: "whether processors, memory or storage are waited for; not which device or process",
    starts,
    read,
};

/// Every column there has been. `w` and `swpd` of 2.2, `st` since 2.6.11, `gu` since procps 4.0.5.
const COLUMNS: &[&str] = &[
    "r", "b", "w", "swpd", "free", "buff", "cache", "inact", "active", "si", "so", "bi", "bo", "in", "cs", "us", "sy",
    "id", "wa", "st", "gu",
];
/// What sums up to the whole of the processors' time.
const MODES: [&str; 6] = ["us", "sy", "id", "wa", "st", "gu"];
/// A page, where no capture tells its size: the judgement takes the same.
const PAGE: f64 = 4096.0;

/// Columns of rows that were cut from their header, where the shares of the processors' time, the last ones, leave no doubt:
/// so many of them add up to 100.
const HEADLESS: [(&[&str], usize); 3] = [
    (&["r", "b", "swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa", "st"], 5),
    (
        &[
            "r", "b", "swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa",
            "st", "gu",
        ],
        6,
    ),
    (&["r", "b", "swpd", "free", "buff", "cache", "si", "so", "bi", "bo", "in", "cs", "us", "sy", "id", "wa"], 4),
];

fn headless(line: &str) -> Option<Header> {
    let numbers: Vec<u64> = line.split_whitespace().map(|w| w.parse().ok()).collect::<Option<_>>()?;
    let (names, shares) = HEADLESS.iter().find(|(names, _)| names.len() == numbers.len())?;
    let sum = |last: usize| numbers[numbers.len() - last..].iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
    let whole = |last: usize| (sum(last) as f64 - 100.0).abs() <= last as f64 / 2.0;
    // Of 16 columns the first of the shares must tell, or kernels before 2.6, which had no `wa`, may have written them.
    let certain = whole(*shares) && (*shares > 4 || !whole(3));
    certain.then(|| Header { names: names.iter().map(|name| (*name).to_owned()).collect(), line: 0 })
}

fn starts(lines: &mut Lines<'_>) -> bool {
    let Some(first) = lines.peek(0) else { return false };
    headless(first).is_some()
        || is_column_header(first)
        || (is_group_header(first) && lines.peek(1).is_some_and(is_column_header))
}

/// `procs -----------memory---------- ---swap-- ...`
fn is_group_header(line: &str) -> bool {
    let mut words = line.split_whitespace().map(|w| w.trim_matches('-'));
    words.next() == Some("procs") && words.next() == Some("memory")
}

/// The time zone heads the time stamps of `-t`.
fn is_column_header(line: &str) -> bool {
    let known: Vec<&str> = line.split_whitespace().take_while(|w| COLUMNS.contains(w)).collect();
    known.len() >= 10 && known[0] == "r" && line.split_whitespace().count() <= known.len() + 1
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    if lines.peek(0).is_some_and(is_group_header) {
        lines.skip(1);
    }
    let header = match lines.peek(0).and_then(headless) {
        Some(header) => header,
        None => columns(lines),
    };
    let mut pace = Pace::default();
    let mut first = None;
    let mut units = Units { memory: memory_unit(asked), counts_itself: true };
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if is_group_header(text) {
            lines.skip(blanks + 1);
        } else if is_column_header(text) {
            lines.skip(blanks);
            // Drawn anew for every screenful.
            columns(lines);
        } else if text.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            lines.skip(blanks);
            let row = row(lines, &header);
            let Some(row) = lines.keep(row)? else { continue };
            units.counts_itself &= row.get("r") != Some(0.0);
            match pace.next(stamp(&row), asked, run) {
                Some(step) => tell(run, &row, step, units),
                None => first = first.or(Some(row)),
            }
        } else {
            break;
        }
    }
    if let Some((row, step)) = first.zip(pace.only(asked, run)) {
        tell(run, &row, step, units);
    }
    Ok(())
}

/// How the columns of this run are to be understood.
#[derive(Clone, Copy)]
struct Units {
    /// Bytes in a unit of memory.
    memory: f64,
    /// Whether `r` includes vmstat itself. procps-ng 4 prints procs_running as it is, which counts the vmstat process that
    /// reads it; older versions subtract one. Nothing in the layout tells them apart, but a row with r = 0 is from an older
    /// one. Until there is such a row the smaller number is taken: it is certainly runnable.
    counts_itself: bool,
}

/// The header without the time zone.
fn columns(lines: &mut Lines<'_>) -> Header {
    if lines.peek(0).is_some_and(|line| is_header(line, COLUMNS, 10)) {
        return take_header(lines, COLUMNS);
    }
    let number = lines.number();
    let text = lines.take().map(|line| line.text).unwrap_or_default();
    let names = text.split_whitespace().filter(|w| COLUMNS.contains(w)).map(str::to_owned).collect();
    Header { names, line: number }
}

fn row(lines: &mut Lines<'_>, header: &Header) -> Result<Row, Refusal> {
    let text = lines.peek(0).unwrap_or_default().to_owned();
    let row = take_row(lines, &header.names, 0)?;
    let shares: Vec<f64> = MODES.iter().filter_map(|m| row.get(m)).collect();
    let sum: f64 = shares.iter().sum();
    // Each is rounded to a whole percent; a machine that has just started may have counted nothing yet.
    if sum != 0.0 && (sum - 100.0).abs() > shares.len() as f64 {
        let expected = format!("processor shares that add up to 100, under the header of line {}", header.line);
        return Err(Refusal::new(lines.file(), row.line, expected, &text));
    }
    Ok(row)
}

/// The time stamp of `-t`.
fn stamp(row: &Row) -> Option<Moment> {
    let fields: Vec<&str> = row.rest.iter().map(String::as_str).collect();
    let date = clock::date(fields.first()?)?;
    let (time, _) = clock::time_of_day(&fields[1..])?;
    Some(Moment { date: Some(date), time: Some(time) })
}

fn tell(run: &mut Run, row: &Row, step: Step, units: Units) {
    rates(run, row, step, units.memory);
    levels(run, row, step.to, units);
}

/// The unit of memory and swap, by `-S`; a block is always 1024 bytes (vmstat(8)).
fn memory_unit(asked: &Asked) -> f64 {
    let arguments: Vec<&str> = asked.command.iter().flat_map(|c| c.arguments()).collect();
    let after = arguments.iter().position(|a| *a == "-S").and_then(|at| arguments.get(at + 1).copied());
    let attached = arguments.iter().find_map(|a| a.strip_prefix("-S")).filter(|unit| !unit.is_empty());
    match after.or(attached) {
        Some("k") => 1e3,
        Some("m") => 1e6,
        Some("M") => 1_048_576.0,
        _ => 1024.0,
    }
}

fn rates(run: &mut Run, row: &Row, step: Step, unit: f64) {
    let share = |mode: &str| row.times(mode, SECOND / 100.0);
    run.grow::<CpuMean>(
        step,
        row.line,
        Machine,
        &[
            // Guests are counted within user by the kernel, and apart by this tool.
            ("user", share("us").map(|us| us + share("gu").unwrap_or(0.0))),
            ("system", share("sy")),
            ("idle", share("id")),
            ("iowait", share("wa")),
            ("steal", share("st")),
        ],
    );
    run.grow::<System>(step, row.line, Machine, &[("interrupts", row.get("in")), ("context_switches", row.get("cs"))]);
    let (swap, block) = (unit / PAGE, 1024.0);
    run.grow::<Vmstat>(
        step,
        row.line,
        Machine,
        &[
            ("pswpin", row.times("si", swap)),
            ("pswpout", row.times("so", swap)),
            ("pgpgin", row.times("bi", block)),
            ("pgpgout", row.times("bo", block)),
        ],
    );
}

fn levels(run: &mut Run, row: &Row, at: f64, units: Units) {
    let bytes = |column: &str| row.times(column, units.memory).into();
    let system = run.row::<System>(at, row.line, Machine);
    let itself = f64::from(u8::from(units.counts_itself));
    system.running = row.get("r").map(|running| running - itself).into();
    system.blocked = row.get("b").into();
    let memory = run.row::<Meminfo>(at, row.line, Machine);
    memory.mem_free = bytes("free");
    memory.buffers = bytes("buff");
    memory.cached = bytes("cache");
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
        assert_eq!(window.origins().of("system", "host").first().unwrap().to_string(), "x:5-6");
    }

    #[test]
    fn columns_of_all_ages() {
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
