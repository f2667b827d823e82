//! A run that changes settings: it holds the lock, has rolled back the unfinished changes of earlier runs, and writes to the
//! journal before it writes to the kernel.

use crate::Error;
use crate::journal::{Journal, Ledger, Record, Sync};
use crate::lock::Lock;
use crate::machine::{self, Machine};
use crate::plan::{Plan, PlanItem};
use crate::store::TuneFolder;
use crate::system_setting::SystemSetting;
use crate::undo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use whyslow_documents::tune::{
    ChangedBy, Collateral, Confirm, Held, HistoryEntry, PlanStep, Reason, SettingChange, Status, Transaction,
    Unavailable, Undoing,
};
use whyslow_model::mask;

/// Starts the process that rolls a transaction back unless it is confirmed; that process must outlive this program.
pub type Guard<'a> = &'a dyn Fn(u64) -> Result<(), String>;

/// The terms on which changes are made.
#[derive(Default)]
pub struct Terms<'a> {
    /// The changes are rolled back unless confirmed within this time, by this guard.
    pub confirm: Option<(Duration, Guard<'a>)>,
    /// Rolls back trial changes at once if this program dies.
    pub guard: Option<Guard<'a>>,
    /// The transaction that these changes make persistent.
    pub persists: Option<u64>,
    /// Raised to end early; the changes are then rolled back.
    pub stop: Option<&'a AtomicBool>,
}

/// A run that may change settings. Only one exists at a time.
pub struct Session {
    machine: Machine,
    journal: Journal,
    ledger: Ledger,
    who: ChangedBy,
    recovered: Vec<(Reason, Undoing)>,
    _lock: Lock,
}

impl Session {
    /// Takes the lock, waiting at most `wait` for another run, or without limit, and rolls back unfinished or unconfirmed changes
    /// of earlier runs.
    ///
    /// # Errors
    /// Fails if the journal cannot be read or written, or another run is active.
    pub fn open(machine: &Machine, store: &TuneFolder, who: &ChangedBy, wait: Option<Duration>) -> Result<Self, Error> {
        store.prepare()?;
        let lock = Lock::take(store.folder(), who, wait)?;
        let journal = Journal::in_folder(store.folder());
        let ledger = journal.read()?;
        let mut session =
            Self { machine: machine.clone(), journal, ledger, who: who.clone(), recovered: Vec::new(), _lock: lock };
        session.recover()?;
        Ok(session)
    }

    /// Returns the changes of earlier runs that were rolled back when this one began, with the reasons.
    pub fn recovered(&self) -> &[(Reason, Undoing)] {
        &self.recovered
    }

    /// Returns every transaction, the oldest first.
    pub fn history(&self) -> &[HistoryEntry] {
        &self.ledger.entries
    }

    fn recover(&mut self) -> Result<(), Error> {
        let due: Vec<(u64, Reason)> =
            self.ledger.entries.iter().filter_map(|entry| due(entry, &self.machine)).collect();
        // The latest first, in the order of an undo: it may build on an earlier one.
        for (id, reason) in due.into_iter().rev() {
            let outcomes = self.roll_back(id, reason)?;
            self.recovered.extend(outcomes.into_iter().map(|outcome| (reason, outcome)));
        }
        Ok(())
    }

    /// Makes the changes of a plan: all, or none.
    ///
    /// # Errors
    /// Returns the reason why nothing was changed; [`Error::RolledBack`] or [`Error::Interrupted`] if changes were begun and
    /// rolled back.
    pub fn apply(&mut self, plan: &Plan, terms: &Terms) -> Result<HistoryEntry, Error> {
        let id = self.try_out(plan, terms)?;
        self.keep(id)?;
        Ok(self.entry(id)?.clone())
    }

    /// Makes the changes of a plan for the duration of this run: if it ends before they are kept, for whatever reason, they are
    /// rolled back. Returns the ID of the transaction.
    ///
    /// # Errors
    /// Fails like [`apply`](Self::apply).
    pub fn try_out(&mut self, plan: &Plan, terms: &Terms) -> Result<u64, Error> {
        let items: Vec<&PlanItem> = plan.changes().collect();
        let transaction = self.transaction(plan, &items, terms);
        let id = transaction.id;
        self.note(Record::Begin(transaction), Sync::Now)?;
        let made = self.guarded(id, terms).and_then(|()| self.make(id, &items, terms));
        made.map_err(|(reason, why)| self.gave_up(id, reason, why))?;
        Ok(id)
    }

    /// Keeps trial changes.
    ///
    /// # Errors
    /// Fails if the journal cannot be written; the changes were rolled back then.
    pub fn keep(&mut self, id: u64) -> Result<(), Error> {
        let noted = self.note(Record::Done { id }, Sync::Now);
        noted.map_err(|e| self.gave_up(id, Reason::Failed, e.to_string()))
    }

