//! The kernel's log: syslog files, dmesg in its forms, journalctl; with or without times, as text or JSON. It is read as a
//! stream: only lines that may matter are kept, and a bounded number of them.

mod json_log;
mod log_time;
mod prefix;
#[cfg(test)]
mod tests;
mod thinned_log;

use crate::lines::TextLine;
use crate::prelude::*;
use log_time::LogTime;
use prefix::LogPrefix;
use std::collections::HashSet;
use thinned_log::{LogRecord, ThinnedLog, is_repetition, is_unmistakable, may_matter, shape};
use whyslow_model::value::Name;

pub const FORMAT: Format = Format {
    name: "kernel log",
    versions: "Linux 2.4 on: syslog files (RFC 3164, 5424, with years), dmesg (plain, -T, -x, -d, -e, -r, -J, iso, with callers), journalctl (short forms, json, json-pretty), /dev/kmsg; bare messages",
    shows: "errors of disks and the paths to them with sense data decoded: which part, where the evidence points, since when; degraded arrays, OOM kills and what filled memory, full tables, stuck tasks, links, file systems, failing memory and CPUs",
    lacks: "how much time they cost",
    programs: &[program("dmesg"), partly_read("journalctl")],
    files: &[
        "messages*",
        "syslog*",
        "kern.log*",
        "kernel.log*",
        "dmesg*",
        "vmcore-dmesg*",
        "journalctl*",
        "kmsg*",
        "boot.msg*",
    ],
    streamed: true,
    starts: |lines| {
        lines.next_is(|line| LogPrefix::of(line).is_some() || is_unmistakable(line)) || json_log::starts(lines)
    },
    read,
    ..Format::NEW
};

/// A longer line was not wrapped.
const WRAPPED: usize = 160;
/// How many shapes of lines are remembered.
const MOST_SHAPES: usize = 50_000;
/// Daemons that report the same events as the kernel.
const DAEMONS: [&str; 3] = ["multipathd", "iscsid", "mdadm"];

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    let mut log = ThinnedLog::new(run);
    let host = if json_log::starts(lines) {
        json_log::read(lines, &mut log);
        None
    } else {
        TextLog { log: &mut log, host: None, open: None, prefixed: false, own_shapes: HashSet::new() }.read(lines)
    };
    log.finish();
    run.host = host.or(run.host.take());
    Ok(())
}

/// Whether the kernel or a daemon that reports its events logged a line, as far as its prefix shows.
pub(crate) fn is_from_kernel(line: &str) -> bool {
    LogPrefix::of(line)
        .is_none_or(|p| p.kernel || is_relevant_sender(Some(daemon(line.get(..p.length).unwrap_or_default()))))
}

/// Whether messages of this sender are used; `None` is the kernel.
fn is_relevant_sender(daemon: Option<&str>) -> bool {
    daemon.is_none_or(|name| DAEMONS.contains(&name))
}

/// A log as text. Its last line stays open for its wrapped rest.
struct TextLog<'k, 'r> {
    log: &'k mut ThinnedLog<'r>,
    /// The machine that the first line which says so is of.
    host: Option<Name>,
    open: Option<(TextLine, usize, u64)>,
    prefixed: bool,
    /// Shapes of lines that begin no other output: asking every format about each line of a long log is expensive.
    own_shapes: HashSet<u64>,
}

impl TextLog<'_, '_> {
    /// Reads all lines, and returns the machine that logged them.
    fn read(mut self, lines: &mut Lines<'_>) -> Option<Name> {
        loop {
            let number = lines.number();
            let Some(text) = lines.peek(0) else { break };
            if let Some(prefix) = LogPrefix::of(text) {
                self.prefixed = true;
                if prefix.kernel {
                    self.log.count(number, prefix.when());
                }
                let (length, kernel) = (prefix.length, prefix.kernel);
                if self.host.is_none() {
                    self.host = prefix.host.map(Name::from);
                }
                self.line(lines, length, kernel);
            } else if is_unmistakable(text) || (!self.prefixed && may_matter(text)) {
                self.log.count(number, LogTime::default());
                self.line(lines, 0, true);
            } else if text.trim().is_empty() {
                lines.skip(1);
            } else if self.another_output_starts(lines) {
                break;
            } else {
                // The rest of a wrapped line, or console output between the kernel's messages.
                self.rest(lines);
            }
        }
        self.close(lines);
        self.host
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

    /// Takes a log line whose first `prefix` bytes are its prefix.
    fn line(&mut self, lines: &mut Lines<'_>, prefix: usize, kernel: bool) {
        self.close(lines);
        let sequence = lines.sequence();
        let text = lines.peek(0).unwrap_or_default();
        let message = text.get(prefix..).unwrap_or_default().trim_start();
        let sender = || daemon(&text[..prefix.min(text.len())]);
        let relevant = kernel || is_repetition(message) || is_relevant_sender(Some(sender()));
        if relevant && (self.log.wants(message) || may_be_wrapped(message)) {
            self.open = lines.take().map(|line| (line, prefix, sequence));
        } else {
            self.log.drop_line();
            lines.skip(1);
        }
    }

    fn rest(&mut self, lines: &mut Lines<'_>) {
        if let Some((line, ..)) = self.open.as_mut().filter(|(line, ..)| line.text.len() <= WRAPPED) {
            line.text.push(' ');
            line.text.push_str(lines.peek(0).unwrap_or_default().trim());
        }
        lines.skip(1);
    }

    fn close(&mut self, lines: &mut Lines<'_>) {
        let Some((line, prefix, sequence)) = self.open.take() else { return };
        let when = LogPrefix::of(&line.text).unwrap_or_default().when();
        let text = line.text.get(prefix..).unwrap_or_default().trim();
        self.log.take(LogRecord { number: line.number, sequence, text, when });
        lines.reuse(line);
    }
}

/// The daemon in a prefix: `Dec 20 10:33:23 web multipathd[123]: `.
fn daemon(prefix: &str) -> &str {
    let word = prefix.trim_end_matches([':', ' ']).rsplit(' ').next().unwrap_or_default();
    word.split('[').next().unwrap_or(word)
}

/// Whether the error itself may have been wrapped to the next line.
fn may_be_wrapped(message: &str) -> bool {
    message.len() <= WRAPPED && (message.starts_with("scsi") || message.contains(": cmd "))
}
