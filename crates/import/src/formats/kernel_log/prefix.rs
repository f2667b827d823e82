//! Prefix of a kernel message: level, time, host, sender.

use super::log_time::LogTime;
use crate::clock::{self, DAYS, MONTHS};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPrefix<'l> {
    /// Length of the prefix in bytes.
    pub length: usize,
    pub printed: Option<&'l str>,
    /// Machine that logged the line.
    pub host: Option<&'l str>,
    /// Time since boot.
    pub since_boot_ns: Option<u64>,
    /// Whether the sender was the kernel rather than a daemon.
    pub kernel: bool,
}

/// Length of `Dec 20 10:33:23`.
const SYSLOG: usize = 15;
/// Length of `Mon May  2 03:36:24 2022`.
const CTIME: usize = 24;
/// Length of `2024-06-01T12:00:00`.
const ISO: usize = 19;
/// Log levels of web servers, which print times like dmesg's.
const WEB_SERVER: [&str; 6] = [" [error]", " [notice]", " [warn]", " [info]", " [crit]", " [debug]"];

impl<'l> LogPrefix<'l> {
    /// Parses the prefix of a log line. Returns `None` if it has none.
    pub fn parse(line: &'l str) -> Option<Self> {
        let text = line.trim_start();
        let first = *text.as_bytes().first()?;
        let mut prefix = match first {
            b'<' => leveled(text),
            b'[' => bracketed(text),
            b'0'..=b'9' => numbered(text),
            b'k' => tagged(text),
            _ if first.is_ascii_alphabetic() => dated(text),
            _ => None,
        }?;
        // A date by itself is not a prefix.
        let has_message = prefix.length < text.trim_end().len();
        prefix.length += line.len() - text.len();
        has_message.then_some(prefix)
    }

    /// Returns the time at which the line was logged.
    pub fn when(&self) -> LogTime<'l> {
        LogTime { printed: self.printed, since_boot_ns: self.since_boot_ns }
    }

    /// Returns the prefix extended by this many bytes.
    fn behind(self, bytes: usize) -> Self {
        Self { length: self.length + bytes, ..self }
    }
}

/// Parses `<4>[    5.712574] `, `<6>Jun  1 12:00:00 host kernel: `, and RFC 5424's `<6>1 2024-06-01T12:00:00Z host kernel - - -
/// `.
fn leveled(text: &str) -> Option<LogPrefix<'_>> {
    let (level, rest) = text.get(1..)?.split_once('>')?;
    if level.is_empty() || level.len() > 3 || !level.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let before = text.len() - rest.len();
    if let Some(structured) = rest.strip_prefix("1 ") {
        return rfc5424(structured).map(|p| p.behind(before + 2));
    }
    bracketed(rest).or_else(|| dated(rest)).map(|p| p.behind(before))
}

/// Parses `2024-06-01T12:00:00Z host kernel - - - `.
fn rfc5424(text: &str) -> Option<LogPrefix<'_>> {
    let mut length = 0;
    let mut words = text.split(' ');
    let stamp = words.next().filter(|s| is_iso(s))?;
    let (host, name) = (words.next()?, words.next()?);
    for word in text.split(' ').take(6) {
        length += word.len() + 1;
    }
    Some(LogPrefix {
        length: length.min(text.len()),
        printed: Some(stamp),
        host: Some(host),
        kernel: name == "kernel",
        since_boot_ns: None,
    })
}