    fn gave_up(&mut self, id: u64, reason: Reason, why: String) -> Error {
        match self.roll_back(id, reason) {
            Ok(outcomes) if reason == Reason::Interrupted && all_clean(&outcomes) => Error::Interrupted,
            Ok(outcomes) => Error::RolledBack { why, outcomes },
            Err(e) => e,
        }
    }

    fn transaction(&self, plan: &Plan, items: &[&PlanItem], terms: &Terms) -> Transaction {
        let confirm = terms.confirm.as_ref().map(|(within, _)| Confirm {
            by: machine::after(*within),
            boottime_ns: u64::try_from((machine::boottime() + *within).as_nanos()).unwrap_or(u64::MAX),
        });
        Transaction {
            id: self.ledger.next_id(),
            at: machine::now(),
            who: self.who.clone(),
            why: mask::line(&plan.why),
            boot: self.machine.boot(),
            confirm,
            persists: terms.persists,
            changes: items.iter().filter_map(|item| change(item)).collect(),
        }
    }

    fn guarded(&self, id: u64, terms: &Terms) -> Result<(), (Reason, String)> {
        let Some(guard) = terms.confirm.map(|(_, guard)| guard).or(terms.guard) else { return Ok(()) };
        guard(id).map_err(|why| (Reason::Failed, format!("nothing would roll the change back: {why}")))
    }

    /// Writes each change and records the value that the kernel then shows; finally checks that all of them still hold.
    fn make(&mut self, id: u64, items: &[&PlanItem], terms: &Terms) -> Result<(), (Reason, String)> {
        let failed = |why: String| (Reason::Failed, why);
        let numbered: Vec<(usize, &SystemSetting, &str)> = items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| Some((at, item.setting.as_ref()?, item.line.wanted.as_str())))
            .collect();
        let is_stopped = || terms.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        let left = undo::in_passes(numbered.clone(), |(change, setting, value)| {
            if is_stopped() {
                return Err((Reason::Interrupted, "interrupted".to_owned()));
            }
            let (now, written) = setting.attempt(value);
            // Also records a value that the kernel adjusted: only recorded changes can be rolled back.
            if let Some(value) = now.filter(|now| written.is_ok() || !self.is_as_it_was(id, *change, now)) {
                let held = Held { value, collateral: self.collateral(id, *change) };
                self.note(Record::Wrote { id, change: *change, held }, Sync::Later)
                    .map_err(|e| failed(e.to_string()))?;
            }
            written.map_err(|why| failed(format!("{}: {}", setting.target, words(&why))))
        });
        if let Some((_, why)) = left.into_iter().next() {
            return Err(why);
        }
        numbered.iter().try_for_each(|(change, setting, _)| self.still_holds(id, *change, setting).map_err(failed))
    }

    /// Whether a setting still has its value from before the transaction, according to the journal.
    fn is_as_it_was(&self, id: u64, change: usize, now: &str) -> bool {
        let entry = self.ledger.find(id);
        entry.is_some_and(|entry| {
            entry.held[change].is_none() && entry.transaction.changes.get(change).is_some_and(|c| c.original == now)
        })
    }

    /// Returns the current value of each tunable that changed along with a change.
    fn collateral(&self, id: u64, change: usize) -> Vec<String> {
        let change = self.ledger.find(id).and_then(|entry| entry.transaction.changes.get(change));
        let sides = change.map_or(&[][..], |change| &change.collateral);
        let now =
            |side: &Collateral| SystemSetting::named(&self.machine, &side.target).and_then(|setting| setting.read());
        sides.iter().map(|side| now(side).unwrap_or_default()).collect()
    }

    /// Checks that a later change of the same transaction has not overwritten this one.
    fn still_holds(&self, id: u64, change: usize, setting: &SystemSetting) -> Result<(), String> {
        let held = self.ledger.find(id).and_then(|entry| entry.held_value(change)).unwrap_or_default();
        match setting.read() {
            Ok(now) if now == held => Ok(()),
            Ok(now) => Err(format!("{}: it was set to {held}, but another change made it {now}", setting.target)),
            Err(why) => Err(format!("{}: {why}", setting.target)),
        }
    }

    /// Rolls back the outstanding changes of a transaction, and with them the lines that make it survive a reboot.
    ///
    /// # Errors
    /// Fails if there is no such transaction.
    pub fn undo(&mut self, id: u64) -> Result<Vec<Undoing>, Error> {
        self.entry(id)?;
        let persists =
            |entry: &&HistoryEntry| entry.transaction.persists == Some(id) && !entry.outstanding().is_empty();
        let kept: Vec<u64> = self.ledger.entries.iter().filter(persists).map(|entry| entry.transaction.id).collect();
        let mut outcomes = Vec::new();
        for id in kept.into_iter().rev().chain([id]) {
            // Changes that were rolled back already stay so, with their original reason.
            if !self.entry(id)?.outstanding().is_empty() {
                outcomes.extend(self.roll_back(id, Reason::Asked)?);
            }
        }
        Ok(outcomes)
    }

    /// Rolls back trial changes.
    ///
    /// # Errors
    /// Fails if there is no such transaction.
    pub fn roll_back_trial(&mut self, id: u64) -> Result<Vec<Undoing>, Error> {
        self.roll_back(id, Reason::Tried)
    }

    /// Rolls back all outstanding changes, the latest first.
    ///
    /// # Errors
    /// Fails like [`undo`](Self::undo).
    pub fn undo_all(&mut self) -> Result<Vec<Undoing>, Error> {
        let mut outcomes = Vec::new();
        for id in self.outstanding().into_iter().rev() {
            outcomes.extend(self.roll_back(id, Reason::Asked)?);
        }
        Ok(outcomes)
    }

    /// Lists the transactions with changes that can be rolled back, the oldest first.
    pub fn outstanding(&self) -> Vec<u64> {
        let entries = self.ledger.entries.iter();
        entries.filter(|entry| !entry.outstanding().is_empty()).map(|entry| entry.transaction.id).collect()
    }

    /// Confirms a transaction, or all that await confirmation. Returns the confirmed transactions.
    ///
    /// # Errors
    /// Fails if there is none to confirm, or the journal cannot be written.
    pub fn confirm(&mut self, id: Option<u64>) -> Result<Vec<u64>, Error> {
        let waiting = awaiting_confirmation(self.history(), id);
        if waiting.is_empty() {
            let what = id.map_or("no change is waiting".to_owned(), |id| format!("change {id} is not waiting"));
            return Err(Error::Usage(format!(
                "{what} to be confirmed; 'whyslow tune history' shows the state of each"
            )));
        }
        for &id in &waiting {
            self.note(Record::Confirmed { id, at: machine::now() }, Sync::Now)?;
        }
        Ok(waiting)
    }

    /// Rolls back first and records afterwards: on a full disk the settings are still restored, and the next run finds that they
    /// are.
    fn roll_back(&mut self, id: u64, because: Reason) -> Result<Vec<Undoing>, Error> {
        let entry = self.entry(id)?.clone();
        let outcomes = undo::roll_back(&self.machine, &self.ledger.entries, &entry);
        let record = Record::Undone { id, at: machine::now(), because, outcomes: outcomes.clone() };
        if self.note(record.clone(), Sync::Now).is_err() {
            self.ledger.take(record);
        }
        Ok(outcomes)
    }

    fn note(&mut self, record: Record, sync: Sync) -> Result<(), Error> {
        self.journal.append(&record, sync)?;
        self.ledger.take(record);
        Ok(())
    }

    fn entry(&self, id: u64) -> Result<&HistoryEntry, Error> {
        let none = || Error::Usage(format!("there is no change {id}; 'whyslow tune history' lists them"));
        self.ledger.find(id).ok_or_else(none)
    }
}

