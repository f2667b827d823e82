//! Kernel logs: syslog files, dmesg in its forms, journalctl; with or without times, as text or JSON. A log is read as a
//! stream: only a bounded number of lines that may matter is kept.

mod broken_message;
mod host_logs;
mod json_log;
mod log_time;
mod prefix;
mod stack_lines;
#[cfg(test)]
mod tests;
mod text_log;
mod thinned_log;

use crate::prelude::*;
use host_logs::HostLogs;
use prefix::LogPrefix;
use text_log::TextLog;
use thinned_log::{is_unmistakable, may_matter};
use whyslow_model::kernel_log::LOG_PATTERNS;

pub const FORMAT: Format = Format {
    name: "kernel log",
    versions: "Linux 2.4 on: syslog files (RFC 3164, 5424, with years), dmesg (plain, -T, -x, -d, -e, -r, -J, iso, with callers), journalctl (short forms, json, json-pretty), /dev/kmsg; bare messages",
    shows: "errors of disks and the paths to them with sense data decoded: which part, where the evidence points, since when; degraded arrays, OOM kills and what filled memory, full tables, stuck tasks and what they wait for, links, file systems, failing memory and CPUs",
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
        lines.next_is(|line| LogPrefix::parse(line).is_some() || is_unmistakable(line)) || json_log::starts(lines)
    },
    read,
    ..Format::NEW
};

/// Daemons that report the same events as the kernel.
const DAEMONS: [&str; 3] = ["multipathd", "iscsid", "mdadm"];

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut logs = HostLogs::new(std::mem::take(run));
    if json_log::starts(lines) {
        json_log::read(lines, &mut logs);
    } else {
        TextLog::new(&mut logs, lines).read(lines);
    }
    let mut runs = logs.finish();
    let of_others = runs.split_off(1);
    *run = runs.remove(0);
    run.of_others = of_others;
    Ok(())
}

/// Returns true if the kernel, or a daemon that reports its events, logged a line, as far as its prefix shows.
pub(crate) fn is_from_kernel(line: &str) -> bool {
    LogPrefix::parse(line)
        .is_none_or(|p| p.kernel || is_relevant_sender(Some(daemon(line.get(..p.length).unwrap_or_default()))))
}

/// Returns true if messages of this sender are used; `None` is the kernel.
fn is_relevant_sender(daemon: Option<&str>) -> bool {
    daemon.is_none_or(|name| DAEMONS.contains(&name))
}

/// Topics of the patterns of messages that programs log.
const OF_PROGRAMS: [&str; 8] =
    ["fork_refused", "slow_fsync", "temp_file", "too_many_clients", "no_port", "workers", "open_files", "no_space"];

/// Returns true if a message is one that programs log, whatever their names.
fn is_of_program(message: &str) -> bool {
    may_matter(message)
        && LOG_PATTERNS.iter().any(|pattern| OF_PROGRAMS.contains(&pattern.topic) && pattern.matches(message))
}

/// Returns the daemon in a prefix: `Dec 20 10:33:23 web multipathd[123]: `.
fn daemon(prefix: &str) -> &str {
    let word = prefix.trim_end_matches([':', ' ']).rsplit(' ').next().unwrap_or_default();
    word.split('[').next().unwrap_or(word)
}