/// Parses dmesg's `[    5.712574] `, with the caller `[    5.712574][    T1] `, with the time since the last one `[    5.712574
/// <    0.1>] `, `[Mon May  2 03:36:24 2022] `, `[  +0.000012] `, `[Jun 1 12:00] `; and journalctl's `[    5.712574] host
/// kernel: `.
fn bracketed(text: &str) -> Option<LogPrefix<'_>> {
    let (inside, rest) = text.strip_prefix('[')?.split_once(']')?;
    let length = text.len() - rest.len();
    let ctime = inside.len() == CTIME && DAYS.iter().any(|d| inside.starts_with(d));
    if ctime {
        let web = WEB_SERVER.iter().any(|level| rest.starts_with(level));
        return (!web).then_some(LogPrefix { length, printed: Some(inside), kernel: true, ..LogPrefix::default() });
    }
    if MONTHS.iter().any(|m| inside.starts_with(m)) && inside.len() <= SYSLOG {
        return Some(LogPrefix { length, printed: Some(inside), kernel: true, ..LogPrefix::default() });
    }
    let number = inside.trim_start().split([' ', '<']).next()?;
    let (seconds, fraction) = number.trim_start_matches('+').split_once('.')?;
    if fraction.len() != 6 {
        return None;
    }
    let micros: u64 = fraction.parse().ok()?;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(micros * 1000)?;
    let since_boot_ns = Some(ns).filter(|_| !number.starts_with('+'));
    let length = length + caller(rest) + sender(&rest[caller(rest)..]);
    Some(LogPrefix { length, since_boot_ns, kernel: true, ..LogPrefix::default() })
}

/// Returns the length of `[    T1]`, the caller, which some kernels print.
fn caller(text: &str) -> usize {
    let inside = text.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_caller = |name: &str| {
        let name = name.trim_start();
        name.len() > 1 && name.starts_with(['T', 'C']) && name[1..].bytes().all(|b| b.is_ascii_digit())
    };
    inside.filter(|(name, _)| is_caller(name)).map_or(0, |(_, rest)| text.len() - rest.len())
}

/// Returns the length of ` host kernel: ` after a time.
fn sender(text: &str) -> usize {
    let host = text.trim_start().find(' ').unwrap_or(0);
    let after = text.len() - text.trim_start().len() + host;
    if text.get(after..).is_some_and(|rest| host > 0 && rest.starts_with(" kernel: ")) {
        after + " kernel: ".len()
    } else {
        0
    }
}

/// Parses `2024-06-01T12:00:00+0200 host kernel: `, dmesg's `2024-06-01T12:00:00,123456+02:00 `, `1717236000.123456 host
/// kernel: `, and /dev/kmsg's own `6,339,5140900,-;`.
fn numbered(text: &str) -> Option<LogPrefix<'_>> {
    if is_iso(text) {
        let word = text.get(ISO..)?.find(' ').map_or(text.len(), |at| ISO + at);
        let printed = Some(&text[..word]);
        if text.as_bytes().get(ISO) == Some(&b',') {
            return Some(LogPrefix { length: word, printed, kernel: true, ..LogPrefix::default() });
        }
        return Some(LogPrefix { printed, ..sent(&text[word..]).behind(word) });
    }
    let (number, rest) = text.split_once([' ', ';'])?;
    if let Some((seconds, fraction)) = number.split_once('.') {
        let unix = seconds.len() == 10 && fraction.len() == 6;
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        return (unix && digits(seconds) && digits(fraction))
            .then(|| LogPrefix { printed: Some(number), ..sent(&text[number.len()..]).behind(number.len()) });
    }
    let mut fields = number.split(',');
    let (level, _, micros) = (fields.next()?, fields.next()?, fields.next()?.parse::<u64>().ok()?);
    (level.parse::<u32>().is_ok() && text.as_bytes()[number.len()] == b';').then(|| LogPrefix {
        length: text.len() - rest.len(),
        since_boot_ns: micros.checked_mul(1000),
        kernel: true,
        ..LogPrefix::default()
    })
}

/// Returns true if a text begins with an ISO 8601 time.
fn is_iso(text: &str) -> bool {
    let bytes = text.as_bytes();
    let at = |place: usize, wanted: &[u8]| bytes.get(place).is_some_and(|b| wanted.contains(b));
    text.len() >= ISO && text.is_char_boundary(ISO) && at(4, b"-") && at(10, b"T ") && at(13, b":") && at(16, b":")
}

