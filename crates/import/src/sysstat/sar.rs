//! sar(1) and mpstat(1) of sysstat 5 to 12: tables whose rows begin with the time at the end of their interval.

mod network;
pub(super) mod reports;

use super::processor;
use crate::clock;
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::{Run, Step};
use crate::table::{Header, take_row, words};
use crate::{elsewhere, is_remark};
use reports::{Report, headless, is_passed_over};

/// sar.
pub const SAR: Format = Format {
    name: "sar",
    versions: "sysstat 5 to 12: every report; those on terminals, huge pages, sensors, ICMP and IPv6 are passed over",
    tells: "what its reports tell of: processors, memory, devices, interfaces; times as printed",
    starts: |lines| starts(lines) && !is_mpstat(lines),
    read: |lines, asked, run| read(lines, asked, run, SAR.name),
};

/// mpstat, which prints the same tables of processors.
pub const MPSTAT: Format = Format {
    name: "mpstat",
    versions: "sysstat 5 to 12: -P, -A, -I, -u",
    tells: "the processors' time by mode, together and each; interrupts of all",
    starts: |lines| starts(lines) && is_mpstat(lines),
    read: |lines, asked, run| read(lines, asked, run, MPSTAT.name),
};

/// How much longer than the steps after it the first step may be: rows between header and first row are often cut out.
const GAP: f64 = 1.5;

/// The most rows of one time that are held: more disks and processors than any machine has.
const MOST_HELD: usize = 50_000;

/// A line's time and the fields after it.
fn timed(line: &str) -> Option<(f64, Vec<&str>)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (time, taken) = clock::time_of_day(&fields)?;
    let rest = fields.get(taken..)?.to_vec();
    (!rest.is_empty()).then_some((time, rest))
}

fn starts(lines: &mut Lines<'_>) -> bool {
    let Some((_, fields)) = lines.peek(0).and_then(timed) else { return false };
    Report::of(&fields).is_some() || is_passed_over(&fields) || headless(&fields).is_some()
}

/// Whether a header is mpstat's: it tells interrupts beside the processors' time, or their share before what was stolen.
fn is_mpstat(lines: &mut Lines<'_>) -> bool {
    let Some((_, fields)) = lines.peek(0).and_then(timed) else { return false };
    let at = |name: &str| fields.iter().position(|field| *field == name);
    let before = at("%irq").zip(at("%steal")).is_some_and(|(irq, steal)| irq < steal);
    fields.first() == Some(&"CPU") && (before || at("intr/s").is_some())
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run, own: &str) -> Result<(), Refusal> {
    run.start = asked.day();
    let mut reading = Reading { asked, run, clock: clock::Rewound::default(), table: None };
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        if text.contains("LINUX RESTART") {
            lines.skip(blanks + 1);
            reading.restart();
        } else if let Some((time, fields)) = timed(&text) {
            if let Some(report) = Report::of(&fields) {
                lines.skip(blanks);
                reading.header(lines, time, report, &fields);
            } else if is_passed_over(&fields) {
                lines.skip(blanks);
                reading.close();
                pass_over(lines);
            } else if reading.table.is_some() || headless(&fields).is_some() {
                lines.skip(blanks);
                reading.row(lines, time, &fields)?;
            } else {
                break;
            }
        } else if ["Average:", "Summary:"].iter().any(|head| text.trim_start().starts_with(head)) {
            lines.skip(blanks + 1);
        } else {
            lines.skip(blanks);
            // Rows that somebody cut out: `....`
            let cut = is_remark(&text) && lines.peek_past_blanks(1).is_some_and(|(_, next)| timed(next).is_some());
            if !cut || elsewhere(lines, own) {
                break;
            }
            lines.skip(1);
        }
    }
    reading.close();
    Ok(())
}

/// Passes over a report of which nothing is taken, and its rows.
fn pass_over(lines: &mut Lines<'_>) {
    lines.skip(1);
    while lines.peek(0).and_then(timed).is_some_and(|(_, fields)| {
        Report::of(&fields).is_none()
            && !is_passed_over(&fields)
            && fields.iter().any(|f| crate::number::number(f).is_some())
    }) {
        lines.skip(1);
    }
}

