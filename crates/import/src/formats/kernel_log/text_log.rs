//! Reads a log as text: finds each message, and joins those that a mail program broke into several lines.

use super::broken_message::{completes, wrap_of};
use super::host_logs::HostLogs;
use super::log_time::LogTime;
use super::prefix::LogPrefix;
use super::stack_lines::names_task;
use super::thinned_log::{LogRecord, is_repetition, is_unmistakable, may_matter, shape};
use super::{FORMAT, daemon, is_of_program, is_relevant_sender};
use crate::formats::another_output_starts;
use crate::lines::{Lines, TextLine};
use crate::wrap::{Wrap, columns};
use std::collections::HashSet;
use whyslow_model::kernel_log::is_memory_report;
use whyslow_model::kernel_stack::frame;

/// Maximum length of a message that is continued: the kernel prints no longer one (PRINTKRB_RECORD_MAX).
const LONGEST: usize = 1024;
/// The same limit if nothing proves that the line was broken, except that its rest does not look like a message.
const LONGEST_UNPROVEN: usize = 160;
/// Maximum number of line shapes to remember.
const MOST_SHAPES: usize = 50_000;

/// Returns true for a line that stands for others: `...`.
fn is_omission(text: &str) -> bool {
    let inner = text.trim().trim_matches(['[', ']', '<', '>', '(', ')']);
    ["...", "....", "\u{2026}", "snip"].contains(&inner)
}

/// Reads a log. Its last line stays open for the lines that continue it.
pub struct TextLog<'l> {
    logs: &'l mut HostLogs,
    open: Option<OpenLine>,
    /// Whether lines begin with a time or a sender.
    prefixed: bool,
    wrap: Wrap,
    /// Shapes of lines that begin no other output: testing every format on each line of a long log is expensive.
    own_shapes: HashSet<u64>,
}

/// A message whose end is not yet known.
struct OpenLine {
    line: TextLine,
    /// Length of the prefix before the message.
    prefix: usize,
    sequence: u64,
    /// Position of the log that the message belongs to.
    log: usize,
    /// Whether the sender's messages are used.
    relevant: bool,
    /// Columns of the last line of the message; above any limit if a blank line follows.
    columns: usize,
}

impl OpenLine {
    fn message(&self) -> &str {
        self.line.text.get(self.prefix..).unwrap_or_default().trim()
    }
}

impl<'l> TextLog<'l> {
    /// Creates a reader of the log that begins at the next line.
    pub fn new(logs: &'l mut HostLogs, lines: &mut Lines<'_>) -> Self {
        Self { logs, open: None, prefixed: false, wrap: wrap_of(lines), own_shapes: HashSet::new() }
    }

    /// Reads all lines.
    pub fn read(mut self, lines: &mut Lines<'_>) {
        loop {
            let number = lines.number();
            let Some(text) = lines.peek(0) else { break };
            if let Some(prefix) = LogPrefix::parse(text) {
                self.prefixed = true;
                self.wrap.add(text);
                self.logs.choose(prefix.host, number);
                if prefix.kernel {
                    self.logs.current().count(number, prefix.when());
                }
                let (length, kernel) = (prefix.length, prefix.kernel);
                self.line(lines, length, kernel);
            } else if text.trim().is_empty() || is_omission(text) {
                if let Some(open) = &mut self.open {
                    open.columns = usize::MAX;
                }
                lines.skip(1);
            } else if self.continues(lines) {
                self.append(lines);
            } else if let Some((prefix, joined)) = self.prefix_alone(lines) {
                let whole = LogPrefix::parse(&joined).unwrap_or_default();
                self.logs.choose(whole.host, number);
                self.logs.current().count(number, whole.when());
                self.line(lines, prefix, true);
            } else if self.is_message(lines) || self.is_in_report(lines) {
                self.logs.current().count(number, LogTime::default());
                self.line(lines, 0, true);
            } else if self.another_output_starts(lines) {
                break;
            } else {
                // The rest of a wrapped line, or console output between kernel messages.
                self.rest(lines);
            }
        }
        self.close(lines);
    }

    fn another_output_starts(&mut self, lines: &mut Lines<'_>) -> bool {
        let shape = shape(lines.peek(0).unwrap_or_default());
        if self.own_shapes.contains(&shape) {
            return false;
        }
        let starts = another_output_starts(lines, FORMAT.name);
        if !starts && self.own_shapes.len() < MOST_SHAPES {
            self.own_shapes.insert(shape);
        }
        starts
    }

