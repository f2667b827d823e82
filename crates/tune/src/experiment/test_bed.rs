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
use whyslow_model::tune::HistoryEntry;

/// A change and the load it is tried under.
pub struct TrialSetup {
    /// What for, for the history.
    pub why: String,
    /// The change.
    pub requests: Vec<ChangeRequest>,
    /// What is measured under.
    pub load: Load,
    /// Where the value of each metric of the design comes from, in its order.
    pub measured: Vec<MetricSource>,
    /// What reads the live ones among them.
    pub meter: Box<dyn Meter>,
}

/// Makes and rolls back changes around a load. However it is dropped, all is rolled back that was not kept; a guard does so
/// where the program dies.
pub struct LiveTestBed<'a> {
    session: Session,
    machine: Machine,
    around: TrialSetup,
    stop: Arc<AtomicBool>,
    /// The change that is being tried, while it is made.
    made: Option<u64>,
    /// Changes that stand for as long as this does, the oldest first.
    standing: Vec<u64>,
    is_guarded: bool,
    tell: &'a dyn Fn(usize, usize),
}

impl<'a> LiveTestBed<'a> {
    /// With the run that may change settings. `stop` is raised where it shall end early; `tell` hears of each measurement.
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

    /// Goes on with another change. What was tried before is rolled back, unless it stands.
    ///
    /// # Errors
    /// It could not be rolled back.
    pub fn turn_to(&mut self, around: TrialSetup) -> Result<(), Error> {
        self.switch(false)?;
        self.around = around;
        Ok(())
    }

    /// Makes the change once more, and lets it stand until this is dropped, [`clear`](Self::clear)ed or kept.
    ///
    /// # Errors
    /// It could not be made; all is as it was.
    pub fn let_stand(&mut self) -> Result<(), Error> {
        self.switch(true)?;
        self.standing.extend(self.made.take());
        Ok(())
    }

    /// Rolls back all that stands, the latest first.
    ///
    /// # Errors
    /// It could not be.
    pub fn clear(&mut self) -> Result<(), Error> {
        self.switch(false)?;
        while let Some(id) = self.standing.pop() {
            self.roll_back(id)?;
        }
        Ok(())
    }

    /// Makes the change once more, for good; the number of the transaction.
    ///
    /// # Errors
    /// It could not be made; all is as it was.
    pub fn keep(&mut self) -> Result<u64, Error> {
        self.keep_noted(|_| Ok(()))
    }

    /// The same, where `note` has to succeed before it is for good.
    ///
    /// # Errors
    /// It could not be made or noted; all is as it was.
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

    /// A value for each metric, in the order of the design.
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
                let plan = Plan::of(&self.machine, &self.around.why, &self.around.requests);
                plan.all_possible()?;
                // One guard is enough: it waits for the lock, and finds whatever is being tried when this program is gone.
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
            // What cannot be rolled back now stands in the journal as begun: the next run tries again, and says so.
            let _ = self.session.roll_back_trial(id);
        }
    }
}
