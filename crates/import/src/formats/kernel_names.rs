//! Numbers beside names that the kernel gives them, wherever they stand: `nr_throttled 912`, `memory.high:3221225472`,
//! `nf_conntrack_count=262144`. No path, prompt or command is needed.

use crate::kernel_file::{KernelFile, canonical};
use crate::prelude::*;
use crate::table::is_sentence;
use std::sync::LazyLock;
use whyslow_model::catalogue::{Protocol, Vmstat};
use whyslow_proc::net::CounterNames;
use whyslow_proc::vmstat;

pub const FORMAT: Format = Format {
    name: "names of the kernel",
    versions: "NAME VALUE, NAME: VALUE, NAME=VALUE, in any text: files of control groups, limits below /proc/sys, counters of TCP, UDP and /proc/vmstat",
    shows: "limits and what is used of them; counts since boot",
    lacks: "rates; which control group it is, unless its path stands before the name",
    starts: |lines| lines.next_is(|text| !pairs(text).is_empty()),
    read,
    ..Format::NEW
};

/// Names of files with one value, and the folder that has them.
const FILES: [(&str, &[&str]); 9] = [
    (
        "/sys/fs/cgroup",
        &[
            "memory.current",
            "memory.max",
            "memory.high",
            "memory.swap.current",
            "memory.swap.max",
            "pids.current",
            "pids.max",
        ],
    ),
    (
        "/sys/fs/cgroup/memory",
        &["memory.usage_in_bytes", "memory.limit_in_bytes", "memory.failcnt", "memory.max_usage_in_bytes"],
    ),
    ("/sys/fs/cgroup/cpu", &["cpu.cfs_quota_us", "cpu.cfs_period_us"]),
    ("/proc/sys/net/netfilter", &["nf_conntrack_count", "nf_conntrack_max"]),
    ("/proc/sys/fs", &["file-nr", "file-max", "nr_open", "aio-nr", "aio-max-nr"]),
    ("/proc/sys/kernel", &["pid_max", "threads-max", "shmall", "shmmax", "shmmni"]),
    (
        "/proc/sys/vm",
        &["max_map_count", "swappiness", "min_free_kbytes", "nr_hugepages", "zone_reclaim_mode", "overcommit_memory"],
    ),
    ("/proc/sys/net/core", &["somaxconn", "netdev_max_backlog", "rmem_max", "wmem_max"]),
    (
        "/proc/sys/net/ipv4",
        &["tcp_mem", "udp_mem", "tcp_rmem", "tcp_wmem", "tcp_max_syn_backlog", "ip_local_port_range"],
    ),
];
/// Names of lines of files, and the file that has them.
const LINES: [(&str, &[&str]); 3] = [
    (
        "/proc/spl/kstat/zfs/arcstats",
        &["c_max", "arc_meta_used", "arc_meta_limit", "dnode_size", "arc_dnode_limit", "arc_prune"],
    ),
    ("/sys/fs/cgroup/cpu.stat", &["nr_periods", "nr_throttled", "throttled_usec"]),
    ("/sys/fs/cgroup/cpu/cpu.stat", &["throttled_time"]),
];
/// Maximum number of values of a name: `tcp_mem` has three.
const MOST_VALUES: usize = 3;
/// Maximum number of words on a line besides names and numbers: more are a sentence about them.
const MOST_WORDS: usize = 3;

