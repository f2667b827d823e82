//! Lines that a mail program broke. It breaks a line at the last space before its limit of columns, so the first word of
//! the rest would not have fitted: this distinguishes a broken line from two lines.

use super::prefix::LogPrefix;
use super::thinned_log::{may_matter, spans};
use crate::lines::Lines;
use crate::margin::indentation;
use whyslow_model::kernel_log::LOG_PATTERNS;

/// The limits of mail programs lie in between: RFC 1855 asks for less than 65 columns, RFC 3676 for at most 78.
const NARROWEST: usize = 60;
const WIDEST: usize = 82;
/// Columns of quotation marks and indentation that may have been removed from some of the lines.
const REMOVED: usize = 8;
/// How many lines are looked at before the first one is read.
const AHEAD: usize = 30;

/// The columns of the lines of a log, which a limit cannot be below.
pub struct Wrap {
    widest: usize,
}

impl Wrap {
    /// What the next lines show of the limit.
    pub fn of(lines: &mut Lines<'_>) -> Self {
        let mut wrap = Self { widest: 0 };
        let mut prefixed = false;
        for at in 0..AHEAD {
            let Some(text) = lines.peek(at).filter(|text| !text.is_empty()) else { break };
            let has_prefix = LogPrefix::of(text).is_some();
            prefixed |= has_prefix;
            if has_prefix || !prefixed {
                wrap.add(text);
            }
        }
        wrap
    }

    /// Adds a line: it is not longer than the limit, unless it has no space at which it could be broken.
    pub fn add(&mut self, text: &str) {
        if text.len() > self.widest && text.trim_start().contains(' ') {
            self.widest = self.widest.max(columns(text));
        }
    }

    /// Whether a line of so many columns may have been broken, depending on what follows.
    pub fn may_break(&self, columns: usize) -> bool {
        columns <= WIDEST && self.widest <= WIDEST
    }

    /// Whether a line of so many columns is as long as it can be, so that the next one is its rest. Mail programs do not
    /// indent the rest, as the kernel does with further lines of one message; one space protects a `>` (RFC 3676).
    pub fn breaks(&self, columns: usize, next: &str) -> bool {
        if !self.may_break(columns) || indentation(next) > 1 || next.starts_with('\t') {
            return false;
        }
        let word = next.split_whitespace().next().unwrap_or_default();
        let unbroken = columns + 1 + word.chars().count();
        unbroken > NARROWEST.max(self.widest.saturating_sub(REMOVED))
    }
}

/// The columns of a line.
pub fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Whether two lines without prefix are one message: together they contain words of a message that neither has alone.
pub fn completes(text: &str, next: &str) -> bool {
    let next = next.trim();
    if spans(text, next) {
        return true;
    }
    let begins_message = next.split_whitespace().next().is_some_and(|word| word.ends_with(':'));
    // The first words of each pattern are among those of the prefilter, which is much faster.
    if begins_message || !(may_matter(text) || may_matter(next)) {
        return false;
    }
    let is_in_either = |words: &str| text.contains(words) || next.contains(words);
    LOG_PATTERNS.iter().any(|pattern| pattern.words.iter().all(|words| is_in_either(words)))
        && !LOG_PATTERNS.iter().any(|pattern| pattern.matches(text) || pattern.matches(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(lines: &[&str]) -> Wrap {
        let text = lines.join("\n");
        Wrap::of(&mut Lines::new("x", text.as_bytes()))
    }

    #[test]
    fn a_line_is_broken_if_the_next_word_would_not_have_fitted() {
        let wrap = wrap(&["[    1.000000] sd 0:0:0:0: [sda] tag#4 FAILED Result: hostbyte=DID_OK"]);
        assert_eq!(wrap.widest, 69);
        assert!(wrap.breaks(69, "driverbyte=DRIVER_OK"));
        assert!(wrap.breaks(60, "driverbyte=DRIVER_OK"), "a word of 20 columns makes it 81");
        assert!(!wrap.breaks(40, "driverbyte=DRIVER_OK"), "it would have had 61 columns");
        assert!(!wrap.breaks(69, "         res 41/40"), "the kernel's own second line");
        assert!(!wrap.breaks(83, "x"));
    }

    #[test]
    fn a_log_with_longer_lines_was_not_wrapped() {
        let long = format!("[    2.000000] {}", "word ".repeat(20));
        assert!(!wrap(&["[    1.000000] x", &long]).breaks(69, "driverbyte=DRIVER_OK"));
        let unbreakable = "x".repeat(120);
        assert!(wrap(&["[    1.000000] x", &unbreakable]).breaks(69, "driverbyte=DRIVER_OK"));
    }

    #[test]
    fn words_of_a_message_are_found_across_the_end_of_a_line() {
        assert!(completes("sd 0:0:0:0: [sda] Sense Key", ": Medium Error [current]"));
        assert!(completes("end_request: I/O", "error, dev sda, sector 1"));
        assert!(completes("INFO: task mysqld:900 blocked for", "more than 120 seconds."));
        assert!(completes("EDAC MC0: 1", "CE memory read error on CPU_SrcID#0"));
    }

    #[test]
    fn two_messages_do_not_complete_each_other() {
        assert!(!completes("end_request: I/O error, dev sda, sector 1", "end_request: I/O error, dev sdb, sector 2"));
        assert!(!completes("XFS (sda1): Mounting V5 Filesystem", "systemd: corruption"));
        assert!(!completes("eth0: link becomes ready", "md: md0: data-check done."));
    }
}
