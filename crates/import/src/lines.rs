//! Reads a file line by line with a few lines of lookahead, so that a log of any size is read as a stream. Removes what
//! surrounds the output, for all formats: markup, the margin before each line, blank lines between all lines.

use crate::formats::another_output_starts;
use crate::margin::{Margin, indentation};
use crate::markup::{clean, is_table_ruler, row_without_frame};
use crate::refusal::Refusal;
use crate::table::is_cell;
use crate::wrap::{self, Piece, Wrap};
use crate::wrapped_table;
use std::collections::{BTreeSet, VecDeque};
use std::io::{BufRead, Read};
use whyslow_model::value::Name;

/// Maximum length of a line; longer lines are cut. No tool prints one, and a file without line ends must not fill memory.
const LONGEST: u64 = 64 * 1024;
/// Number of buffers kept for reuse, and maximum size of each.
const MOST_SPARE: usize = 16;
const LARGEST_SPARE: usize = 1024;
/// Maximum number of skipped rows to report.
const MOST_SKIPPED: usize = 100;
/// Columns of a quotation mark with its space.
const QUOTE: usize = 2;
/// Maximum number of joined lines whose numbers are kept.
const MOST_JOINED: usize = 10_000;
/// Maximum number of blank lines to look past.
const MOST_BLANKS: usize = 50;

/// One line, without line end and markup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLine {
    /// Line number, counted from 1.
    pub number: u32,
    pub text: String,
}

/// A line and the number of times it was quoted.
struct RawLine {
    line: TextLine,
    quotes: usize,
}

impl RawLine {
    fn piece(&self) -> Piece {
        Piece { quotes: self.quotes, columns: wrap::columns(&self.line.text) + QUOTE * self.quotes }
    }
}

/// Remaining lines of a file.
pub struct Lines<'r> {
    file: Name,
    /// Position of the file among the files of an incident.
    index: u32,
    reader: Box<dyn BufRead + 'r>,
    ahead: VecDeque<TextLine>,
    /// Line that was read to see whether it continues the one before.
    next: Option<RawLine>,
    /// Numbers of the lines that were joined.
    joined: BTreeSet<u32>,
    /// Number of the last line that was read.
    read: u32,
    /// Text before each line of the current output.
    margin: Margin,
    /// Whether a blank line was inserted after every line.
    double_spaced: bool,
    /// Whether the previous line belongs to a Markdown table.
    in_table: bool,
    /// Bytes of the current line, and buffers of earlier lines: a log of a gigabyte has ten million lines.
    bytes: Vec<u8>,
    spare: Vec<String>,
    taken: u32,
    line_end: Option<u8>,
    failure: Option<std::io::Error>,
    strict: bool,
    skipped: Vec<Refusal>,
    /// Number of refused lines and rows.
    refused: usize,
    binary: bool,
    /// Line after which the text ends for the current format.
    until: u32,
}

impl<'r> Lines<'r> {
    /// Reads the lines of `reader`; `file` is the name used in errors and evidence.
    pub fn new(file: impl Into<Name>, reader: impl BufRead + 'r) -> Self {
        Self {
            file: file.into(),
            index: 0,
            reader: Box::new(reader),
            ahead: VecDeque::new(),
            next: None,
            joined: BTreeSet::new(),
            read: 0,
            margin: Margin::None,
            double_spaced: false,
            in_table: false,
            bytes: Vec::new(),
            spare: Vec::new(),
            taken: 0,
            line_end: None,
            failure: None,
            strict: false,
            skipped: Vec::new(),
            refused: 0,
            binary: false,
            until: u32::MAX,
        }
    }

