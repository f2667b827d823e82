//! Tables with a header: wrapped lines are put together, and a header that does not fit its rows is refused.

use crate::clock::date;
use crate::lines::Lines;
use crate::number::{number, ran_together};
use crate::refusal::Refusal;
use std::collections::BTreeMap;

/// The names of a table's columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The columns in their order.
    pub names: Vec<String>,
    /// The line the header begins on.
    pub line: u32,
}

/// One row of a table: first its labels, then its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The line it begins on.
    pub line: u32,
    /// The fields that are no numbers: a time, a device.
    pub labels: Vec<String>,
    /// The numbers by column.
    pub numbers: BTreeMap<String, f64>,
    /// What stands after the last column: a date and time, or a remark somebody added.
    pub rest: Vec<String>,
}

impl Row {
    /// The number of this column, where the table has it.
    pub fn get(&self, column: &str) -> Option<f64> {
        self.numbers.get(column).copied()
    }

    /// What the row is of: its last label, empty where it has none.
    pub fn label(&self) -> &str {
        self.labels.last().map_or("", String::as_str)
    }

    /// The number of a column times a factor, for another unit.
    pub fn times(&self, column: &str, factor: f64) -> Option<f64> {
        self.get(column).map(|n| n * factor)
    }

    /// The first of these columns that the table has, each with the factor to the base unit: the finest unit first.
    pub fn first(&self, columns: &[(&str, f64)]) -> Option<f64> {
        columns.iter().find_map(|(column, factor)| self.times(column, *factor))
    }
}

/// Whether this line holds column names of `vocabulary` only, `least` of them or more.
pub fn is_header(line: &str, vocabulary: &[&str], least: usize) -> bool {
    let mut count = 0;
    line.split_whitespace().all(|word| {
        count += 1;
        vocabulary.contains(&word)
    }) && count >= least
}

/// Takes the header that comes next, with what was wrapped to the lines after it.
pub fn take_header(lines: &mut Lines<'_>, vocabulary: &[&str]) -> Header {
    let line = lines.number();
    let mut names: Vec<String> = words(lines.take().map(|l| l.text).unwrap_or_default().as_str());
    while let Some((blanks, rest)) = lines.peek_past_blanks(0) {
        let more = words(rest);
        if !is_header(rest, vocabulary, 1) || more.iter().any(|name| names.contains(name)) {
            break;
        }
        names.extend(more);
        lines.skip(blanks + 1);
    }
    Header { names, line }
}

/// Takes the row that comes next: `labels` fields of text, then a number for each column of the header, from this line
/// and, where it was wrapped, from those after it. A remark after the last column is left out.
///
/// # Errors
/// Where the fields are more or fewer than the columns, or one that should be a number is none.
pub fn take_row(lines: &mut Lines<'_>, header: &[String], labels: usize) -> Result<Row, Refusal> {
    let line = lines.number();
    let text = lines.take().map(|line| line.text).unwrap_or_default();
    let refuse = |lines: &Lines<'_>, expected: String| Err(Refusal::new(lines.file(), line, expected, &text));
    if let Some(field) = text.split_whitespace().find(|f| ran_together(f)) {
        return refuse(lines, format!("columns apart from each other: they ran together at {field:?}"));
    }
    let want = labels + header.len();
    let mut fields = words(&text);
    while fields.len() < want {
        let rest = lines.peek_past_blanks(0).filter(|(_, rest)| continues(rest, want - fields.len()));
        let Some((blanks, rest)) = rest.map(|(blanks, rest)| (blanks, words(rest))) else { break };
        fields.extend(rest);
        lines.skip(blanks + 1);
    }
    let rest = fields.split_off(want.min(fields.len()));
    let remark = |f: &String| f.starts_with(|c: char| c.is_alphabetic() || "#<(".contains(c)) || date(f).is_some();
    if fields.len() < want || rest.first().is_some_and(|f| !remark(f)) {
        return refuse(lines, format!("{want} columns as in the header ({})", header.join(" ")));
    }
    let numbers = header.iter().zip(&fields[labels..]).map(|(name, field)| Some((name.clone(), number(field)?)));
    match numbers.collect() {
        Some(numbers) => Ok(Row { line, labels: fields[..labels].to_vec(), numbers, rest }),
        None => refuse(lines, format!("a number in each of the columns {}", header.join(" "))),
    }
}

/// Whether a line is the wrapped rest of a row that lacks `missing` fields.
fn continues(line: &str, missing: usize) -> bool {
    let mut count = 0;
    line.split_whitespace().all(|field| {
        count += 1;
        number(field).is_some()
    }) && count > 0
        && count <= missing
}

/// The fields of a line.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str, columns: &str) -> Result<Row, Refusal> {
        take_row(&mut Lines::new("x", text.as_bytes()), &words(columns), 1)
    }

    #[test]
    fn a_wrapped_row_is_put_together() {
        let row = row("sda 1.00\n\n2,50 3\nsdb 1 2 3\n", "a b c").unwrap();
        assert_eq!((row.labels[0].as_str(), row.get("b"), row.get("c")), ("sda", Some(2.5), Some(3.0)));
    }

    #[test]
    fn a_remark_after_the_last_column_is_left_out() {
        assert!(row("sda 1 2 3 pause #1\n", "a b c").is_ok());
    }

    #[test]
    fn a_row_that_does_not_fit_is_refused_with_its_line() {
        for text in ["sda 1 2\nsdb 1 2 3\n", "sda 1 2 3 4\n", "sda 1 x 3\n", "sda 1 2\n", "sda1.002.003.00\n"] {
            let refusal = row(text, "a b c").unwrap_err();
            assert_eq!(refusal.line, 1);
            assert_eq!(refusal.found, text.lines().next().unwrap());
        }
    }

    #[test]
    fn a_wrapped_header_is_put_together() {
        let mut lines = Lines::new("x", &b"Device: a b\n\nc d\nsda 1 2 3 4\n"[..]);
        assert_eq!(take_header(&mut lines, &["Device:", "a", "b", "c", "d"]).names.len(), 5);
        assert_eq!(lines.number(), 4);
    }
}
