//! The kernel's log: syslog files, dmesg in its forms, journalctl; with or without times. Read in a stream: only lines
//! that can bear on a diagnosis are kept, and not more of them than fit.

mod prefix;

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use crate::{elsewhere, lines::Line};
use aho_corasick::AhoCorasick;
use prefix::Prefix;
use std::sync::LazyLock;
use whyslow_model::catalogue::LogLine;

/// The format.
pub const FORMAT: Format = Format {
    name: "kernel log",
    versions: "Linux 2.4 on: syslog, dmesg (plain, -T, -r), journalctl (short, short-iso); bare messages",
    tells: "errors of disks and the way to them (sense data decoded), arrays that lost a member, kills for memory, full tables",
    starts,
    read,
};

/// The most lines that are kept; what comes after them is counted.
const MOST_KEPT: usize = 20_000;
/// A wrapped line is longer than this no more than once.
const WRAPPED: usize = 160;

/// What a line must say to be kept. The judgement reads these lines; all others tell nothing it asks.
const INTEREST: &[&str] = &[
    "ense",
    "/O error",
    "medium error",
    "target error",
    "return code",
    "hostbyte",
    "offline",
    "Device offlined",
    "TIMEOUT_ERROR",
    "timeout",
    "timed out",
    "timing out",
    "reset",
    "Emask",
    "error: {",
    "ASC/ASCQ",
    "SCSI Error",
    "SCSI disk error",
    "ERROR on channel",
    "Disk failure",
    "degraded",
    "conf printout",
    "wd:",
    "dev:sd",
    "dev:hd",
    "Operation continuing",
    "recovery done",
    " out of ",
    "no spare",
    "skipping faulty",
    "md: updating",
    "Killed process",
    "oom-kill",
    "Out of memory",
    "out of memory",
    "conntrack",
    ": [sd",
    "table overflow",
    "SYN flooding",
    "blocked for more than",
    "soft lockup",
    "System is deadlocked",
    "temperature above threshold",
    "Hardware Error",
    "messages suppressed",
    "Link is Down",
    "emounting filesystem",
    "NETDEV WATCHDOG",
];

/// What a line without a prefix must say to be taken for the kernel's.
const BARE: &[&str] = &[
    "SCSI disk error",
    "SCSI Error",
    "I/O error: dev",
    "rejecting I/O to",
    "conf printout",
    "ERROR on channel",
    "ASC/ASCQ=",
    "sense key ",
    "Additional sense indicates",
    "oom-killer:",
    "oom-kill:",
    "Killed process ",
    "Out of Memory:",
    "Out of memory:",
    "nf_conntrack: table full",
    "write_disk_sb failed",
    "end_request:",
    "blk_update_request:",
    "aborting command due to timeout",
];

static INTERESTING: LazyLock<AhoCorasick> = LazyLock::new(|| matcher(INTEREST));
static KERNEL: LazyLock<AhoCorasick> = LazyLock::new(|| matcher(BARE));

fn matcher(words: &[&str]) -> AhoCorasick {
    AhoCorasick::new(words).expect("a short list of words is no burden")
}

fn is_bare(line: &str) -> bool {
    KERNEL.is_match(line)
}

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| Prefix::of(line).is_some() || is_bare(line))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut kept = Kept { run, count: 0, left: 0, open: None };
    let mut prefixed = false;
    while let Some(text) = lines.peek(0) {
        if let Some(length) = Prefix::of(text).map(|p| p.length) {
            prefixed = true;
            kept.begin(lines, length);
        } else if is_bare(text) || (!prefixed && INTERESTING.is_match(text)) {
            kept.begin(lines, 0);
        } else if text.trim().is_empty() {
            lines.skip(1);
        } else if elsewhere(lines, FORMAT.name) {
            break;
        } else {
            // The rest of a wrapped line; or what a console shows between the kernel's lines.
            kept.continued(lines);
        }
    }
    kept.end();
    Ok(())
}

/// The lines that are kept, the last of them still open for its wrapped rest.
struct Kept<'r> {
    run: &'r mut Run,
    count: usize,
    left: usize,
    open: Option<(Line, usize, u64)>,
}

