//! Tables that a mail program wrapped at some column: the header, and each wider row, continue on the next line.

use crate::lines::TextLine;
use std::collections::VecDeque;

/// Maximum number of lines that one line is broken into.
const MOST_PARTS: usize = 4;
/// Minimum width of a wrapped line. Mail programs wrap at 72 columns or more; people who quote, earlier.
const NARROWEST: usize = 60;
/// Maximum number of spaces between two columns.
const MOST_SPACES: usize = 8;
/// Minimum number of columns in the first line of a header.
const FEWEST_COLUMNS: usize = 3;

/// Returns the number of next lines that form the header of a wrapped table.
pub(crate) fn header_parts(ahead: &VecDeque<TextLine>) -> Option<usize> {
    // This check alone rules out most text.
    let has_numbers = |line: &TextLine| line.text.bytes().any(|b| b.is_ascii_digit());
    if !ahead.iter().take(MOST_PARTS + 1).skip(2).any(has_numbers) {
        return None;
    }
    let parts = ahead.iter().take(MOST_PARTS).take_while(|line| is_header(&line.text)).count();
    let is_table = parts > 1 && ahead.get(parts).is_some_and(|line| is_row(&line.text));
    let columns = ahead.front()?.text.split_whitespace().count();
    if !is_table || columns < FEWEST_COLUMNS {
        return None;
    }
    let width = width(ahead);
    let mut broken = (1..parts).map(|at| continues(&ahead[at - 1].text, &ahead[at].text, width));
    (width >= NARROWEST && broken.all(|broken| broken)).then_some(parts)
}

/// Returns true if all words can be names of columns.
fn is_header(line: &str) -> bool {
    let is_name =
        |word: &str| word.bytes().any(|b| b.is_ascii_alphabetic()) && !word.starts_with(|c: char| c.is_ascii_digit());
    !line.trim().is_empty() && line.split_whitespace().all(is_name)
}

/// Returns true if most words are numbers.
fn is_row(line: &str) -> bool {
    let (numbers, words): (Vec<&str>, Vec<&str>) =
        line.split_whitespace().partition(|word| word.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
    numbers.len() > words.len()
}

/// Joins the header and the rows of a table that begins at the next line.
pub(crate) fn join(ahead: &mut VecDeque<TextLine>, parts: usize) {
    let (width, table) = (width(ahead), length(ahead));
    let rest = ahead.split_off(table);
    let mut lines = std::mem::take(ahead).into_iter().peekable();
    let mut columns = usize::MAX;
    while let Some(mut whole) = lines.next() {
        let mut last = whole.text.clone();
        let mut joined = 1;
        while let Some(next) = lines.peek() {
            let of_header = columns == usize::MAX && joined < parts;
            let count = |text: &str| text.split_whitespace().count();
            let fits = columns != usize::MAX
                && joined < MOST_PARTS
                && continues(&last, &next.text, width)
                && count(&whole.text) + count(&next.text) <= columns;
            let Some(next) = lines.next_if(|_| of_header || fits) else { break };
            whole.text.truncate(whole.text.trim_end().len());
            whole.text.push(' ');
            whole.text.push_str(next.text.trim_start());
            (last, joined) = (next.text, joined + 1);
        }
        if columns == usize::MAX {
            columns = whole.text.split_whitespace().count();
        }
        ahead.push_back(whole);
    }
    ahead.extend(rest);
}

/// Returns the number of lines up to a blank one.
fn length(ahead: &VecDeque<TextLine>) -> usize {
    ahead.iter().position(|line| line.text.trim().is_empty()).unwrap_or(ahead.len())
}

/// Returns the number of columns that the widest line needs: at least that many fit.
fn width(ahead: &VecDeque<TextLine>) -> usize {
    ahead.iter().take(length(ahead)).map(|line| line.text.trim_end().chars().count()).max().unwrap_or(0)
}

/// Returns true if a line may have been broken because its next word did not fit after the alignment spaces, which are lost.
fn continues(line: &str, next: &str, width: usize) -> bool {
    let word = next.split_whitespace().next().map(|word| word.chars().count());
    word.is_some_and(|word| line.trim_end().chars().count() + MOST_SPACES + word > width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::wrapped;

    fn lines(text: &str) -> VecDeque<TextLine> {
        let line = |(at, text): (usize, &str)| TextLine { number: at as u32 + 1, text: text.to_owned() };
        text.lines().enumerate().map(line).collect()
    }

    #[test]
    fn a_table_is_joined_whatever_the_width() {
        let header = "Core    CPU     Avg_MHz Busy%   Bzy_MHz TSC_MHz IPC     IRQ     POLL    C1      C2      C3      POLL%   C1%";
        let of_core = "0       0       986     22.42   4401    3793    1.37    11392   162     1214    2794    3079    0.09    1.87";
        let of_sibling = "0       8       44      1.33    3351    3793    0.44    1514    0       27      268     721";
        let table = format!("{header}\n{of_core}\n{of_sibling}\n{of_core}\n");
        for width in [66, 72, 76, 78, 80, 95] {
            let text = format!("{}\nThat is all.\n", wrapped(&table, width));
            let mut ahead = lines(&text);
            let parts = header_parts(&ahead).unwrap_or_else(|| panic!("{width}: {text}"));
            join(&mut ahead, parts);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            let joined: Vec<_> = ahead.iter().map(|line| words(&line.text)).collect();
            let expected = [header, of_core, of_sibling, of_core, "", "That is all."].map(words);
            assert_eq!(joined, expected, "{width}");
            assert_eq!(ahead[1].number, parts as u32 + 1, "the line on which it begins");
        }
    }

    #[test]
    fn text_is_no_table() {
        for text in [
            "I have seen that the disks of this machine are slow whenever the\nbackup of the other one runs at night\n12 of 14 times.",
            "Device r/s w/s\nsda 1.00 2.00\n",
            "r/s w/s\nrkB/s\n1 2 3\n",
        ] {
            assert_eq!(header_parts(&lines(text)), None, "{text}");
        }
    }
}
