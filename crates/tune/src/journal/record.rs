//! What the journal holds, line by line.

use serde::{Deserialize, Serialize};
use whyslow_model::tune::{Held, HistoryEntry, Outcome, Reason, Status, Transaction, Undoing};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum Record {
    /// What will be done; on the disk before anything is.
    Begin(Transaction),
    /// A change was made, and this is what was read back.
    Wrote { id: u64, change: usize, held: Held },
    /// All changes were made.
    Done { id: u64 },
    /// Somebody confirmed it.
    Confirmed { id: u64, at: String },
    /// It was taken back.
    Undone { id: u64, at: String, because: Reason, outcomes: Vec<Undoing> },
}

/// What the records come to: every transaction with what became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) entries: Vec<HistoryEntry>,
}

impl Ledger {
    /// Takes in one record. One that refers to no transaction says nothing.
    pub(crate) fn take(&mut self, record: Record) {
        match record {
            Record::Begin(transaction) => self.entries.push(HistoryEntry::begun(transaction)),
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

    /// The number of the next transaction.
    pub(crate) fn next_id(&self) -> u64 {
        self.entries.iter().map(|entry| entry.transaction.id).max().unwrap_or(0) + 1
    }
}

/// The last attempt of each change counts.
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
        // Nothing came of the attempt: it stands as it stood, but is no longer open.
        Status::Unconfirmed
            if entry.undone.iter().all(|undoing| matches!(undoing.outcome, Outcome::Superseded { .. })) =>
        {
            Status::Applied
        }
        _ => Status::PartlyUndone,
    };
}
