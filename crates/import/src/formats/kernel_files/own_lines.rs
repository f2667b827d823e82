//! Lines that belong to a file whose name and end are not printed.

use super::is_content;
use crate::kernel_file::is_one_line;
use crate::lines::Lines;
use crate::number::number;
use crate::printed_files::COUNTERS;
use std::collections::BTreeSet;

/// Maximum number of lines of one file: no reader needs more.
pub const MOST_LINES: usize = 50_000;

/// Returns the number of lines from the `at`th on that belong to a file: one, or as many as have words that only this file has.
pub fn lines_of(lines: &mut Lines<'_>, at: usize, path: &str) -> Option<usize> {
    if is_one_line(path) {
        return lines.peek(at).is_some_and(is_content).then_some(1);
    }
    if COUNTERS.contains(&path) {
        return lines_of_counters(lines, at);
    }
    let name = path.rsplit('/').next()?;
    let is_pressure = path.contains("/proc/pressure/");
    // Only newer kernels have this file, which has a single line.
    if is_pressure && name == "irq" {
        return Some(usize::from(lines.peek(at).is_some_and(|line| line.starts_with("full avg"))));
    }
    let is_own: fn(&str) -> bool = match name {
        _ if name.ends_with(".pressure") || is_pressure => {
            |line| line.starts_with("some avg") || line.starts_with("full avg")
        }
        _ if name.contains(".events") && !name.starts_with("cgroup.") => |line| {
            const EVENTS: [&str; 8] =
                ["low", "high", "max", "oom", "oom_kill", "oom_group_kill", "sock_throttled", "fail"];
            line.split_once(' ').is_some_and(|(key, count)| EVENTS.contains(&key) && number(count).is_some())
        },
        "memory.stat" => |line| {
            let (key, count) = line.split_once(' ').unwrap_or_default();
            // These words begin the files that are printed next to it.
            let is_of_other =
                ["low", "some", "full"].contains(&key) || key.ends_with("_usec") || key.starts_with("nr_");
            let is_key = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            is_key && !is_of_other && number(count).is_some()
        },
        "cpu.stat" => |line| {
            const BEGINNINGS: [&str; 7] =
                ["usage_usec ", "user_usec ", "system_usec ", "nice_usec ", "core_sched", "nr_", "throttled_"];
            BEGINNINGS.iter().any(|begin| line.starts_with(begin)) || line.starts_with("burst_usec ")
        },
        "sockstat" | "sockstat6" => |line| {
            const NAMES: [&str; 7] = ["sockets: used ", "TCP", "UDP", "UDPLITE", "RAW", "FRAG", "ICMP"];
            let has_counts = || line.split_once(": ").is_some_and(|(_, rest)| rest.starts_with("inuse "));
            NAMES.iter().any(|name| line.starts_with(name)) && (line.starts_with("sockets: ") || has_counts())
        },
        "io.max" | "io.stat" => |line| {
            let device = line.split(' ').next().and_then(|word| word.split_once(':'));
            device.is_some_and(|(major, minor)| number(major).is_some() && number(minor).is_some())
        },
        _ => return None,
    };
    // A repeated word begins the next copy.
    let mut seen = BTreeSet::new();
    let mut is_next = |line: &str| is_own(line) && seen.insert(line.split(' ').next().unwrap_or_default().to_owned());
    let count = (at..).take(MOST_LINES).take_while(|at| lines.peek(*at).is_some_and(&mut is_next)).count();
    // Empty if no device has limits, or none did I/O.
    let may_be_empty = name.starts_with("io.") && !name.ends_with(".pressure");
    (count > 0 || may_be_empty).then_some(count)
}

/// Counts the lines `Udp: InDatagrams NoPorts` and `Udp: 12 0`, with each protocol once.
fn lines_of_counters(lines: &mut Lines<'_>, at: usize) -> Option<usize> {
    let mut seen = BTreeSet::new();
    let mut protocol = |lines: &mut Lines<'_>, at: usize| {
        let (name, _) = lines.peek(at)?.split_once(": ")?;
        let name = name.to_owned();
        let (own, counts) = lines.peek(at + 1)?.split_once(": ")?;
        let is_pair = own == name && counts.split(' ').all(|count| count.parse::<i64>().is_ok());
        (is_pair && seen.insert(name)).then_some(())
    };
    let pairs = (0..MOST_LINES).take_while(|pair| protocol(lines, at + 2 * pair).is_some()).count();
    (pairs > 0).then_some(2 * pairs)
}
