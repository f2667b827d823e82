//! bonnie++ as text: what a file system did by kind of work. Headers are often wrapped; the row with the numbers is not.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Transfer;

/// The format.
pub const FORMAT: Format = Format {
    name: "bonnie++",
    versions: "1.03, text",
    tells: "rates of writing, reading and of files made and deleted; of several runs, which file system does better",
    starts,
    read,
};

/// The kinds of work of the first table, each with a rate and the share of a processor it took.
const STREAMS: [&str; 6] =
    ["write by character", "write by block", "rewrite", "read by character", "read by block", "seek"];
/// The kinds of work of the second.
const FILES: [&str; 6] =
    ["create in order", "read in order", "delete in order", "create at random", "read at random", "delete at random"];
/// A share of a processor from which it is the processor that limits.
const BOUND: f64 = 95.0;
const KIB: f64 = 1024.0;

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| line.starts_with("Version") && line.contains("Sequential Output"))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    lines.skip(1);
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let line = lines.number();
        if crate::command_of(&text).is_some() || starts(lines) {
            break;
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        match fields[..] {
            [machine, size, ref rest @ ..] if is_size(size) => {
                tell(lines, run, line, machine, &STREAMS, rest)?;
            }
            [files, ref rest @ ..] if files.contains(':') && files.starts_with(|c: char| c.is_ascii_digit()) => {
                tell(lines, run, line, files, &FILES, rest)?;
            }
            _ => {}
        }
        lines.skip(1);
    }
    Ok(())
}

/// `8064M`
fn is_size(field: &str) -> bool {
    field.strip_suffix(['M', 'G']).is_some_and(|n| number(n).is_some())
}

/// Each kind of work: a rate and a share of a processor. Streams are in KiB a second, seeks and files in operations.
fn tell(
    lines: &mut Lines<'_>,
    run: &mut Run,
    line: u32,
    of: &str,
    kinds: &[&str; 6],
    fields: &[&str],
) -> Result<(), Refusal> {
    let numbers: Option<Vec<f64>> = fields.iter().map(|f| number(f)).collect();
    let Some(numbers) = numbers.filter(|n| n.len() == 2 * kinds.len()) else {
        return Err(lines.refuse(format!("{} rates, each with the share of a processor", kinds.len())));
    };
    for (kind, pair) in kinds.iter().zip(numbers.chunks(2)) {
        let streams = kinds == &STREAMS && *kind != "seek";
        let row = run.row::<Transfer>(0.0, line, format!("{of}: {kind}").into());
        row.tool = "bonnie++".into();
        row.what = (*kind).into();
        row.rate = (pair[0] * if streams { KIB } else { 1.0 }).into();
        if pair[1] >= BOUND {
            row.what = format!("{kind}, bound by the processor").into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    fn rate(file: &str, kind: &str) -> f64 {
        let window = window_of(&fixture(file));
        let rows = window.newest::<Transfer>();
        let row = rows.values().find(|t| t.transfer.ends_with(kind)).unwrap_or_else(|| panic!("{kind}"));
        row.rate.get().unwrap()
    }

    #[test]
    fn xfs_against_ext3() {
        let gain = |kind| rate("san-bonnie-xfs.txt", kind) / rate("san-bonnie-ext3.txt", kind) - 1.0;
        assert!((gain("write by block") - 0.11).abs() < 0.01, "{}", gain("write by block"));
        assert!((gain("create in order") - 0.60).abs() < 0.05, "{}", gain("create in order"));
        assert!((gain("delete in order") - 1.12).abs() < 0.05, "{}", gain("delete in order"));
        assert_eq!(rate("san-bonnie-ext3.txt", "seek"), 893.3);
    }
}