/// A table that is being read.
struct Table {
    report: &'static Report,
    header: Header,
    /// The end of the step before; `None` after a restart.
    from: Option<f64>,
    /// The time of the first rows, which are held until the next time tells how long their step may have been.
    first: Option<f64>,
    held: Vec<crate::table::Row>,
    /// The step of the rows that come now.
    step: Option<Step>,
}

impl Table {
    fn new(report: &'static Report, header: Header, from: Option<f64>) -> Self {
        Self { report, header, from, first: None, held: Vec::new(), step: None }
    }

    /// Takes a row that ends at this time.
    fn add(&mut self, at: f64, row: crate::table::Row, interval: Option<f64>, run: &mut Run) {
        let first = *self.first.get_or_insert(at);
        if self.step.is_none() {
            if at == first && self.held.len() < MOST_HELD {
                self.held.push(row);
                return;
            }
            self.release(Some(at - first).filter(|spacing| *spacing > 0.0), interval, run);
        }
        let Some(step) = self.step.as_mut() else { return };
        if step.to != at {
            *step = Step { from: step.to, to: at };
        }
        if step.seconds() > 0.0 {
            self.report.tell(run, *step, &row);
        }
    }

    /// Integrates the first rows.
    fn release(&mut self, spacing: Option<f64>, interval: Option<f64>, run: &mut Run) {
        let Some(first) = self.first.filter(|_| self.step.is_none()) else { return };
        let usual = interval.or(spacing);
        let from = match (self.from.map(|from| first - from).filter(|gap| *gap > 0.0), usual) {
            (Some(gap), Some(usual)) if gap > GAP * usual => first - usual,
            (Some(gap), _) => first - gap,
            // Without header and neighbour the length of the step is not known; a rate does not depend on it.
            (None, usual) => first - usual.unwrap_or(1.0),
        };
        // A series without header begins before its first time.
        let step = Step { from: from.max(0.0), to: first };
        self.step = Some(step);
        for row in self.held.drain(..).filter(|_| step.seconds() > 0.0) {
            self.report.tell(run, step, &row);
        }
    }
}

struct Reading<'a> {
    asked: &'a Asked,
    run: &'a mut Run,
    clock: clock::Rewound,
    table: Option<Table>,
}

