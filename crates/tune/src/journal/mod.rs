//! The journal of changes: one line per record, append-only. A planned change is on the disk before it is made; so whatever
//! happens in between, the next run can restore the original values.

mod record;

pub use record::Unread;
pub(crate) use record::{Ledger, Record};

use crate::Error;
use crate::store::PRIVATE;
use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    /// Length of the file after our last write, all of it complete records: if the length is unchanged, the file is not read
    /// again.
    left: Cell<Option<u64>>,
}

/// Whether a record must be on the disk before anything else is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// The record must survive a power cut.
    Now,
    /// A power cut that loses the record also loses the change that it describes.
    Later,
}

impl Journal {
    /// Returns the journal in a folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join("journal.jsonl"), left: Cell::new(None) }
    }

    /// Reads all records. An incomplete last line was being written when the program or the machine died; the change that it
    /// describes had not begun, so the line is ignored. A complete line of an unknown kind is kept and counted: another version
    /// may have written it.
    pub(crate) fn read(&self) -> Result<Ledger, Error> {
        Ok(self.parse()?.0)
    }

    /// Returns the ledger, and the number of bytes of the file that are complete lines.
    fn parse(&self) -> Result<(Ledger, u64), Error> {
        let mut bytes = Vec::new();
        // A root process acts on the journal's content, so another user must not have written it.
        match whyslow_trusted::open(&self.path).and_then(|mut file| file.read_to_end(&mut bytes)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok((Ledger::default(), 0)),
            other => other.map_err(|e| self.failed("cannot be read", &e))?,
        };
        let (mut ledger, mut whole) = (Ledger::default(), 0);
        let lines = bytes.split_inclusive(|b| *b == b'\n').filter(|line| line.ends_with(b"\n"));
        for (number, line) in lines.enumerate() {
            whole += line.len() as u64;
            match serde_json::from_slice(line) {
                Ok(record) => ledger.take(record),
                Err(_) if line.iter().all(u8::is_ascii_whitespace) => {}
                Err(_) => ledger.keep_unread(number + 1, line),
            }
        }
        Ok((ledger, whole))
    }

    /// Appends a record after the last complete one. If there is no room for it, the file stays as before.
    pub(crate) fn append(&self, record: &Record, sync: Sync) -> Result<(), Error> {
        let whole = match self.left.take() {
            Some(left) if left == self.size() => left,
            _ => self.parse()?.1,
        };
        let mut line = serde_json::to_string(record).map_err(|e| Error::Journal(e.to_string()))?;
        line.push('\n');
        self.write(whole, line.as_bytes(), sync).map_err(|e| self.failed("cannot be written", &e))?;
        self.left.set(Some(whole + line.len() as u64));
        Ok(())
    }

    fn write(&self, at: u64, line: &[u8], sync: Sync) -> io::Result<()> {
        let is_new = !self.path.exists();
        let mut file = whyslow_trusted::open_or_create(&self.path, PRIVATE)?;
        file.set_len(at)?;
        file.seek(SeekFrom::Start(at))?;
        let written = file.write_all(line).and_then(|()| if sync == Sync::Now { file.sync_all() } else { Ok(()) });
        if let Err(e) = written {
            // If this fails, the next writer truncates the file.
            let _ = file.set_len(at);
            return Err(e);
        }
        match self.path.parent() {
            Some(folder) if is_new => File::open(folder)?.sync_all(),
            _ => Ok(()),
        }
    }

    /// Returns the size of the file in bytes: a different size means that records were added.
    pub(crate) fn size(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |meta| meta.len())
    }

    fn failed(&self, what: &str, error: &io::Error) -> Error {
        let remedy = if error.kind() == ErrorKind::PermissionDenied { "; run as root" } else { "" };
        Error::Journal(format!("the journal {} {what}: {error}{remedy}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::tune::{
        ChangeOutcome, ChangedBy, Held, Reason, SettingChange, Status, Transaction, Undoing,
    };

    fn begin(id: u64) -> Record {
        let change = SettingChange {
            target: "vm.swappiness".into(),
            identity: String::new(),
            original: "60".into(),
            intended: "10".into(),
            collateral: Vec::new(),
        };
        Record::Begin(Transaction {
            id,
            at: "2026-01-01T00:00:00+00:00".into(),
            who: ChangedBy::default(),
            why: "test".into(),
            boot: "b".into(),
            confirm: None,
            persists: None,
            changes: vec![change],
        })
    }

    fn undone(id: u64, outcome: ChangeOutcome) -> Record {
        let undoing = Undoing { id, change: 0, target: "vm.swappiness".into(), original: "60".into(), outcome };
        Record::Undone { id, at: String::new(), because: Reason::Asked, outcomes: vec![undoing] }
    }

    #[test]
    fn what_was_written_is_read() {
        let folder = whyslow_testing::folder();
        let journal = Journal::in_folder(folder.path());
        assert_eq!(journal.read().unwrap(), Ledger::default());
        journal.append(&begin(1), Sync::Now).unwrap();
        assert_eq!(journal.read().unwrap().entries[0].status, Status::Open);
        let held = Held { value: "10".into(), collateral: Vec::new() };
        journal.append(&Record::Wrote { id: 1, change: 0, held }, Sync::Later).unwrap();
        journal.append(&Record::Done { id: 1 }, Sync::Now).unwrap();
        let ledger = journal.read().unwrap();
        assert_eq!((ledger.entries[0].status, ledger.next_id()), (Status::Applied, 2));
        assert_eq!(ledger.entries[0].held_value(0), Some("10"));
        journal.append(&undone(1, ChangeOutcome::Failed { why: "x".into() }), Sync::Now).unwrap();
        assert_eq!(journal.read().unwrap().entries[0].status, Status::PartlyUndone);
        assert_eq!(journal.read().unwrap().entries[0].outstanding(), [0]);
        journal.append(&undone(1, ChangeOutcome::Restored), Sync::Now).unwrap();
        assert_eq!(journal.read().unwrap().entries[0].status, Status::Undone);
    }

    #[test]
    fn a_torn_line_says_nothing_and_is_written_over() {
        let folder = whyslow_testing::folder();
        let journal = Journal::in_folder(folder.path());
        journal.append(&begin(1), Sync::Now).unwrap();
        let whole = fs::read(&journal.path).unwrap();
        for torn in [&b"{\"record\":\"done\",\"i"[..], b"{\"record\":\"done\",\"id\":1}", b"\0\0\0\0", b"\0\0\n\0"] {
            fs::write(&journal.path, [&whole, torn].concat()).unwrap();
            assert_eq!(journal.read().unwrap().entries[0].status, Status::Open, "{torn:?}");
            journal.append(&Record::Done { id: 1 }, Sync::Now).unwrap();
            assert_eq!(journal.read().unwrap().entries[0].status, Status::Applied, "{torn:?}");
        }
    }

    #[test]
    fn whole_lines_that_cannot_be_read_are_kept_and_named() {
        let folder = whyslow_testing::folder();
        let journal = Journal::in_folder(folder.path());
        journal.append(&begin(1), Sync::Now).unwrap();
        let first = fs::read(&journal.path).unwrap();
        // Lines of a later version, at the end and in the middle, and lines damaged by a disk.
        for line in [
            &b"{\"record\":\"sealed\",\"id\":7,\"by\":\"x\"}\n"[..],
            b"{\"record\":\"undone\",\"id\":7,\"because\":\"whim\"}\n",
            b"nonsense\n",
            b"\xff\0\n",
        ] {
            fs::write(&journal.path, [&first, line].concat()).unwrap();
            let journal = Journal::in_folder(folder.path());
            journal.append(&Record::Done { id: 1 }, Sync::Now).unwrap();
            assert!(fs::read(&journal.path).unwrap().starts_with(&[&first, line].concat()), "{line:?}");
            let ledger = journal.read().unwrap();
            assert_eq!((ledger.entries[0].status, ledger.unread.len()), (Status::Applied, 1), "{line:?}");
            assert_eq!(ledger.unread[0].line, 2);
            // The ID in such a line is not reused.
            assert_eq!(ledger.next_id(), if line.starts_with(b"{") { 8 } else { 2 }, "{line:?}");
        }
    }
}
