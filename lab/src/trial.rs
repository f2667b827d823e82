//! One fault or healthy control, from an empty testbed to a judgement.

use crate::capture;
use crate::error::{Error, Result};
use crate::expect::Expect;
use crate::interrupt;
use crate::judge;
use crate::observer::Observer;
use crate::steal::CpuTicks;
use crate::testbed::Testbed;
use serde::Serialize;
use std::time::{Duration, Instant};
use whyslow_model::diagnosis::{Diagnosis, Finding};

/// Time between setup and observation: the setup itself must not be in the window.
const SETTLE: Duration = Duration::from_millis(1500);

/// How often a trial is set up at most if its load ends before whyslow has observed it.
const ATTEMPTS: usize = 3;

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
    /// On a healthy control: ids that may be found, with an impact of at most [`judge::SLIGHT`].
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

    /// Sets the trial up, observes, judges and tears down.
    ///
    /// # Errors
    /// Only [`Error::Interrupted`]: all others are outcomes.
    pub fn run(&self, seed: u64, observer: &Observer) -> Result<Outcome> {
        Outcome::of(self.name, |outcome| {
            for _ in 1..ATTEMPTS {
                match self.attempt(seed, observer, outcome)? {
                    None => return Ok(()),
                    Some(ended) => eprintln!("whyslow-lab: {}: {ended}; set up again", self.name),
                }
            }
            self.attempt(seed, observer, outcome)?.map_or(Ok(()), |ended| Err(Error::failed(ended)))
        })
    }

    /// Sets up, observes and judges once. If a load ended meanwhile, there is nothing to judge: says which.
    fn attempt(&self, seed: u64, observer: &Observer, outcome: &mut Outcome) -> Result<Option<String>> {
        let mut bed = Testbed::new(self.name, seed)?;
        let expect = (self.setup)(&mut bed)?;
        outcome.expected = self.finding.map_or_else(|| "healthy".into(), |id| format!("{id}@{expect}"));
        interrupt::sleep(SETTLE)?;
        let before = CpuTicks::now()?;
        let mut answer = observer.look(&mut bed)?;
        if let Some(ended) = bed.exited_load()? {
            return Ok(Some(ended));
        }
        if before.substantial_since()? {
            judge::remove_steal(&mut answer, self);
        }
        outcome.found = found_first(&answer);
        outcome.because = judge::mismatches(&answer, self, &expect);
        if observer.captures {
            let (answer, wrong) = capture::judged(observer, &bed, self, &expect)?;
            outcome.found = format!("{}; read: {}", outcome.found, found_first(&answer));
            outcome.because.extend(wrong);
        }
        Ok(None)
    }
}

fn found_first(answer: &Diagnosis) -> String {
    answer.findings.first().map_or_else(|| format!("{:?}", answer.verdict).to_lowercase(), describe)
}

fn describe(finding: &Finding) -> String {
    let culprit = finding.culprits.first().map_or(String::new(), |c| {
        let pid = c.pid.map_or(String::new(), |pid| format!("[{pid}]"));
        format!(" by {}{pid}", c.name)
    });
    let confidence = format!("{:?}", finding.confidence).to_lowercase();
    format!("{}{culprit} {confidence} {:.2}", finding.key(), finding.impact)
}