impl Reading<'_> {
    fn elapsed(&mut self, time: f64) -> f64 {
        self.run.start.time.get_or_insert(time);
        self.clock.read(time)
    }

    fn header(&mut self, lines: &mut Lines<'_>, time: f64, report: &'static Report, fields: &[&str]) {
        let at = self.elapsed(time);
        let names: Vec<String> = words(&fields[report.labels()..].join(" "));
        let line = lines.number();
        lines.skip(1);
        // Drawn anew for every screenful, and before each row where several reports were asked for.
        if let Some(table) = self.table.as_mut().filter(|t| std::ptr::eq(t.report, report) && t.header.names == names) {
            table.from.get_or_insert(at);
            return;
        }
        self.close();
        self.table = Some(Table::new(report, Header { names, line }, Some(at)));
    }

    fn row(&mut self, lines: &mut Lines<'_>, time: f64, fields: &[&str]) -> Result<(), Refusal> {
        let at = self.elapsed(time);
        if self.table.is_none()
            && let Some((report, names)) = headless(fields)
        {
            let header = Header { names: names.iter().map(|n| (*n).to_owned()).collect(), line: lines.number() };
            self.table = Some(Table::new(report, header, None));
        }
        let Some(table) = self.table.as_mut() else { return Ok(()) };
        let stamp = lines.peek(0).unwrap_or_default().split_whitespace().count() - fields.len();
        let row = take_row(lines, &table.header.names, stamp + table.report.labels());
        let whole = |row| match table.report.is_processors() {
            true => processor::check(lines.file(), table.header.line, &row).map(|()| row),
            false => Ok(row),
        };
        let row = row.and_then(whole);
        let Some(row) = lines.keep(row)? else { return Ok(()) };
        table.add(at, row, self.asked.interval(), self.run);
        Ok(())
    }

    /// The first rows after a restart cover time in which the machine was down.
    fn restart(&mut self) {
        self.close();
        self.table = None;
    }

    /// Ends the table.
    fn close(&mut self) {
        if let Some(mut table) = self.table.take() {
            table.release(None, self.asked.interval(), self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, refusal_of, window_of};
    use whyslow_model::catalogue::{CpuMean, Disk, Family, Interface, Meminfo, System};
    use whyslow_model::value::Counter;
    use whyslow_model::window::Window;

    fn rate<F: Family<Key: std::fmt::Display>>(window: &Window, key: &str, f: impl Fn(&F) -> Counter) -> f64 {
        let changes = window.changes::<F>();
        let change = changes.iter().find(|c| c.key().to_string() == key).unwrap_or_else(|| panic!("no {key}"));
        change.rate(f).unwrap()
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 0.02 * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn requests_of_half_a_mebibyte() {
        let window = window_of(&fixture("san-sar-d-1024k.txt"));
        let (bytes, requests) =
            (rate::<Disk>(&window, "sdj", |d| d.read_bytes), rate::<Disk>(&window, "sdj", |d| d.transfers));
        close(bytes / requests, 1024.0 * 512.0);
        assert_eq!(window.newest::<Disk>().values().next().unwrap().number.get(), Some("8:144"));
    }

    #[test]
    fn grepped_rows_without_a_header() {
        let window = window_of(&fixture("san-sar-d-2k.txt"));
        close(rate::<Disk>(&window, "sdj", |d| d.transfers), 5463.0);
        close(rate::<Disk>(&window, "sdj", |d| d.read_bytes), 10.67 * 1_048_576.0);
    }

    #[test]
    fn memory_without_a_header_is_known_by_its_sums() {
        let window = window_of(&fixture("cases/016-nfsd-kernel-memory-leak-oom/sar-r.txt"));
        assert_eq!(window.the::<Meminfo>().unwrap().mem_free.get(), Some(1_561_896.0 * 1024.0));
        refusal_of("01:20:13 AM 390187300 388732764 3501864 77.89 4856 363952 390344 0.09 100680 358384 17148\n");
    }

    #[test]
    fn processors_without_a_header_are_known_by_their_sums() {
        let window = window_of(
            "14:00:01  all  90.00  0.00  3.00  5.00  0.00  2.00\n14:00:02  all  92.00  0.00  1.00  5.00  0.00  2.00\n",
        );
        close(rate::<CpuMean>(&window, "host", |c| c.user) / 1e9, 0.91);
        refusal_of("14:00:01     all    97.00    0.00    3.00    0.00    0.00    7.00\n");
    }

    #[test]
    fn every_table_of_one_run() {
        let window = window_of(&fixture("cases/026-raid5-build-bad-disk/sar.txt"));
        close(rate::<Disk>(&window, "sdg", |d| d.busy_time) / 1e9, 1.0025);
        close(rate::<Disk>(&window, "sdg", |d| d.write_bytes), 479.06 * 512.0);
        close(rate::<CpuMean>(&window, "host", |c| c.idle) / 1e9, 0.9991);
        assert_eq!(window.change::<System>().unwrap().last().load_1m.get(), Some(1.0));
        assert_eq!(window.seconds(), 60.0);
    }

    #[test]
    fn interrupts_of_mpstat() {
        let window = window_of(&fixture("irq-mpstat-2.txt"));
        assert_eq!(window.seconds(), 16.0);
        close(rate::<System>(&window, "host", |s| s.interrupts), 1212.0);
    }

    #[test]
    fn interfaces_and_a_restart() {
        let window = window_of(
            "Linux 6.1.0 (web) 	2024-06-01 	_x86_64_	(4 CPU)

12:00:01 AM     IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
12:10:01 AM      eth0     10.00     20.00      1.00      2.00      0.00      0.00      0.00      0.00

12:10:30 AM       LINUX RESTART	(4 CPU)

12:20:01 AM     IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
12:30:01 AM      eth0     30.00     20.00      3.00      2.00      0.00      0.00      0.00      0.00
Average:         eth0     99.00     20.00      1.00      2.00      0.00      0.00      0.00      0.00
",
        );
        // Over the time in which the machine was down nothing was counted.
        close(window.changes::<Interface>()[0].rate(|i| i.rx_bytes).unwrap(), 4.0 / 3.0 * 1024.0);
        assert!(window.snapshots()[0].wall_ns > 0);
    }
}
