//! dstat(1) and dool(1): groups of columns side by side, a row per interval; the first row covers the time since boot.

use crate::prelude::*;
use crate::report_intervals::ReportIntervals;
use whyslow_model::catalogue::{CpuMean, Disk, Meminfo, System, Vmstat};

pub const FORMAT: Format = Format {
    name: "dstat",
    versions: "dstat 0.6 to 0.7, dool: -c -d -r -g -y -p -m, with -D; -t",
    shows: "CPU time, bytes and requests of each disk that -D names, paging, interrupts and context switches",
    lacks: "how long requests take; totals of disks and networks, which are no device's own",
    programs: &[program("dstat"), program("dool")],
    columns: &[&CPU, &DISK, &REQUESTS, &SYSTEM, &PAGING, &PROCESSES, &MEMORY],
    streamed: true,
    starts: |lines| header(lines).is_some(),
    read,
    ..Format::NEW
};

const PERCENT: f64 = SECOND / 100.0;
const PAGE: f64 = 4096.0;

const CPU: MetricColumns<CpuMean> = columns![
    "usr" => user * PERCENT, "sys" => system * PERCENT, "idl" => idle * PERCENT, "wai" => iowait * PERCENT,
    "hiq" => irq * PERCENT, "siq" => softirq * PERCENT, "stl" => steal * PERCENT,
];
const DISK: MetricColumns<Disk> = columns!["read" => read_bytes, "writ" => write_bytes];
const REQUESTS: MetricColumns<Disk> = columns!["read" => reads, "writ" => writes];
const SYSTEM: MetricColumns<System> = columns!["int" => interrupts, "csw" => context_switches];
const PAGING: MetricColumns<Vmstat> = columns!["in" => pswpin * 1.0 / PAGE, "out" => pswpout * 1.0 / PAGE];
const PROCESSES: MetricColumns<System> = columns!["run" => running, "blk" => blocked];
const MEMORY: MetricColumns<Meminfo> =
    columns!["free" => mem_free, "buff" => buffers, "buf" => buffers, "cach" => cached];

/// A group of columns, and the separator after it.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    name: String,
    columns: Vec<String>,
    end: Option<char>,
}

/// Returns true for the names of groups whose columns are known; all other groups are skipped.
fn is_group(name: &str) -> bool {
    const NAMES: [&str; 6] = ["total-cpu-usage", "total-usage", "system", "paging", "procs", "memory-usage"];
    NAMES.contains(&name) || ["dsk/", "io/", "net/"].iter().any(|kind| name.starts_with(kind))
}

/// Returns the names in `----total-cpu-usage---- -dsk/total- -net/total-` and `--dsk/sda-----dsk/sdb--`.
fn names(line: &str) -> Vec<String> {
    let pieces = line.split_whitespace().flat_map(|piece| piece.split("--"));
    pieces.map(|name| name.trim_matches('-').to_owned()).filter(|name| !name.is_empty()).collect()
}

/// Returns the groups of a table whose two header lines come next.
fn header(lines: &mut Lines<'_>) -> Option<Vec<Group>> {
    let above = lines.peek(0).filter(|text| text.trim_start().starts_with('-'))?.to_owned();
    if !names(&above.replace('|', " ")).iter().any(|name| is_group(name)) {
        return None;
    }
    let below = lines.peek(1)?;
    let mut groups = Vec::new();
    // dool also draws lines between the names, and none between the columns of two disks.
    let (names_of, parts): (Vec<Vec<String>>, Vec<&str>) = if above.contains('|') {
        (above.split('|').map(names).collect(), below.split('|').collect())
    } else {
        (names(&above).into_iter().map(|name| vec![name]).collect(), below.split(['|', ':']).collect())
    };
    let ends: Vec<char> = below.chars().filter(|c| *c == '|' || (*c == ':' && !above.contains('|'))).collect();
    for (at, (own, part)) in names_of.iter().zip(&parts).enumerate() {
        let columns: Vec<String> = part.split_whitespace().map(str::to_owned).collect();
        let each = columns.len() / own.len().max(1);
        if each == 0 || each * own.len() != columns.len() || !columns.iter().all(|word| is_column(word)) {
            return None;
        }
        for (number, (name, columns)) in own.iter().zip(columns.chunks(each)).enumerate() {
            let end = if number + 1 < own.len() { Some(':') } else { ends.get(at).copied() };
            groups.push(Group { name: name.clone(), columns: columns.to_vec(), end });
        }
    }
    (names_of.len() == parts.len()).then_some(groups)
}

fn is_column(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'#')
}

/// Splits a row into the fields of each group. A time contains colons itself.
fn fields<'t>(row: &'t str, groups: &[Group]) -> Option<Vec<Vec<&'t str>>> {
    let mut rest = row.split(" #").next().unwrap_or(row);
    let mut all = Vec::new();
    for group in groups {
        let own = match group.end {
            Some(end) => {
                let (own, after) = rest.split_once(end)?;
                rest = after;
                own
            }
            None => std::mem::take(&mut rest),
        };
        all.push(own.split_whitespace().collect());
    }
    Some(all)
}