    /// Returns true if the next line, which has no prefix, certainly belongs to the open message.
    fn continues(&mut self, lines: &mut Lines<'_>) -> bool {
        let (Some(open), Some(text)) = (&self.open, lines.peek(0)) else { return false };
        if is_second_line(open.message(), text) {
            return true;
        }
        if !self.wrap.breaks(open.columns, text) {
            return false;
        }
        if open.prefix > 0 { !self.another_output_starts(lines) } else { completes(open.message(), text) }
    }

    /// Returns the length of the next line, and that line joined with the one after it, if it is only the prefix of a message
    /// whose first word did not fit.
    fn prefix_alone(&self, lines: &mut Lines<'_>) -> Option<(usize, String)> {
        let columns = columns(lines.peek(0)?);
        let next = lines.peek(1).filter(|next| self.prefixed && self.wrap.breaks(columns, next))?.to_owned();
        let text = lines.peek(0)?;
        let joined = format!("{text} {next}");
        let is_kernel = LogPrefix::parse(&joined).is_some_and(|p| p.kernel && p.length >= text.len());
        (is_kernel && LogPrefix::parse(&next).is_none()).then_some((text.len(), joined))
    }

    /// Returns true if the next line, which has no prefix, is a line of the kernel's report on its memory: it is one message of
    /// several lines (mm/show_mem.c), of which dmesg indents all but the first.
    fn is_in_report(&self, lines: &mut Lines<'_>) -> bool {
        let is_of_report = |text: &str| text.starts_with(' ') && is_memory_report(text.trim_start());
        self.prefixed && lines.peek(0).is_some_and(is_of_report)
    }

    /// Returns true if the next line, which has no prefix, begins a message.
    fn is_message(&self, lines: &mut Lines<'_>) -> bool {
        let Some(text) = lines.peek(0) else { return false };
        if is_unmistakable(text) || frame(text).is_some() || names_task(text) {
            return true;
        }
        if self.prefixed || may_matter(text) {
            return !self.prefixed;
        }
        let columns = columns(text);
        if !self.wrap.may_break(columns) || !lines.peek(1).is_some_and(|next| self.wrap.breaks(columns, next)) {
            return false;
        }
        let text = lines.peek(0).unwrap_or_default().to_owned();
        lines.peek(1).is_some_and(|next| completes(&text, next))
    }

    /// Takes a line whose first `prefix` bytes are its prefix.
    fn line(&mut self, lines: &mut Lines<'_>, prefix: usize, kernel: bool) {
        self.close(lines);
        let sequence = lines.sequence();
        let Some(line) = lines.take() else { return };
        let message = line.text.get(prefix..).unwrap_or_default().trim_start();
        let sender = || daemon(&line.text[..prefix.min(line.text.len())]);
        let relevant = kernel || is_repetition(message) || is_relevant_sender(Some(sender())) || is_of_program(message);
        let columns = columns(&line.text);
        let log = self.logs.position();
        self.open = Some(OpenLine { line, prefix, sequence, log, relevant, columns });
    }

    /// Adds the next line to the open message, if it may be its rest.
    fn rest(&mut self, lines: &mut Lines<'_>) {
        let is_open = self.open.as_ref().is_some_and(|open| {
            let message = open.message();
            open.relevant
                && open.line.text.len() <= LONGEST_UNPROVEN
                && (self.logs.at(open.log).wants(message) || may_be_wrapped(message))
        });
        if is_open {
            self.append(lines);
        } else {
            self.close(lines);
            lines.skip(1);
        }
    }

    /// Adds the next line to the open message.
    fn append(&mut self, lines: &mut Lines<'_>) {
        if let (Some(open), Some(text)) = (&mut self.open, lines.peek(0)) {
            open.columns = columns(text);
            self.wrap.add(text);
            if open.line.text.len() <= LONGEST {
                open.line.text.push(' ');
                open.line.text.push_str(text.trim());
            }
        }
        lines.skip(1);
    }

    /// Closes the open message and passes it on.
    fn close(&mut self, lines: &mut Lines<'_>) {
        let Some(open) = self.open.take() else { return };
        let log = self.logs.at(open.log);
        if open.relevant && log.wants(open.message()) {
            let when = LogPrefix::parse(&open.line.text).unwrap_or_default().when();
            let (number, sequence) = (open.line.number, open.sequence);
            log.take(LogRecord { number, sequence, text: open.message(), when });
        } else {
            log.drop_line();
        }
        lines.reuse(open.line);
    }
}

/// Returns true for the second line of libata's message about a command (ata_eh_link_report in drivers/ata/libata-eh.c).
fn is_second_line(message: &str, next: &str) -> bool {
    next.trim_start().starts_with("res ") && message.contains(": cmd ")
}

/// Returns true if the error itself may have been wrapped to the next line.
fn may_be_wrapped(message: &str) -> bool {
    message.starts_with("scsi") || message.contains(": cmd ")
}