/// Returns the length of `Dec 20 10:33:23`, in any language.
fn syslog_time(text: &str) -> Option<usize> {
    /// Maximum number of bytes of `Dec`, in any language, before ` 20 10:33:23`.
    const LONGEST_MONTH: usize = 4;
    let name = text.as_bytes().iter().take(LONGEST_MONTH + 1).position(|b| *b == b' ')?;
    let (length, bytes) = (name + SYSLOG - 3, text.as_bytes());
    // Checked first, since every line is tested and few have a clock there.
    let is_clock =
        bytes.get(name + 6) == Some(&b':') && bytes.get(name + 9) == Some(&b':') && text.is_char_boundary(length);
    (is_clock && clock::month(&text[..name]).is_some()).then_some(length)
}

/// Parses `Dec 20 10:33:23 host kernel: `, `Sat Jun  1 12:00:00 2024 kern.warn kernel: `, `Sat 2024-06-01 12:00:00 CEST host
/// kernel: `; all with or without dmesg's own time after it.
fn dated(text: &str) -> Option<LogPrefix<'_>> {
    let length = if let Some(length) = syslog_time(text) {
        length
    } else if DAYS.iter().any(|d| text.starts_with(d)) {
        let rest = text.get(4..)?;
        let zone = || rest.get(ISO + 1..).and_then(|zone| zone.find(' ')).map_or(0, |at| 4 + ISO + 1 + at);
        let year = || text.get(20..CTIME).is_some_and(|year| year.bytes().all(|b| b.is_ascii_digit()));
        if is_iso(rest) { zone() } else { CTIME * usize::from(text.as_bytes().get(13) == Some(&b':') && year()) }
    } else {
        0
    };
    let stamp = text.get(..length).filter(|stamp| !stamp.is_empty())?;
    Some(LogPrefix { printed: Some(stamp), ..sent(&text[length..]).behind(length) })
}

/// Parses ` host kernel: `, and the prefix that dmesg prints after it, or in its place.
fn sent(text: &str) -> LogPrefix<'_> {
    let blank = text.len() - text.trim_start().len();
    // A console log adds its own time in front of the kernel's.
    if let Some(inner) = bracketed(text.trim_start()) {
        return inner.behind(blank);
    }
    let host = || text.trim_start().find(' ').map_or(text.len(), |at| blank + at + 1);
    let tag = text.find(": ").map_or_else(host, |at| at + 2);
    let name = text[..tag].trim_end_matches([':', ' ']).rsplit(' ').next().unwrap_or_default();
    let inner = bracketed(&text[tag..]).unwrap_or_default();
    // `host kernel: `, but not `kern.warn kernel: `.
    let host = match text[..tag].split_whitespace().collect::<Vec<_>>()[..] {
        [host, sender] if sender.ends_with(':') && !host.contains("kern.") => Some(host),
        _ => None,
    };
    LogPrefix {
        length: tag + inner.length,
        host,
        since_boot_ns: inner.since_boot_ns,
        kernel: name == "kernel" || name.starts_with("kernel[") || inner.since_boot_ns.is_some(),
        printed: None,
    }
}

