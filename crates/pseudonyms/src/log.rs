//! Lines of the kernel log. Only lines that the diagnosis may need are kept. In these, names are found by the positions where the
//! kernel prints them, and others as in any sentence.

use crate::Pseudonyms;
use crate::known;
use crate::names::is_number;
use crate::sentence::MetNames;
use aho_corasick::AhoCorasick;
use std::ops::Range;
use std::sync::LazyLock;
use whyslow_model::kernel_log::{HANDLERS, is_memory_report, prefilter};
use whyslow_model::kernel_stack::{frame, stack_task};

/// Replaces a line that no rule needs.
const LEFT_OUT: &str = "(not needed for the diagnosis)";

static RELEVANT: LazyLock<AhoCorasick> =
    LazyLock::new(|| AhoCorasick::new(prefilter()).expect("the words are few and short"));

/// Function that replaces a name, depending on what it names.
type NewName = fn(&Pseudonyms, &str) -> String;

/// The text before a name of this kind, and the texts that can end it; the first occurrence counts.
struct Place {
    before: &'static str,
    ends: &'static [&'static str],
    new: NewName,
}

/// The end of the line.
const END: &str = "\n";
/// Ends of a process name, which may contain spaces.
const ENDS_OF_PROCESS: &[&str] = &[" Not tainted", " Tainted", " Kdump", ",", END];

