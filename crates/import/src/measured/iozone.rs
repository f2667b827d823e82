//! iozone as text: rates by kind of work, size of file and size of record.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Transfer;

/// The format.
pub const FORMAT: Format = Format {
    name: "iozone",
    versions: "3, text, in kBytes/sec; the table of -a, -i, -s and -r",
    tells: "rates by kind of work and record; of small and large records, what the record costs",
    starts: |lines| {
        lines.peek(0).is_some_and(|line| line.contains("Iozone: Performance Test of File I/O") || is_header(line))
    },
    read,
};

const KIB: f64 = 1024.0;
/// The kinds of work in the order of the columns, behind the sizes of file and record.
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
/// How far a number may end from the end of its heading.
const SLACK: usize = 3;

/// `     kB  reclen    write  rewrite ...`
fn is_header(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|w| w.eq_ignore_ascii_case("kb")) && words.next() == Some("reclen")
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut unit = false;
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        if is_header(&text) {
            lines.skip(blanks);
            if !unit {
                return Err(
                    lines.refuse("the line 'Output is in kBytes/sec' before it: the table could be in another unit")
                );
            }
            lines.skip(1);
            return table(lines, run, &text);
        }
        // The head is indented, the title first.
        if !text.starts_with([' ', '\t']) || crate::command_of(&text).is_some() {
            return Ok(());
        }
        unit |= text.trim().to_ascii_lowercase().starts_with("output is in kbytes/sec");
        lines.skip(blanks + 1);
    }
    Ok(())
}

fn table(lines: &mut Lines<'_>, run: &mut Run, header: &str) -> Result<(), Refusal> {
    let ends = ends(header);
    while let Some(text) = lines.peek(0).filter(|line| line.starts_with([' ', '\t'])).map(str::to_owned) {
        if text.trim().is_empty() {
            break;
        }
        let Some(values) = place(&text, &ends) else {
            return Err(lines.refuse("sizes of file and record, and rates that end below their headings"));
        };
        let line = lines.number();
        let (Some(size), Some(record)) = (values[0], values[1]) else {
            return Err(lines.refuse("the sizes of file and record in KiB"));
        };
        for (kind, rate) in KINDS.iter().zip(&values[2..]).filter_map(|(kind, rate)| Some((kind, (*rate)?))) {
            let name = format!("{kind} of {size:.0} KiB by {record:.0} KiB");
            let row = run.row::<Transfer>(0.0, line, name.into());
            row.tool = "iozone".into();
            row.what = format!("{kind} of {size:.0} KiB").into();
            row.bytes = (size * KIB).into();
            row.rate = (rate * KIB).into();
            row.block = (record * KIB).into();
        }
        lines.skip(1);
    }
    Ok(())
}

/// Where each word ends.
fn ends(line: &str) -> Vec<usize> {
    let words = line.split_whitespace();
    words.map(|word| word.as_ptr() as usize - line.as_ptr() as usize + word.len()).collect()
}

/// The numbers of a row by column. Tests that were not run leave their columns blank, so that where a number stands
/// tells what it is.
fn place(row: &str, headings: &[usize]) -> Option<Vec<Option<f64>>> {
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
}
