//! sar(1) and mpstat(1) of sysstat 5 to 12: tables whose rows begin with the time at the end of their interval.

use super::sar_reports::{COLUMNS, SarReport, headerless, is_skipped};
use super::sysstat::{ALL_CPUS, ONE_CPU, check_shares};
use crate::clock::timed_fields;
use crate::prelude::*;
use crate::table::{TableHeader, is_remark, take_row_of};
use crate::timeline::{Cursor, Timeline};
use std::collections::BTreeMap;
use whyslow_model::since_boot::AVERAGED;

pub const SAR: Format = Format {
    name: "sar",
    versions: "sysstat 5 to 12, every report; -d, -r and -u without header if the numbers leave no doubt; those on terminals, huge pages, sensors, ICMP and IPv6 are skipped",
    shows: "what its reports cover (CPUs, memory, devices, interfaces), with times; pressure and retransmissions with -q ALL and -n ETCP",
    lacks: "processes",
    programs: &[program("sar")],
    files: &["sar"],
    columns: COLUMNS,
    streamed: true,
    starts: |lines| starts(lines) && !is_mpstat(lines),
    read: |lines, context, run| read(lines, context, run, SAR.name),
};

/// Format of mpstat, which prints the same CPU tables.
pub const MPSTAT: Format = Format {
    name: "mpstat",
    versions: "sysstat 5 to 12: -P, -A, -I, -u",
    shows: "CPU time by mode, in total and of each CPU; all interrupts",
    lacks: "processes",
    programs: &[program("mpstat")],
    files: &["mpstat"],
    columns: &[&ALL_CPUS, &ONE_CPU],
    streamed: true,
    starts: |lines| starts(lines) && is_mpstat(lines),
    read: |lines, context, run| read(lines, context, run, MPSTAT.name),
};

/// Factor by which the first interval may exceed the following ones: the rows after a header are often cut out.
const GAP: f64 = 1.5;
/// Maximum number of rows of one time to hold: more disks and CPUs than any machine has.
const MOST_HELD: usize = 50_000;
/// Maximum number of kinds of table; there are fewer reports.
const MOST_KINDS: usize = 200;

/// Returns the time of a line, and the fields after it, at least one.
fn timed(line: &str) -> Option<(f64, Vec<&str>)> {
    timed_fields(line).filter(|(_, fields)| !fields.is_empty())
}

/// Returns the fields of a header of averages, if the rows above them were cut off: `Average:        CPU     %user ...`.
fn averages(line: &str) -> Option<Vec<&str>> {
    clock::averaged_fields(line).filter(|fields| SarReport::from_header(fields).is_some())
}

/// Returns the word that begins a line of averages, in the language of the program.
fn first_word(line: &str) -> &str {
    line.trim_start().split(':').next().unwrap_or_default()
}

/// Returns true if a line is one of averages: a header, or a line that begins with the word of such a header.
fn is_average(line: &str, word: Option<&str>) -> bool {
    let own = first_word(line);
    let is_header = |fields: Vec<&str>| SarReport::from_header(&fields).is_some() || is_skipped(&fields);
    ["Average", "Summary"].contains(&own)
        || clock::averaged_fields(line).is_some_and(|fields| word == Some(own) || is_header(fields))
}

/// Returns the report and the columns of a header that lost its time, above a row that has one.
fn untimed_header(lines: &mut Lines<'_>, at: usize) -> Option<(&'static SarReport, Vec<String>)> {
    let columns = lines.peek(at + 1).and_then(timed).map(|(_, fields)| fields.len())?;
    let line = lines.peek(at).filter(|line| line.starts_with(char::is_whitespace) && timed(line).is_none())?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let report = SarReport::from_header(&fields).filter(|_| fields.len() == columns)?;
    Some((report, fields.into_iter().map(str::to_owned).collect()))
}

fn starts(lines: &mut Lines<'_>) -> bool {
    if lines.next_is(|line| averages(line).is_some()) || untimed_header(lines, 0).is_some() {
        return true;
    }
    let Some((_, fields)) = lines.peek(0).and_then(timed) else { return false };
    SarReport::from_header(&fields).is_some() || is_skipped(&fields) || headerless(&fields).is_some()
}

