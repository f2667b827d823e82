//! Which lines may matter. All others are dropped at once, so that a log of any size is read as a stream.

use aho_corasick::AhoCorasick;
use std::sync::LazyLock;
use whyslow_model::kernel_log::{MEMORY_REPORT, UNMISTAKABLE, prefilter};

static RELEVANT: LazyLock<AhoCorasick> = LazyLock::new(|| matcher(prefilter()));
static FROM_KERNEL: LazyLock<AhoCorasick> = LazyLock::new(|| matcher(UNMISTAKABLE.iter().copied()));

fn matcher(words: impl Iterator<Item = &'static str>) -> AhoCorasick {
    AhoCorasick::new(words).expect("the words are few and short")
}

/// Whether a line may matter for the diagnosis.
pub fn may_matter(text: &str) -> bool {
    RELEVANT.is_match(text)
}

/// Whether a line is the kernel's by its words alone.
pub fn is_unmistakable(text: &str) -> bool {
    FROM_KERNEL.is_match(text)
}

/// Whether a memory report with a list of processes begins.
pub fn begins_memory_report(text: &str) -> bool {
    text.contains("invoked oom-killer")
}

/// Whether a memory report ends.
pub fn ends_memory_report(text: &str) -> bool {
    text.contains("Killed process ") || text.contains("no killable processes")
}

/// Whether a line of a memory report is used: a process, `[  123]  0  123 ...`, or a statistic.
pub fn is_in_memory_report(text: &str) -> bool {
    let text = text.trim_start();
    let process = |rest: &str| rest.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == 'p');
    text.strip_prefix('[').is_some_and(process) || MEMORY_REPORT.iter().any(|words| text.starts_with(words))
}
