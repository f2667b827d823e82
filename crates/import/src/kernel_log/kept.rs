//! The lines that are kept, in bounds however long and hostile the log is: of lines alike the first ones and the newest,
//! which says how many there were in between.

use super::interest::{begins_report, ends_report, is_interesting, is_of_report};
use super::when::{Span, When};
use crate::run::{Run, SECOND};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use whyslow_model::catalogue::{LogLine, LogRead};

/// How many lines alike are kept one by one.
const EACH: u32 = 20;
/// The most lines that are kept one by one.
pub const MOST_KEPT: usize = 8_000;
/// The most kinds of lines that are counted.
const MOST_KINDS: usize = 2_000;
/// The most lines of reports on memory.
const MOST_OF_REPORTS: usize = 8_000;
/// The kernel prints no longer line (PRINTKRB_RECORD_MAX).
const LONGEST: usize = 1024;

/// A line of the log, apart from what stands before the kernel's words.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'l> {
    /// Its line in the file.
    pub number: u32,
    /// Its place among all lines of all files.
    pub sequence: u64,
    /// The kernel's words.
    pub text: &'l str,
    /// When it was logged.
    pub when: When<'l>,
}

/// The newest line of a kind.
#[derive(Default)]
struct Newest {
    number: u32,
    sequence: u64,
    text: String,
    printed: Option<String>,
    since_boot_ns: Option<u64>,
}

impl Newest {
    /// Becomes a newer line; the memory of the texts stays where it is.
    fn renew(&mut self, heard: Heard<'_>) {
        (self.number, self.sequence, self.since_boot_ns) = (heard.number, heard.sequence, heard.when.since_boot_ns);
        heard.text.clone_into(&mut self.text);
        match (heard.when.printed, &mut self.printed) {
            (Some(time), Some(own)) => time.clone_into(own),
            (time, own) => *own = time.map(str::to_owned),
        }
    }

    fn heard(&self) -> Heard<'_> {
        Heard {
            number: self.number,
            sequence: self.sequence,
            text: &self.text,
            when: When { printed: self.printed.as_deref(), since_boot_ns: self.since_boot_ns },
        }
    }
}

/// Lines of one kind.
#[derive(Default)]
struct Kind {
    seen: u32,
    /// The newest of those that are not kept one by one, and how many there were before it.
    newest: Option<Newest>,
    left_out: u64,
}

/// What is kept of a log.
pub struct Kept<'r> {
    run: &'r mut Run,
    kinds: HashMap<u64, Kind>,
    count: usize,
    lines: u64,
    first: u32,
    span: Span,
    left: u64,
    in_report: bool,
    of_reports: usize,
    /// The line before, where it was kept.
    before: Option<(u64, u64)>,
}

impl<'r> Kept<'r> {
    /// Nothing yet.
    pub fn new(run: &'r mut Run) -> Self {
        Self {
            run,
            kinds: HashMap::new(),
            count: 0,
            lines: 0,
            first: 0,
            span: Span::default(),
            left: 0,
            in_report: false,
            of_reports: 0,
            before: None,
        }
    }

    /// Counts a line of the kernel's.
    pub fn count(&mut self, number: u32, when: When<'_>) {
        self.lines += 1;
        self.span.add(when);
        if self.first == 0 {
            self.first = number;
        }
    }

    /// Whether a line is worth being looked at.
    pub fn wants(&self, text: &str) -> bool {
        is_interesting(text) || (self.in_report && is_of_report(text)) || is_repetition(text)
    }

    /// A line that is not kept.
    pub fn pass(&mut self) {
        self.before = None;
    }

    /// Takes a line.
    pub fn take(&mut self, mut heard: Heard<'_>) {
        if let Some(times) = repeated(heard.text) {
            self.repeat(times);
            return;
        }
        heard.text = cut(heard.text);
        if begins_report(heard.text) {
            self.in_report = true;
        } else if self.in_report && is_of_report(heard.text) {
            if self.of_reports < MOST_OF_REPORTS {
                self.of_reports += 1;
                write(self.run, heard, 0);
            }
            return;
        } else if ends_report(heard.text) {
            self.in_report = false;
        }
        if !is_interesting(heard.text) {
            self.before = None;
            return;
        }
        let shape = shape(heard.text);
        let new = self.kinds.len() < MOST_KINDS;
        let kind = match self.kinds.entry(shape) {
            Entry::Occupied(kind) => kind.into_mut(),
            Entry::Vacant(place) if new => place.insert(Kind::default()),
            Entry::Vacant(_) => {
                self.left += 1;
                self.before = None;
                return;
            }
        };
        kind.seen = kind.seen.saturating_add(1);
        self.before = Some((shape, heard.sequence));
        if kind.seen <= EACH && self.count < MOST_KEPT {
            self.count += 1;
            write(self.run, heard, 0);
        } else {
            kind.left_out += u64::from(kind.newest.is_some());
            kind.newest.get_or_insert_default().renew(heard);
        }
    }