impl Kept<'_> {
    fn begin(&mut self, lines: &mut Lines<'_>, prefix: usize) {
        self.close();
        let sequence = lines.sequence();
        let wanted = lines.peek(0).is_some_and(|line| INTERESTING.is_match(line) || may_be_wrapped(line));
        let line = lines.take();
        self.open = line.filter(|_| wanted).map(|line| (line, prefix, sequence));
    }

    fn continued(&mut self, lines: &mut Lines<'_>) {
        let Some(rest) = lines.take() else { return };
        if let Some((line, ..)) = &mut self.open
            && line.text.len() <= WRAPPED
        {
            line.text.push(' ');
            line.text.push_str(rest.text.trim());
        }
    }

    fn close(&mut self) {
        let Some((line, prefix, sequence)) = self.open.take() else { return };
        if !INTERESTING.is_match(&line.text) {
            return;
        }
        if self.count == MOST_KEPT {
            self.left += 1;
            return;
        }
        self.count += 1;
        let times = Prefix::of(&line.text);
        let row = self.run.row::<LogLine>(0.0, line.number, sequence);
        row.text = line.text.get(prefix..).unwrap_or_default().trim().into();
        if let Some(times) = times {
            if let Some(ns) = times.since_boot_ns {
                row.time = ns.into();
            }
            if let Some(printed) = times.printed {
                row.printed = printed.into();
            }
        }
    }

    fn end(mut self) {
        self.close();
        if self.left > 0 {
            let why = format!("{} of them; the first {MOST_KEPT} were judged", self.left);
            self.run.note("more lines of the kernel's log than can be held", why, "give the part around the incident");
        }
    }
}

/// A line that says what it is about, with the error itself wrapped to the next.
fn may_be_wrapped(line: &str) -> bool {
    line.len() <= WRAPPED && (line.contains("scsi") || line.contains(": cmd "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    fn kept(text: &str) -> Vec<(Option<String>, Option<u64>, String)> {
        let window = window_of(text);
        let owned = |s: &whyslow_model::value::State| s.get().map(str::to_owned);
        let rows = window.newest::<LogLine>();
        rows.values().map(|l| (owned(&l.printed), l.time.get(), owned(&l.text).unwrap_or_default())).collect()
    }

    #[test]
    fn times_of_every_kind() {
        let text = "Out of memory: Killed process 7 (x)";
        let cases = [
            (format!("Dec 20 10:33:23 localhost kernel: {text}"), Some("Dec 20 10:33:23"), None),
            (
                format!("Dec  2 10:33:23 web kernel: [   12.500000] {text}"),
                Some("Dec  2 10:33:23"),
                Some(12_500_000_000),
            ),
            (format!("[   12.500000] {text}"), None, Some(12_500_000_000)),
            (format!("<4>[   12.500000] {text}"), None, Some(12_500_000_000)),
            (format!("[Mon May  2 03:36:24 2022] {text}"), Some("Mon May  2 03:36:24 2022"), None),
            (format!("2024-06-01T12:00:00.25+02:00 web kernel: {text}"), Some("2024-06-01T12:00:00.25+02:00"), None),
            (format!("   kernel: {text}"), None, None),
            (text.to_owned(), None, None),
        ];
        for (line, printed, boot) in cases {
            assert_eq!(kept(&line), [(printed.map(str::to_owned), boot, text.to_owned())], "{line}");
        }
    }

    #[test]
    fn a_wrapped_line_is_put_together() {
        let lines = kept(&fixture("scsi-messages-2.txt"));
        let texts: Vec<&str> = lines.iter().map(|(.., text)| text.as_str()).collect();
        assert!(texts.contains(&"SCSI disk error : host 0 channel 0 id 1 lun 0 return code = 27010000"), "{texts:?}");
        assert!(texts.iter().any(|t| t.contains("pid 43891493, scsi0, channel 0, id 1, lun 0")), "{texts:?}");
    }

    #[test]
    fn a_flood_is_held_in_bounds_and_said() {
        let flood: String =
            (0..MOST_KEPT + 5).map(|i| format!("[{i}.000000] I/O error, dev sda, sector {i}\n")).collect();
        let window = window_of(&flood);
        assert_eq!(window.newest::<LogLine>().len(), MOST_KEPT);
        assert!(window.snapshots()[0].sources[0].tells.contains("more lines"));
    }

    #[test]
    fn a_line_keeps_its_place() {
        let window = window_of("[    1.000000] nothing\n[    2.000000] I/O error, dev sda, sector 1\n");
        let rows = window.newest::<LogLine>();
        let key = rows.keys().next().unwrap().to_string();
        assert_eq!(window.origins().of("log", &key).first().unwrap().to_string(), "x:2");
    }
}
