//! The kernel log (/dev/kmsg, Documentation/ABI/testing/dev-kmsg).

use crate::root::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use crate::text::{hexadecimal, unescape};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use whyslow_model::catalogue::LogLine;
use whyslow_model::snapshot::Snapshot;

/// Maximum number of lines read per sample; the next sample continues.
const LINES_MAX: usize = 1000;
/// A read returns one record and fails if the buffer is too small; the kernel's limit (PRINTKRB_RECORD_MAX, 1024, formerly
/// 8192) is below this.
const RECORD_MAX: usize = 16 * 1024;

/// Follows the log from just before the first sample, so that log and counters cover the same time.
#[derive(Default)]
pub(super) struct KernelLog {
    log: Option<File>,
}

impl Source for KernelLog {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("dev/kmsg", "the kernel log: device errors, OOM kills")
    }

    fn prepare(&mut self, root: &Root) {
        if root.require_live().is_ok() {
            self.log = open_at_end(root).ok();
        }
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        root.require_live()?;
        match &mut self.log {
            Some(log) => follow(log, &mut out.kernel.log),
            // Older lines do not belong to the observed time.
            None => {
                self.log = Some(open_at_end(root).map_err(|e| SourceError::from_io("dev/kmsg", &e))?);
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

/// Reads the records since the last call.
fn follow(log: &mut impl Read, lines: &mut Vec<LogLine>) -> Result<(), SourceError> {
    let mut record = vec![0; RECORD_MAX];
    let mut overwritten = false;
    for _ in 0..LINES_MAX {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => lines.extend(parse(&record[..length])),
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            // Records were overwritten; the next read returns the oldest one left.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => overwritten = true,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(SourceError::from_io("dev/kmsg", &e)),
        }
    }
    if overwritten {
        Err(SourceError::Failed("/dev/kmsg: lines were overwritten before they were read".into()))
    } else {
        Ok(())
    }
}

/// Parses `priority,sequence,microseconds,flags[,...];text`; ignores the `KEY=value` lines after it.
fn parse(record: &[u8]) -> Option<LogLine> {
    let record = String::from_utf8_lossy(record);
    let (prefix, rest) = record.split_once(';')?;
    let mut fields = prefix.split(',');
    let priority: u64 = fields.next()?.parse().ok()?;
    let mut row = LogLine::new(fields.next()?.parse().ok()?);
    let microseconds: u64 = fields.next()?.parse().ok()?;
    // The higher bits hold the facility.
    row.level = (priority & 7).into();
    row.time = microseconds.saturating_mul(1000).into();
    row.text = unescape(rest.lines().next().unwrap_or_default(), hexadecimal).into();
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{never_panics_on_bytes, skip_unless_ci, wait_until};
    use std::io::{self, Write};

    #[test]
    fn a_record_is_parsed() {
        let line =
            parse(b"12,339,5140900,-,caller=T1;Out of memory: Killed process 7 (a\\x0ab)\n SUBSYSTEM=acpi\n").unwrap();
        assert_eq!((line.sequence, line.level.get(), line.time.get()), (339, Some(4.0), Some(5_140_900_000)));
        assert_eq!(line.text.get(), Some("Out of memory: Killed process 7 (a\nb)"));
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(unescape("Gr\\xc3\\xbc\\xc3\\x9fe", hexadecimal), "Grüße");
        assert_eq!(unescape("a\\x5cx41", hexadecimal), "a\\x41");
        assert_eq!(unescape("\\xg1 \\x4", hexadecimal), "\\xg1 \\x4");
    }

    /// Returns these results, one per read, then WouldBlock.
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
    fn overwritten_lines_are_reported_and_the_rest_is_read() {
        let mut lines = Vec::new();
        let mut log = Script(vec![Ok("6,1,1,-;one\n"), Err(ErrorKind::BrokenPipe.into()), Ok("6,9,2,-;nine\n")]);
        assert!(matches!(follow(&mut log, &mut lines), Err(SourceError::Failed(_))));
        assert_eq!(lines.iter().map(|l| l.sequence).collect::<Vec<_>>(), [1, 9]);
    }

    #[test]
    fn a_long_log_is_read_over_several_samples() {
        let mut lines = Vec::new();
        let mut log = Script((0..LINES_MAX + 10).map(|_| Ok("6,1,1,-;x\n")).collect());
        assert_eq!(follow(&mut log, &mut lines), Ok(()));
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(follow(&mut log, &mut lines), Ok(()));
        assert_eq!(lines.len(), LINES_MAX + 10);
    }

    #[test]
    fn a_line_logged_while_observing_is_read() {
        let Ok(mut kmsg) = OpenOptions::new().write(true).open("/dev/kmsg") else {
            return skip_unless_ci("/dev/kmsg is not writable");
        };
        let mut source = KernelLog::default();
        let text = |part: &str| format!("whyslow test {} {part}", std::process::id());
        // A record without a newline can be continued, and becomes readable only when the next one follows.
        kmsg.write_all(format!("<4>{}\n", text("before")).as_bytes()).unwrap();
        source.prepare(&Root::live());
        kmsg.write_all(format!("<4>{}\n", text("while")).as_bytes()).unwrap();
        let mut out = Snapshot::default();
        wait_until("the line is read", || {
            assert_eq!(source.read(&Root::live(), &mut out), Ok(()));
            !out.kernel.log.is_empty()
        });
        let mine: Vec<_> = out.kernel.log.iter().filter(|l| l.text.get().unwrap().starts_with(&text(""))).collect();
        assert_eq!(mine.len(), 1);
        assert_eq!((mine[0].text.get(), mine[0].level.get()), (Some(text("while").as_str()), Some(4.0)));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        never_panics_on_bytes(b"6,1,1,-;\\x41\n", |bytes| drop(parse(bytes)));
    }
}
