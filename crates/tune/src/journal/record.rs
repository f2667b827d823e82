//! Records of the journal, line by line.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use whyslow_documents::tune::{ChangeOutcome, Held, HistoryEntry, Reason, Status, Transaction, Undoing};
use whyslow_model::mask;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum Record {
    /// Planned changes; written to the disk before any of them is made.
    Begin(Transaction),
    /// A change was made, and this value was read back.
    Wrote { id: u64, change: usize, held: Held },
    /// All changes were made.
    Done { id: u64 },
    /// The transaction was confirmed.
    Confirmed { id: u64, at: String },
    /// The transaction was rolled back.
    Undone { id: u64, at: String, because: Reason, outcomes: Vec<Undoing> },
}

/// State after all records: every transaction with its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) entries: Vec<HistoryEntry>,
    /// Complete lines that are not known records.
    pub(crate) unread: Vec<Unread>,
}

/// A line of the journal that this version cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Line number, from 1.
    pub line: usize,
    /// The kind it names, if it is a record of another version.
    pub kind: Option<String>,
    /// ID of the change that it names, if any.
    pub id: Option<u64>,
}

impl Ledger {
    /// Applies one record. Ignores one that refers to no transaction.
    pub(crate) fn take(&mut self, record: Record) {
        match record {
            Record::Begin(mut transaction) => {
                // Records of earlier versions may contain secrets.
                transaction.who.command = mask::line(&transaction.who.command);
                transaction.why = mask::line(&transaction.why);
                self.entries.push(HistoryEntry::begun(transaction));
            }
            Record::Wrote { id, change, held } => {
                if let Some(place) = self.find_mut(id).and_then(|entry| entry.held.get_mut(change)) {
                    *place = Some(held);
                }
            }
            Record::Done { id } => self.update(id, |entry| {
                entry.status = if entry.transaction.confirm.is_some() { Status::Unconfirmed } else { Status::Applied };
            }),
            Record::Confirmed { id, .. } => self.update(id, |entry| {
                if entry.status == Status::Unconfirmed {
                    entry.status = Status::Applied;
                }
            }),
            Record::Undone { id, because, outcomes, .. } => self.update(id, |entry| undone(entry, because, outcomes)),
        }
    }

    /// Stores a line that is not a known record.
    pub(crate) fn keep_unread(&mut self, line: usize, text: &[u8]) {
        let value: Value = serde_json::from_slice(text).unwrap_or_default();
        let is_word = |kind: &&str| kind.len() <= 40 && kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        let kind = value.get("record").and_then(Value::as_str).filter(is_word).map(str::to_owned);
        self.unread.push(Unread { line, kind, id: value.get("id").and_then(Value::as_u64) });
    }

    fn update(&mut self, id: u64, change: impl FnOnce(&mut HistoryEntry)) {
        if let Some(entry) = self.find_mut(id) {
            change(entry);
        }
    }

    fn find_mut(&mut self, id: u64) -> Option<&mut HistoryEntry> {
        self.entries.iter_mut().rev().find(|entry| entry.transaction.id == id)
    }

    pub(crate) fn find(&self, id: u64) -> Option<&HistoryEntry> {
        self.entries.iter().rev().find(|entry| entry.transaction.id == id)
    }

    /// Returns the ID of the next transaction.
    pub(crate) fn next_id(&self) -> u64 {
        let unread = self.unread.iter().filter_map(|line| line.id);
        self.entries.iter().map(|entry| entry.transaction.id).chain(unread).max().unwrap_or(0).saturating_add(1)
    }
}

/// Records the outcomes of a rollback; the last attempt of each change counts.
fn undone(entry: &mut HistoryEntry, because: Reason, outcomes: Vec<Undoing>) {
    for outcome in outcomes {
        entry.undone.retain(|earlier| earlier.change != outcome.change);
        entry.undone.push(outcome);
    }
    entry.undone.sort_by_key(|undoing| undoing.change);
    entry.undone_because = Some(because);
    let outstanding = entry.outstanding();
    let clean = entry.undone.iter().all(|undoing| undoing.outcome.is_clean());
    entry.status = match entry.status {
        _ if outstanding.is_empty() && clean => Status::Undone,
        // The attempt had no effect: the change is still in place, but no longer open.
        Status::Unconfirmed
            if entry.undone.iter().all(|undoing| matches!(undoing.outcome, ChangeOutcome::Superseded { .. })) =>
        {
            Status::Applied
        }
        _ => Status::PartlyUndone,
    };
}
