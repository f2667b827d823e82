//! Joins messages that a mail program broke into several lines.

use super::prefix::LogPrefix;
use super::thinned_log::{may_matter, spans};
use crate::lines::Lines;
use crate::wrap::Wrap;
use whyslow_model::kernel_log::LOG_PATTERNS;

/// Estimates from the next lines of a log the limit at which they were broken.
pub fn wrap_of(lines: &mut Lines<'_>) -> Wrap {
    /// Number of lines to look at before the first one is read.
    const AHEAD: usize = 30;
    let mut wrap = Wrap::default();
    let mut prefixed = false;
    for at in 0..AHEAD {
        let Some(text) = lines.peek(at).filter(|text| !text.is_empty()) else { break };
        let has_prefix = LogPrefix::parse(text).is_some();
        prefixed |= has_prefix;
        if has_prefix || !prefixed {
            wrap.add(text);
        }
    }
    wrap
}

/// Returns true if two lines without prefix are one message: together they contain words of a message that neither contains
/// alone.
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
