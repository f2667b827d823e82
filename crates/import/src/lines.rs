//! A file line by line, with a few lines in sight ahead, so that a log of any size is read in a stream.

use crate::refusal::Refusal;
use std::collections::VecDeque;
use std::io::{BufRead, Read};
use whyslow_model::value::Name;

/// A longer line is cut: no tool prints one, and a file without line ends must not fill memory.
const LONGEST: u64 = 64 * 1024;

/// How many lines' memory is kept for others, and how much of one line.
const MOST_SPARE: usize = 16;
const LARGEST_SPARE: usize = 1024;

/// How many places that were left out are remembered.
const MOST_LEFT_OUT: usize = 100;
/// The most blank lines that are looked past.
const MOST_BLANKS: usize = 50;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, counted from 1.
    pub number: u32,
    /// Its text, without line end and mark-up.
    pub text: String,
}

/// The lines of a file from here on.
pub struct Lines<'r> {
    file: Name,
    /// The file's place among the files of an incident.
    index: u32,
    reader: Box<dyn BufRead + 'r>,
    ahead: VecDeque<String>,
    /// The bytes of the line that is being read, and lines that were dropped: a log of a gigabyte has ten million, and
    /// each would be new memory.
    bytes: Vec<u8>,
    spare: Vec<String>,
    taken: u32,
    /// What ends a line.
    end: Option<u8>,
    failure: Option<std::io::Error>,
    partial: bool,
    left_out: Vec<Refusal>,
    /// Whether a byte was met that no text holds.
    binary: bool,
    /// The line after which the text ends, for now.
    until: u32,
}

impl<'r> Lines<'r> {
    /// The lines that `reader` gives; `file` is the name errors and evidence call them by.
    pub fn new(file: impl Into<Name>, reader: impl BufRead + 'r) -> Self {
        Self {
            file: file.into(),
            index: 0,
            reader: Box::new(reader),
            ahead: VecDeque::new(),
            bytes: Vec::new(),
            spare: Vec::new(),
            taken: 0,
            end: None,
            failure: None,
            partial: false,
            left_out: Vec::new(),
            binary: false,
            until: u32::MAX,
        }
    }

    /// The same, of which single rows may be left out.
    pub fn partly(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// What was read; nothing, where it is refused and may be left out, which is remembered.
    ///
    /// # Errors
    /// The refusal, where nothing may be left out.
    pub fn keep<T>(&mut self, read: Result<T, Refusal>) -> Result<Option<T>, Refusal> {
        match read {
            Err(refusal) if self.partial => {
                if self.left_out.len() < MOST_LEFT_OUT {
                    self.left_out.push(refusal);
                }
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// What was left out since this was last asked.
    pub fn left_out(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.left_out)
    }

    /// The same as the file of an incident that was given at this place.
    pub fn at(self, index: u32) -> Self {
        Self { index, ..self }
    }

    /// A number for the next line that no other line of any file has, in the order of files and lines.
    pub fn sequence(&self) -> u64 {
        (u64::from(self.index) << 32) | u64::from(self.number())
    }

    /// The file's name.
    pub fn file(&self) -> &Name {
        &self.file
    }

    /// The number of the next line.
    pub fn number(&self) -> u32 {
        self.taken + 1
    }

    /// The line `after` the next one; 0 is the next one itself.
    pub fn peek(&mut self, after: usize) -> Option<&str> {
        if after >= self.until.saturating_sub(self.taken) as usize {
            return None;
        }
        while self.ahead.len() <= after {
            let line = self.read_line()?;
            self.ahead.push_back(line);
        }
        self.ahead.get(after).map(String::as_str)
    }

    /// How many blank lines come next, and the first line that is not blank. Nothing that belongs together is further
    /// apart than a few of them.
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

    /// Lets the text end so many lines from here.
    pub fn end_after(&mut self, count: u32) {
        self.until = self.taken.saturating_add(count);
    }

    /// Lets the text go on again; whether it had ended before the file does.
    pub fn go_on(&mut self) -> bool {
        let ended = self.taken >= self.until;
        self.until = u32::MAX;
        ended && self.peek(0).is_some()
    }

    /// Takes the next line.
    pub fn take(&mut self) -> Option<Line> {
        self.peek(0)?;
        self.taken = self.taken.saturating_add(1);
        Some(Line { number: self.taken, text: self.ahead.pop_front()? })
    }

    /// Takes so many lines and drops them.
    pub fn skip(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(line) = self.take() {
                self.give_back(line);
            }
        }
    }

    /// Gives a line back whose memory is of no more use.
    pub fn give_back(&mut self, line: Line) {
        if self.spare.len() < MOST_SPARE && line.text.capacity() <= LARGEST_SPARE {
            self.spare.push(line.text);
        }
    }

    /// The next line is not what was expected.
    pub fn refuse(&mut self, expected: impl Into<String>) -> Refusal {
        let found = self.peek(0).unwrap_or("the end of the file").to_owned();
        Refusal::new(&self.file, self.number(), expected, &found)
    }

    /// Whether what was read so far holds bytes that no text does.
    pub fn is_binary(&self) -> bool {
        self.binary
    }

    /// Why the file could not be read to its end, where it could not.
    pub fn failure(&self) -> Option<&std::io::Error> {
        self.failure.as_ref()
    }

    /// A carriage return where the file begins with nothing else, as some editors write it; else a new line.
    fn end(&mut self) -> u8 {
        *self.end.get_or_insert_with(|| {
            let begin = self.reader.fill_buf().unwrap_or_default();
            if begin.contains(&b'\r') && !begin.contains(&b'\n') { b'\r' } else { b'\n' }
        })
    }

    fn read_line(&mut self) -> Option<String> {
        self.bytes.clear();
        let end = self.end();
        match self.reader.by_ref().take(LONGEST).read_until(end, &mut self.bytes) {
            Ok(0) => None,
            Ok(_) => {
                let mut line = self.spare.pop().unwrap_or_default();
                line.clear();
                self.binary |= self.bytes.contains(&0);
                clean(&self.bytes, &mut line);
                Some(line)
            }
            Err(e) => {
                self.failure = Some(e);
                None
            }
        }
    }
}

/// Without line end, byte order mark, what a terminal wrote over, the signs that quote a mail, and the asterisks a forum
/// marks bold text with.
fn clean(bytes: &[u8], into: &mut String) {
    let text = String::from_utf8_lossy(bytes);
    let line = text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
    let line = line.rsplit('\r').next().unwrap_or(line);
    unquoted(line).split("**").for_each(|piece| into.push_str(piece));
}

/// `> > text`
fn unquoted(mut line: &str) -> &str {
    while let Some(rest) = line.strip_prefix('>') {
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_whatever_was_looked_at_before() {
        let mut lines = Lines::new("x", &b"\xef\xbb\xbfone\r\n\n\nfour\n"[..]);
        assert_eq!(lines.peek(3), Some("four"));
        assert_eq!(lines.take(), Some(Line { number: 1, text: "one".into() }));
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
    fn a_file_without_line_ends_is_cut_into_lines() {
        let flood = vec![b'x'; LONGEST as usize * 3];
        let mut lines = Lines::new("x", &flood[..]);
        assert_eq!(lines.take().unwrap().text.len() as u64, LONGEST);
    }
}
