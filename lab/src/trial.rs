//! One fault or control, from an empty stage to a judgement.

use crate::capture;
use crate::dice::Dice;
use crate::error::{Error, Result};
use crate::expect::Expect;
use crate::judge;
use crate::observer::Observer;
use crate::stage::Stage;
use crate::stolen::Ticks;
use crate::stop;
use serde::Serialize;
use std::time::{Duration, Instant};
use whyslow_model::diagnosis::{Diagnosis, Finding};

/// How long a fault stands before it is looked at: what is being set up must not be in the window.
const SETTLE: Duration = Duration::from_millis(1500);

/// How often a fault is made at most whose load ends before it was looked at.
const TRIES: usize = 3;

/// A fault, or a healthy control.
pub struct Trial {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Whether it belongs to the quick subset.
    pub quick: bool,
    /// Puts it on the stage, running, and says what must be found.
    pub make: fn(&mut Stage) -> Result<Expect>,
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
    /// Right, wrong or skipped.
    pub mark: Mark,
    /// What is wrong, or why it was skipped.
    pub because: Vec<String>,
    /// Wall time, setting up and cleaning up included.
    pub seconds: f64,
}

/// Right, wrong or skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// What was expected was found.
    Right,
    /// It was not, or the trial could not be carried through.
    Wrong,
    /// The machine lacks what the trial needs.
    Skipped,
}

impl Outcome {
    /// What comes of carrying something out, which fills in what was expected, found and wrong.
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
    /// Makes the fault, looks, judges, cleans up.
    ///
    /// # Errors
    /// Only [`Error::Interrupted`]: all others are outcomes.
    pub fn run(&self, seed: u64, observer: &Observer) -> Result<Outcome> {
        Outcome::of(self.name, |outcome| self.carry_out(seed, observer, outcome))
    }

    fn carry_out(&self, seed: u64, observer: &Observer, outcome: &mut Outcome) -> Result<()> {
        for _ in 1..TRIES {
            match self.try_out(seed, observer, outcome)? {
                None => return Ok(()),
                Some(ended) => eprintln!("whyslow-lab: {}: {ended}; made again", self.name),
            }
        }
        self.try_out(seed, observer, outcome)?.map_or(Ok(()), |ended| Err(Error::failed(ended)))
    }

    /// Makes, looks and judges once; or what load ended meanwhile, so that there was not what is to be judged.
    fn try_out(&self, seed: u64, observer: &Observer, outcome: &mut Outcome) -> Result<Option<String>> {
        let mut stage = Stage::new(self.name, Dice::new(seed, self.name))?;
        let expect = (self.make)(&mut stage)?;
        outcome.expected = expect.to_string();
        stop::pause(SETTLE)?;
        let before = Ticks::now()?;
        let mut answer = observer.look(&mut stage)?;
        if let Some(ended) = stage.ended_load()? {
            return Ok(Some(ended));
        }
        if before.much_since()? {
            judge::set_aside_steal(&mut answer, &expect);
        }
        outcome.found = answer.findings.first().map_or_else(|| verdict(&answer), describe);
        outcome.because = judge::faults_of(&answer, &expect);
        if observer.captures {
            let (answer, wrong) = capture::judged(observer, &stage, &expect)?;
            let found = answer.findings.first().map_or_else(|| verdict(&answer), describe);
            outcome.found = format!("{}; read: {found}", outcome.found);
            outcome.because.extend(wrong);
        }
        Ok(None)
    }
}

fn verdict(answer: &Diagnosis) -> String {
    format!("{:?}", answer.verdict).to_lowercase()
}

fn describe(found: &Finding) -> String {
    let culprit = found.culprits.first().map_or(String::new(), |c| {
        let pid = c.pid.map_or(String::new(), |pid| format!("[{pid}]"));
        format!(" by {}{pid}", c.name)
    });
    let confidence = format!("{:?}", found.confidence).to_lowercase();
    format!("{}{culprit} {confidence} {:.2}", found.key(), found.impact)
}
