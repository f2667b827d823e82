//! The machine and its settings, changed and rolled back around a load.

use super::load::{Load, LoadResult, Meter, wait};
use super::run::MetricValues;
use super::{MetricSource, TestBed};
use crate::Error;
use crate::guardian;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::request::ChangeRequest;
use crate::session::{Guard, Session, Terms, all_clean};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use whyslow_documents::tune::HistoryEntry;

/// A change and the load it is tried under.
pub struct TrialSetup {
    /// Reason, for the history.
    pub why: String,
    /// The change.
    pub requests: Vec<ChangeRequest>,
    /// The load to measure under.
    pub load: Load,
    /// Origin of each metric's value, in the order of the design.
    pub measured: Vec<MetricSource>,
    /// Reads the live metrics.
    pub meter: Box<dyn Meter>,
}

/// Makes and rolls back changes around a load. Dropping it rolls back everything that was not kept; a guard does so if the
/// program dies.
pub struct LiveTestBed<'a> {
    session: Session,
    machine: Machine,
    around: TrialSetup,
    stop: Arc<AtomicBool>,
    /// The transaction under trial, while the change is made.
    made: Option<u64>,
    /// Transactions that stay in place as long as the test bed exists, the oldest first.
    standing: Vec<u64>,
    is_guarded: bool,
    tell: &'a dyn Fn(usize, usize),
}

impl<'a> LiveTestBed<'a> {
    /// Creates a test bed in a session that may change settings. `stop` is raised to end it early; `tell` is called for each
    /// measurement.
    pub fn new(
        machine: &Machine,
        session: Session,
        around: TrialSetup,
        stop: Arc<AtomicBool>,
        tell: &'a dyn Fn(usize, usize),
    ) -> Self {
        let machine = machine.clone();
        Self { session, machine, around, stop, made: None, standing: Vec::new(), is_guarded: false, tell }
    }

    /// Continues with another change. Rolls back the previous one, unless it was left in place.
    ///
    /// # Errors
    /// Fails if it could not be rolled back.
    pub fn turn_to(&mut self, around: TrialSetup) -> Result<(), Error> {
        self.switch(false)?;
        self.around = around;
        Ok(())
    }

    /// Makes the change once more, and leaves it in place until this is dropped, [`clear`](Self::clear)ed or kept.
    ///
    /// # Errors
    /// Fails if the change could not be made; nothing has changed then.
    pub fn let_stand(&mut self) -> Result<(), Error> {
        self.switch(true)?;
        self.standing.extend(self.made.take());
        Ok(())
    }

    /// Rolls back everything that was left in place, the latest first.
    ///
    /// # Errors
    /// Fails if a change could not be rolled back.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.switch(false)?;
        while let Some(id) = self.standing.pop() {
            self.roll_back(id)?;
        }
        Ok(())
    }

    /// Makes the change once more, permanently. Returns the ID of the transaction.
    ///
    /// # Errors
    /// Fails if the change could not be made; nothing has changed then.
    pub fn keep(&mut self) -> Result<u64, Error> {
        self.keep_noted(|_| Ok(()))
    }

    /// Makes the change permanently, but only if `note` succeeds.
    ///
    /// # Errors
    /// Fails if the change could not be made or noted; nothing has changed then.
    pub fn keep_noted(&mut self, note: impl FnOnce(&HistoryEntry) -> Result<(), Error>) -> Result<u64, Error> {
        self.switch(true)?;
        let nothing = || Error::Usage("there is nothing to keep".into());
        let id = self.made.ok_or_else(nothing)?;
        let entry = self.session.history().iter().find(|entry| entry.transaction.id == id);
        note(entry.ok_or_else(nothing)?)?;
        self.made = None;
        self.session.keep(id)?;
        Ok(id)
    }

    fn roll_back(&mut self, id: u64) -> Result<(), Error> {
        let outcomes = self.session.roll_back_trial(id)?;
        if all_clean(&outcomes) {
            return Ok(());
        }
        Err(Error::RolledBack { why: "another process changed settings meanwhile".into(), outcomes })
    }

    /// Reads a value for each metric, in the order of the design.
    fn read_metrics(&mut self) -> Result<MetricValues, Error> {
        let read = self.around.measured.contains(&MetricSource::Number);
        self.around.meter.start();
        let done = self.around.load.run(read, &mut *self.around.meter, &self.stop);
        let live = self.around.meter.stop();
        let done = done?;
        if let (true, Load::Command(words), Some(LoadResult { number: None, .. })) = (read, &self.around.load, &done) {
            return Err(Error::Usage(format!("{} prints no number", words[0])));
        }
        let mut live = live.into_iter();
        let value = |measured: &MetricSource| match measured {
            MetricSource::Time => done.as_ref().map(|done| done.time),
            MetricSource::Number => done.as_ref().and_then(|done| done.number),
            MetricSource::Live => live.next().flatten(),
        };
        Ok(self.around.measured.iter().map(value).collect())
    }
}

impl TestBed for LiveTestBed<'_> {
    fn switch(&mut self, with: bool) -> Result<(), Error> {
        match (with, self.made.take()) {
            (true, None) => {
                let plan = Plan::new(&self.machine, &self.around.why, &self.around.requests);
                plan.all_possible()?;
                // One guard is enough: it waits for the lock, and finds the change under trial when this program is gone.
                let guard = (!self.is_guarded).then_some(&guardian::start as Guard);
                let terms = Terms { guard, stop: Some(&self.stop), ..Terms::default() };
                self.made = Some(self.session.try_out(&plan, &terms)?);
                self.is_guarded = true;
            }
            (false, Some(id)) => self.roll_back(id)?,
            (_, made) => self.made = made,
        }
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> Result<(), Error> {
        wait(time, &self.stop, || ())
    }

    fn measure(&mut self, step: usize, steps: usize) -> Result<MetricValues, Error> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        (self.tell)(step, steps);
        self.read_metrics()
    }
}

impl Drop for LiveTestBed<'_> {
    fn drop(&mut self) {
        for id in self.made.take().into_iter().chain(self.standing.drain(..).rev()) {
            // If it cannot be rolled back now, it stays in the journal as begun: the next run tries again, and reports it.
            let _ = self.session.roll_back_trial(id);
        }
    }
}