/// Where a value belongs.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    /// A file of /proc or /sys.
    File(String),
    /// A line of a file, with its name.
    Line(&'static str, String),
    Protocol(&'static str),
    Vmstat(String),
}

impl Place {
    /// Returns true if this many numbers belong to such a name: a row with more is one of a table.
    fn takes(&self, values: usize) -> bool {
        match self {
            Self::File(_) => (1..=MOST_VALUES).contains(&values),
            // The lines of arcstats have a type before the value.
            Self::Line(..) => (1..=2).contains(&values),
            Self::Protocol(_) | Self::Vmstat(_) => values == 1,
        }
    }
}

/// Returns the place of a name, which may stand behind a path or the dots of a sysctl.
fn place(word: &str) -> Option<Place> {
    let is_end = |name: &str| word.strip_suffix(name).is_some_and(|path| path.is_empty() || path.ends_with(['/', '.']));
    let is_file = |(folder, names): &(&str, &'static [&'static str])| {
        let name = names.iter().find(|name| is_end(name))?;
        let path = word.strip_suffix(name).filter(|path| path.ends_with('/')).map(|path| path.trim_matches('/'));
        let below = |path: &str| match path.split_once("sys/fs/cgroup/") {
            Some((_, group)) => format!("/sys/fs/cgroup/{group}/{name}"),
            None => format!("{folder}/{path}/{name}"),
        };
        Some(match path.filter(|path| folder.starts_with("/sys/") && !path.is_empty()) {
            Some(path) => below(path),
            None => format!("{folder}/{name}"),
        })
    };
    if let Some(path) = FILES.iter().find_map(is_file) {
        return Some(Place::File(path));
    }
    let of_line = |(path, names): &(&'static str, &'static [&'static str])| {
        names.iter().find(|name| **name == word).map(|name| Place::Line(path, (*name).to_owned()))
    };
    LINES.iter().find_map(of_line).or_else(|| counter(word))
}

/// Returns the place of a counter of TCP, UDP or /proc/vmstat.
fn counter(word: &str) -> Option<Place> {
    const LEAST: usize = 8;
    if word.len() < LEAST || !word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return None;
    }
    if word.starts_with(|c: char| c.is_ascii_uppercase()) {
        static NAMES: LazyLock<CounterNames> = LazyLock::new(CounterNames::default);
        let of = |protocol: &str| NAMES.metric("", &format!("{protocol}{word}"));
        return ["", "TcpExt", "Udp", "Tcp"].iter().find_map(|protocol| of(protocol)).map(Place::Protocol);
    }
    let row = &mut Vmstat::new(MachineKey);
    // The counts of a node in numastat have the same names.
    let is_known =
        word.contains('_') && !word.starts_with("numa_") && vmstat::take(&format!("{word} 1"), row).is_some();
    (is_known && *row != Vmstat::new(MachineKey)).then(|| Place::Vmstat(word.to_owned()))
}

/// Returns the path of a file whose lines, each a name and a number, may follow its name.
fn table(word: &str) -> Option<&'static str> {
    const TABLES: [(&str, &str); 3] = [
        ("memory.events", "/sys/fs/cgroup/memory.events"),
        ("pids.events", "/sys/fs/cgroup/pids.events"),
        ("cpu.stat", "/sys/fs/cgroup/cpu.stat"),
    ];
    TABLES.iter().find(|(name, _)| *name == word).map(|(_, path)| *path)
}

/// Parses a whole number: with thousands separators, or a unit of memory that sticks to it, or `max`.
fn value(word: &str) -> Option<String> {
    if word == "max" {
        return Some(word.to_owned());
    }
    let digits = word.replace([',', '_'], "");
    if digits.bytes().all(|b| b.is_ascii_digit()) && !digits.is_empty() {
        return Some(digits);
    }
    let unit = word.strip_suffix("iB").or_else(|| word.strip_suffix('B')).unwrap_or(word);
    scaled(unit, KIB, 1.0).filter(|bytes| bytes.fract() == 0.0).map(|bytes| format!("{bytes:.0}"))
}

/// Returns the names on a line that numbers follow, with these numbers.
fn pairs(text: &str) -> Vec<(Place, String)> {
    const LONGEST: usize = 400;
    if text.len() > LONGEST || is_sentence(text) || is_command(text) {
        return Vec::new();
    }
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || matches!(c, ':' | '=' | ';' | '"' | '\'' | '|'))
        .map(|word| word.trim_matches(['(', ')', '[', ']', '{', '}']).trim_end_matches([',', '.']))
        .filter(|word| !word.is_empty())
        .collect();
    let mut found = Vec::new();
    let mut others = 0;
    let mut rest = &words[..];
    while let [word, after @ ..] = rest {
        rest = after;
        let values: Vec<String> = after.iter().map_while(|word| value(word)).take(MOST_VALUES).collect();
        match place(word).filter(|place| place.takes(values.len())) {
            Some(place) => {
                rest = &after[values.len()..];
                found.push((place, values.join("\t")));
            }
            None if let Some(path) = table(word) => {
                let entries = after.chunks(2).map_while(|pair| match pair {
                    [key, count] if key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') => {
                        Some((*key, value(count)?))
                    }
                    _ => None,
                });
                let entries: Vec<(&str, String)> = entries.collect();
                rest = &after[2 * entries.len()..];
                let line = |(key, count): (&str, String)| (Place::Line(path, key.to_owned()), count);
                found.extend(entries.into_iter().map(line));
            }
            None => others += 1,
        }
    }
    if others > MOST_WORDS { Vec::new() } else { found }
}

