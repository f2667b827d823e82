//! The sources of a window that were read, and why the others were not.

use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::snapshot::{ReadOutcome, SourceReport};
use whyslow_model::window::Window;

/// BPF source of each tracepoint.
pub(crate) const TRACEPOINTS: [(&str, &str); 17] = [
    ("sched_switch", "bpf/sched"),
    ("sched_waking", "bpf/sched"),
    ("sched_migrate_task", "bpf/sched"),
    ("contention_begin", "bpf/lock"),
    ("mm_vmscan_direct_reclaim_begin", "bpf/reclaim"),
    ("mm_vmscan_memcg_reclaim_begin", "bpf/reclaim"),
    ("mm_compaction_begin", "bpf/reclaim"),
    ("softirq_entry", "bpf/softirq"),
    ("irq_handler_entry", "bpf/softirq"),
    ("net_dev_start_xmit", "bpf/packets"),
    ("page_cache_sync_ra", "bpf/cache"),
    ("block_rq_issue", "bpf/block"),
    ("block_rq_complete", "bpf/block"),
    ("block_split", "bpf/block"),
    ("inet_sock_set_state", "bpf/tcp"),
    ("tcp_destroy_sock", "bpf/tcp"),
    ("kfree_skb", "bpf/drops"),
];

/// Prefix of the names of BPF sources.
const BPF: &str = "bpf/";
/// The source of processes and threads.
const TASKS: &str = "tasks";

/// Returns true if a source was read, at least in part.
pub(crate) fn was_read(report: &SourceReport) -> bool {
    matches!(report.outcome, ReadOutcome::Read | ReadOutcome::Partly { .. })
}

/// Why a source was not read, and what would make it readable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NotRead {
    pub(crate) why: String,
    pub(crate) remedy: String,
}

impl NotRead {
    /// Returns true if hidepid is the reason: it hides even the CPU time of processes.
    pub(crate) fn is_hidden(&self) -> bool {
        self.why.contains("hidepid")
    }
}

/// Sources of a window that were read or refused.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// False for captures and windows of tests, which have no reports.
    are_reported: bool,
    read: BTreeSet<String>,
    refused: BTreeMap<String, NotRead>,
}

impl Sources {
    pub(crate) fn from_window(window: &Window) -> Self {
        let mut sources = Self::default();
        for report in window.snapshots().iter().flat_map(|s| &s.sources) {
            sources.are_reported = true;
            if was_read(report) {
                sources.read.insert(report.source.to_string());
            }
            if let ReadOutcome::NotPermitted { why, remedy } = &report.outcome {
                let not_read = NotRead { why: why.clone(), remedy: remedy.clone() };
                sources.refused.insert(report.source.to_string(), not_read);
            }
        }
        sources
    }

    /// Returns true if a source was read at least once.
    pub(crate) fn was_read(&self, source: &str) -> bool {
        self.read.contains(source)
    }

    /// Returns why reading one of these sources was refused.
    pub(crate) fn refused(&self, sources: &[String]) -> Option<&NotRead> {
        sources.iter().find_map(|source| self.refused.get(source))
    }

    /// Returns why reading other users' processes was refused.
    pub(crate) fn processes_refused(&self) -> Option<&NotRead> {
        self.refused.get(TASKS)
    }

    /// Returns true if processes of other users are not even listed: sums over processes are then incomplete.
    pub(crate) fn hides_processes(&self) -> bool {
        self.processes_refused().is_some_and(NotRead::is_hidden)
    }

    /// Returns why no BPF program could be loaded.
    pub(crate) fn bpf_refused(&self) -> Option<&NotRead> {
        self.refused.iter().find(|(source, _)| source.starts_with(BPF)).map(|(_, not_read)| not_read)
    }

