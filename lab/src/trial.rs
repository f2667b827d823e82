//! A fault or healthy control, and its outcome.

use crate::blind::Blind;
use crate::error::{Error, Result};
use crate::expect::Expect;
use crate::gain::TriedFix;
use crate::testbed::Testbed;
use crate::trials;
use crate::vm::VmSpec;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use whyslow_documents::diagnosis::Confidence;

/// A row of the tables in `trials/`: a fault, or a healthy control that resembles one.
pub struct Trial {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one sentence.
    pub what: &'static str,
    /// Whether it belongs to the quick subset.
    pub quick: bool,
    /// Id of the finding that must come first; `None` for a healthy control.
    pub finding: Option<&'static str>,
    /// Look-alikes of the fault: ids that must not be found with high confidence, unless another finding explains them.
    /// On a healthy control this applies to every id.
    pub never: &'static [&'static str],
    /// Resources that must not be ruled out.
    pub not_ruled_out: &'static [&'static str],
    /// Ids that may be found on a healthy control, with an impact of at most [`SLIGHT`](crate::judge::SLIGHT).
    pub slightly: &'static [&'static str],
    /// Whether only BPF shows the fault.
    pub needs_bpf: bool,
    /// Virtual machine that the trial needs; `None` if it runs on any machine.
    pub vm: Option<&'static VmSpec>,
    /// Starts the fault or the control, with parameters derived from the testbed's seed.
    pub setup: fn(&mut Testbed) -> Result<Expect>,
    /// Alternative to `setup`: faults from the other tables, which are set up side by side. Each must be found, in any
    /// order.
    pub parts: &'static [&'static str],
}

/// Kind of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Fault,
    Compound,
    /// Interference between groups: the table of pairs counts, not the findings.
    Interference,
    /// A real program, with or without a fault.
    Program,
    Control,
    /// A measurement with `whyslow bench`.
    Benchmark,
}

impl Kind {
    pub fn plural(self) -> &'static str {
        match self {
            Self::Fault => "single faults",
            Self::Compound => "compound faults",
            Self::Interference => "interference",
            Self::Program => "real programs",
            Self::Control => "healthy controls",
            Self::Benchmark => "benchmarks",
        }
    }

    /// Returns whether whyslow diagnoses this kind.
    pub fn is_diagnosed(self) -> bool {
        self != Self::Benchmark
    }
}

/// A finding of a trial.
#[derive(Debug, Serialize, Deserialize)]
pub struct Found {
    pub id: String,
    pub confidence: Confidence,
    /// Whether another finding explains it.
    pub is_effect: bool,
}

/// Outcome of a trial.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the trial.
    pub name: String,
    pub kind: Kind,
    pub seed: u64,
    /// Kernel of the virtual machine that it ran in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Feature that was hidden from whyslow.
    pub without: Option<Blind>,
    /// Ids of the actual faults of the machine; empty for a healthy control.
    pub causes: Vec<String>,
    /// Expected result as text.
    pub expected: String,
    /// First finding as text.
    pub found_first: String,
    /// All findings, causes first.
    pub found: Vec<Found>,
    /// Recommended setting that was tried, with `--gains`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<TriedFix>,
    /// Output of whyslow, with `--answers`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<serde_json::Value>,
    pub mark: Mark,
    /// Mistakes, or the reason why the trial was skipped.
    pub because: Vec<String>,
    /// Wall time in seconds, including setup and teardown.
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Returns only [`Error::Interrupted`]: all other errors become outcomes.
    pub fn run(name: &str, seed: u64, carry_out: impl FnOnce(&mut Self) -> Result<()>) -> Result<Self> {
        let start = Instant::now();
        let mut outcome = Self::before(name, seed);
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

    /// Creates the outcome of a trial that has not run yet.
    pub fn before(name: &str, seed: u64) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Benchmark,
            seed,
            kernel: None,
            without: None,
            causes: Vec::new(),
            expected: String::new(),
            found_first: String::new(),
            found: Vec::new(),
            fix: None,
            answers: Vec::new(),
            mark: Mark::Right,
            because: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Returns whether the first finding is an actual cause, or a healthy machine was diagnosed as healthy.
    pub fn is_cause_first(&self) -> bool {
        match self.found.first() {
            Some(found) if !self.causes.is_empty() => self.causes.contains(&found.id),
            _ => self.causes.is_empty() && self.mark == Mark::Right,
        }
    }

    /// Returns whether the first finding is certain but not an actual cause.
    pub fn is_confidently_wrong(&self) -> bool {
        !self.is_cause_first() && self.found.first().is_some_and(|found| found.confidence == Confidence::High)
    }
}

impl Trial {
    /// A healthy control without any load; the other rows specify their differences from it.
    pub const IDLE: Self = Self {
        name: "idle",
        what: "nothing runs",
        quick: false,
        finding: None,
        never: &[],
        not_ruled_out: &[],
        slightly: &[],
        needs_bpf: false,
        vm: None,
        setup: |_| Ok(Expect::healthy()),
        parts: &[],
    };

    /// Starts the fault or the control, or all its parts.
    ///
    /// # Errors
    /// Passes on errors of the setup.
    pub fn set_up(&self, bed: &mut Testbed) -> Result<Expect> {
        let mut parts = self.parts.iter().map(|name| trials::find(name));
        let Some(first) = parts.next() else { return (self.setup)(bed) };
        let mut expect = first.set_up_part(bed)?;
        for part in parts {
            let other = part.set_up_part(bed)?;
            expect = expect.beside(part.finding, other);
        }
        Ok(expect)
    }

    /// Returns the ids of the machine's actual faults.
    pub fn causes(&self) -> Vec<&'static str> {
        let parts = self.parts.iter().filter_map(|name| trials::find(name).finding);
        if self.parts.is_empty() { self.finding.into_iter().collect() } else { parts.collect() }
    }

    /// Starts the trial as a part of another one.
    fn set_up_part(&self, bed: &mut Testbed) -> Result<Expect> {
        Ok(bed.part(self.name, self.setup)?.never(self.never))
    }
}
