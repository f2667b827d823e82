//! Logs of garbage collections: HotSpot's own (-Xlog:gc, -verbose:gc), and what Elasticsearch and OpenSearch log of long ones.

use crate::prelude::*;
use whyslow_model::catalogue::Heap;

pub const FORMAT: Format = Format {
    name: "garbage collection log",
    versions: "HotSpot: JDK 8 (-verbose:gc, -XX:+PrintGCDetails) and unified (-Xlog:gc) since JDK 9; JvmGcMonitorService of Elasticsearch and OpenSearch",
    shows: "how much of the time a Java program is stopped to collect its heap",
    lacks: "what fills the heap; of a log that is cut, what came before; which process it is",
    files: &["gc.log*"],
    starts: |lines| lines.next_is(|line| is_unified(line) || Collection::parse(line).is_some()),
    read,
    ..Format::NEW
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Young,
    Full,
    /// Several, of any kind.
    Any,
}

/// Time spent on collections, as one line prints it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Collection {
    kind: Kind,
    /// Seconds since the program started, at its end.
    uptime: Option<f64>,
    printed: Option<PrintedTime>,
    /// Seconds that it took.
    seconds: f64,
    /// Seconds in which that much was spent; 0 for a single collection, before which any time may have passed.
    period: f64,
}

impl Collection {
    fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        monitored(line).or_else(|| unified(line)).or_else(|| of_jdk_8(line))
    }

    /// Returns the seconds between the ends of two.
    fn since(self, first: Self) -> Option<f64> {
        let by_uptime = self.uptime.zip(first.uptime).map(|(now, then)| now - then);
        by_uptime.or_else(|| self.printed?.since(first.printed?))
    }
}

/// Returns true for a line of a unified log: `[0.054s][info][gc] Using G1`.
fn is_unified(line: &str) -> bool {
    line.starts_with('[') && line.contains("][gc") && line.contains("[info")
}

/// Parses `[2018-05-28T07:48:15,733][WARN ][o.e.m.j.JvmGcMonitorService] [node] [gc][472] overhead, spent [2.6s] collecting in the
/// last [3.2s]`.
fn monitored(line: &str) -> Option<Collection> {
    let (before, rest) = line.split_once(" overhead, spent [")?;
    let (spent, rest) = rest.split_once("] collecting in the last [")?;
    let (period, _) = rest.split_once(']')?;
    let (seconds, period) = (spelled(spent)?, spelled(period)?);
    let is_sound = before.contains("[gc]") && period > 0.0 && seconds <= period * 1.5;
    let printed = before.strip_prefix('[').and_then(|rest| time(rest.split_once(']')?.0));
    is_sound.then_some(Collection { kind: Kind::Any, uptime: None, printed, seconds: seconds.min(period), period })
}

/// Parses `[2024-03-01T10:00:00.123+0000][12.345s][info][gc] GC(12) Pause Full (System.gc()) 40M->39M(64M) 23.456ms`.
fn unified(line: &str) -> Option<Collection> {
    let (tags, rest) = line.split_once("] GC(")?;
    let (_, rest) = rest.split_once(") Pause ")?;
    let kind = if rest.starts_with("Full") { Kind::Full } else { Kind::Young };
    let seconds = number(rest.rsplit(' ').next()?.strip_suffix("ms")?)? / 1000.0;
    let tags: Vec<&str> = tags.split(['[', ']']).filter(|tag| !tag.is_empty()).collect();
    let uptime = tags.iter().find_map(|tag| number(tag.strip_suffix('s')?));
    let printed = tags.iter().find_map(|tag| time(tag));
    let is_gc = tags.iter().any(|tag| tag.trim() == "gc" || tag.starts_with("gc,") || tag.starts_with("gc "));
    is_gc.then_some(Collection { kind, uptime, printed, seconds, period: 0.0 })
}

