//! What stands before the kernel's own words: level, time, host.

/// A line's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix<'l> {
    /// Bytes it takes.
    pub length: usize,
    /// The time of day as it is printed.
    pub printed: Option<&'l str>,
    /// The time since boot.
    pub since_boot_ns: Option<u64>,
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// `Dec 20 10:33:23`
const SYSLOG: usize = 15;

impl<'l> Prefix<'l> {
    /// The prefix of a line of the kernel's log; `None` for a line that has none.
    pub fn of(line: &'l str) -> Option<Self> {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let mut prefix = dmesg(text).or_else(|| syslog(text)).or_else(|| tagged(text))?;
        prefix.length += indent;
        Some(prefix)
    }
}

/// `[    5.712574] `, `[Mon May  2 03:36:24 2022] `, either after `<4>`.
fn dmesg(text: &str) -> Option<Prefix<'_>> {
    let level =
        text.strip_prefix('<').and_then(|t| t.split_once('>')).filter(|(n, _)| n.len() <= 3).map_or(text, |(_, t)| t);
    let (inside, rest) = level.strip_prefix('[')?.split_once(']')?;
    let length = text.len() - rest.len();
    if DAYS.iter().any(|d| inside.starts_with(d)) && inside.len() >= 20 {
        return Some(Prefix { length, printed: Some(inside), since_boot_ns: None });
    }
    let (seconds, fraction) = inside.trim().split_once('.')?;
    if fraction.len() != 6 {
        return None;
    }
    let micros: u64 = fraction.parse().ok()?;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(micros * 1000)?;
    Some(Prefix { length, printed: None, since_boot_ns: Some(ns) })
}

/// `Dec 20 10:33:23 host kernel: `, `2024-06-01T12:00:00+0200 host kernel: `, both with dmesg's own time after it or not.
/// A daemon's line has a prefix too, and nothing in it that the kernel says.
fn syslog(text: &str) -> Option<Prefix<'_>> {
    let month = MONTHS.iter().any(|m| text.starts_with(m));
    let stamp = if month {
        text.get(..SYSLOG).filter(|s| s.as_bytes()[9] == b':' && s.as_bytes()[12] == b':')?
    } else {
        text.split(' ').next().filter(|s| s.len() >= 19 && s.as_bytes()[4] == b'-' && s.as_bytes()[10] == b'T')?
    };
    let rest = &text[stamp.len()..];
    let tag = rest.find(": ").map_or(rest.len(), |at| at + 2);
    let inner = dmesg(&rest[tag..]);
    let length = stamp.len() + tag + inner.map_or(0, |p| p.length);
    Some(Prefix { length, printed: Some(stamp), since_boot_ns: inner.and_then(|p| p.since_boot_ns) })
}

/// `kernel: `, where somebody cut the times out.
fn tagged(text: &str) -> Option<Prefix<'_>> {
    text.starts_with("kernel: ").then_some(Prefix { length: "kernel: ".len(), printed: None, since_boot_ns: None })
}
