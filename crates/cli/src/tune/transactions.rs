//! Rolls back, persists and confirms changes.

use super::args::How;
use super::{Tune, failure, no_change, status};
use crate::output::Failure;
use std::process::ExitCode;
use whyslow_documents::tune::{HistoryEntry, Status};
use whyslow_show::text::tune as text;
use whyslow_tune::{all_clean, awaiting_confirmation};

impl Tune<'_> {
    pub(super) fn undo(&self, id: Option<u64>, all: bool, dry_run: bool) -> Result<ExitCode, Failure> {
        if dry_run {
            return self.foresee(id, all);
        }
        let mut session = self.session()?;
        let outcomes = match id.or_else(|| session.outstanding().last().copied()) {
            _ if all => session.undo_all(),
            Some(id) => session.undo(id),
            None => Ok(Vec::new()),
        };
        let outcomes = outcomes.map_err(failure)?;
        self.tell(&outcomes, |style| text::undone(&outcomes, false, style))?;
        Ok(status(all_clean(&outcomes)))
    }

    fn foresee(&self, id: Option<u64>, all: bool) -> Result<ExitCode, Failure> {
        let history = whyslow_tune::history(&self.store).map_err(failure)?;
        let standing: Vec<u64> =
            history.iter().filter(|entry| !entry.outstanding().is_empty()).map(|entry| entry.transaction.id).collect();
        let ids = match id.or_else(|| standing.last().copied()) {
            _ if all => standing,
            Some(id) if history.iter().all(|entry| entry.transaction.id != id) => return Err(no_change(id)),
            id => id.into_iter().collect(),
        };
        let outcomes = whyslow_tune::foresee(&self.machine, &history, &ids);
        self.tell(&outcomes, |style| text::undone(&outcomes, true, style))?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn persist(&self, id: Option<u64>, how: &How) -> Result<ExitCode, Failure> {
        let of = |history: &[HistoryEntry]| {
            let standing = |entry: &&HistoryEntry| {
                let is_it = id.is_none_or(|id| entry.transaction.id == id);
                is_it && entry.transaction.persists.is_none() && !entry.outstanding().is_empty()
            };
            let nothing = "no such change is in effect; 'whyslow tune history' shows the state of each";
            let entry = history.iter().rev().find(standing).cloned().ok_or_else(|| Failure::usage(nothing))?;
            let id = entry.transaction.id;
            match entry.status {
                Status::Unconfirmed => Err(Failure::usage(format!(
                    "change {id} is not confirmed yet: run 'whyslow tune confirm {id}' first"
                ))),
                _ => Ok(entry),
            }
        };
        if how.dry_run {
            let entry = of(&whyslow_tune::history(&self.store).map_err(failure)?)?;
            return self.rehearse(&whyslow_tune::persist_plan(&self.machine, &entry), how);
        }
        let mut session = self.session()?;
        let entry = of(session.history())?;
        let plan = whyslow_tune::persist_plan(&self.machine, &entry);
        self.apply(&mut session, &plan, how, Some(entry.transaction.id))?;
        Ok(status(plan.all_possible().is_ok()))
    }

    pub(super) fn confirm(&self, id: Option<u64>, dry_run: bool) -> Result<ExitCode, Failure> {
        if dry_run {
            let history = whyslow_tune::history(&self.store).map_err(failure)?;
            let waiting = awaiting_confirmation(&history, id);
            self.tell(&waiting, |_| waiting.iter().map(|id| format!("change {id} would be confirmed\n")).collect())?;
            return Ok(ExitCode::SUCCESS);
        }
        let confirmed = self.session()?.confirm(id).map_err(failure)?;
        self.tell(&confirmed, |_| confirmed.iter().map(|id| format!("change {id} is confirmed\n")).collect())?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn guard(&self, id: u64) -> Result<ExitCode, Failure> {
        whyslow_tune::guard(&self.machine, &self.store, id).map_err(failure)?;
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn recover(&self, dry_run: bool) -> Result<ExitCode, Failure> {
        let outcomes = if dry_run {
            whyslow_tune::unfinished(&self.machine, &self.store).map_err(failure)?
        } else {
            self.open()?.recovered().iter().map(|(_, undoing)| undoing.clone()).collect()
        };
        self.tell(&outcomes, |style| text::undone(&outcomes, dry_run, style))?;
        Ok(status(dry_run || all_clean(&outcomes)))
    }
}
