//! Holds a log within bounds, however long and hostile it is: for each line shape, the first lines and the newest one, which
//! carries the number of lines in between.

use super::log_time::{LogSpan, LogTime};
use super::stack_lines::StackLines;
use crate::clock::SECOND;
use crate::tool_run::ToolRun;
use aho_corasick::AhoCorasick;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::LazyLock;
use whyslow_model::catalogue::{LogLine, LogRead};
use whyslow_model::kernel_log::{HANDLERS, UNMISTAKABLE, is_memory_report, prefilter};

/// Number of lines of a shape to keep one by one.
const EACH: u32 = 20;
/// Maximum number of lines to keep one by one.
pub const MOST_KEPT: usize = 8_000;
/// Maximum number of shapes to count.
const MOST_SHAPES: usize = 2_000;
/// Maximum number of lines of memory reports.
const MOST_REPORT_LINES: usize = 8_000;
/// Maximum length of a line that the kernel prints (PRINTKRB_RECORD_MAX).
const LONGEST: usize = 1024;

/// A line of the log without its prefix.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'l> {
    /// Line number in the file.
    pub number: u32,
    /// Position among all lines of all files.
    pub sequence: u64,
    pub text: &'l str,
    pub when: LogTime<'l>,
}

/// The newest line of a shape.
#[derive(Default)]
struct NewestLine {
    number: u32,
    sequence: u64,
    text: String,
    printed: Option<String>,
    since_boot_ns: Option<u64>,
}

impl NewestLine {
    /// Replaces the line, reusing its buffers.
    fn replace(&mut self, record: LogRecord<'_>) {
        (self.number, self.sequence, self.since_boot_ns) = (record.number, record.sequence, record.when.since_boot_ns);
        record.text.clone_into(&mut self.text);
        match (record.when.printed, &mut self.printed) {
            (Some(time), Some(own)) => time.clone_into(own),
            (time, own) => *own = time.map(str::to_owned),
        }
    }

    fn record(&self) -> LogRecord<'_> {
        let when = LogTime { printed: self.printed.as_deref(), since_boot_ns: self.since_boot_ns };
        LogRecord { number: self.number, sequence: self.sequence, text: &self.text, when }
    }
}

/// Lines of one shape.
#[derive(Default)]
struct LineShape {
    seen: u32,
    /// Newest line that is not kept individually, and the number of such lines before it.
    newest: Option<NewestLine>,
    dropped: u64,
}

/// The part of a log that is kept.
pub struct ThinnedLog {
    run: ToolRun,
    shapes: HashMap<u64, LineShape>,
    kept: usize,
    lines: u64,
    first: u32,
    span: LogSpan,
    /// Number of lines of shapes above the limit.
    uncounted: u64,
    in_report: bool,
    in_handlers: bool,
    report_lines: usize,
    stacks: StackLines,
    /// Shape and sequence of the previous line, if that was kept.
    previous: Option<(u64, u64)>,
}

impl ThinnedLog {
    pub fn new(run: ToolRun) -> Self {
        Self {
            run,
            shapes: HashMap::new(),
            kept: 0,
            lines: 0,
            first: 0,
            span: LogSpan::default(),
            uncounted: 0,
            in_report: false,
            in_handlers: false,
            report_lines: 0,
            stacks: StackLines::default(),
            previous: None,
        }
    }

    /// Counts a kernel line.
    pub fn count(&mut self, number: u32, when: LogTime<'_>) {
        self.lines += 1;
        self.span.add(when);
        if self.first == 0 {
            self.first = number;
        }
    }

    /// Returns true if a line needs to be examined.
    pub fn wants(&self, text: &str) -> bool {
        let continues = (self.in_report && is_in_memory_report(text)) || (self.in_handlers && is_handler(text));
        may_matter(text) || continues || begins_handlers(text) || is_repetition(text) || self.stacks.wants(text)
    }

    /// Notes that a line was dropped.
    pub fn drop_line(&mut self) {
        self.stacks.pass_over();
        self.previous = None;
    }

    pub fn take(&mut self, mut record: LogRecord<'_>) {
        if let Some(times) = repetitions(record.text) {
            self.repeat(times);
            return;
        }
        record.text = cut(record.text);
        if self.stacks.take(record.text) {
            write(&mut self.run, record, 0);
            return;
        }
        let is_about_handlers = begins_handlers(record.text) || (self.in_handlers && is_handler(record.text));
        self.in_handlers = is_about_handlers || (self.in_handlers && !ends_handlers(record.text));
        if begins_memory_report(record.text) {
            self.in_report = true;
        } else if is_about_handlers || (self.in_report && is_in_memory_report(record.text)) {
            if self.report_lines < MOST_REPORT_LINES {
                self.report_lines += 1;
                write(&mut self.run, record, 0);
            }
            return;
        } else if ends_memory_report(record.text) {
            self.in_report = false;
        }
        if !may_matter(record.text) {
            self.drop_line();
            return;
        }
        let hash = shape(record.text);
        let has_room = self.shapes.len() < MOST_SHAPES;
        let shape = match self.shapes.entry(hash) {
            Entry::Occupied(shape) => shape.into_mut(),
            Entry::Vacant(place) if has_room => place.insert(LineShape::default()),
            Entry::Vacant(_) => {
                self.uncounted += 1;
                self.drop_line();
                return;
            }
        };
        shape.seen = shape.seen.saturating_add(1);
        self.previous = Some((hash, record.sequence));
        if shape.seen <= EACH && self.kept < MOST_KEPT {
            self.kept += 1;
            write(&mut self.run, record, 0);
        } else {
            shape.dropped += u64::from(shape.newest.is_some());
            shape.newest.get_or_insert_default().replace(record);
        }
    }