    /// Forbids skipping rows if `strict`.
    pub fn strictly(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Sets the number of the first line.
    pub fn numbered_from(self, first: u32) -> Self {
        Self { read: first.saturating_sub(1), taken: first.saturating_sub(1), ..self }
    }

    /// Sets the file's position among the files of an incident.
    pub fn at(self, index: u32) -> Self {
        Self { index, ..self }
    }

    /// Passes a result on. Unless strict, remembers a refusal and returns `None`.
    ///
    /// # Errors
    /// Returns the refusal if strict.
    pub fn keep<T>(&mut self, read: Result<T, Refusal>) -> Result<Option<T>, Refusal> {
        match read {
            Err(refusal) if !self.strict => {
                self.refused += 1;
                if self.skipped.len() < MOST_SKIPPED {
                    self.skipped.push(refusal);
                }
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Takes the next line, which is not what was `expected`, and leaves it out.
    ///
    /// # Errors
    /// Fails if strict.
    pub fn leave_out(&mut self, expected: impl Into<String>) -> Result<(), Refusal> {
        let refusal = self.refuse(expected);
        self.skip(1);
        self.keep::<()>(Err(refusal)).map(|_| ())
    }

    /// Leaves out a line that was taken and is not what was `expected`.
    ///
    /// # Errors
    /// Fails if strict.
    pub fn leave_out_line(&mut self, line: &TextLine, expected: impl Into<String>) -> Result<(), Refusal> {
        let refusal = self.refuse_at(line, expected);
        self.keep::<()>(Err(refusal)).map(|_| ())
    }

    /// Returns the number of lines and rows left out so far, in all outputs. A sum over lines is unknown if one of them is
    /// missing.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Takes the next line of an output. Leaves out damaged lines, and the numbers broken off them, so that they do not end the
    /// output. `expected` describes the lines.
    ///
    /// # Errors
    /// Fails at a damaged line if strict.
    pub fn take_own(
        &mut self,
        is_own: impl Fn(&str) -> bool,
        is_damaged: impl Fn(&str) -> bool,
        expected: &str,
    ) -> Result<Option<TextLine>, Refusal> {
        let mut after_damaged = false;
        loop {
            let Some(text) = self.peek(0).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
            if is_own(text) {
                return Ok(self.take());
            }
            let is_rest = text.split_whitespace().all(is_cell);
            let goes_on = |next: &str| is_own(next) || is_damaged(next);
            let is_between = is_rest && (after_damaged || self.peek(1).is_some_and(goes_on));
            if !is_between && !self.next_is(&is_damaged) {
                return Ok(None);
            }
            after_damaged = true;
            self.leave_out(expected)?;
        }
    }

    /// Returns the rows skipped since the last call.
    pub fn take_skipped(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.skipped)
    }

    /// Returns a number for the next line that is unique and ascending across all files.
    pub fn sequence(&self) -> u64 {
        (u64::from(self.index) << 32) | u64::from(self.number())
    }

    pub fn file(&self) -> &Name {
        &self.file
    }

    /// Returns the number of the next line.
    pub fn number(&self) -> u32 {
        self.ahead.front().map_or(self.taken + 1, |line| line.number)
    }

    /// Sets the margin that precedes each line from here on and is not part of the output.
    pub fn set_margin(&mut self, margin: Margin) {
        self.margin = margin;
    }

    /// Returns the line `after` lines after the next one; 0 is the next one itself.
    pub fn peek(&mut self, after: usize) -> Option<&str> {
        if after >= self.until.saturating_sub(self.taken) as usize {
            return None;
        }
        while self.ahead.len() <= after {
            let line = self.read_spaced_line()?;
            self.ahead.push_back(line);
        }
        let line = self.ahead.get(after).filter(|line| line.number <= self.until)?;
        Some(&line.text[self.margin.length(&line.text)..])
    }

    /// Returns the number of file lines up to a line that was peeked at, including blank lines that were dropped.
    pub fn distance(&self, after: usize) -> Option<u32> {
        let number = |at: usize| self.ahead.get(at).map(|line| line.number);
        Some(number(after)? - number(0)?)
    }

    /// Looks at the lines behind another margin.
    pub fn behind<T>(&mut self, margin: Margin, look: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.margin, margin);
        let seen = look(self);
        self.margin = before;
        seen
    }

    /// Looks at a table that a mail program wrapped, with its lines joined. Returns `None` if there is none.
    pub fn look_at_joined<T>(&mut self, look: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let parts = self.wrapped_header()?;
        let mut unjoined = self.ahead.clone();
        wrapped_table::join(&mut self.ahead, parts);
        let joined = self.ahead.len();
        let seen = look(self);
        unjoined.extend(self.ahead.drain(joined..));
        self.ahead = unjoined;
        seen
    }

    /// Joins the lines of a table that a mail program wrapped.
    pub fn join_wrapped_table(&mut self) {
        if let Some(parts) = self.wrapped_header() {
            wrapped_table::join(&mut self.ahead, parts);
        }
    }

    /// Returns the number of lines of the header if a wrapped table begins at the next line.
    fn wrapped_header(&mut self) -> Option<usize> {
        /// Number of lines that show whether it can be a wrapped table, and maximum length of a table.
        const SHORT: usize = 5;
        const MOST: usize = 500;
        self.peek(SHORT - 1);
        wrapped_table::header_parts(&self.ahead)?;
        self.peek(MOST);
        wrapped_table::header_parts(&self.ahead)
    }

    /// Estimates from the next lines the limit at which a mail program may have broken them.
    pub fn wrap(&mut self) -> Wrap {
        /// Number of lines to look at.
        const MOST: usize = 30;
        self.peek(MOST - 1);
        Wrap::from_lines(self.ahead.iter().take(MOST).map(|line| line.text.as_str()))
    }

    /// Returns the next line joined with the pieces that a mail program broke off, and the number of lines it spans. A line
    /// that `begins` accepts, or that starts the output of another tool than `own`, is not such a piece.
    pub fn peek_whole(
        &mut self,
        wrap: &mut Wrap,
        own: &str,
        begins: impl Fn(&str) -> bool,
    ) -> Option<(usize, TextLine)> {
        let text = self.peek(0)?.to_owned();
        let mut whole = TextLine { number: self.number(), text };
        wrap.add(&whole.text);
        let mut last = wrap::columns(&whole.text);
        let mut count = 1;
        while count < wrap::MOST_PIECES && self.is_rest_at(count, last, wrap, own, &begins) {
            let rest = self.peek(count)?;
            last = wrap::columns(rest);
            whole.text.push(' ');
            whole.text.push_str(rest.trim_start());
            count += 1;
        }
        Some((count, whole))
    }

    /// Returns true if a mail program broke the line at position `at` off a line of this many columns.
    fn is_rest_at(&mut self, at: usize, columns: usize, wrap: &Wrap, own: &str, begins: impl Fn(&str) -> bool) -> bool {
        /// Number of lines that show whether another output begins.
        const HEADER: usize = 4;
        let is_rest = |next: &str| !next.trim().is_empty() && wrap.breaks(columns, next) && !begins(next);
        if columns == 0 || !self.peek(at).is_some_and(is_rest) {
            return false;
        }
        let next: Vec<String> = (at..at + HEADER).map_while(|at| self.peek(at).map(str::to_owned)).collect();
        !another_output_starts(&mut Lines::new("", next.join("\n").as_bytes()), own)
    }

    /// Returns the smallest indentation of the next lines, up to a blank one.
    pub fn common_indentation(&mut self) -> usize {
        /// Number of lines to look at.
        const MOST: usize = 6;
        let filled = (0..MOST).map_while(|at| self.peek(at).filter(|text| !text.trim().is_empty()).map(indentation));
        filled.min().unwrap_or(0)
    }

    /// Returns true if the next line meets a condition.
    pub fn next_is(&mut self, condition: impl FnOnce(&str) -> bool) -> bool {
        self.peek(0).is_some_and(condition)
    }

    /// Returns the first line that is not blank, and its position.
    pub fn peek_past_blanks(&mut self, from: usize) -> Option<(usize, &str)> {
        let mut at = from;
        while self.peek(at)?.trim().is_empty() {
            at += 1;
            if at > from + MOST_BLANKS {
                return None;
            }
        }
        Some((at, self.peek(at)?))
    }

    /// Limits the text to this many more lines.
    pub fn end_after(&mut self, count: u32) {
        self.until = self.taken.saturating_add(count);
    }

    /// Lifts that limit. Returns true if it was reached before the end of the file.
    pub fn lift_limit(&mut self) -> bool {
        let reached = self.taken >= self.until;
        self.until = u32::MAX;
        reached && self.peek(0).is_some()
    }

    pub fn take(&mut self) -> Option<TextLine> {
        self.peek(0)?;
        let mut line = self.ahead.pop_front()?;
        line.text.drain(..self.margin.length(&line.text));
        self.taken = line.number;
        Some(line)
    }

    /// Takes the next line if it meets a condition.
    pub fn take_if(&mut self, condition: impl FnOnce(&str) -> bool) -> Option<TextLine> {
        if self.next_is(condition) { self.take() } else { None }
    }

    /// Takes the next line that is not blank, and the blank lines before it, if it meets a condition.
    pub fn take_past_blanks_if(&mut self, condition: impl FnOnce(&str) -> bool) -> Option<TextLine> {
        let blanks = self.peek_past_blanks(0).filter(|(_, text)| condition(text)).map(|(blanks, _)| blanks)?;
        self.skip(blanks);
        self.take()
    }

    pub fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(line) = self.take() {
                self.reuse(line);
            }
        }
    }

