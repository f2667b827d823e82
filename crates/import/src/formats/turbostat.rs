//! turbostat(8): frequency of each CPU while it was busy, and the base frequency, which is that of the time stamp counter.

use crate::lines::TextLine;
use crate::prelude::*;
use whyslow_model::catalogue::{Frequency, Thermal};

pub const FORMAT: Format = Format {
    name: "turbostat",
    versions: "3 to 2025, with any columns; periodic, of a command, -S",
    shows: "CPUs that run below their base frequency while they are busy; temperature of the package",
    lacks: "whether heat, a power limit or the firmware holds them there",
    programs: &[program("turbostat")],
    files: &["turbostat"],
    columns: &[&CPU, &PACKAGE],
    starts: |lines| lines.next_is(is_header),
    read,
    ..Format::NEW
};

const MHZ: f64 = 1e6;
const GHZ: f64 = 1e9;
const PERCENT: f64 = 0.01;
const CPU: MetricColumns<Frequency> = columns![
    "Bzy_MHz" => busy * MHZ, "GHz" => busy * GHZ, "TSC_MHz" => base * MHZ, "TSC" => base * GHZ,
    "Busy%" => busy_share * PERCENT, "%Busy" => busy_share * PERCENT, "%c0" => busy_share * PERCENT,
];
const PACKAGE: MetricColumns<Thermal> = columns!["PkgTmp" => temperature, "PTM" => temperature];
/// Interval if none is given.
const INTERVAL: f64 = 5.0;
/// Column with the CPU's number.
const CPU_NUMBER: &str = "CPU";

fn is_header(line: &str) -> bool {
    let has = |names: [&str; 2]| line.split_whitespace().any(|word| names.contains(&word));
    has(["Bzy_MHz", "GHz"]) && has(["TSC_MHz", "TSC"])
}

/// Returns true for a number or a dash in each column; those of a core or a package follow only the first of its CPUs.
fn is_row(line: &str) -> bool {
    let mut fields = line.split_whitespace().peekable();
    fields.peek().is_some() && fields.all(|field| field == "-" || number(field.trim_start_matches('-')).is_some())
}

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let interval = context.command_of("turbostat").and_then(|command| command.interval()).unwrap_or(INTERVAL);
    let mut at = 0.0;
    while let Some(header) = lines.take_past_blanks_if(is_header) {
        let names: Vec<String> = crate::table::words(&header.text);
        at += interval;
        let mut rows = Vec::new();
        while let Some(line) = lines.take_if(is_row) {
            rows.push(line);
        }
        record(run, at, &names, &rows);
    }
    Ok(())
}

fn record(run: &mut ToolRun, at: f64, names: &[String], rows: &[TextLine]) {
    let cpu_at = names.iter().position(|name| name == CPU_NUMBER);
    for line in rows {
        let fields: Vec<&str> = line.text.split_whitespace().collect();
        let numbers = names.iter().zip(&fields).filter_map(|(name, field)| Some((name.clone(), number(field)?)));
        let row = TableRow::new(line.number, "", numbers);
        match cpu_at.and_then(|at| cpu(&fields, at)) {
            Some(cpu) => {
                run.counts::<Frequency>(at, cpu, &row, &CPU);
            }
            // The first row covers all CPUs together; old versions leave the columns before it blank.
            None if fields.len() < names.len() => {}
            None => {
                if row.get("PkgTmp").or(row.get("PTM")).is_some() {
                    run.counts::<Thermal>(at, "package".into(), &row, &PACKAGE).kind = "CPU package".into();
                }
                // With -S it is the only row.
                if rows.len() == 1 {
                    run.counts::<Frequency>(at, 0, &row, &CPU);
                }
            }
        }
    }
}

/// Returns the CPU's number, which follows those of its package and core.
fn cpu(fields: &[&str], at: usize) -> Option<u32> {
    let before = fields.get(..=at)?;
    before.iter().all(|field| field.parse::<u32>().is_ok()).then(|| before[at].parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn frequencies_of_busy_cpus() {
        let window = window_of(&fixture("layouts/turbostat.txt"));
        let cpus = window.newest::<Frequency>();
        let of: Vec<_> = cpus.values().map(|f| (f.cpu, f.busy.get(), f.base.get())).collect();
        let mhz = |n: f64| Some(n * MHZ);
        let expected = [
            (0, mhz(1200.0), mhz(2600.0)),
            (1, mhz(1201.0), mhz(2600.0)),
            (2, mhz(1199.0), mhz(2600.0)),
            (3, mhz(2489.0), mhz(2600.0)),
        ];
        assert_eq!(of, expected);
        assert_eq!(cpus.values().next().unwrap().busy_share.get(), Some(98.31 * PERCENT));
        assert_eq!(window.the::<Thermal>().unwrap().temperature.get(), Some(97.0));
    }

    #[test]
    fn a_summary_and_the_columns_of_version_3() {
        let old = "pk cor CPU    %c0  GHz  TSC SMI    %c1    %c3    %c6 CTMP PTMP\n            \
            26.24 1.21 2.60   0  59.45  11.05   3.25   84   84\n \
            0   0   0  99.50 1.20 2.60   0   0.50   0.00   0.00   84   84\n";
        let row = window_of(old).the::<Frequency>().unwrap().clone();
        assert_eq!((row.cpu, row.busy.get(), row.base.get()), (0, Some(1.2e9), Some(2.6e9)), "not of the first row");
        let summary = "Avg_MHz\tBusy%\tBzy_MHz\tTSC_MHz\n1180\t98.0\t1204\t2600\n";
        assert_eq!(window_of(summary).the::<Frequency>().unwrap().busy.get(), Some(1204.0 * MHZ));
    }
}
