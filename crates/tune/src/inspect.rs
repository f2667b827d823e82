//! Shows settings and past changes; nothing here changes anything.

use crate::Error;
use crate::catalogue::{Catalogue, PERSIST};
use crate::journal::{Journal, Unread};
use crate::lock;
use crate::machine::Machine;
use crate::session::due;
use crate::store::TuneFolder;
use crate::system_setting::{self, SystemSetting};
use crate::target::ChangeTarget;
use crate::undo;
use whyslow_documents::tune::{CheckLine, Here, HistoryEntry, Status, TunableDocument, Unavailable, Undoing};

/// Lists every tunable of the catalogue whose name (here or on another Unix system), meaning or use contains a word, with its
/// values here.
pub fn tunables(machine: &Machine, word: Option<&str>) -> Vec<TunableDocument> {
    let word = word.map(str::to_lowercase).unwrap_or_default();
    let entries = Catalogue::built_in().entries().iter();
    entries
        .filter(|entry| {
            let tunable = &entry.tunable;
            let texts =
                [&tunable.name, &tunable.means, &tunable.used_for].into_iter().chain(tunable.elsewhere.values());
            texts.map(|text| text.to_lowercase()).any(|text| text.contains(&word))
        })
        .map(|entry| TunableDocument {
            tunable: entry.tunable.clone(),
            here: system_setting::here(machine, entry, None),
        })
        .collect()
}

/// Returns one tunable with its value here: for the named instance, or for each one.
///
/// # Errors
/// Fails if it is not a tunable, or if it is not in the catalogue and this machine has no such setting.
pub fn tunable(machine: &Machine, target: &ChangeTarget) -> Result<TunableDocument, Error> {
    let (entry, target) = Catalogue::built_in().resolve(target, machine).map_err(Error::Usage)?;
    let here = system_setting::here(machine, &entry, target.instance.as_deref());
    // Nothing is known about a setting that is neither in the catalogue nor on this machine.
    if let [Here { unavailable: Some(why @ Unavailable::Unsupported(_)), .. }] = here.as_slice()
        && Catalogue::built_in().is_unknown(&target.name)
    {
        return Err(Error::Unavailable { target: target.to_string(), why: why.clone() });
    }
    Ok(TunableDocument { tunable: entry.tunable.clone(), here })
}

/// Returns the value of a setting.
///
/// # Errors
/// Returns the reason why it has no value here.
pub fn get(machine: &Machine, target: &ChangeTarget) -> Result<String, Error> {
    let read = SystemSetting::for_target(machine, target).and_then(|setting| setting.read());
    read.map_err(|why| Error::Unavailable { target: target.to_string(), why })
}

/// Checks whether the settings that we changed still have our values.
pub fn check(machine: &Machine, history: &[HistoryEntry]) -> Vec<CheckLine> {
    let mut lines: Vec<CheckLine> = Vec::new();
    for entry in history {
        for at in entry.outstanding() {
            let line = check_line(machine, history, entry, at);
            // A setting that was changed again later should have the later value.
            lines.retain(|earlier| earlier.target != line.target);
            lines.push(line);
        }
    }
    lines
}

fn check_line(machine: &Machine, history: &[HistoryEntry], entry: &HistoryEntry, at: usize) -> CheckLine {
    let change = &entry.transaction.changes[at];
    let wanted = entry.held_value(at).unwrap_or_default().to_owned();
    let read = SystemSetting::of_change(machine, change).and_then(|setting| setting.read());
    let (now, unavailable) = match read {
        Ok(now) => (Some(now), None),
        Err(why) => (None, Some(why)),
    };
    let holds = now.as_ref() == Some(&wanted);
    CheckLine {
        id: Some(entry.transaction.id),
        target: change.target.clone(),
        reset: !holds && now.as_ref().is_some_and(|now| undo::is_reset(machine, history, entry, at, now)),
        holds,
        original: Some(change.original.clone()),
        wanted,
        now,
        unavailable,
        is_kept: change.target.starts_with(PERSIST),
    }
}

/// Predicts the outcome of rolling back each outstanding change of several transactions now, the latest first.
pub fn foresee(machine: &Machine, history: &[HistoryEntry], ids: &[u64]) -> Vec<Undoing> {
    let wanted =
        history.iter().rev().filter(|entry| ids.contains(&entry.transaction.id) && entry.status != Status::Open);
    wanted.flat_map(|entry| undo::foresee(machine, history, entry)).collect()
}

/// Reads every transaction in a journal, the oldest first; takes no lock.
///
/// # Errors
/// Fails if the journal cannot be read.
pub fn history(store: &TuneFolder) -> Result<Vec<HistoryEntry>, Error> {
    Ok(Journal::in_folder(store.folder()).read()?.entries)
}

/// Returns lines of the journal that this version cannot read. They are preserved.
///
/// # Errors
/// Fails if the journal cannot be read.
pub fn unread(store: &TuneFolder) -> Result<Vec<Unread>, Error> {
    Ok(Journal::in_folder(store.folder()).read()?.unread)
}

/// Predicts the outcome for transactions that wait to be rolled back while no run is active, the latest first.
///
/// # Errors
/// Fails if the journal cannot be read.
pub fn unfinished(machine: &Machine, store: &TuneFolder) -> Result<Vec<Undoing>, Error> {
    if !lock::is_free(store.folder()) {
        return Ok(Vec::new());
    }
    let history = history(store)?;
    let waiting = history.iter().rev().filter(|entry| due(entry, machine).is_some());
    Ok(waiting.flat_map(|entry| undo::foresee(machine, &history, entry)).collect())
}