    /// Recycles the buffer of a line that is no longer needed.
    pub fn reuse(&mut self, line: TextLine) {
        if self.spare.len() < MOST_SPARE && line.text.capacity() <= LARGEST_SPARE {
            self.spare.push(line.text);
        }
    }

    pub fn refuse(&mut self, expected: impl Into<String>) -> Refusal {
        let found = self.peek(0).unwrap_or("the end of the file").to_owned();
        Refusal::new(&self.file, self.number(), expected, &found)
    }

    /// Creates a refusal of a line that was taken.
    pub fn refuse_at(&self, line: &TextLine, expected: impl Into<String>) -> Refusal {
        Refusal::new(&self.file, line.number, expected, &line.text)
    }

    /// Returns true if a line was joined from several, so that the spaces at the breaks are lost.
    pub fn is_joined(&self, line: &TextLine) -> bool {
        self.joined.contains(&line.number)
    }

    /// Returns true if the file contains bytes that do not occur in text.
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// Returns the error that stopped the reading before the end of the file.
    pub fn failure(&self) -> Option<&std::io::Error> {
        self.failure.as_ref()
    }

    /// Returns the line end of the file: a carriage return if the file begins with no other, as some editors write it;
    /// otherwise a newline.
    fn line_end(&mut self) -> u8 {
        *self.line_end.get_or_insert_with(|| {
            let begin = self.reader.fill_buf().unwrap_or_default();
            if begin.contains(&b'\r') && !begin.contains(&b'\n') { b'\r' } else { b'\n' }
        })
    }

