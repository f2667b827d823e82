//! Documents in JSON among the lines of a capture. They are read as they come: what is not asked for is never held.

use crate::lines::Lines;
use crate::refusal::Refusal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::io::{self, Read};

/// How many lines a document's first key may be away from its brace.
const FAR: usize = 4;
/// A longer document is refused: what is kept of it must fit into memory.
const LONGEST: usize = 24 * 1024 * 1024;

/// Whether a document begins at the next line whose first key is this one.
pub fn begins(lines: &mut Lines<'_>, key: &str) -> bool {
    if !lines.peek(0).is_some_and(|line| line.trim_start().starts_with('{')) {
        return false;
    }
    let mut start = String::new();
    for at in 0..FAR {
        let Some(line) = lines.peek(at) else { break };
        start.extend(line.chars().filter(|c| !c.is_whitespace()).take(key.len() + FAR));
    }
    start.strip_prefix("{\"").and_then(|rest| rest.strip_prefix(key)).is_some_and(|rest| rest.starts_with("\":"))
}

/// Takes the document that begins at the next line.
///
/// # Errors
/// Where it is not what `expected` says, with the line at which that showed.
pub fn take<T: DeserializeOwned>(lines: &mut Lines<'_>, expected: &str) -> Result<T, Refusal> {
    let mut text = Text { lines, line: Vec::new(), at: 0, length: 0 };
    let read = T::deserialize(&mut serde_json::Deserializer::from_reader(&mut text));
    read.map_err(|e| {
        let line = text.lines.number().saturating_sub(1).max(1);
        let found = String::from_utf8_lossy(&text.line).into_owned();
        Refusal::new(text.lines.file(), line, format!("{expected} ({e})"), &found)
    })
}

/// The lines from here on, as a reader. Where one ends does not matter to JSON.
struct Text<'l, 'r> {
    lines: &'l mut Lines<'r>,
    line: Vec<u8>,
    at: usize,
    length: usize,
}

impl Read for Text<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.line.len() {
            let Some(line) = self.lines.take() else { return Ok(0) };
            self.length += line.text.len();
            if self.length > LONGEST {
                return Err(io::Error::other(format!("longer than {} MiB", LONGEST / (1024 * 1024))));
            }
            self.line = line.text.into_bytes();
            self.at = 0;
        }
        let count = buffer.len().min(self.line.len() - self.at);
        buffer[..count].copy_from_slice(&self.line[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// A number that is none below nought: a count, an amount, a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount(pub f64);

impl Amount {
    /// As a whole number.
    pub fn whole(self) -> u64 {
        self.0 as u64
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if value.is_finite() && value >= 0.0 {
            Ok(Self(value))
        } else {
            Err(serde::de::Error::custom(format!("{value} cannot be an amount")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Sample {
        count: Amount,
    }

    #[test]
    fn a_document_ends_where_its_brace_does() {
        let mut lines = Lines::new("x", &b"{ \"count\"\n: 7,\n\"more\": [1, {}] }\nnext\n"[..]);
        assert!(begins(&mut lines, "count") && !begins(&mut lines, "coun"));
        assert_eq!(take::<Sample>(&mut lines, "a sample").unwrap().count, Amount(7.0));
        assert_eq!(lines.take().unwrap().text, "next");
    }

    #[test]
    fn what_is_cut_or_below_nought_is_refused_with_its_line() {
        for (text, line) in [("{\"count\":\n-7}\n", 2), ("{\"count\": 7,\n\"more\"\n", 2), ("{\"count\": 1e999}", 1)] {
            let refusal =
                take::<Sample>(&mut Lines::new("x", text.as_bytes()), "a sample").map(|s| s.count).unwrap_err();
            assert_eq!(refusal.line, line, "{text}: {refusal}");
        }
    }
}
