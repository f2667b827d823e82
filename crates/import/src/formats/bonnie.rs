//! bonnie++ as text and CSV: file system throughput by kind of work. Headers are often wrapped; rows are not.

use crate::prelude::*;
use whyslow_model::catalogue::Transfer;

pub const FORMAT: Format = Format {
    name: "bonnie++",
    versions: "1.03 to 2.00, text and CSV",
    shows: "rates of writing, reading, and creating and deleting files; of several runs, which file system is faster",
    lacks: "which device is the limit",
    programs: &[partly_read("bonnie++")],
    starts: |lines| lines.next_is(|line| is_title(line) || csv(line).is_some()),
    read,
    ..Format::NEW
};

/// Kinds of work in each table, each with a rate and the share of a CPU it took.
const STREAMS: [&str; 6] =
    ["write by character", "write by block", "rewrite", "read by character", "read by block", "seek"];
const FILES: [&str; 6] =
    ["create in order", "read in order", "delete in order", "create at random", "read at random", "delete at random"];

fn is_title(line: &str) -> bool {
    line.starts_with("Version") && line.contains("Sequential Output")
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut titled = false;
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        if is_command(&text) || (titled && is_title(&text)) {
            break;
        }
        titled |= is_title(&text);
        let fields: Vec<&str> = text.split_whitespace().collect();
        if let Some((streams, files)) = csv(&text) {
            record(lines, run, &STREAMS, &streams)?;
            record(lines, run, &FILES, &files)?;
        } else if !titled {
            break;
        } else if let [machine, size, ref rest @ ..] = fields[..]
            && is_size(size)
        {
            record(lines, run, &STREAMS, &[&[machine], rest].concat())?;
        } else if fields.first().is_some_and(|files| is_files(files)) {
            record(lines, run, &FILES, &fields)?;
        }
        lines.skip(1);
    }
    Ok(())
}

/// Returns true for `8064M` or `8G:4k`.
fn is_size(field: &str) -> bool {
    let size = field.split(':').next().unwrap_or_default();
    size.strip_suffix(['M', 'G']).is_some_and(|n| number(n).is_some())
}

/// Returns true for `16` or `16:262144:8/128`, in thousands.
fn is_files(field: &str) -> bool {
    field.split([':', '/']).all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the two tables of the CSV line, each beginning with the object of the measurement. Since 1.93 the line begins with
/// its own version, and since 1.98 it states before the rates how seeks were made.
fn csv(line: &str) -> Option<(Vec<&str>, Vec<&str>)> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let (machine, size, streams, between) = match *fields.first()? {
        "1.93" | "1.94" | "1.95" | "1.96" | "1.97" => (2, 5, 7, 5),
        "1.98" => (2, 5, 9, 5),
        _ => (0, 1, 2, 1),
    };
    let of_files = streams + 2 * STREAMS.len() + between;
    let table = |of: usize, from: usize| {
        let rates = fields.get(from..from + 2 * STREAMS.len())?;
        Some([&[*fields.get(of)?], rates].concat())
    };
    is_size(fields.get(size)?).then_some(())?;
    Some((table(machine, streams)?, table(streams + 2 * STREAMS.len(), of_files)?))
}

/// Records a table: the object of the measurement, then for each kind of work a rate and the share of a CPU. Streams are in KiB
/// per second, since 1.9 with their unit; seeks and files in operations.
fn record(lines: &mut Lines<'_>, run: &mut ToolRun, kinds: &[&str; 6], fields: &[&str]) -> ReadResult {
    let (of, values) = fields.split_first().unwrap_or((&"", &[]));
    let is_stream = |kind: &str| kinds == &STREAMS && kind != "seek";
    let rate = |kind: &str, field: &str| {
        let unit = if is_stream(kind) { KIB } else { 1.0 };
        // `+++++`: finished too fast to be timed. The CSV line omits what was not run.
        if is_blank(field) { Some(None) } else { scaled(field, KIB, unit).map(Some) }
    };
    let share = |field: &str| if is_blank(field) { Some(None) } else { number(field).map(|share| Some(share / 100.0)) };
    let pairs = kinds.iter().zip(values.chunks(2));
    let rates: Option<Vec<_>> =
        pairs.map(|(kind, pair)| Some((*kind, rate(kind, pair[0])?, share(pair.get(1)?)?))).collect();
    let Some(rates) = rates.filter(|_| values.len() == 2 * kinds.len()) else {
        return Err(lines.refuse(format!("{} rates, each with the share of a CPU", kinds.len())));
    };
    for (kind, rate, share) in rates {
        let Some(rate) = rate else { continue };
        let row = run.row::<Transfer>(0.0, lines.number(), format!("{of}: {kind}").into());
        row.tool = "bonnie++".into();
        row.what = kind.into();
        *if is_stream(kind) { &mut row.rate } else { &mut row.operations } = rate.into();
        row.cpu_share = share.into();
    }
    Ok(())
}

fn is_blank(field: &str) -> bool {
    field.bytes().all(|b| b == b'+')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    fn rate(text: &str, kind: &str) -> f64 {
        let window = window_of(text);
        let rows = window.newest::<Transfer>();
        let row = rows.values().find(|t| t.transfer.ends_with(kind)).unwrap_or_else(|| panic!("{kind}"));
        // Bytes for a stream, operations for everything else.
        let rates = [row.rate.get(), row.operations.get()];
        assert_eq!(rates.iter().flatten().count(), 1, "{kind}: {rates:?}");
        rates.into_iter().flatten().next().unwrap()
    }

    #[test]
    fn results_on_xfs_and_ext3_are_read() {
        let rate = |file: &str, kind| rate(&fixture(file), kind);
        let gain = |kind| rate("san-bonnie-xfs.txt", kind) / rate("san-bonnie-ext3.txt", kind) - 1.0;
        assert!((gain("write by block") - 0.11).abs() < 0.01, "{}", gain("write by block"));
        assert!((gain("create in order") - 0.60).abs() < 0.05, "{}", gain("create in order"));
        assert!((gain("delete in order") - 1.12).abs() < 0.05, "{}", gain("delete in order"));
        assert_eq!(rate("san-bonnie-ext3.txt", "seek"), 893.3);
        // A journal on a separate disk changes little.
        let log = |kind| rate("san-bonnie-xfs-extlog.txt", kind) / rate("san-bonnie-xfs.txt", kind) - 1.0;
        assert!(log("write by block").abs() < 0.10 && log("read by block").abs() < 0.10);
    }

    #[test]
    fn version_2_says_units_and_what_was_too_fast() {
        let text = fixture("bonnie-2.00a.txt");
        let (table, csv) = text.trim_end().rsplit_once('\n').unwrap();
        for text in [table, csv] {
            assert_eq!(rate(text, "vm: write by character"), 1386.0 * KIB);
            assert_eq!(window_of(text).newest::<Transfer>().len(), 2);
        }
        assert_eq!(refusal_of(&table.replace("1386k  98", "1386k")).line, 4);
    }

    #[test]
    fn the_line_for_spreadsheets_of_1_03() {
        let text = "web,8064M,15474,99,161153,21,56513,8,14836,99,125513,9,938.8,1,16,1151,24,12654,100,9705,89,1093,22,12327,99,6018,71\n";
        assert_eq!((rate(text, "write by block"), rate(text, "delete at random")), (161_153.0 * KIB, 6018.0));
    }
}