/// Returns true for a row of arcstats, whose other rows are not used: `hits   4    6120398812`.
fn is_of_arcstats(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, kind, count] = words[..] else { return false };
    let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    is_name && kind.len() == 1 && [kind, count].iter().all(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    while let Some(line) = lines.take_past_blanks_if(|text| !pairs(text).is_empty() || is_of_arcstats(text)) {
        for (place, value) in pairs(&line.text) {
            match place {
                Place::File(path) => run.kernel_files.push(KernelFile::new(&path, line.number, &value)),
                Place::Line(path, name) => {
                    let text = format!("{name} {}", value.replace('\t', " "));
                    let is_own = |file: &&mut KernelFile| file.path == canonical(path);
                    match run.kernel_files.iter_mut().find(is_own) {
                        Some(file) => file.push(line.number, &text),
                        None => run.kernel_files.push(KernelFile::new(path, line.number, &text)),
                    }
                }
                Place::Protocol(metric) => {
                    if let Ok(count) = value.parse() {
                        run.row::<Protocol>(0.0, line.number, interface("ip")).set(metric, count);
                    }
                }
                Place::Vmstat(name) => {
                    let row = run.row::<Vmstat>(0.0, line.number, MachineKey);
                    if vmstat::take(&format!("{name} {value}"), row).is_none() {
                        return Err(lines.refuse_at(&line, "a name of /proc/vmstat and a whole number"));
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::row_of;

    fn files(text: &str) -> Vec<(String, String)> {
        let path = |(place, value): (Place, String)| match place {
            Place::File(path) => (path, value),
            Place::Line(path, name) => (path.to_owned(), format!("{name} {}", value.replace('\t', " "))),
            other => panic!("{other:?}"),
        };
        pairs(text).into_iter().map(path).collect()
    }

    #[test]
    fn a_name_and_its_value_are_read_in_any_form() {
        let is = |path: &str, value: &str| [(path.to_owned(), value.to_owned())];
        assert_eq!(files("memory.high:3221225472"), is("/sys/fs/cgroup/memory.high", "3221225472"));
        assert_eq!(files("memory.high = 3,221,225,472"), is("/sys/fs/cgroup/memory.high", "3221225472"));
        assert_eq!(files("memory.max: 3GiB"), is("/sys/fs/cgroup/memory.max", "3221225472"));
        assert_eq!(
            files("system.slice/db.service/pids.max 512"),
            is("/sys/fs/cgroup/system.slice/db.service/pids.max", "512")
        );
        assert_eq!(files("nr_throttled 912"), is("/sys/fs/cgroup/cpu.stat", "nr_throttled 912"));
        assert_eq!(
            files("net.ipv4.tcp_mem: 49152 65536 98304"),
            is("/proc/sys/net/ipv4/tcp_mem", "49152\t65536\t98304")
        );
        let two = files("conntrack: nf_conntrack_count 262144 nf_conntrack_max 262144");
        assert_eq!(two.len(), 2);
        let events = files("memory.events: low 0 high 418833 max 0");
        assert_eq!(events[1], ("/sys/fs/cgroup/memory.events".to_owned(), "high 418833".to_owned()));
        assert_eq!(
            files("arc_meta_used    4    6441111552"),
            is("/proc/spl/kstat/zfs/arcstats", "arc_meta_used 4 6441111552")
        );
    }

    #[test]
    fn the_rows_of_arcstats_between_those_that_are_used_do_not_end_it() {
        assert!(is_of_arcstats("bonus_size                      4    958300160"));
        assert!(!is_of_arcstats("bonus_size 958300160") && !is_of_arcstats("numa_hit 81203 903312"));
    }

    #[test]
    fn a_sentence_about_a_name_is_no_reading() {
        for text in [
            "We raised memory.max 2 times without success, and it did not help at all",
            "Is memory.max 1073741824 enough for this?",
            "memory.max",
            "sysctl -w net.core.somaxconn=4096",
        ] {
            assert!(pairs(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn counters_without_the_name_of_their_file_are_rows() {
        assert_eq!(row_of::<Protocol>("TcpExtListenOverflows: 48211\n").tcp_ext_listen_overflows.get(), Some(48_211));
        assert_eq!(row_of::<Protocol>("RcvbufErrors=91\n").udp_rcvbuf_errors.get(), Some(91));
        assert_eq!(row_of::<Vmstat>("allocstall_movable 66021\n").allocstall.get(), Some(66_021));
    }
}
