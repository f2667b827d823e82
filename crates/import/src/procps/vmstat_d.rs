//! vmstat -d: requests since boot by device, once or every interval.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use crate::table::take_row;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Disk;

/// The format.
pub const FORMAT: Format = Format {
    name: "vmstat -d",
    versions: "procps 3 and 4",
    tells: "with an interval requests, wait and use of each device; once, requests in flight",
    starts: |lines| lines.peek(0).is_some_and(is_head),
    read,
};

/// The columns, of which only two pairs have names of their own.
const COLUMNS: [&str; 10] = ["reads", "merged", "sectors", "ms", "writes", "merged", "sectors", "ms", "cur", "sec"];
const SECTOR: u64 = 512;
const NS_PER_MS: u64 = 1_000_000;

/// `disk- ------------reads------------ ------------writes----------- -----IO------`
fn is_head(line: &str) -> bool {
    line.starts_with("disk") && line.contains("-reads-") && line.contains("-writes-") && line.contains("-IO-")
}

fn is_columns(line: &str) -> bool {
    line.split_whitespace().collect::<Vec<_>>().starts_with(&["total", "merged", "sectors", "ms"])
}

fn read(lines: &mut Lines<'_>, asked: &Asked, run: &mut Run) -> Result<(), Refusal> {
    // Names that tell the columns apart.
    let columns: Vec<String> = COLUMNS.iter().enumerate().map(|(at, name)| format!("{name} {at}")).collect();
    let interval = asked.interval();
    let mut seen = BTreeSet::new();
    let mut at = 0.0;
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        let heading = is_head(&text) || is_columns(&text);
        if heading {
            lines.skip(blanks + 1);
            continue;
        }
        let device = text.split_whitespace().next().unwrap_or_default().to_owned();
        if crate::elsewhere(lines, FORMAT.name) || text.split_whitespace().count() < COLUMNS.len() / 2 {
            break;
        }
        // A device again is the next report: with an interval that is known its time is, too.
        if seen.contains(&device) {
            let Some(interval) = interval else {
                run.note(
                    "vmstat -d",
                    "its interval is not told: only the first report is taken",
                    "paste the command line too",
                );
                skip(lines);
                break;
            };
            at += interval;
            seen.clear();
        }
        seen.insert(device);
        lines.skip(blanks);
        let row = take_row(lines, &columns, 1);
        let Some(row) = lines.keep(row)? else { continue };
        let count = |nth: usize| row.get(&columns[nth]).unwrap_or(0.0) as u64;
        let disk = run.row::<Disk>(at, row.line, row.labels[0].as_str().into());
        disk.reads = count(0).into();
        disk.reads_merged = count(1).into();
        disk.read_bytes = (count(2).saturating_mul(SECTOR)).into();
        disk.read_time = (count(3).saturating_mul(NS_PER_MS)).into();
        disk.writes = count(4).into();
        disk.writes_merged = count(5).into();
        disk.write_bytes = (count(6).saturating_mul(SECTOR)).into();
        disk.write_time = (count(7).saturating_mul(NS_PER_MS)).into();
        disk.in_flight = count(8).into();
        // The last column is whole seconds: too coarse for a share of an interval.
    }
    Ok(())
}

/// Passes over reports of which the time is not known.
fn skip(lines: &mut Lines<'_>) {
    while lines.peek(0).is_some() && !crate::elsewhere(lines, FORMAT.name) {
        lines.skip(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn counts_and_rates() {
        let text = fixture("vmstat-d.txt");
        let rows = |text: &str| window_of(text).newest::<Disk>().len();
        assert_eq!(rows(&text), 10);
        let later = text.replace("2038529", "2038579").lines().skip(2).map(|l| format!("{l}\n")).collect::<String>();
        let window = window_of(&format!("$ vmstat -d 5 2\n{text}{later}"));
        let changes = window.changes::<Disk>();
        let vda = changes.iter().find(|c| &*c.key().clone() == "vda").unwrap();
        assert_eq!(vda.rate(|d| d.reads), Some(10.0));
        assert_eq!(refusal_of(&text.replace(" 53408874", "53408874")).line, 11);
    }

    #[test]
    fn without_an_interval_there_is_no_rate() {
        let text = fixture("vmstat-d.txt");
        let window = window_of(&format!("{text}{text}"));
        assert!(window.changes::<Disk>().iter().all(|c| c.rate(|d| d.reads).is_none()));
    }
}