/// Returns true if a header is mpstat's: it has interrupts beside CPU time, or their share before steal.
fn is_mpstat(lines: &mut Lines<'_>) -> bool {
    let fields = lines.peek(0).and_then(|line| timed(line).map(|(_, fields)| fields).or_else(|| averages(line)));
    let Some(fields) = fields else { return false };
    let at = |name: &str| fields.iter().position(|field| *field == name);
    let before = at("%irq").zip(at("%steal")).is_some_and(|(irq, steal)| irq < steal);
    fields.first() == Some(&"CPU") && (before || at("intr/s").is_some())
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun, own: &str) -> ReadResult {
    run.start = context.day();
    run.lists_all = true;
    let mut reader = SarReader {
        context,
        run,
        timeline: Timeline::default(),
        cursors: BTreeMap::new(),
        cursor: Cursor::default(),
        table: None,
        last: None,
        stamp: None,
    };
    // Word for averages in this language, once a header has shown it.
    let mut word: Option<String> = None;
    let mut is_after_average = false;
    // Averages repeat the rows above them, if there are any; this includes rows of a run that a broken line ended.
    let are_alone = lines.next_is(|line| averages(line).is_some());
    let do_count = are_alone && !context.is_past_output();
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        let is_last_average = std::mem::take(&mut is_after_average);
        if text.contains("LINUX RESTART") {
            reader.restart(lines.number() + blanks as u32);
            lines.skip(blanks + 1);
        } else if is_average(&text, word.as_deref()) {
            lines.skip(blanks);
            word = Some(first_word(&text).to_owned());
            is_after_average = true;
            let fields = clock::averaged_fields(&text).filter(|_| do_count).unwrap_or_default();
            if let Some(report) = SarReport::from_header(&fields) {
                reader.stamp = None;
                reader.header(lines, None, report, &fields);
            } else if reader.table.is_some() && do_count && !is_skipped(&fields) {
                reader.row(lines, None, &fields)?;
            } else {
                if are_alone {
                    reader.close_table();
                }
                lines.skip(1);
            }
        } else if let Some((time, fields)) = timed(&text).filter(|_| !are_alone) {
            let stamp = text.split_whitespace().count() - fields.len();
            if let Some(report) = SarReport::from_header(&fields) {
                lines.skip(blanks);
                // The output of a second mpstat run is not an average since boot.
                if reader.is_since_boot() && reader.run.start.time != Some(time) {
                    break;
                }
                reader.stamp = Some(stamp);
                reader.header(lines, Some(time), report, &fields);
            } else if is_skipped(&fields) {
                lines.skip(blanks);
                reader.close_table();
                skip_report(lines);
            } else {
                lines.skip(blanks);
                // Times that restart below a blank line belong to a table whose header was lost.
                if blanks > 0 && reader.last.is_some_and(|last| time <= last) {
                    reader.close_table();
                }
                if reader.table.is_none() && headerless(&fields).is_none() {
                    break;
                }
                reader.row(lines, Some(time), &fields)?;
            }
        } else if let Some((report, fields)) = untimed_header(lines, blanks) {
            lines.skip(blanks);
            reader.close_table();
            reader.stamp = lines.peek(1).map(|row| row.split_whitespace().count() - fields.len());
            reader.untimed_header(lines, report, &fields);
        } else {
            lines.skip(blanks);
            // A mark for rows that were cut out: `....`
            let cut = is_remark(&text) && lines.peek_past_blanks(1).is_some_and(|(_, next)| timed(next).is_some());
            // A piece that a mail program broke off a line of averages.
            let is_rest = is_last_average && lines.peek(1).is_some_and(|next| is_average(next, word.as_deref()));
            if !cut && !is_rest || another_output_starts(lines, own) {
                break;
            }
            lines.skip(1);
        }
    }
    reader.close_table();
    Ok(())
}

/// Skips a report that is not used, and its rows.
fn skip_report(lines: &mut Lines<'_>) {
    lines.skip(1);
    while lines.peek(0).and_then(timed).is_some_and(|(_, fields)| {
        SarReport::from_header(&fields).is_none() && !is_skipped(&fields) && fields.iter().any(|f| number(f).is_some())
    }) {
        lines.skip(1);
    }
}

