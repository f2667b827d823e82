//! Changes that whyslow itself made, from the journal next to a recording.

use jiff::Timestamp;
use whyslow_documents::tune::HistoryEntry;
use whyslow_model::inventory::MachineChange;
use whyslow_store::{Recording, TimeRange};
use whyslow_tune::{TuneFolder, history};

/// Folder of the journal, next to recordings of the same machine.
const JOURNAL: &str = "tune";
const KIND: &str = "tuning";

/// Returns the changes begun in a span; none if the journal cannot be read, which only root can.
pub fn changes(recording: &Recording, span: &TimeRange) -> Vec<MachineChange> {
    let journal = recording.path().map(|folder| TuneFolder::at(&folder.join(JOURNAL)));
    let entries = journal.and_then(|journal| history(&journal).ok()).unwrap_or_default();
    entries.iter().flat_map(of_entry).filter(|change| span.contains(&change.at)).collect()
}

fn of_entry(entry: &HistoryEntry) -> Vec<MachineChange> {
    let at = entry.transaction.at.parse::<Timestamp>().ok().and_then(|at| i64::try_from(at.as_nanosecond()).ok());
    let Some(at) = at else { return Vec::new() };
    let made = entry.transaction.changes.iter().zip(&entry.held);
    made.filter_map(|(change, held)| {
        Some(MachineChange {
            at,
            kind: KIND.into(),
            name: change.target.as_str().into(),
            old: Some(change.original.as_str().into()),
            new: Some(held.as_ref()?.value.as_str().into()),
        })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_that_were_made_are_listed() {
        let change = |target: &str| json!({ "target": target, "original": "60", "intended": "10" });
        let entry = json!({
            "id": 1, "at": "2026-11-21T16:45:00Z", "who": { "uid": 0, "pid": 1, "command": "whyslow tune set" }, "why": "", "boot": "b",
            "changes": [change("vm.swappiness"), change("vm.dirty_ratio")],
            "status": "partly-undone", "held": [{ "value": "10" }, null], "undone": [],
        });
        let changes = of_entry(&serde_json::from_value(entry).unwrap());
        assert_eq!(changes.len(), 1, "the other was not made: {changes:?}");
        assert_eq!(
            (changes[0].at, changes[0].in_words()),
            (1_795_279_500_000_000_000, "tuning vm.swappiness: was 60, is 10".to_owned())
        );
    }
}
