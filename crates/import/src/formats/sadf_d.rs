//! `sadf -d` of sysstat: reports of sar in fields separated by semicolons, with the interval and the time of each row.

use super::sar;
use super::sar_reports::SarReport;
use super::sysstat::check_shares;
use crate::prelude::*;
use crate::timeline::{Cursor, Timeline};
use std::collections::BTreeMap;

pub const FORMAT: Format = Format {
    name: "sadf -d",
    versions: "sysstat 10 to 12: -d, with -t, -T or -U; not -h",
    shows: "what the reports of sar cover, with times",
    lacks: "processes",
    streamed: true,
    starts: |lines| lines.next_is(|line| Header::parse(line).is_some()),
    read,
    ..Format::NEW
};

/// Header above each table.
const HEADER: &str = "# hostname;interval;timestamp;";
/// Maximum number of kinds of table; there are fewer reports.
const MOST_KINDS: usize = 200;

/// `# hostname;interval;timestamp;DEV;tps;rkB/s ...`
struct Header {
    /// Report; `None` if the diagnosis does not use it.
    report: Option<&'static SarReport>,
    names: Vec<String>,
    line: u32,
}

impl Header {
    fn parse(line: &str) -> Option<Self> {
        let names: Vec<&str> = line.strip_prefix(HEADER)?.trim_end().split(';').collect();
        let names = names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let fields: Vec<&str> = names.iter().map(String::as_str).collect();
        Some(Self { report: SarReport::from_header(&fields), names, line: 0 })
    }
}

/// `db1;600;2026-11-24 10:00:01 UTC;sda;177.45;4674.51 ...`
struct Row<'t> {
    host: &'t str,
    interval: f64,
    at: PrintedTime,
    fields: Vec<&'t str>,
}

impl<'t> Row<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let mut fields = line.trim_end().split(';');
        let (host, interval, time) = (fields.next()?, fields.next()?, fields.next()?);
        let at = clock::epoch_time(time).or_else(|| clock::date_line(time))?;
        // The interval is -1 if the machine was restarted.
        let interval: f64 = interval.parse().ok()?;
        (!host.is_empty() && !host.contains(' ')).then_some(Self { host, interval, at, fields: fields.collect() })
    }

    /// Returns the numbers below the names of a header, after the label if the report has one.
    fn table_row(&self, header: &Header, report: &SarReport, line: u32) -> Option<TableRow> {
        let labels = report.labels();
        let label = match self.fields.first().filter(|_| labels > 0) {
            Some(&"-1") => "all",
            Some(label) => label,
            None => "",
        };
        let numbers = header.names.iter().zip(&self.fields).skip(labels);
        let numbers: Option<Vec<_>> = numbers.map(|(name, field)| Some((name.clone(), number(field)?))).collect();
        (self.fields.len() == header.names.len()).then_some(TableRow::new(line, label, numbers?))
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    const EXPECTED: &str = "a host, an interval, a time, and a number for each column between semicolons";
    run.tool = sar::SAR.name;
    run.lists_all = true;
    run.start = PrintedTime::default();
    let mut timeline = Timeline::default();
    let mut cursors: BTreeMap<Vec<String>, Cursor> = BTreeMap::new();
    let mut header: Option<Header> = None;
    let is_header = |text: &str| text.starts_with('#') && text.contains(';');
    let is_own = |text: &str| is_header(text) || Row::parse(text).is_some();
    let is_damaged = |text: &str| text.matches(';').count() > 2;
    while let Some(line) = lines.take_own(is_own, is_damaged, EXPECTED)? {
        if is_header(&line.text) {
            // The rows below a damaged header belong to another table.
            let own = Header::parse(&line.text).map(|own| Header { line: line.number, ..own });
            header = lines.keep(own.ok_or_else(|| lines.refuse_at(&line, format!("a header: {HEADER}"))))?;
            continue;
        }
        let (Some(row), Some(header)) = (Row::parse(&line.text), &header) else { continue };
        // Counters restart when the machine is restarted.
        let Some(report) = header.report.filter(|_| row.interval > 0.0) else { continue };
        run.host.get_or_insert_with(|| row.host.into());
        if cursors.len() >= MOST_KINDS && !cursors.contains_key(&header.names) {
            cursors.clear();
        }
        let cursor = cursors.entry(header.names.clone()).or_default();
        if run.start.time.is_none() {
            run.start = row.at.after(-row.interval);
            timeline.read(&mut Cursor::default(), run.start, None);
        }
        let reading = timeline.read(cursor, row.at, Some(row.interval));
        let to = run.note_clock(reading, line.number);
        let interval = ReportInterval { from: (to - row.interval).max(0.0), to };
        let read = row.table_row(header, report, line.number).ok_or_else(|| lines.refuse_at(&line, EXPECTED));
        let read = match report.is_cpu_shares() {
            true => read.and_then(|row| check_shares(lines.file(), header.line, row)),
            false => read,
        };
        match lines.keep(read)? {
            Some(row) if interval.seconds() > 0.0 => (report.record)(run, interval, &row),
            Some(_) => {}
            None => run.lose_row(to),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{fixture, window_of};
    use whyslow_model::catalogue::{Cpu, CpuMean, Disk, Interface, Meminfo};

    #[test]
    fn reports_of_sar_between_semicolons() {
        let window = window_of(&fixture("sadf-d.txt"));
        assert_eq!((window.seconds(), window.changes::<Cpu>().len()), (3.0, 2));
        let idle = window.change::<CpuMean>().unwrap().rate(|cpu| cpu.user).unwrap() / 1e9;
        assert!((idle - (0.7811 + 0.7156 + 0.7438) / 3.0).abs() < 1e-4, "{idle}");
        let disks = window.changes::<Disk>();
        assert!(
            (disks[0].rate(|disk| disk.read_bytes).unwrap() - (4674.51 + 906.67 + 55.45) / 3.0 * 1024.0).abs() < 2.0
        );
        assert_eq!(window.newest::<Interface>().len(), 4);
        assert_eq!(window.the::<Meminfo>().unwrap().mem_free.get(), Some(214_908.0 * 1024.0));
        assert_eq!(window.last().unwrap().wall_ns, 1_795_954_385_000_000_000);
    }

    #[test]
    fn times_are_local_or_since_1970_and_a_restart_is_no_interval() {
        let text = |times: [&str; 3]| {
            let [first, second, third] = times;
            format!(
                "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle\n\
                 db1;600;{first};-1;10.00;0.00;0.00;0.00;0.00;90.00\n\
                 db1;-1;{second};LINUX-RESTART\t(2 CPU)\n\
                 db1;600;{third};-1;20.00;0.00;0.00;0.00;0.00;80.00\n"
            )
        };
        let local = ["2026-11-24 10:00:00", "2026-11-24 10:05:00", "2026-11-24 10:30:00"];
        for times in [local, ["1795514400", "1795514700", "1795516200"]] {
            let window = window_of(&text(times));
            let steps: Vec<_> = window.change::<CpuMean>().unwrap().steps(|cpu| cpu.idle).collect();
            let known: Vec<_> =
                steps.iter().filter_map(|(s, grown)| Some((*s, (grown.as_ref()? / s / 1e7).round()))).collect();
            assert_eq!((steps.len(), known), (3, vec![(600.0, 90.0), (600.0, 80.0)]), "{steps:?}");
        }
    }
}