/// The current table.
struct SarTable {
    report: &'static SarReport,
    header: TableHeader,
    /// Whether the label of a row follows its numbers.
    is_labelled_last: bool,
    /// End of the previous interval; `None` without a header.
    from: Option<f64>,
    /// Time of the first rows, which are held until the next time shows how long their interval may have been.
    first: Option<f64>,
    held: Vec<TableRow>,
    interval: Option<ReportInterval>,
}

impl SarTable {
    fn new(report: &'static SarReport, header: TableHeader, is_labelled_last: bool) -> Self {
        Self { report, header, is_labelled_last, from: None, first: None, held: Vec::new(), interval: None }
    }

    /// Returns true if its only rows are averages since boot: mpstat prints those below a header of the same time.
    fn is_since_boot(&self, run: &ToolRun) -> bool {
        run.tool == MPSTAT.name && self.first == Some(0.0) && self.from == self.first && self.interval.is_none()
    }

    /// Returns what all tables of its kind have in common.
    fn kind(&self) -> String {
        self.header.names.join(" ")
    }

    /// Takes a row whose interval ends at this time.
    fn add(&mut self, at: f64, row: TableRow, asked: Option<f64>, run: &mut ToolRun) {
        let first = *self.first.get_or_insert(at);
        if self.interval.is_none() {
            if at == first && self.held.len() < MOST_HELD {
                self.held.push(row);
                return;
            }
            self.release(Some(at - first).filter(|spacing| *spacing > 0.0), asked, run);
        }
        let Some(interval) = self.interval.as_mut() else { return };
        if interval.to != at {
            *interval = ReportInterval { from: interval.to, to: at };
        }
        if interval.seconds() > 0.0 {
            (self.report.record)(run, *interval, &row);
        }
    }

    fn release(&mut self, spacing: Option<f64>, asked: Option<f64>, run: &mut ToolRun) {
        let Some(first) = self.first.filter(|_| self.interval.is_none()) else { return };
        let usual = asked.or(spacing);
        let from = match (self.from.map(|from| first - from).filter(|gap| *gap > 0.0), usual) {
            (Some(gap), Some(usual)) if gap > GAP * usual => first - usual,
            (Some(gap), _) => first - gap,
            // Without a header and a neighbouring time, the length is unknown; no rate depends on it.
            (None, usual) => first - usual.unwrap_or(1.0),
        };
        // A series without a header begins before its first time.
        let mut interval = ReportInterval { from: from.max(0.0), to: first };
        if spacing.is_none() && self.is_since_boot(run) {
            run.is_average = true;
            interval = ReportInterval { from: 0.0, to: AVERAGED };
        }
        self.interval = Some(interval);
        for row in self.held.drain(..).filter(|_| interval.seconds() > 0.0) {
            (self.report.record)(run, interval, &row);
        }
    }
}

struct SarReader<'a> {
    context: OutputContext<'a>,
    run: &'a mut ToolRun,
    timeline: Timeline,
    /// Positions in time of the tables read before, by their columns.
    cursors: BTreeMap<String, Cursor>,
    /// Position in time of the current table.
    cursor: Cursor,
    table: Option<SarTable>,
    /// Time of day of the table's last row.
    last: Option<f64>,
    /// Number of fields of the time, with or without AM or PM.
    stamp: Option<usize>,
}