    /// Returns where a number was read: the alternatives of `source` without the BPF programs that were not loaded.
    pub(crate) fn origin(&self, source: &str) -> String {
        let parts: Vec<&str> = source.split("; ").flat_map(alternatives).collect();
        let on: Vec<&str> = parts.iter().copied().filter(|part| self.may_be_from(part)).collect();
        if on.len() == parts.len() || on.is_empty() { source.to_owned() } else { on.join("; ") }
    }

    /// Returns the formula that applies with BPF, or without it, where the two differ.
    pub(crate) fn formula(&self, how: &str, source: &str) -> String {
        let Some((with, without)) = how.split_once(WITHOUT_BPF) else { return how.to_owned() };
        let is_on = source.split("; ").flat_map(alternatives).any(|part| is_bpf(part) && self.may_be_from(part));
        if is_on { with.to_owned() } else { without.to_owned() }
    }

    fn may_be_from(&self, part: &str) -> bool {
        if !is_bpf(part) || !self.are_reported {
            return true;
        }
        let mut named = TRACEPOINTS.iter().filter(|(tracepoint, _)| part.contains(tracepoint)).peekable();
        match named.peek() {
            Some(_) => named.any(|(_, source)| self.was_read(source)),
            // Programs that belong to a source that also reads files.
            None => self.bpf_refused().is_none(),
        }
    }
}

/// Separates the formula with BPF from the one without.
const WITHOUT_BPF: &str = "; without BPF ";

pub(crate) fn is_bpf(part: &str) -> bool {
    part.starts_with("BPF")
}

/// Splits a source into its alternatives: `BPF: x, or /proc/y` and `BPF x, /proc/y` are two; `BPF: x, y` is one.
fn alternatives(source: &str) -> impl Iterator<Item = &str> {
    let cut = if is_bpf(source) { source.find(", or /").or_else(|| source.find(", /")) } else { None };
    let (first, rest) =
        cut.map_or((source, ""), |at| (&source[..at], source[at..].trim_start_matches(", ").trim_start_matches("or ")));
    std::iter::once(first).chain(Some(rest).filter(|rest| !rest.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::snapshot::Snapshot;

    fn sources(on: &[&str], off: &[&str]) -> Sources {
        let refused = ReadOutcome::NotPermitted { why: "switched off".into(), remedy: String::new() };
        let report =
            |source: &&str, outcome| SourceReport { source: (*source).into(), outcome, ..SourceReport::default() };
        let on = on.iter().map(|source| report(source, ReadOutcome::Read));
        let all = on.chain(off.iter().map(|source| report(source, refused.clone()))).collect();
        Sources::from_window(&Window::new(vec![Snapshot { sources: all, ..Snapshot::default() }]))
    }

    const LOCKS: &str = "BPF: sched_switch; /proc/PID/task/TID/syscall";

    #[test]
    fn a_number_is_not_said_to_come_from_a_program_that_was_not_on() {
        let off = sources(&["tasks"], &["bpf/sched", "bpf/block"]);
        assert_eq!(off.origin(LOCKS), "/proc/PID/task/TID/syscall");
        assert_eq!(off.origin("BPF: block_rq_complete, or /proc/PID/io"), "/proc/PID/io");
        assert_eq!(off.origin("BPF sched_process_exit, /proc/PID/stat"), "/proc/PID/stat");
        assert_eq!(off.formula("a; without BPF b", LOCKS), "b");
        // An on-demand source was off unless it was requested.
        assert_eq!(sources(&["tasks", "bpf/block"], &[]).origin(LOCKS), "/proc/PID/task/TID/syscall");
    }

    #[test]
    fn a_number_of_a_program_that_was_on_says_so() {
        let on = sources(&["tasks", "bpf/sched", "bpf/block"], &[]);
        assert_eq!(on.origin(LOCKS), LOCKS);
        assert_eq!(on.formula("a; without BPF b", LOCKS), "a");
        assert_eq!(on.origin("/proc/stat"), "/proc/stat");
        assert_eq!(Sources::default().origin(LOCKS), LOCKS, "no report says that it was off");
    }
}