    /// Reads the next line, and drops the blank lines that some mail programs and forums insert after every line.
    fn read_spaced_line(&mut self) -> Option<TextLine> {
        let line = self.read_whole_line()?;
        let is_inserted = line.number > 1 && line.text.is_empty() && (self.double_spaced || self.alternates());
        self.double_spaced = is_inserted;
        if !is_inserted {
            return Some(line);
        }
        self.reuse(line);
        self.read_whole_line()
    }

    /// Reads the next line and joins the rest that a mail program broke off after quoting: that rest has fewer quotation marks.
    fn read_whole_line(&mut self) -> Option<TextLine> {
        let mut whole = self.next.take().or_else(|| self.read_line())?;
        if whole.quotes == 0 || whole.line.text.is_empty() {
            return Some(whole.line);
        }
        let mut pieces = vec![whole.piece()];
        while let Some(next) = self.read_line() {
            if !wrap::is_broken_off(&pieces, next.piece(), &next.line.text) {
                self.next = Some(next);
                break;
            }
            if self.joined.len() >= MOST_JOINED {
                self.joined.clear();
            }
            self.joined.insert(whole.line.number);
            whole.line.text.push(' ');
            whole.line.text.push_str(next.line.text.trim_start());
            pieces.push(next.piece());
            self.reuse(next.line);
        }
        Some(whole.line)
    }

    /// Returns true if every other line from here on is blank, as far as the buffer shows.
    fn alternates(&mut self) -> bool {
        /// Number of pairs of a line and an inserted blank one at the start of such a text, unless it ends earlier.
        const PAIRS: usize = 3;
        let end = self.line_end();
        let buffer = self.reader.fill_buf().unwrap_or_default();
        let mut are_blank =
            buffer.split_inclusive(|b| *b == end).map(|line| line.iter().all(|b| b" \t\r\n>".contains(b)));
        let mut pairs = (0..PAIRS).map_while(|_| Some((are_blank.next()?, are_blank.next()?))).peekable();
        pairs.peek() == Some(&(false, true)) && pairs.all(|(_, is_inserted_blank)| is_inserted_blank)
    }

    /// Returns true if the current line belongs to a Markdown table: a header, which a ruler follows, or a later row.
    fn is_in_table(&mut self) -> bool {
        if !self.bytes.contains(&b'|') {
            return false;
        }
        if self.in_table {
            return true;
        }
        let end = self.line_end();
        let buffer = self.reader.fill_buf().unwrap_or_default();
        let next = buffer.split(|b| *b == end).next().unwrap_or_default();
        let next = String::from_utf8_lossy(&next[..next.len().min(LARGEST_SPARE)]);
        is_table_ruler(next.trim_start_matches(['>', ' ']))
    }