/// Lists the transactions that await confirmation: all of them, or only the given one.
pub fn awaiting_confirmation(history: &[HistoryEntry], id: Option<u64>) -> Vec<u64> {
    let awaits =
        |entry: &&HistoryEntry| entry.status == Status::Unconfirmed && id.is_none_or(|id| entry.transaction.id == id);
    history.iter().filter(awaits).map(|entry| entry.transaction.id).collect()
}

/// Returns the transaction and the reason if it must be rolled back without a request: the program that began it died, or it was
/// not confirmed in time. A reboot does not confirm it.
pub(crate) fn due(entry: &HistoryEntry, machine: &Machine) -> Option<(u64, Reason)> {
    let transaction = &entry.transaction;
    let is_late = |confirm: &Confirm| {
        transaction.boot != machine.boot() || machine::boottime().as_nanos() >= u128::from(confirm.boottime_ns)
    };
    let reason = match entry.status {
        Status::Open => Reason::Crashed,
        Status::Unconfirmed if transaction.confirm.as_ref().is_some_and(is_late) => Reason::Unconfirmed,
        _ => return None,
    };
    Some((transaction.id, reason))
}

fn change(item: &PlanItem) -> Option<SettingChange> {
    let (Some(setting), PlanStep::Change { from }) = (&item.setting, &item.line.step) else { return None };
    let collateral = setting
        .disturbed()
        .into_iter()
        .filter_map(|side| Some(Collateral { target: side.target.to_string(), original: side.read().ok()? }));
    Some(SettingChange {
        target: item.line.target.clone(),
        identity: setting.identity(),
        original: from.clone(),
        intended: item.line.wanted.clone(),
        collateral: collateral.collect(),
    })
}

/// Returns the reason of a failed write, without saying that it failed.
fn words(why: &Unavailable) -> String {
    match why {
        Unavailable::Failed(why) => why.clone(),
        why => why.to_string(),
    }
}

/// Whether all rollbacks restored the original values.
pub fn all_clean(outcomes: &[Undoing]) -> bool {
    outcomes.iter().all(|undoing| undoing.outcome.is_clean())
}
