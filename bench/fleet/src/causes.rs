//! Checks that the statistics name the planted cause, and none in a healthy fleet.

use crate::simulate::{Cause, Fleet, simulate};
use serde::Serialize;
use std::fmt;
use whyslow_compare::fleet::{Cohort, Why, WhyVerdict};

/// Result for a fleet.
#[derive(Serialize)]
pub struct Trial {
    seed: u64,
    /// Planted cause; `None` in a healthy fleet.
    cause: Option<Cause>,
    planted: Option<String>,
    /// Share of the hosts with the cause that it makes sick.
    penetrance: Option<f64>,
    sick: usize,
    verdict: WhyVerdict,
    /// Rank of the planted cause among all named features except the role, from 1; 0 if not named.
    rank: usize,
    /// True if other features separate the same hosts.
    is_shared: bool,
    first: Option<String>,
    summary: String,
}

/// Results of all simulated fleets.
#[derive(Serialize)]
pub struct Causes {
    hosts: usize,
    trials: Vec<Trial>,
}

impl Causes {
    /// Simulates fleets with planted causes, each in turn, and as many without.
    pub fn measure(fleets: u64, first_seed: u64, hosts: usize) -> Self {
        let planted = (0..fleets).map(|n| (first_seed + n, Some(Cause::ALL[n as usize % Cause::ALL.len()])));
        let healthy = (0..fleets).map(|n| (first_seed + fleets + n, None));
        let trials = planted.chain(healthy).map(|(seed, cause)| trial(seed, hosts, cause)).collect();
        Self { hosts, trials }
    }

    fn planted(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.cause.is_some())
    }

    fn healthy(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.cause.is_none())
    }

    /// Returns whether the goals of issue 28 are met: planted causes first in 95 % of the fleets, no false cause.
    pub fn holds(&self) -> bool {
        let first = self.planted().filter(|trial| trial.rank == 1).count();
        let is_false = self.healthy().any(|trial| trial.verdict == WhyVerdict::Cause);
        first as f64 >= 0.95 * self.planted().count() as f64 && !is_false
    }
}

/// Returns what the statistics say about a fleet.
pub fn why(fleet: &Fleet) -> Why {
    let sick: Vec<bool> = fleet.hosts.iter().map(|host| host.is_sick).collect();
    let mut cohort = Cohort::new(&sick, "role");
    for (number, host) in fleet.hosts.iter().enumerate() {
        host.features.iter().chain(&host.changes).for_each(|feature| cohort.add(number, feature.clone()));
    }
    cohort.why()
}

fn trial(seed: u64, hosts: usize, cause: Option<Cause>) -> Trial {
    let fleet = simulate(seed, hosts, cause);
    let why = why(&fleet);
    // Inseparable features are ranked by the likelier kind; features that explain them equally well come after.
    let named = why.candidates.iter().flat_map(|one| one.features.iter().chain(&one.inseparable));
    let causes = named.filter(|feature| &*feature.name != "role");
    let rank = causes.clone().position(|feature| Some(feature) == fleet.planted.as_ref()).map_or(0, |at| at + 1);
    let is_shared = why.candidates.first().is_some_and(|first| first.features.len() + first.inseparable.len() > 1);
    Trial {
        seed,
        cause,
        planted: fleet.planted.as_ref().map(ToString::to_string),
        penetrance: cause.map(|_| fleet.penetrance),
        sick: why.sick,
        verdict: why.verdict,
        rank,
        is_shared,
        first: causes.clone().next().map(ToString::to_string),
        summary: why.summary.clone(),
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "fleets of {} hosts", self.hosts)?;
        for cause in Cause::ALL {
            let of: Vec<&Trial> = self.planted().filter(|trial| trial.cause == Some(cause)).collect();
            let count = |is: &dyn Fn(&Trial) -> bool| of.iter().filter(|trial| is(trial)).count();
            writeln!(
                f,
                "{:<9} planted in {:>2}: first in {:>2}, named as the cause in {:>2}, one of several in {:>2}",
                format!("{cause:?}").to_lowercase(),
                of.len(),
                count(&|trial| trial.rank == 1),
                count(&|trial| trial.rank == 1 && trial.verdict == WhyVerdict::Cause),
                count(&|trial| trial.rank >= 1 && trial.is_shared),
            )?;
        }
        let count = |verdict: WhyVerdict| self.healthy().filter(|trial| trial.verdict == verdict).count();
        writeln!(
            f,
            "healthy   {} fleets: false cause in {}, suspicion in {}, role in {}",
            self.healthy().count(),
            count(WhyVerdict::Cause),
            count(WhyVerdict::Suspicion),
            count(WhyVerdict::Marker),
        )?;
        let missed = self
            .trials
            .iter()
            .filter(|trial| if trial.cause.is_some() { trial.rank != 1 } else { trial.verdict == WhyVerdict::Cause });
        for trial in missed {
            writeln!(
                f,
                "seed {}: planted {}, rank {}, {} sick, {:?}: {}",
                trial.seed,
                trial.planted.as_deref().unwrap_or("nothing"),
                trial.rank,
                trial.sick,
                trial.verdict,
                trial.summary
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_causes_are_named_and_healthy_fleets_have_none() {
        let causes = Causes::measure(4, 1, 150);
        assert!(causes.planted().filter(|trial| trial.rank == 1).count() >= 3, "{causes}");
        assert_eq!(causes.healthy().filter(|trial| trial.verdict == WhyVerdict::Cause).count(), 0, "{causes}");
    }
}