impl SarReader<'_> {
    /// Returns the time of a row or header on a line; for averages, which have no time, the end of the interval.
    fn elapsed(&mut self, time: Option<f64>, line: u32) -> f64 {
        /// Length of the unknown time of averages.
        const ASSUMED: f64 = 1.0;
        let Some(time) = time else {
            let interval = self.context.interval();
            self.run.has_assumed_times |= interval.is_none();
            return interval.unwrap_or(ASSUMED);
        };
        self.run.start.time.get_or_insert(time);
        let reading = self.timeline.read(&mut self.cursor, PrintedTime::of_day(time), self.context.interval());
        self.run.note_clock(reading, line)
    }

    fn is_since_boot(&self) -> bool {
        self.run.is_average || self.table.as_ref().is_some_and(|table| table.is_since_boot(self.run))
    }

    /// Begins a table. Each table goes through the times by itself, and continues where one with the same columns ended.
    fn open_table(&mut self, table: SarTable) {
        self.close_table();
        self.cursor = self.cursors.get(&table.kind()).copied().unwrap_or_default();
        self.table = Some(table);
    }

    /// Ends the counters since the previous boot. Rows of the same table may follow without a header.
    fn restart(&mut self, line: u32) {
        let Some(table) = &self.table else { return };
        let (report, is_labelled_last) = (table.report, table.is_labelled_last);
        let header = TableHeader { names: table.header.names.clone(), ..table.header };
        self.run.note(
            &format!("the time around the restart at line {line}"),
            "the machine was restarted there; nothing is computed across it",
            "",
        );
        self.open_table(SarTable::new(report, header, is_labelled_last));
    }

    fn header(&mut self, lines: &mut Lines<'_>, time: Option<f64>, report: &'static SarReport, fields: &[&str]) {
        let is_labelled_last = report.is_labelled_last(fields);
        let names = match is_labelled_last {
            true => &fields[..fields.len() - 1],
            false => &fields[report.labels()..],
        };
        let line = lines.number();
        let header = TableHeader::new(names, line);
        lines.skip(1);
        // The header is repeated for every screenful, and before each row if several reports were requested.
        let is_same = |t: &SarTable| std::ptr::eq(t.report, report) && t.header.names == header.names;
        if !self.table.as_ref().is_some_and(is_same) {
            self.open_table(SarTable::new(report, header, is_labelled_last));
        }
        let at = if time.is_some() { self.elapsed(time, line) } else { 0.0 };
        if let Some(table) = &mut self.table {
            table.from.get_or_insert(at);
        }
    }

    /// Takes a header without a time: when its first row's interval began is as unknown as without a header.
    fn untimed_header(&mut self, lines: &mut Lines<'_>, report: &'static SarReport, fields: &[String]) {
        let names: Vec<&str> = fields[report.labels()..].iter().map(String::as_str).collect();
        let header = TableHeader::new(&names, lines.number());
        lines.skip(1);
        self.open_table(SarTable::new(report, header, false));
    }

    fn row(&mut self, lines: &mut Lines<'_>, time: Option<f64>, fields: &[&str]) -> ReadResult {
        if self.table.is_none()
            && let Some((report, names)) = headerless(fields)
        {
            self.open_table(SarTable::new(report, TableHeader::new(names, lines.number()), false));
        }
        let at = self.elapsed(time, lines.number());
        self.last = time;
        let Some(table) = self.table.as_mut() else { return Ok(()) };
        let stamp = lines.peek(0).unwrap_or_default().split_whitespace().count() - fields.len();
        let is_stamped = self.stamp.is_none_or(|own| own == stamp);
        let refused = lines.refuse("a time as in the header");
        let labels = stamp + table.report.labels();
        let mut row = take_row_of(lines, &table.header.names, labels, table.is_labelled_last);
        row = if is_stamped { row } else { row.and(Err(refused)) };
        if table.report.is_cpu_shares() {
            row = row.and_then(|row| check_shares(lines.file(), table.header.line, row));
        }
        let Some(row) = lines.keep(row)? else {
            self.run.lose_row(at);
            return Ok(());
        };
        table.add(at, row, self.context.interval(), self.run);
        Ok(())
    }

    fn close_table(&mut self) {
        self.last = None;
        if let Some(mut table) = self.table.take() {
            if self.cursors.len() >= MOST_KINDS {
                self.cursors.clear();
            }
            self.cursors.insert(table.kind(), self.cursor);
            table.release(None, self.context.interval(), self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, read_text, refusal_of, window_of};
    use whyslow_model::catalogue::{Cpu, CpuMean, Disk, Family, Interface, Meminfo, System, Vmstat};
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
    fn a_header_that_lost_its_time_is_one() {
        let text = "                pgpgin/s pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s pgsteal/s    %vmeff\n\
            09:10:01 AM   1204.11    812.40   4210.70      3.10   6120.40      0.00      0.00      0.00      0.00\n\
            09:20:01 AM   1204.11    844.18   4402.20      3.10   6604.90    310.20      0.00    301.80     97.29\n\n\
            \u{20}           kbmemfree kbmemused  %memused kbbuffers  kbcached\n\
            09:10:01 AM   1402116  14863572     91.38     95220   2811004\n\
            09:20:01 AM    410220  15855468     97.48     96000   2990112\n";
        let window = window_of(text);
        close(window.change::<Vmstat>().unwrap().rate(|v| v.pgmajfault).unwrap(), 3.10);
        assert_eq!(window.the::<Meminfo>().unwrap().cached.get(), Some(2_990_112.0 * 1024.0));
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
    fn names_may_stand_behind_the_numbers() {
        let text = "12:00:01 PM       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util DEV\n\
            12:00:11 PM    140.00  71680.00      0.00      0.00    512.00      1.40     10.00     99.00 sda\n\
            12:00:11 PM      1.00      4.00      0.00      0.00      4.00      0.00      1.00      0.10 vg0-log\n\
            \n12:00:01 PM   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil IFACE\n\
            12:00:11 PM    100.00     50.00     10.00      5.00      0.00      0.00      0.00      0.01 eth0\n";
        let window = window_of(text);
        close(rate::<Disk>(&window, "sda", |d| d.read_bytes), 71_680.0 * 1024.0);
        assert_eq!(window.newest::<Disk>().len(), 2);
        close(rate::<Interface>(&window, "eth0", |i| i.rx_packets), 100.0);
    }

    #[test]
    fn averages_whose_rows_were_cut_off() {
        let text = "$ mpstat -P ALL 10 1 | grep Average\n\
            Average:     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n\
            Average:     all   10.00    0.00    5.00    0.00    0.00    0.00    0.00    0.00    0.00   85.00\n\
            Average:       0   90.00    0.00   10.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00\n\
            driver: e1000e\n";
        let window = window_of(text);
        close(window.change::<CpuMean>().unwrap().rate(|c| c.idle).unwrap() / 1e9, 0.85);
        assert_eq!(window.change::<CpuMean>().unwrap().seconds(), 10.0);
        close(rate::<Cpu>(&window, "0", |c| c.user) / 1e9, 0.9);
        let text = "Moyenne :         tps      rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util DEV\n\
            Moyenne :       12,40      18,20     61,40      0,00      6,42      0,05      4,12      2,88 sda\n";
        close(rate::<Disk>(&window_of(text), "sda", |d| d.transfers), 12.0);
        let whole = "10:00:01        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
            10:00:11        all     10.00      0.00      5.00      0.00      0.00     85.00\n\
            Durchschn.:        CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
            Durchschn.:        all     50.00      0.00      5.00      0.00      0.00     45.00\n\
            Mem:          1991       1900         91          0         12        400\n";
        let idle = |text: &str| window_of(text).change::<CpuMean>().unwrap().rate(|c| c.idle).unwrap() / 1e9;
        close(idle(whole), 0.85);
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
    fn interrupts_of_mpstat_are_read() {
        let window = window_of(&fixture("irq-mpstat-2.txt"));
        assert_eq!(window.seconds(), 16.0);
        close(rate::<System>(&window, "host", |s| s.interrupts), 1212.0);
    }

    #[test]
    fn mpstat_without_an_interval_prints_averages_since_boot() {
        let report = |header: &str, row: &str, idle: f64| {
            format!(
                "\n{header}     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n\
                 {row}     all   {:.2}    0.00    0.00    0.00    0.00    0.00    0.00    0.00    0.00   {idle:.2}\n",
                100.0 - idle
            )
        };
        let once = window_of(&report("10:00:00", "10:00:00", 60.0));
        assert!(once.change::<CpuMean>().is_none() && !once.totals().is_empty());
        let again = report("10:00:00", "10:00:00", 60.0) + &report("10:00:05", "10:00:06", 20.0);
        let captures = read_text(&again).unwrap();
        let windows: Vec<_> = captures.iter().filter_map(|capture| capture.window.change::<CpuMean>()).collect();
        close(windows[0].rate(|cpu| cpu.idle).unwrap() / 1e9, 0.2);
    }

    #[test]
    fn interfaces_are_read_across_a_restart() {
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
        // Counts around the restart are unknown: the mean is that of the two intervals.
        close(window.changes::<Interface>()[0].rate(|i| i.rx_bytes).unwrap(), 2.0 * 1024.0);
        assert!(window.snapshots()[0].wall_ns > 0);
    }
}