/// Parses `2017-03-01T10:00:00.123+0000: 1234.567: [Full GC (Ergonomics)  65536K->10720K(251392K), 0.0123456 secs]`.
fn of_jdk_8(line: &str) -> Option<Collection> {
    let (before, rest) = line.split_once("[GC ").or_else(|| line.split_once("[Full GC "))?;
    let kind = if line.contains("[Full GC ") { Kind::Full } else { Kind::Young };
    let (whole, _) = rest.split_once(" secs]")?;
    // The parts of a collection have their own times; the last one is that of all.
    let whole = rest.rsplit_once(" secs] [Times").map_or(whole, |(whole, _)| whole);
    let seconds = number(whole.rsplit(' ').next()?)?;
    let stamps: Vec<&str> = before.split(": ").map(str::trim).filter(|stamp| !stamp.is_empty()).collect();
    let uptime = stamps.iter().find_map(|stamp| number(stamp.trim_end_matches(':')));
    let printed = stamps.iter().find_map(|stamp| time(stamp.trim_end_matches(':')));
    // It prints when a collection begins.
    let printed = printed.map(|printed| printed.after(seconds));
    let uptime = uptime.map(|uptime| uptime + seconds);
    Some(Collection { kind, uptime, printed, seconds, period: 0.0 })
}

fn time(text: &str) -> Option<PrintedTime> {
    text.contains('T').then(|| clock::date_line(&text.replace(',', "."))).flatten()
}

/// Parses `2.6s`, `450ms`, `1.2m`.
fn spelled(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 3] = [("ms", 0.001), ("s", 1.0), ("m", 60.0)];
    UNITS.iter().find_map(|(unit, seconds)| Some(number(text.strip_suffix(unit)?)? * seconds))
}

/// Returns true for a line of such a log, whether or not it has a time.
fn is_own(line: &str) -> bool {
    Collection::parse(line).is_some()
        || line.starts_with('[') && line.contains("][info][")
        || ["[gc]", "[gc,", "[GC ", "[Full GC ", "[Times:", "JvmGcMonitorService]"]
            .iter()
            .any(|part| line.contains(part))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut all: Vec<(u32, Collection)> = Vec::new();
    while let Some(line) = lines.take_if(is_own) {
        all.extend(Collection::parse(&line.text).map(|one| (line.number, one)));
    }
    let Some((line, first)) = all.first().copied() else { return Ok(()) };
    let (mut at, mut spent) = (0.0, [0.0; 3]);
    let mut sums: Vec<Sum> = vec![Sum { line, at, spent }];
    for (at_line, (line, one)) in all.iter().copied().enumerate() {
        // A log whose clock was set back goes on.
        let since = one.since(first).map_or(at + one.period, |seconds| first.period + seconds);
        at = since.max(at);
        // What came before the first collection is unknown, unless it says in how much time it was.
        if at_line > 0 || one.period > 0.0 {
            spent[one.kind as usize] += one.seconds;
        }
        sums.push(Sum { line, at, spent });
    }
    if at < SHORTEST {
        run.note(FORMAT.name, "it covers less than a second", "show more of it");
        return Ok(());
    }
    for Sum { line, at, spent } in seconds_apart(&sums) {
        record(run.row::<Heap>(at, line, PROGRAM.into()), spent);
    }
    Ok(())
}

/// Shortest interval in seconds: two collections may follow each other at once.
const SHORTEST: f64 = 1.0;

/// The seconds spent up to a line, by kind.
#[derive(Clone, Copy)]
struct Sum {
    line: u32,
    at: f64,
    spent: [f64; 3],
}

/// Returns the first and the last sum, and those in between that are far enough apart.
fn seconds_apart(all: &[Sum]) -> Vec<Sum> {
    let mut kept: Vec<Sum> = Vec::new();
    for sum in all {
        if kept.last().is_none_or(|last| sum.at - last.at >= SHORTEST) {
            kept.push(*sum);
        }
    }
    let last = all.last().filter(|last| kept.last().is_some_and(|kept| kept.at < last.at));
    if let Some(last) = last {
        if kept.len() > 1 {
            kept.pop();
        }
        kept.push(*last);
    }
    kept
}