    fn read_line(&mut self) -> Option<RawLine> {
        self.bytes.clear();
        let end = self.line_end();
        match self.reader.by_ref().take(LONGEST).read_until(end, &mut self.bytes) {
            Ok(0) => None,
            Ok(_) => {
                let mut text = self.spare.pop().unwrap_or_default();
                text.clear();
                self.binary |= self.bytes.contains(&0);
                let quotes = clean(&self.bytes, &mut text);
                self.in_table = self.is_in_table();
                if self.in_table && text.contains('|') {
                    text = row_without_frame(&text);
                }
                self.read = self.read.saturating_add(1);
                Some(RawLine { line: TextLine { number: self.read, text }, quotes })
            }
            Err(e) => {
                self.failure = Some(e);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_whatever_was_looked_at_before() {
        let mut lines = Lines::new("x", &b"\xef\xbb\xbfone\r\n\n\nfour\n"[..]);
        assert_eq!(lines.peek(3), Some("four"));
        assert_eq!(lines.take(), Some(TextLine { number: 1, text: "one".into() }));
        assert_eq!(lines.peek_past_blanks(0), Some((2, "four")));
        lines.skip(2);
        assert_eq!(lines.number(), 4);
        assert_eq!(lines.take().unwrap().text, "four");
        assert_eq!(lines.take(), None);
    }

    #[test]
    fn returns_and_quotes_are_no_text() {
        let all = |bytes: &[u8]| {
            let mut lines = Lines::new("x", bytes);
            std::iter::from_fn(|| lines.take()).map(|line| line.text).collect::<Vec<_>>()
        };
        assert_eq!(all(b"one\rtwo\r"), ["one", "two"]);
        assert_eq!(all(b"10 %\r20 %\rdone\r\nnext\n"), ["done", "next"]);
        assert_eq!(all(b"> > one\n>two\n> \n"), ["one", "two", ""]);
    }

    #[test]
    fn what_was_broken_off_a_quoted_line_is_put_back() {
        let all = |text: &str| {
            let mut lines = Lines::new("x", text.as_bytes());
            std::iter::from_fn(|| lines.take()).map(|line| (line.number, line.text)).collect::<Vec<_>>()
        };
        let long = "sda 11111.00 22222.00 33333.00 44444.00 55555.00 66666.00";
        let once = all(&format!("> {long} 77777.00\n88888.00 9.00\n> sdb 1.00\nThanks\n"));
        assert_eq!(once[0], (1, format!("{long} 77777.00 88888.00 9.00")));
        assert_eq!(once[1..], [(3, "sdb 1.00".to_owned()), (4, "Thanks".to_owned())]);
        // Wrapped, quoted, and wrapped again.
        let twice = all(&format!("> > {long}\n77777.00\n> 88888.00 9.00\n> > sdb 1.00\n"));
        assert_eq!(twice[0], (1, format!("{long} 77777.00 88888.00 9.00")));
        assert_eq!(twice[1].1, "sdb 1.00");
        let short = all("> It has been slow since Monday.\n12 of 14 times\n> sdb 1.00\n");
        assert_eq!(short[1], (2, "12 of 14 times".to_owned()), "it would have fitted");
    }

    #[test]
    fn blank_lines_between_all_lines_are_left_out_and_counted() {
        let mut lines = Lines::new("x", &b"a\n\nb\n\nc\n\nd\n\ne\nf\n\ng\n"[..]);
        let all: Vec<_> = std::iter::from_fn(|| lines.take()).map(|line| (line.number, line.text)).collect();
        let of = |number: u32, text: &str| (number, text.to_owned());
        assert_eq!(all[..4], [of(1, "a"), of(3, "b"), of(5, "c"), of(7, "d")]);
        assert_eq!(all[4..], [of(9, "e"), of(10, "f"), of(11, ""), of(12, "g")]);
    }

    #[test]
    fn a_file_without_line_ends_is_cut_into_lines() {
        let flood = vec![b'x'; LONGEST as usize * 3];
        let mut lines = Lines::new("x", &flood[..]);
        assert_eq!(lines.take().unwrap().text.len() as u64, LONGEST);
    }
}