    /// Counts the previous line again: a syslog daemon's `last message repeated 3 times`.
    fn repeat(&mut self, times: u64) {
        let Some((shape, sequence)) = self.previous else { return };
        let Some(shape) = self.shapes.get_mut(&shape) else { return };
        if shape.newest.as_ref().is_some_and(|newest| newest.sequence == sequence) {
            shape.dropped = shape.dropped.saturating_add(times);
        } else {
            let row = self.run.row::<LogLine>(0.0, 0, sequence);
            row.repeated = (row.repeated.get().unwrap_or(0.0) + times as f64).into();
        }
    }

    /// Returns the run, with the newest lines and the amount that was read.
    pub fn finish(mut self) -> ToolRun {
        for shape in self.shapes.into_values() {
            if let Some(newest) = shape.newest {
                write(&mut self.run, newest.record(), shape.dropped);
            }
        }
        if self.uncounted > 0 {
            let why = format!("{} of them; {MOST_SHAPES} kinds of lines were counted", self.uncounted);
            self.run.note("more kinds of lines than can be held", why, "give the part around the incident");
        }
        if self.lines > 0 {
            let file = self.run.file.clone();
            let row = self.run.row::<LogRead>(0.0, self.first, file);
            row.lines = (row.lines.get().unwrap_or(0.0) + self.lines as f64).into();
            row.span = self.span.seconds().map(|s| s * SECOND).into();
        }
        self.run
    }
}

fn write(run: &mut ToolRun, record: LogRecord<'_>, dropped: u64) {
    let row = run.row::<LogLine>(0.0, record.number, record.sequence);
    row.text = record.text.into();
    if let Some(ns) = record.when.since_boot_ns {
        row.time = ns.into();
    }
    if let Some(printed) = record.when.printed {
        row.printed = printed.into();
    }
    row.clock = record.when.seconds().map(|s| s * SECOND).into();
    if dropped > 0 {
        row.repeated = (dropped as f64).into();
    }
}

/// Returns true if a syslog daemon reports how often the previous line was repeated.
pub fn is_repetition(text: &str) -> bool {
    text.starts_with("last message repeated ")
}

/// Returns the number in `last message repeated 3 times`.
fn repetitions(text: &str) -> Option<u64> {
    let (times, _) = text.strip_prefix("last message repeated ")?.split_once(" times")?;
    times.parse().ok()
}

fn cut(text: &str) -> &str {
    let end = (0..=LONGEST.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// Hashes what lines have in common that differ only in sectors, tags, times and process numbers (FNV-1a). Leaves out numbers
/// of three digits and more, which addresses and device names do not have, and any number after `0x` or `#`.
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

/// Words of lines that may matter; all other lines are dropped at once, so that a log of any size is read as a stream.
static RELEVANT: LazyLock<AhoCorasick> = LazyLock::new(|| matcher(prefilter()));
static FROM_KERNEL: LazyLock<AhoCorasick> = LazyLock::new(|| matcher(UNMISTAKABLE.iter().copied()));

fn matcher(words: impl Iterator<Item = &'static str>) -> AhoCorasick {
    AhoCorasick::new(words).expect("the words are few and short")
}

/// Returns true if a line may matter for the diagnosis.
pub fn may_matter(text: &str) -> bool {
    RELEVANT.is_match(text)
}

/// Returns true if the words of a line alone identify it as the kernel's.
pub fn is_unmistakable(text: &str) -> bool {
    FROM_KERNEL.is_match(text)
}

/// Returns true if words of a message begin in one text and end in the next one.
pub fn spans(text: &str, next: &str) -> bool {
    let longest = RELEVANT.max_pattern_len().max(FROM_KERNEL.max_pattern_len());
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(longest))..];
    let joint = format!("{tail} {}", &next[..next.floor_char_boundary(longest)]);
    if !may_matter(&joint) && !is_unmistakable(&joint) {
        return false;
    }
    let is_across = |start: usize, end: usize| start < tail.len() && end > tail.len() + 1;
    let mut found = RELEVANT.find_overlapping_iter(&joint).chain(FROM_KERNEL.find_overlapping_iter(&joint));
    found.any(|words| is_across(words.start(), words.end()))
}

/// Returns true if the handlers of an interrupt are listed from here on.
fn begins_handlers(text: &str) -> bool {
    text.starts_with(HANDLERS[0])
}

/// Returns true if the interrupt of the handlers is disabled.
fn ends_handlers(text: &str) -> bool {
    text.contains("Disabling IRQ #")
}

/// Returns true if a line names a handler.
fn is_handler(text: &str) -> bool {
    text.trim_start().starts_with(HANDLERS[1])
}

/// Returns true if a memory report with a list of processes begins.
fn begins_memory_report(text: &str) -> bool {
    text.contains("invoked oom-killer")
}

/// Returns true if a memory report ends.
fn ends_memory_report(text: &str) -> bool {
    text.contains("Killed process ") || text.contains("no killable processes")
}

/// Returns true if a line of a memory report is used: a process, `[  123]  0  123 ...`, or a statistic.
fn is_in_memory_report(text: &str) -> bool {
    let text = text.trim_start();
    let process = |rest: &str| rest.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == 'p');
    text.strip_prefix('[').is_some_and(process) || is_memory_report(text)
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