/// Name of the program, which the log does not print.
const PROGRAM: &str = "java";

/// Records the seconds spent so far, by kind.
fn record(row: &mut Heap, spent: [f64; 3]) {
    row.collection_time = clock::nanoseconds(spent.iter().sum()).into();
    // Where the kinds are not printed, the time in those of the whole heap is unknown.
    if spent[Kind::Any as usize] == 0.0 {
        row.young_time = clock::nanoseconds(spent[Kind::Young as usize]).into();
        row.full_time = clock::nanoseconds(spent[Kind::Full as usize]).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window_of;

    #[test]
    fn collections_of_each_log_are_read() {
        for (line, kind, seconds, uptime) in [
            (
                "[12.345s][info][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.456ms",
                Kind::Young,
                0.003456,
                Some(12.345),
            ),
            (
                "[2024-03-01T10:00:00.123+0000][info][gc          ] GC(12) Pause Full (System.gc()) 40M->39M(64M) 2345.6ms",
                Kind::Full,
                2.3456,
                None,
            ),
            (
                "2017-03-01T10:00:00.123+0000: 10.5: [Full GC (Ergonomics)  65536K->10720K(251392K), 1.5 secs]",
                Kind::Full,
                1.5,
                Some(12.0),
            ),
            (
                "10.5: [GC (Allocation Failure) [PSYoungGen: 33280K->5088K(38400K)] 33280K->5272K(125952K), 0.5 secs] [Times: user=0.02 sys=0.00, real=0.51 secs]",
                Kind::Young,
                0.5,
                Some(11.0),
            ),
        ] {
            let one = Collection::parse(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((one.kind, one.uptime), (kind, uptime), "{line}");
            assert!((one.seconds - seconds).abs() < 1e-9, "{line}");
        }
        for line in ["[gc][472] overhead", "[info][gc] Using G1", "GC(3) Pause", "[GC (Metadata GC Threshold)"] {
            assert_eq!(Collection::parse(line), None, "{line}");
        }
    }

    #[test]
    fn intervals_are_at_least_a_second_long() {
        // As OpenJDK 17 printed it.
        let text = "[0.059s][info][gc] Using G1\n\
            [0.700s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 6M->3M(32M) 10.701ms\n\
            [0.813s][info][gc] GC(1) Pause Young (Normal) (G1 Evacuation Pause) 7M->4M(32M) 12.776ms\n\
            [3.101s][info][gc] GC(16) Pause Young (Normal) (G1 Evacuation Pause) 22M->7M(32M) 0.912ms\n\
            [3.302s][info][gc] GC(17) Pause Young (Normal) (G1 Evacuation Pause) 22M->7M(32M) 0.601ms\n";
        let window = window_of(text);
        let change = window.change::<Heap>().unwrap();
        assert_eq!(change.growths(|heap| heap.young_time).count(), 1);
        assert_eq!(change.grown(|heap| heap.young_time), Some(14_289_000.0));
        assert!((window.seconds() - 2.602).abs() < 1e-6, "{}", window.seconds());
    }

    #[test]
    fn what_a_monitor_sums_up_is_of_any_kind() {
        let line = |second: u32, spent: &str, of: &str| {
            format!(
                "[2018-05-28T07:48:{second},000][WARN ][o.e.m.j.JvmGcMonitorService] [n] [gc][4] overhead, spent [{spent}] collecting in the last [{of}]\n"
            )
        };
        let window = window_of(&(line(15, "2.6s", "3s") + &line(18, "900ms", "3s")));
        let change = window.change::<Heap>().unwrap();
        assert_eq!((window.seconds(), change.grown(|heap| heap.collection_time)), (6.0, Some(3.5e9)));
        assert_eq!(change.grown(|heap| heap.full_time), None);
    }
}
