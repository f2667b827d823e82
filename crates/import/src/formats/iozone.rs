//! iozone as text: rates by kind of work, file size and record size; in its throughput mode, by kind of work.

use crate::prelude::*;
use whyslow_model::catalogue::Transfer;

pub const FORMAT: Format = Format {
    name: "iozone",
    versions: "3, text, in kBytes/sec; the table of -a, -i, -s and -r; the totals of -t",
    shows: "rates by kind of work and record size; what small records cost",
    lacks: "which device is the limit",
    programs: &[word("iozone")],
    starts: |lines| {
        lines.next_is(|line| {
            line.contains("Iozone: Performance Test of File I/O") || is_header(line) || total(line).is_some()
        })
    },
    read,
    ..Format::NEW
};

/// Maximum number of lines above the table: the program's version, its authors, the command line and the settings.
const MOST_ABOVE: usize = 60;
/// Kinds of work in the order of the columns, after the sizes of file and record.
const KINDS: [&str; 13] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "random read",
    "random write",
    "backward read",
    "record rewrite",
    "stride read",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
];
/// Beginnings of the lines of a total.
const TOTAL_LINES: [&str; 7] =
    ["Children see", "Parent sees", "Min ", "Max ", "Avg ", "CPU Utilization", "CPU utilization"];
/// Maximum distance between the end of a number and the end of its heading.
const SLACK: usize = 2;

/// Returns true for `     kB  reclen    write  rewrite ...`.
fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|w| w.eq_ignore_ascii_case("kb")) && words.next() == Some("reclen")
}

/// Returns the kind of work and the bytes per second of all processes: `Children see throughput for 12 initial writers  =
/// 4732581.09 kB/sec`.
fn total(line: &str) -> Option<(&str, f64)> {
    let (kind, rate) = line.trim().strip_prefix("Children see throughput for")?.split_once('=')?;
    let rate = rate.trim();
    let rate = rate.strip_suffix("kB/sec").or_else(|| rate.strip_suffix("KB/sec"))?;
    Some((kind.trim(), number(rate.trim())? * KIB))
}

/// Reads the totals over all processes.
fn totals(lines: &mut Lines<'_>, run: &mut ToolRun) {
    let is_own = |text: &str| TOTAL_LINES.iter().any(|beginning| text.trim_start().starts_with(beginning));
    while let Some(line) = lines.take_past_blanks_if(is_own) {
        let Some((kind, rate)) = total(&line.text) else { continue };
        let row = run.row::<Transfer>(0.0, line.number, format!("{kind}, line {}", line.number).into());
        row.tool = "iozone".into();
        row.what = kind.into();
        row.rate = rate.into();
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut has_unit = false;
    for at in 0..MOST_ABOVE {
        let Some(text) = lines.peek(at).filter(|text| !is_command(text)) else { break };
        if total(text).is_some() {
            lines.skip(at);
            totals(lines, run);
            return Ok(());
        }
        if is_header(text) {
            let headings = ends(text);
            lines.skip(at);
            if !has_unit {
                let expected = "the line 'Output is in kBytes/sec' before it: the table could be in another unit";
                return Err(lines.refuse(expected));
            }
            if lines.take().is_some_and(|header| lines.is_joined(&header)) {
                return Err(lines.refuse("headings above their columns: the line was broken, and its spaces are lost"));
            }
            return table(lines, run, &headings);
        }
        has_unit |= text.trim().to_ascii_lowercase().starts_with("output is in kbytes/sec");
    }
    Ok(())
}

fn table(lines: &mut Lines<'_>, run: &mut ToolRun, headings: &[usize]) -> ReadResult {
    let mut rows = Vec::new();
    while let Some(line) = lines.take_if(|text| text.split_whitespace().next().is_some_and(|w| number(w).is_some())) {
        let Some(values) = values(&line.text, headings).filter(|_| !lines.is_joined(&line)) else {
            return Err(lines.refuse_at(&line, "file and record size, and rates that end below their headings"));
        };
        rows.push((line, values));
    }
    // Each row has the same tests.
    let tests = |values: &[Option<f64>]| values.iter().map(Option::is_some).collect::<Vec<_>>();
    if let Some((line, _)) = rows.iter().find(|(_, values)| tests(values) != tests(&rows[0].1)) {
        return Err(lines.refuse_at(line, "rates of the same tests as in the first row"));
    }
    for (line, values) in rows {
        let [Some(size), Some(record), ref rates @ ..] = values[..] else {
            return Err(lines.refuse_at(&line, "the sizes of file and record in KiB"));
        };
        for (kind, rate) in KINDS.iter().zip(rates).filter_map(|(kind, rate)| Some((kind, (*rate)?))) {
            let name = format!("{kind} of {size:.0} KiB by {record:.0} KiB");
            let row = run.row::<Transfer>(0.0, line.number, name.into());
            row.tool = "iozone".into();
            row.what = format!("{kind} of {size:.0} KiB").into();
            row.bytes = (size * KIB).into();
            row.rate = (rate * KIB).into();
            row.block = (record * KIB).into();
        }
    }
    Ok(())
}

fn ends(line: &str) -> Vec<usize> {
    let words = line.split_whitespace();
    words.map(|word| word.as_ptr() as usize - line.as_ptr() as usize + word.len()).collect()
}

/// Returns the numbers of a row by column. Columns of tests that were not run are blank, so the position of a number decides
/// its column.
fn values(row: &str, headings: &[usize]) -> Option<Vec<Option<f64>>> {
    let mut values = vec![None; KINDS.len() + 2];
    let mut next = 0;
    for (word, end) in row.split_whitespace().zip(ends(row)) {
        let at = (next..headings.len().min(values.len())).find(|at| headings[*at].abs_diff(end) <= SLACK)?;
        values[at] = Some(number(word)?);
        next = at + 1;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn columns_by_where_they_stand() {
        let text = fixture("layouts/iozone-i-0-i-2.txt");
        let window = window_of(&text);
        let rows = window.newest::<Transfer>();
        let rate = |kind: &str| rows.values().find(|t| t.transfer.starts_with(kind)).and_then(|t| t.rate.get());
        assert_eq!(
            (rate("write of 102400 KiB by 4"), rate("random write of 102400 KiB by 4")),
            (Some(54_363.0 * KIB), Some(49_303.0 * KIB))
        );
        assert_eq!(rate("read of"), None);
        assert_eq!(refusal_of(&text.replace("kBytes/sec", "operations per second")).line, 17);
        assert_eq!(refusal_of(&text.replace("    54363", "54363")).line, 18);
    }

    #[test]
    fn totals_of_several_processes() {
        let text = "\tChildren see throughput for  4 initial writers \t=  400000.50 kB/sec\n\
                    \tParent sees throughput for  4 initial writers \t=  390000.00 kB/sec\n\
                    \tMin throughput per process \t\t\t=   99000.00 kB/sec \n\
                    \tCPU Utilization: Wall time    2.671    CPU time    1.974    CPU utilization  73.89 %\n\n\
                    \tChildren see throughput for  4 readers \t\t=  500000.00 kB/sec\n";
        let window = window_of(text);
        let rows = window.newest::<Transfer>();
        let rates: Vec<_> = rows.values().map(|t| (t.what.get(), t.rate.get())).collect();
        let expected = [(Some("4 initial writers"), Some(400_000.5 * KIB)), (Some("4 readers"), Some(500_000.0 * KIB))];
        assert_eq!(rates, expected);
    }
}