/// Parses `kernel: `, if the times were cut out; or dmesg's `kern  :warn  : [    5.712574] `.
fn tagged(text: &str) -> Option<LogPrefix<'_>> {
    if let Some(rest) = text.strip_prefix("kernel: ") {
        let inner = bracketed(rest).unwrap_or_default();
        return Some(LogPrefix { kernel: true, ..inner.behind("kernel: ".len()) });
    }
    let (facility, level) = text.get(..14)?.split_once(':')?;
    let named = facility.trim_end() == "kern" && level.trim_end().ends_with(':');
    let rest = text.get(14..).filter(|_| named)?;
    let blank = rest.len() - rest.trim_start_matches([':', ' ']).len();
    bracketed(&rest[blank..]).map(|p| p.behind(14 + blank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn months_in_other_languages_and_cases() {
        for text in ["jan 20 12:40:57 web kernel: x", "Mär  2 12:40:57 web kernel: x", "ago 31 12:40:57 web kernel: x"]
        {
            let prefix = LogPrefix::parse(text).unwrap();
            assert!(prefix.kernel && prefix.host == Some("web") && text.ends_with("x"), "{prefix:?}");
            assert_eq!(&text[prefix.length..], "x");
        }
        for text in ["the 20 12:40:57 web kernel: x", "may be 12:40 or 12:50"] {
            assert_eq!(LogPrefix::parse(text), None, "{text}");
        }
    }

    #[test]
    fn prefixes_of_every_tool_are_read() {
        let text = "sd 0:0:0:0: [sda] Write Protect is off";
        for (prefix, printed, boot) in [
            ("Dec 20 10:33:23 localhost kernel: ", Some("Dec 20 10:33:23"), None),
            ("Dec  2 10:33:23 web kernel: [   12.500000] ", Some("Dec  2 10:33:23"), Some(12_500_000_000)),
            ("<4>Dec  2 10:33:23 web kernel: ", Some("Dec  2 10:33:23"), None),
            ("[   12.500000] ", None, Some(12_500_000_000)),
            ("[   12.500000][    T1] ", None, Some(12_500_000_000)),
            ("[   12.500000 <    0.000123>] ", None, Some(12_500_000_000)),
            ("[   12.500000] web kernel: ", None, Some(12_500_000_000)),
            ("[  +0.000123] ", None, None),
            ("[Jun 1 12:00] ", Some("Jun 1 12:00"), None),
            ("<4>[   12.500000] ", None, Some(12_500_000_000)),
            ("kern  :warn  : [   12.500000] ", None, Some(12_500_000_000)),
            ("[Mon May  2 03:36:24 2022] ", Some("Mon May  2 03:36:24 2022"), None),
            ("2024-06-01T12:00:00.25+02:00 web kernel: ", Some("2024-06-01T12:00:00.25+02:00"), None),
            ("2024-06-01T12:00:00,123456+02:00 ", Some("2024-06-01T12:00:00,123456+02:00"), None),
            ("Sat 2024-06-01 12:00:00 CEST web kernel: ", Some("Sat 2024-06-01 12:00:00 CEST"), None),
            (
                "Sat Jun  1 12:00:00 2024 kern.warn kernel: [   12.500000] ",
                Some("Sat Jun  1 12:00:00 2024"),
                Some(12_500_000_000),
            ),
            ("1717236000.123456 web kernel: ", Some("1717236000.123456"), None),
            ("6,339,12500000,-;", None, Some(12_500_000_000)),
            ("<6>1 2024-06-01T12:00:00Z web kernel - - - ", Some("2024-06-01T12:00:00Z"), None),
            ("   kernel: ", None, None),
        ] {
            let line = format!("{prefix}{text}");
            let found = LogPrefix::parse(&line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (line[found.length..].trim(), found.printed, found.since_boot_ns),
                (text, printed, boot),
                "{line}"
            );
            assert!(found.kernel, "{line}");
        }
    }

    #[test]
    fn lines_without_a_kernel_prefix() {
        assert!(!LogPrefix::parse("Dec 20 10:33:23 web smartd[12]: Device: /dev/sda").unwrap().kernel);
        for line in [
            "Device: rrqm/s",
            "[Wed Oct 11 14:32:52 2000] [error] [client 127.0.0.1] denied",
            "1.5 2.5 3.5",
            "10:33:23 up 3 days",
            "2024-06-01",
            "2024-06-01T12:00:00",
            "2024-06-01 12:00:00 +0200",
            "Sat Jun  1 12:00:00 UTC 2024",
            "Sat Jun  1 12:00:00 2024",
            "[sda] x",
            "<b>",
            "",
        ] {
            assert_eq!(LogPrefix::parse(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in "[<\\[]?(Dec |Sat |kern|20\\d\\d-|\\d{1,3},)?[-A-Za-z0-9 ,.:;>\\]äT+<]{0,60}") {
            if let Some(prefix) = LogPrefix::parse(&line) {
                prop_assert!(line.is_char_boundary(prefix.length));
            }
        }

        #[test]
        fn no_text_makes_it_panic(line in "\\PC{0,80}") {
            if let Some(prefix) = LogPrefix::parse(&line) {
                prop_assert!(line.get(prefix.length..).is_some());
            }
        }
    }
}
