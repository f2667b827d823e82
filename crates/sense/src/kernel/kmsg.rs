//! The kernel's log as it grows (/dev/kmsg, Documentation/ABI/testing/dev-kmsg).

use crate::root::Root;
use crate::source::{Miss, Source};
use crate::text::{hexadecimal, unescape};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use whyslow_model::catalogue::LogLine;
use whyslow_model::snapshot::Snapshot;

/// The most lines taken in one sample; the rest comes with the next.
const LINES_MAX: usize = 1000;
/// A read brings one record, and fails where it does not fit: the kernel's own bound (PRINTKRB_RECORD_MAX, 1024 and
/// once 8192) is below this.
const RECORD_MAX: usize = 16 * 1024;

/// Follows the log from just before the first sample on: what the first sample's counters have not counted yet, the log
/// has not told yet either.
#[derive(Default)]
pub(super) struct KernelLog {
    log: Option<File>,
}

impl Source for KernelLog {
    fn name(&self) -> &'static str {
        "dev/kmsg"
    }

    fn tells(&self) -> &'static str {
        "the kernel log: device errors, OOM kills"
    }

    fn prepare(&mut self, root: &Root) {
        if root.require_live().is_ok() {
            self.log = open_at_end(root).ok();
        }
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        root.require_live()?;
        match &mut self.log {
            Some(log) => follow(log, &mut out.kernel.log),
            // Only what is logged from now on was logged while we watched.
            None => {
                self.log = Some(open_at_end(root).map_err(|e| Miss::from_io("dev/kmsg", &e))?);
                Ok(())
            }
        }
    }
}

fn open_at_end(root: &Root) -> std::io::Result<File> {
    let mut log = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(root.at("dev/kmsg"))?;
    log.seek(SeekFrom::End(0))?;
    Ok(log)
}

/// Takes what was logged since the last call, a record a read.
fn follow(log: &mut impl Read, lines: &mut Vec<LogLine>) -> Result<(), Miss> {
    let mut record = vec![0; RECORD_MAX];
    let mut overwritten = false;
    for _ in 0..LINES_MAX {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => lines.extend(parse(&record[..length])),
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            // The log went round faster than we read; the next read begins at the oldest record there is.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => overwritten = true,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(Miss::from_io("dev/kmsg", &e)),
        }
    }
    if overwritten {
        Err(Miss::Failed("/dev/kmsg: lines were overwritten before they were read".into()))
    } else {
        Ok(())
    }
}

/// Reads a record `priority,sequence,microseconds,flags[,...];text`, the `KEY=value` lines after it left out.
fn parse(record: &[u8]) -> Option<LogLine> {
    let record = String::from_utf8_lossy(record);
    let (prefix, rest) = record.split_once(';')?;
    let mut fields = prefix.split(',');
    let priority: u64 = fields.next()?.parse().ok()?;
    let mut row = LogLine::new(fields.next()?.parse().ok()?);
    let microseconds: u64 = fields.next()?.parse().ok()?;
    // The facility is in the bits above.
    row.level = (priority & 7).into();
    row.time = microseconds.saturating_mul(1000).into();
    row.text = unescape(rest.lines().next().unwrap_or_default(), hexadecimal).into();
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{self, Write};
    use std::time::{Duration, Instant};

    #[test]
    fn a_record_is_taken_apart() {
        let line =
            parse(b"12,339,5140900,-,caller=T1;Out of memory: Killed process 7 (a\\x0ab)\n SUBSYSTEM=acpi\n").unwrap();
        assert_eq!((line.sequence, line.level.get(), line.time.get()), (339, Some(4.0), Some(5_140_900_000)));
        assert_eq!(line.text.get(), Some("Out of memory: Killed process 7 (a\nb)"));
    }

    #[test]
    fn escapes_become_what_they_stand_for() {
        assert_eq!(unescape("Gr\\xc3\\xbc\\xc3\\x9fe", hexadecimal), "Grüße");
        assert_eq!(unescape("a\\x5cx41", hexadecimal), "a\\x41");
        assert_eq!(unescape("\\xg1 \\x4", hexadecimal), "\\xg1 \\x4");
    }

    /// A log that gives these answers, one a read, and then says that there is nothing more.
    struct Script(Vec<io::Result<&'static str>>);

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.0.remove(0).map(|text| (&mut &mut *buffer).write(text.as_bytes()).unwrap())
        }
    }

    #[test]
    fn overwritten_lines_are_said_and_the_rest_is_read() {
        let mut lines = Vec::new();
        let mut log = Script(vec![Ok("6,1,1,-;one\n"), Err(ErrorKind::BrokenPipe.into()), Ok("6,9,2,-;nine\n")]);
        assert!(matches!(follow(&mut log, &mut lines), Err(Miss::Failed(_))));
        assert_eq!(lines.iter().map(|l| l.sequence).collect::<Vec<_>>(), [1, 9]);
    }

    #[test]
    fn a_flood_is_taken_in_parts() {
        let mut lines = Vec::new();
        let mut log = Script((0..LINES_MAX + 10).map(|_| Ok("6,1,1,-;x\n")).collect());
        follow(&mut log, &mut lines).unwrap();
        assert_eq!(lines.len(), LINES_MAX);
        follow(&mut log, &mut lines).unwrap();
        assert_eq!(lines.len(), LINES_MAX + 10);
    }

    #[test]
    fn a_line_logged_while_observed_is_read_back() {
        let Ok(mut kmsg) = OpenOptions::new().write(true).open("/dev/kmsg") else {
            eprintln!("skipped: /dev/kmsg cannot be written to");
            return;
        };
        let mut source = KernelLog::default();
        let text = |part: &str| format!("whyslow test {} {part}", std::process::id());
        // Without its newline a record stays open to be continued, and is read only once the next one follows.
        kmsg.write_all(format!("<4>{}\n", text("before")).as_bytes()).unwrap();
        source.prepare(&Root::live());
        kmsg.write_all(format!("<4>{}\n", text("while")).as_bytes()).unwrap();
        let mut out = Snapshot::default();
        let start = Instant::now();
        while out.kernel.log.is_empty() && start.elapsed() < Duration::from_secs(2) {
            source.read(&Root::live(), &mut out).unwrap();
        }
        let mine: Vec<_> = out.kernel.log.iter().filter(|l| l.text.get().unwrap().starts_with(&text(""))).collect();
        assert_eq!(mine.len(), 1);
        assert_eq!((mine[0].text.get(), mine[0].level.get()), (Some(text("while").as_str()), Some(4.0)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9,]{0,20};[\\\\x0-9a-f\n ]{0,40}") {
            let _ = parse(text.as_bytes());
        }
    }
}