    /// The line before came so often more: a syslog daemon's `last message repeated 3 times`.
    fn repeat(&mut self, times: u64) {
        let Some((shape, sequence)) = self.before else { return };
        let Some(kind) = self.kinds.get_mut(&shape) else { return };
        if kind.newest.as_ref().is_some_and(|newest| newest.sequence == sequence) {
            kind.left_out = kind.left_out.saturating_add(times);
        } else {
            let row = self.run.row::<LogLine>(0.0, 0, sequence);
            row.repeated = (row.repeated.get().unwrap_or(0.0) + times as f64).into();
        }
    }

    /// Puts down what is left to be said.
    pub fn end(self) {
        for kind in self.kinds.into_values() {
            if let Some(newest) = kind.newest {
                write(self.run, newest.heard(), kind.left_out);
            }
        }
        if self.left > 0 {
            let why = format!("{} of them; {MOST_KINDS} kinds of lines were counted", self.left);
            self.run.note("more kinds of lines than can be held", why, "give the part around the incident");
        }
        if self.lines > 0 {
            let file = self.run.file.clone();
            let row = self.run.row::<LogRead>(0.0, self.first, file);
            row.lines = (row.lines.get().unwrap_or(0.0) + self.lines as f64).into();
            row.span = self.span.seconds().map(|s| s * SECOND).into();
        }
    }
}

fn write(run: &mut Run, heard: Heard<'_>, left_out: u64) {
    let row = run.row::<LogLine>(0.0, heard.number, heard.sequence);
    row.text = heard.text.into();
    if let Some(ns) = heard.when.since_boot_ns {
        row.time = ns.into();
    }
    if let Some(printed) = heard.when.printed {
        row.printed = printed.into();
    }
    row.clock = heard.when.seconds().map(|s| s * SECOND).into();
    if left_out > 0 {
        row.repeated = (left_out as f64).into();
    }
}

/// Whether a syslog daemon says how often the line before came again.
pub fn is_repetition(text: &str) -> bool {
    text.starts_with("last message repeated ")
}

/// `last message repeated 3 times`
fn repeated(text: &str) -> Option<u64> {
    let (times, _) = text.strip_prefix("last message repeated ")?.split_once(" times")?;
    times.parse().ok()
}

fn cut(text: &str) -> &str {
    let end = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// What lines have in common that differ only in sectors, tags, times and process numbers: a hash (FNV-1a) over the text
/// without numbers of three digits and more, in which addresses and device names have none.
pub fn shape(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes[..at].ends_with(b"0x");
        let digit = |b: &u8| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
        let number = bytes[at..].iter().take_while(|b| digit(b)).count();
        if number >= 3 || (number > 0 && (hex || bytes[..at].ends_with(b"#"))) {
            at += number;
            continue;
        }
        for byte in &bytes[at..at + number.max(1)] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        at += number.max(1);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_alike_differ_in_numbers_only() {
        let alike = |a: &str, b: &str| shape(a) == shape(b);
        assert!(alike("I/O error, dev sda, sector 4656 op 0x0:(READ)", "I/O error, dev sda, sector 999 op 0x1:(READ)"));
        assert!(alike("sd 0:0:0:0: [sda] tag#1 FAILED", "sd 0:0:0:0: [sda] tag#129 FAILED"));
        assert!(!alike("I/O error, dev sda, sector 4656", "I/O error, dev sdb, sector 4656"));
        assert!(!alike("sd 0:0:0:0: x", "sd 0:0:1:0: x"));
        assert!(!alike("eth0: link down", "eth1: link down"));
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        assert_eq!(cut(&"ä".repeat(LONGEST)).len(), LONGEST);
        assert_eq!(cut(&format!("x{}", "ä".repeat(LONGEST))).len(), LONGEST - 1);
        assert_eq!(cut("short"), "short");
    }
}
