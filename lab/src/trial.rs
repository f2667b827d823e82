//! A fault or healthy control, and how it went.

use crate::error::{Error, Result};
use crate::expect::Expect;
use crate::testbed::Testbed;
use serde::Serialize;
use std::time::Instant;

/// One row of the tables in `trials/`: a fault, or a healthy control that resembles one.
pub struct Trial {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Whether it belongs to the quick subset.
    pub quick: bool,
    /// The id of the finding that must come first; `None` for a healthy control.
    pub finding: Option<&'static str>,
    /// Look-alikes of the fault: ids that must not be found with high confidence, unless another finding explains them.
    /// On a healthy control this holds for every id.
    pub never: &'static [&'static str],
    /// Resources that must not be ruled out.
    pub not_ruled_out: &'static [&'static str],
    /// On a healthy control: ids that may be found, with an impact of at most [`SLIGHT`](crate::judge::SLIGHT).
    pub slightly: &'static [&'static str],
    /// Starts the fault or the control, with parameters from the testbed's seed.
    pub setup: fn(&mut Testbed) -> Result<Expect>,
}

/// How a trial went.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The trial's name.
    pub name: &'static str,
    /// What was expected, in words.
    pub expected: String,
    /// What was found first, in words.
    pub found: String,
    pub mark: Mark,
    /// What is wrong, or why the trial was skipped.
    pub because: Vec<String>,
    /// Wall time, including setup and teardown.
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    Right,
    /// The answer was wrong, or the trial failed.
    Wrong,
    /// The machine lacks something that the trial needs.
    Skipped,
}

impl Outcome {
    /// Runs `carry_out`, which fills in what was expected, found and wrong.
    ///
    /// # Errors
    /// Only [`Error::Interrupted`]: all others are outcomes.
    pub fn of(name: &'static str, carry_out: impl FnOnce(&mut Self) -> Result<()>) -> Result<Self> {
        let start = Instant::now();
        let mut outcome = Self {
            name,
            expected: String::new(),
            found: String::new(),
            mark: Mark::Right,
            because: Vec::new(),
            seconds: 0.0,
        };
        match carry_out(&mut outcome) {
            Ok(()) if outcome.because.is_empty() => {}
            Ok(()) => outcome.mark = Mark::Wrong,
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(Error::Missing(what)) => (outcome.mark, outcome.because) = (Mark::Skipped, vec![what]),
            Err(Error::Failed(why)) => (outcome.mark, outcome.because) = (Mark::Wrong, vec![why]),
        }
        outcome.seconds = start.elapsed().as_secs_f64();
        Ok(outcome)
    }
}

impl Trial {
    /// A healthy control without any load; the other rows say how they differ.
    pub const IDLE: Self = Self {
        name: "idle",
        what: "nothing runs",
        quick: false,
        finding: None,
        never: &[],
        not_ruled_out: &[],
        slightly: &[],
        setup: |_| Ok(Expect::healthy()),
    };
}
