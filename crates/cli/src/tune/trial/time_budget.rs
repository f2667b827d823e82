//! Division of the time of an experiment.

use std::time::Duration;
use whyslow_tune::experiment::PAUSE;

/// Minimum time over which a signal of the machine is measured.
const SHORTEST: Duration = Duration::from_millis(250);
/// Default length of a measurement, without a total time.
const USUAL: Duration = Duration::from_secs(10);

/// Division of the time of a trial.
#[derive(Clone, Copy, Debug)]
pub struct TimeBudget {
    /// Number of pairs with and without the change.
    pub pairs: usize,
    pub noise_pairs: usize,
    /// Waiting time after each switch.
    pub settle: Duration,
}

impl TimeBudget {
    /// Returns the number of measurements.
    pub fn measurements(self) -> u32 {
        u32::try_from(2 * (self.pairs + self.noise_pairs) + 1).unwrap_or(u32::MAX)
    }

    /// Returns the time without measurements: each pair contains one switch, and at most one more comes between two
    /// pairs.
    pub fn waiting(self) -> Duration {
        self.settle * u32::try_from(2 * self.pairs).unwrap_or(u32::MAX) + PAUSE * self.measurements()
    }

    /// Returns the minimum total time, without a command.
    pub fn least(self) -> Duration {
        self.total(SHORTEST)
    }

    /// Returns the total time if each measurement takes `block`.
    pub fn total(self, block: Duration) -> Duration {
        self.waiting() + block * self.measurements()
    }

    /// Returns the length of each measurement such that the total does not exceed `time`.
    pub fn block(self, time: Option<Duration>) -> Result<Duration, String> {
        let Some(time) = time else { return Ok(USUAL.max(self.settle)) };
        let block = time.saturating_sub(self.waiting()) / self.measurements();
        if block >= SHORTEST {
            return Ok(block);
        }
        Err(format!(
            "{} s is too short: {} pairs with {} s of waiting after each switch take at least {} s",
            time.as_secs_f64(),
            self.pairs,
            self.settle.as_secs_f64(),
            self.least().as_secs_f64().ceil()
        ))
    }

    /// Returns how many pairs of runs of a command fit into `time`, at most the requested number.
    pub fn pairs_within(self, time: Duration, run: Duration) -> usize {
        let run = run + PAUSE;
        let left = time.saturating_sub(run * u32::try_from(2 * self.noise_pairs + 1).unwrap_or(u32::MAX));
        let each = 2.0 * (run + self.settle).as_secs_f64();
        ((left.as_secs_f64() / each.max(1e-3)) as usize).min(self.pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(f64) -> Duration = Duration::from_secs_f64;

    #[test]
    fn time_is_divided_over_what_is_measured() {
        let time_budget = TimeBudget { pairs: 10, noise_pairs: 4, settle: S(2.0) };
        assert_eq!(time_budget.block(None), Ok(S(10.0)));
        // Twenty switches, and 29 measurements with a pause before each.
        assert_eq!(time_budget.block(Some(S(40.0 + 29.0 * 3.1))), Ok(S(3.0)));
        assert!(time_budget.block(Some(S(45.0))).unwrap_err().contains("at least 51 s"));
        assert_eq!(TimeBudget { settle: S(30.0), ..time_budget }.block(None), Ok(S(30.0)));
    }

    #[test]
    fn as_many_runs_as_fit() {
        let time_budget = TimeBudget { pairs: 10, noise_pairs: 2, settle: S(1.0) };
        assert_eq!(time_budget.pairs_within(S(1000.0), S(0.9)), 10);
        assert_eq!(time_budget.pairs_within(S(5.0 + 4.0 * 7.1), S(0.9)), 7);
        assert_eq!(time_budget.pairs_within(S(3.0), S(0.9)), 0);
    }
}
