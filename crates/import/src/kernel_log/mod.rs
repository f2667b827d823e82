//! The kernel's log: syslog files, dmesg in its forms, journalctl; with or without times, as text or JSON. Read in a
//! stream: only lines that can bear on a diagnosis are kept, and not more of them than fit.

mod interest;
mod json;
mod kept;
mod prefix;
#[cfg(test)]
mod tests;
mod when;

use crate::elsewhere;
use crate::format::{Asked, Format};
use crate::lines::{Line, Lines};
use crate::refusal::Refusal;
use crate::run::Run;
use interest::{is_bare, is_interesting};
use kept::{Heard, Kept, is_repetition, shape};
use prefix::Prefix;
use std::collections::HashSet;
use when::When;

/// The format.
pub const FORMAT: Format = Format {
    name: "kernel log",
    versions: "Linux 2.4 on: syslog files, dmesg (plain, -T, -x, -d, -e, -r, -J, iso), journalctl (short forms, json), /dev/kmsg; bare messages",
    tells: "errors of disks and the way to them (sense data decoded), arrays that lost a member, kills for memory, full tables, stuck tasks, failing hardware",
    starts,
    read,
};

/// A wrapped line is longer than this no more than once.
const WRAPPED: usize = 160;
/// How many shapes of lines are remembered.
const MOST_SHAPES: usize = 50_000;
/// Daemons whose lines tell of the same things as the kernel's.
const DAEMONS: [&str; 3] = ["multipathd", "iscsid", "mdadm"];

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| Prefix::of(line).is_some() || is_bare(line)) || json::starts(lines)
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut kept = Kept::new(run);
    if json::starts(lines) {
        json::read(lines, &mut kept);
    } else {
        Text { kept: &mut kept, open: None, prefixed: false, ours: HashSet::new() }.read(lines);
    }
    kept.end();
    Ok(())
}

/// Whether what this daemon says is of interest; nobody is the kernel.
fn may_speak(daemon: Option<&str>) -> bool {
    daemon.is_none_or(|name| DAEMONS.contains(&name))
}

/// A log as text, its last line still open for its wrapped rest.
struct Text<'k, 'r> {
    kept: &'k mut Kept<'r>,
    open: Option<(Line, usize, u64)>,
    prefixed: bool,
    /// Shapes of lines that no other tool's output begins with: to ask every format of each line of a long log is dear.
    ours: HashSet<u64>,
}

impl Text<'_, '_> {
    fn read(mut self, lines: &mut Lines<'_>) {
        loop {
            let number = lines.number();
            let Some(text) = lines.peek(0) else { break };
            if let Some(prefix) = Prefix::of(text) {
                self.prefixed = true;
                if prefix.kernel {
                    self.kept.count(number, prefix.when());
                }
                let (length, kernel) = (prefix.length, prefix.kernel);
                self.line(lines, length, kernel);
            } else if is_bare(text) || (!self.prefixed && is_interesting(text)) {
                self.kept.count(number, When::default());
                self.line(lines, 0, true);
            } else if text.trim().is_empty() {
                lines.skip(1);
            } else if self.is_elsewhere(lines) {
                break;
            } else {
                // The rest of a wrapped line; or what a console shows between the kernel's lines.
                self.rest(lines);
            }
        }
        self.close(lines);
    }

    fn is_elsewhere(&mut self, lines: &mut Lines<'_>) -> bool {
        let shape = shape(lines.peek(0).unwrap_or_default());
        if self.ours.contains(&shape) {
            return false;
        }
        let elsewhere = elsewhere(lines, FORMAT.name);
        if !elsewhere && self.ours.len() < MOST_SHAPES {
            self.ours.insert(shape);
        }
        elsewhere
    }

    /// A line of the log, so many bytes of which are its prefix.
    fn line(&mut self, lines: &mut Lines<'_>, prefix: usize, kernel: bool) {
        self.close(lines);
        let sequence = lines.sequence();
        let text = lines.peek(0).unwrap_or_default();
        let words = text.get(prefix..).unwrap_or_default().trim_start();
        let heard = kernel || is_repetition(words) || may_speak(Some(daemon(&text[..prefix.min(text.len())])));
        if heard && (self.kept.wants(words) || may_be_wrapped(words)) {
            self.open = lines.take().map(|line| (line, prefix, sequence));
        } else {
            self.kept.pass();
            lines.skip(1);
        }
    }

    fn rest(&mut self, lines: &mut Lines<'_>) {
        match &mut self.open {
            Some((line, ..)) if line.text.len() <= WRAPPED => {
                line.text.push(' ');
                line.text.push_str(lines.peek(0).unwrap_or_default().trim());
            }
            _ => {}
        }
        lines.skip(1);
    }

    fn close(&mut self, lines: &mut Lines<'_>) {
        let Some((line, prefix, sequence)) = self.open.take() else { return };
        let times = Prefix::of(&line.text).unwrap_or_default();
        self.kept.take(Heard {
            number: line.number,
            sequence,
            text: line.text.get(prefix..).unwrap_or_default().trim(),
            when: times.when(),
        });
        lines.give_back(line);
    }
}

/// The daemon a prefix names: `Dec 20 10:33:23 web multipathd[123]: `.
fn daemon(prefix: &str) -> &str {
    let word = prefix.trim_end_matches([':', ' ']).rsplit(' ').next().unwrap_or_default();
    word.split('[').next().unwrap_or(word)
}

/// A line that says what it is about, with the error itself wrapped to the next.
fn may_be_wrapped(words: &str) -> bool {
    words.len() <= WRAPPED && (words.starts_with("scsi") || words.contains(": cmd "))
}