/// Returns the known groups of a row, or `None` for any other line.
fn row(text: &str, line: u32, groups: &[Group]) -> Option<Vec<(String, TableRow)>> {
    let mut rows = Vec::new();
    for (group, fields) in groups.iter().zip(fields(text, groups)?) {
        // The group of the time has the same name as that of interrupts.
        if !is_group(&group.name) || group.columns == ["time"] {
            continue;
        }
        // Bytes have prefixes of 1024, counts of 1000.
        let step =
            if ["system", "procs"].contains(&group.name.as_str()) || group.name.starts_with("io/") { 1e3 } else { KIB };
        let value = |field: &&str| scaled(field.strip_suffix('B').unwrap_or(field), step, 1.0);
        let values: Option<Vec<f64>> = fields.iter().map(value).collect();
        let values = values.filter(|values| values.len() == group.columns.len())?;
        rows.push((group.name.clone(), TableRow::new(line, "", group.columns.iter().cloned().zip(values))));
    }
    Some(rows)
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut groups = Vec::new();
    let mut intervals = ReportIntervals::since_boot().headed(true);
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        if let Some(own) = header(lines) {
            groups = own;
            lines.skip(2);
            continue;
        }
        let Some(rows) = row(&text, lines.number(), &groups) else { break };
        let is_whole = rows.iter().filter(|(name, _)| name.starts_with("total-")).all(|(_, row)| is_whole(row));
        if !is_whole {
            lines.leave_out("CPU shares that add up to 100")?;
            continue;
        }
        lines.skip(1);
        for (rows, interval) in intervals.next(rows, None, context, run) {
            record(run, &rows, interval);
        }
    }
    for (rows, interval) in intervals.finish(context, run) {
        record(run, &rows, interval);
    }
    Ok(())
}

/// Returns true if the CPU shares, which are rounded to whole per cents, add up to the whole.
fn is_whole(row: &TableRow) -> bool {
    const MOST_SHARES: f64 = 7.0;
    (CPU.sum(row) / PERCENT - 100.0).abs() <= MOST_SHARES / 2.0
}

fn record(run: &mut ToolRun, rows: &[(String, TableRow)], interval: ReportInterval) {
    for (name, row) in rows {
        match name.split_once('/') {
            Some((_, "total")) => {}
            Some(("dsk", disk)) => drop(run.rates::<Disk>(interval, disk.into(), row, &DISK)),
            Some(("io", disk)) => drop(run.rates::<Disk>(interval, disk.into(), row, &REQUESTS)),
            _ => match name.as_str() {
                "total-cpu-usage" | "total-usage" => drop(run.rates(interval, MachineKey, row, &CPU)),
                "system" => drop(run.rates(interval, MachineKey, row, &SYSTEM)),
                "procs" => drop(run.rates(interval, MachineKey, row, &PROCESSES)),
                "paging" => drop(run.rates(interval, MachineKey, row, &PAGING)),
                "memory-usage" => drop(run.rates(interval, MachineKey, row, &MEMORY)),
                _ => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn groups_are_named_in_the_line_above_the_columns() {
        assert_eq!(
            names("----total-cpu-usage---- -dsk/total- -net/total-"),
            ["total-cpu-usage", "dsk/total", "net/total"]
        );
        assert_eq!(names("--dsk/sda-----dsk/sdb--"), ["dsk/sda", "dsk/sdb"]);
    }

    #[test]
    fn disks_by_name_and_the_first_row_is_since_boot() {
        let text = "$ dstat -dD sda,sdb 2\n\
                    --dsk/sda-----dsk/sdb--\n read  writ: read  writ\n  16G 5673M: 537M   21G\n\
                    \x20  0    30M:  16k  512B  # the test starts\n1024k   10M:   0     0 \n";
        let window = window_of(text);
        let changes = window.changes::<Disk>();
        let of = |name: &str| changes.iter().find(|c| **c.key() == *name).unwrap();
        let rate = |name: &str, of_disk: fn(&Disk) -> whyslow_model::value::Counter| {
            of(name).rate(of_disk).map(|rate| rate.round())
        };
        assert_eq!(
            (rate("sda", |d| d.write_bytes), rate("sda", |d| d.read_bytes)),
            (Some(20.0 * MIB), Some(512.0 * KIB))
        );
        assert_eq!((rate("sdb", |d| d.write_bytes), rate("sdb", |d| d.read_bytes)), (Some(256.0), Some(8192.0)));
        assert_eq!(window.seconds(), 4.0);
    }

    #[test]
    fn cpus_and_times() {
        let window = window_of(&fixture("dool-tcdyp.txt"));
        // The first of the four rows covers the time since boot.
        let cpu = window.change::<CpuMean>().unwrap();
        assert_eq!(cpu.rate(|c| c.user).map(|user| (user / 1e7).round()), Some(((86 + 89 + 84) / 3) as f64));
        let system = window.change::<System>().unwrap();
        assert_eq!(
            system.rate(|s| s.context_switches).map(f64::round),
            Some(((2276.0 + 1411.0 + 1004.0) / 3.0_f64).round())
        );
        let changes = window.changes::<Disk>();
        let vda = changes.iter().find(|c| **c.key() == *"vda").unwrap();
        let read = (197.0 + 7963.0 + 4325.0) / 3.0 * KIB;
        assert!(vda.rate(|d| d.read_bytes).is_some_and(|rate| (rate / read - 1.0).abs() < 0.001));
    }
}