const fn place(before: &'static str, ends: &'static [&'static str], new: NewName) -> Place {
    Place { before, ends, new }
}

/// Sources: mm/oom_kill.c, mm/memcontrol.c, kernel/cgroup/pids.c, kernel/hung_task.c, lib/dump_stack.c, fs/ext4/super.c,
/// net/sunrpc, security/apparmor, drivers/usb/core/hub.c.
const PLACES: &[Place] = &[
    place("Comm: ", ENDS_OF_PROCESS, Pseudonyms::process),
    place("comm: ", ENDS_OF_PROCESS, Pseudonyms::process),
    place(" comm ", &[": ", ","], Pseudonyms::process),
    place("comm=\"", &["\""], Pseudonyms::process),
    place("exe=\"", &["\""], Pseudonyms::path),
    place("profile=\"", &["\""], Pseudonyms::path),
    place("name=\"", &["\""], Pseudonyms::path),
    place("task=", &[",pid="], Pseudonyms::process),
    place("task_memcg=", &[",", END], Pseudonyms::cgroups),
    place("oom_memcg=", &[",", END], Pseudonyms::cgroups),
    place("cpuset=", &[",", " ", END], Pseudonyms::cgroups),
    place("Task in ", &[" killed as a result"], Pseudonyms::cgroups),
    place("killed as a result of limit of ", &[END], Pseudonyms::cgroups),
    place("Memory cgroup stats for ", &[": ", ":"], Pseudonyms::cgroups),
    place("pids controller in ", &[END], Pseudonyms::cgroups),
    place("Process ", &[" (pid:"], Pseudonyms::process),
    place("nfs: server ", &[" not responding", " OK"], Pseudonyms::host),
    place("lockd: server ", &[" not responding", " OK"], Pseudonyms::host),
    place("SerialNumber: ", &[END], Pseudonyms::id),
    place("Serial Number: ", &[END], Pseudonyms::id),
];

/// Messages of file systems: the first word in parentheses is the device.
const FILE_SYSTEMS: [&str; 8] = ["XFS (", "EXT4-fs", "EXT3-fs", "EXT2-fs", "BTRFS", "F2FS-fs", "JBD2", "FAT-fs"];

impl Pseudonyms {
    /// Replaces the names in a line of the log, without time and host.
    pub(crate) fn log_line(&self, line: &str) -> String {
        if !is_needed(line) {
            return LEFT_OUT.to_owned();
        }
        if frame(line).is_some() && stack_task(line).is_none() {
            return line.to_owned();
        }
        let mut found = names_by_place(line);
        found.sort_by_key(|(range, _)| (range.start, range.end));
        let mut new = String::with_capacity(line.len());
        let mut at = 0;
        for (range, name) in found {
            if range.start >= at {
                new.push_str(&self.names_in(&line[at..range.start], MetNames::All));
                new.push_str(&name(self, &line[range.clone()]));
                at = range.end;
            }
        }
        new + &self.names_in(&line[at..], MetNames::All)
    }

    /// Replaces a process name word by word, because a parser takes a name with a space as two words.
    fn process_words(&self, name: &str) -> String {
        crate::names::each_part(name, ' ', |word| self.process(word))
    }
}

/// Whether the diagnosis may need a line: those that pass the prefilter of long logs, and continuation lines.
fn is_needed(line: &str) -> bool {
    let text = line.trim_start();
    RELEVANT.is_match(line)
        || text.starts_with('[')
        || HANDLERS.iter().any(|words| text.starts_with(words))
        || is_memory_report(text)
        || text.contains("last message repeated")
        || text.contains("invoked oom-killer")
        || frame(line).is_some()
        || stack_task(line).is_some()
}

fn names_by_place(line: &str) -> Vec<(Range<usize>, NewName)> {
    let mut found: Vec<(Range<usize>, NewName)> = PLACES.iter().filter_map(|place| at_place(line, place)).collect();
    found.extend(task_of_stack(line));
    found.extend(killed(line));
    found.extend(hung(line));
    found.extend(before(line, " invoked oom-killer"));
    found.extend(before(line, ": page allocation failure"));
    found.extend(at_end(line));
    found.extend(with_number(line));
    found.extend(in_list_of_processes(line));
    found.extend(of_file_system(line));
    found.extend(of_path(line));
    found
}

fn at_place(line: &str, place: &Place) -> Option<(Range<usize>, NewName)> {
    let start = line.find(place.before)? + place.before.len();
    let rest = &line[start..];
    let find = |end: &&str| if *end == END { Some(rest.trim_end().len()) } else { rest.find(*end) };
    let end = place.ends.iter().filter_map(find).min()?;
    Some((start..start + end, place.new))
}

/// Finds the task that a stack belongs to.
fn task_of_stack(line: &str) -> Option<(Range<usize>, NewName)> {
    let name = stack_task(line)?.name;
    // It is a slice of the line.
    let start = (name.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let range = start..start + name.len();
    (line.get(range.clone()) == Some(name) && !name.is_empty()).then_some((range, Pseudonyms::process as NewName))
}

/// Finds the process in `Killed process 812 (hog (1)) total-vm:...`, `Kill process 4711 (java) score`, `Killed process 1792, UID
/// 48, (httpd)`.
fn killed(line: &str) -> Option<(Range<usize>, NewName)> {
    let from = line.find("Killed process ").or_else(|| line.find("Kill process "))?;
    let start = from + line[from..].find('(')? + 1;
    let end = start + line[start..].rfind(')')?;
    Some((start..end, Pseudonyms::process as NewName))
}

/// Finds the process in `INFO: task jbd2/sda1-8:812 blocked for more than`.
fn hung(line: &str) -> Option<(Range<usize>, NewName)> {
    let start = line.find("task ")? + "task ".len();
    let end = start + line[start..].find(" blocked for more than")?;
    let name = line[start..end].rsplit_once(':')?.0;
    Some((start..start + name.len(), Pseudonyms::process_words as NewName))
}

/// Finds a process whose name starts the line.
fn before(line: &str, words: &str) -> Option<(Range<usize>, NewName)> {
    let end = line.find(words)?;
    let start = line.len() - line.trim_start().len();
    (start < end && !line[start..end].contains(": ")).then_some((start..end, Pseudonyms::process as NewName))
}

/// Finds the process in `BUG: soft lockup - CPU#1 stuck for 22s! [db:1234]`.
fn at_end(line: &str) -> Option<(Range<usize>, NewName)> {
    let start = line.rfind('[')? + 1;
    let (name, pid) = line[start..].trim_end().strip_suffix(']')?.rsplit_once(':')?;
    (is_number(pid) && !name.is_empty()).then_some((start..start + name.len(), Pseudonyms::process as NewName))
}

/// Finds the process in `db[1234]: segfault at`, `traps: db[1234] general protection`.
fn with_number(line: &str) -> Option<(Range<usize>, NewName)> {
    let open = line.match_indices('[').map(|(at, _)| at).find(|open| {
        let rest = &line[open + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let is_followed = ["]: ", "] trap", "] general", "] killed"].iter().any(|end| rest[digits..].starts_with(end));
        digits > 0 && is_followed && !line[..*open].ends_with(char::is_whitespace)
    })?;
    let start = line[..open].rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let name = &line[start..open];
    (start < open && !known::is_device(name)).then_some((start..open, Pseudonyms::process as NewName))
}

/// Finds the process in `[ 4711]  0  4711   104448 16384  200    3  0    0 java`.
fn in_list_of_processes(line: &str) -> Option<(Range<usize>, NewName)> {
    let inside = line.trim_start().strip_prefix('[')?;
    let (pid, rest) = inside.split_once(']')?;
    if !is_number(pid.trim()) {
        return None;
    }
    let mut name = rest.trim_start();
    let mut numbers = 0;
    while let Some((word, after)) = name.split_once(char::is_whitespace)
        && word.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    {
        numbers += 1;
        name = after.trim_start();
    }
    let end = line.trim_end().len();
    let start = line.len() - name.len();
    (numbers >= 5 && start < end).then_some((start..end, Pseudonyms::process as NewName))
}

/// Finds the device in `XFS (dm-0): ...`, `EXT4-fs error (device sda1): ...`.
fn of_file_system(line: &str) -> Option<(Range<usize>, NewName)> {
    if !FILE_SYSTEMS.iter().any(|words| line.trim_start().starts_with(words)) {
        return None;
    }
    let open = line.find('(')? + 1;
    let inside = line[open..].split([')', ' ']).next()?;
    let (start, name) = match inside {
        "device" => {
            let start = open + "device ".len();
            (start, line.get(start..)?.split([')', ' ', '(']).next()?)
        }
        name => (open, name),
    };
    (!name.is_empty()).then_some((start..start + name.len(), Pseudonyms::device as NewName))
}

/// Finds the multipath device in `oradata: sdc - tur checker reports path is down`.
fn of_path(line: &str) -> Option<(Range<usize>, NewName)> {
    let is_about_paths =
        ["checker", "path is ", "remaining active paths", "nstated path"].iter().any(|words| line.contains(words));
    let start = line.len() - line.trim_start().len();
    let (name, _) = line[start..].split_once(": ").filter(|_| is_about_paths)?;
    let is_one = !name.contains(char::is_whitespace) && !["device-mapper", "multipath", "multipathd"].contains(&name);
    is_one.then_some((start..start + name.len(), Pseudonyms::device as NewName))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pseudonyms;

    /// Lines in which NAME stands for a name, and the function that replaces it.
    const LINES: &[(&str, NewName)] = &[
        ("INFO: task NAME:812 blocked for more than 120 seconds.", Pseudonyms::process),
        ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [NAME:1234]", Pseudonyms::process),
        ("NAME invoked oom-killer: gfp_mask=0x408d40(GFP_NOFS), order=0, oom_score_adj=200", Pseudonyms::process),
        ("[ 128825]  1000 128825     3449      864    65536      192           200 NAME", Pseudonyms::process),
        (
            "Memory cgroup out of memory: Killed process 812 (NAME) total-vm:104448kB, anon-rss:65536kB",
            Pseudonyms::process,
        ),
        ("Out of memory: Kill process 4711 (NAME) score 998 or sacrifice child", Pseudonyms::process),
        ("Out of memory: Killed process 1792, UID 48, (NAME).", Pseudonyms::process),
        ("NAME: page allocation failure: order:4, mode:0x4020", Pseudonyms::process),
        ("CPU: 1 UID: 0 PID: 1234 Comm: NAME Tainted: G  W", Pseudonyms::process),
        ("task:NAME    state:D stack:0     pid:22740 tgid:22740 ppid:2", Pseudonyms::process),
        ("NAME              D ffff88003fc13480     0  9264   9235 0x00000000", Pseudonyms::process),
        ("EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm NAME: reading", Pseudonyms::process),
        ("XFS (NAME): Log I/O Error Detected.  Shutting down filesystem", Pseudonyms::device),
        ("nfs: server NAME not responding, still trying", Pseudonyms::host),
        ("nfs: server NAME OK", Pseudonyms::host),
        ("cgroup: fork rejected by pids controller in NAME", Pseudonyms::cgroups),
        ("Task in /docker killed as a result of limit of NAME", Pseudonyms::cgroups),
        ("Memory cgroup stats for NAME: cache:4KB rss:1024KB", Pseudonyms::cgroups),
        ("usb 1-1: SerialNumber: NAME", Pseudonyms::id),
        ("NAME: sdc - tur checker reports path is down", Pseudonyms::device),
    ];

    #[test]
    fn names_are_replaced_where_the_kernel_prints_them_and_nothing_else_is() {
        for (line, new) in LINES {
            let names = pseudonyms();
            let name = if line.contains("group") || line.contains("Task in") { "/shop/blue" } else { "shopd" };
            let expected = line.replace("NAME", &new(&names, name));
            assert_eq!(pseudonyms().log_line(&line.replace("NAME", name)), expected);
        }
    }

    #[test]
    fn threads_of_the_kernel_and_devices_stay() {
        for line in [
            "INFO: task jbd2/sda1-8:812 blocked for more than 120 seconds.",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:1234]",
            "end_request: I/O error, dev sda, sector 1234",
            "ata1.00: failed command: READ FPDMA QUEUED",
            "sd 2:0:0:0: [sdb] Sense Key : Medium Error [current]",
            "EXT4-fs error (device sda1): ext4_lookup:1602: inode #2: comm kworker/0:1: deleted",
            "NETDEV WATCHDOG: eth0 (e1000e): transmit queue 0 timed out",
            "device-mapper: multipath: 253:3: Failing path 8:32.",
            " [<ffffffff810d5c3a>] __report_bad_irq+0x3a/0xd0",
            "Call Trace:",
            "md/raid1:md0: Disk failure on sdb1, disabling device.",
        ] {
            assert_eq!(pseudonyms().log_line(line), line);
        }
    }

    #[test]
    fn lines_that_no_rule_needs_are_left_out() {
        for line in [
            "systemd[1]: Set hostname to <shop>.",
            "Command line: root=/dev/sda1 user=alice",
            "usb 1-1: Manufacturer: Shop",
        ] {
            assert_eq!(pseudonyms().log_line(line), LEFT_OUT);
        }
    }
}
