//! Plan of a run: which trials, how often, and with which features hidden from whyslow.

use crate::bench::{self, BenchTrial};
use crate::blind::Blind;
use crate::error::{Error, Result};
use crate::observer::Observer;
use crate::run;
use crate::trial::{Mark, Outcome, Trial};
use crate::trials;
use crate::vm::Images;
use std::time::Duration;

pub struct Plan {
    pub trials: Vec<&'static Trial>,
    pub bench_trials: Vec<&'static BenchTrial>,
    /// First seed; later rounds use the following ones.
    pub seed: u64,
    /// Number of seeds for which all trials are run.
    pub seeds: u64,
    /// Features to hide: if there are any, every trial is run without each of them, and no benchmark is run.
    pub blind: Vec<Blind>,
    /// Total observation time: the trials are repeated with new seeds until it is reached.
    pub total: Option<Duration>,
}

/// Selection of trials.
pub struct Selection<'a> {
    /// Names of trials; empty for all.
    pub only: &'a [String],
    /// Only the quick subset.
    pub quick: bool,
    /// Only healthy controls.
    pub controls: bool,
    /// Only faults.
    pub faults: bool,
    /// Whether they run in virtual machines, which some of them need.
    pub in_vm: bool,
}

impl Selection<'_> {
    /// Returns the selected trials and benchmarks.
    ///
    /// # Errors
    /// Fails if a name matches no trial.
    pub fn trials(&self) -> Result<(Vec<&'static Trial>, Vec<&'static BenchTrial>)> {
        let exists = |name: &str| trials::all().any(|t| t.name == name) || bench::TRIALS.iter().any(|t| t.name == name);
        if let Some(unknown) = self.only.iter().find(|name| !exists(name)) {
            return Err(Error::failed(format!("no trial is called {unknown}: see whyslow-lab --list")));
        }
        let is_named = |name: &str| self.only.is_empty() || self.only.iter().any(|n| n == name);
        let is_of_kind = |t: &Trial| if t.finding.is_none() { !self.faults } else { !self.controls };
        let is_at_home = |t: &Trial| !self.only.is_empty() || t.vm.is_some() == self.in_vm;
        let is_wanted = |t: &Trial| is_named(t.name) && (t.quick || !self.quick) && is_of_kind(t) && is_at_home(t);
        let trials = trials::all().filter(|t| is_wanted(t));
        let has_benchmarks = !(self.quick || self.controls || self.faults || self.in_vm);
        let bench_trials = bench::TRIALS.iter().filter(|t| is_named(t.name) && has_benchmarks);
        Ok((trials.collect(), bench_trials.collect()))
    }
}

impl Plan {
    /// Runs everything; calls `report` with each outcome.
    ///
    /// # Errors
    /// Returns only [`Error::Interrupted`].
    pub fn run(&self, observer: &Observer, mut report: impl FnMut(&Outcome)) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let mut observed = Duration::ZERO;
        for round in 0.. {
            let before = observed;
            for (trial, observer) in self.round(observer) {
                let outcome = run::run(trial, self.seed.wrapping_add(round), &observer)?;
                if outcome.mark != Mark::Skipped {
                    observed += Duration::from_secs(observer.seconds);
                }
                report(&outcome);
                outcomes.push(outcome);
                if self.total.is_some_and(|total| observed >= total) {
                    return Ok(outcomes);
                }
            }
            // After a round in which everything was skipped, the next ones would be the same.
            let is_last = self.total.map_or(round + 1 >= self.seeds, |_| observed == before);
            if is_last {
                break;
            }
        }
        if self.blind.is_empty() {
            for trial in &self.bench_trials {
                let outcome = trial.run(self.seed, observer)?;
                report(&outcome);
                outcomes.push(outcome);
            }
        }
        Ok(outcomes)
    }

    /// Runs the trials on the kernels of these Debian suites, each trial in a separate virtual machine.
    ///
    /// # Errors
    /// Returns [`Error::Interrupted`], and fails if there are no images of a suite.
    pub fn run_in_vms(
        &self,
        images: &Images,
        suites: &[String],
        observer: &Observer,
        mut report: impl FnMut(&Outcome),
    ) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for suite in suites {
            let guest = images.guest(suite, observer.to_args())?;
            for seed in (0..self.seeds).map(|round| self.seed.wrapping_add(round)) {
                for trial in &self.trials {
                    let outcome = guest.run(trial, seed, observer.observes())?;
                    report(&outcome);
                    outcomes.push(outcome);
                }
            }
        }
        Ok(outcomes)
    }

    /// Returns all trials of one seed, each with its observer.
    fn round<'a>(&'a self, observer: &Observer) -> Vec<(&'a Trial, Observer)> {
        let observers: Vec<Observer> = if self.blind.is_empty() {
            vec![observer.clone()]
        } else {
            self.blind.iter().map(|blind| Observer { without: Some(*blind), ..observer.clone() }).collect()
        };
        let of_each = |observer: Observer| self.trials.iter().map(move |trial| (*trial, observer.clone()));
        observers.into_iter().flat_map(of_each).collect()
    }
}
