//! JSON documents between the lines of a capture. They are parsed as a stream; only the requested fields are kept.

use crate::lines::Lines;
use crate::refusal::Refusal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::io::{self, Read};

/// Number of lines from the opening brace within which the first key of a document must appear.
const KEY_WITHIN: usize = 4;
const LARGEST: usize = 24 * 1024 * 1024;

/// Returns true if a document whose first key is `key` begins at the next line.
pub fn begins(lines: &mut Lines<'_>, key: &str) -> bool {
    if !lines.next_is(|line| line.trim_start().starts_with('{')) {
        return false;
    }
    let mut start = String::new();
    for at in 0..KEY_WITHIN {
        let Some(line) = lines.peek(at) else { break };
        start.extend(line.chars().filter(|c| !c.is_whitespace()).take(key.len() + KEY_WITHIN));
    }
    start.strip_prefix("{\"").and_then(|rest| rest.strip_prefix(key)).is_some_and(|rest| rest.starts_with("\":"))
}

/// Takes the document that begins at the next line.
///
/// # Errors
/// Fails if the document does not match what `expected` describes, at the line where that became clear.
pub fn take<T: DeserializeOwned>(lines: &mut Lines<'_>, expected: &str) -> Result<T, Refusal> {
    let mut text = JsonText { lines, line: Vec::new(), at: 0, length: 0 };
    let read = T::deserialize(&mut serde_json::Deserializer::from_reader(&mut text));
    read.map_err(|e| {
        let line = text.lines.number().saturating_sub(1).max(1);
        let found = String::from_utf8_lossy(&text.line).into_owned();
        Refusal::new(text.lines.file(), line, format!("{expected} ({e})"), &found)
    })
}

/// Reader of the remaining lines without line ends, which mean nothing in JSON.
struct JsonText<'l, 'r> {
    lines: &'l mut Lines<'r>,
    line: Vec<u8>,
    at: usize,
    length: usize,
}

impl Read for JsonText<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.line.len() {
            let Some(line) = self.lines.take() else { return Ok(0) };
            self.length += line.text.len();
            if self.length > LARGEST {
                return Err(io::Error::other(format!("longer than {} MiB", LARGEST / (1024 * 1024))));
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

/// A finite number that is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NonNegative(pub f64);

impl<'de> Deserialize<'de> for NonNegative {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        if value.is_finite() && value >= 0.0 {
            Ok(Self(value))
        } else {
            Err(serde::de::Error::custom(format!("{value} is negative")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Sample {
        count: NonNegative,
    }

    #[test]
    fn a_document_ends_where_its_brace_does() {
        let mut lines = Lines::new("x", &b"{ \"count\"\n: 7,\n\"more\": [1, {}] }\nnext\n"[..]);
        assert!(begins(&mut lines, "count") && !begins(&mut lines, "coun"));
        assert_eq!(take::<Sample>(&mut lines, "a sample").unwrap().count, NonNegative(7.0));
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
