//! Disks and links of known physics, measured with `whyslow bench`: its figures are held against what they are made to be.

mod contention;
mod knee;
mod latency;
mod network;
mod rate;

use crate::cgroup::Cgroup;
use crate::dice::Dice;
use crate::error::{During, Error, Result};
use crate::observer::Observer;
use crate::stage::Stage;
use crate::trial::Outcome;
use network::FarEnd;
use std::time::Duration;
use whyslow_model::bench::Report;

/// All of them.
pub const ALL: &[Figure] = &[
    contention::APART,
    contention::SHARED,
    knee::FIGURE,
    latency::FIGURE,
    network::BUFFER,
    network::RATE,
    rate::FIGURE,
];

/// A benchmark may take so long.
const PATIENCE: Duration = Duration::from_secs(180);

/// A thing whose figures are known.
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub what: &'static str,
    /// Puts it on the stage, and says how it is measured and what must come of it.
    make: fn(&mut Stage) -> Result<Probe>,
}

/// How something is measured, and what must come of it.
struct Probe {
    /// What comes after `whyslow bench`.
    args: Vec<String>,
    /// The control group that whyslow is run in.
    group: Option<Cgroup>,
    /// The end of a wire that it is measured against.
    far: Option<FarEnd>,
    /// What must come of it, in words.
    expected: String,
    judge: Box<dyn Fn(&Report) -> Judged>,
}

/// What came of it.
struct Judged {
    /// In words.
    found: String,
    /// What is wrong with it.
    because: Vec<String>,
    /// What the machine lacks for it to be judged.
    missing: Option<String>,
}

impl Figure {
    /// Makes it, measures it, judges, cleans up.
    ///
    /// # Errors
    /// Only [`Error::Interrupted`](crate::error::Error::Interrupted): all others are outcomes.
    pub fn run(&self, seed: u64, observer: &Observer) -> Result<Outcome> {
        Outcome::of(self.name, |outcome| {
            let mut stage = Stage::new(self.name, Dice::new(seed, self.name))?;
            let probe = (self.make)(&mut stage)?;
            outcome.expected.clone_from(&probe.expected);
            let mut args = ["bench".to_owned(), "--json".to_owned()].to_vec();
            args.extend(probe.args.iter().cloned());
            if let Some(far) = &probe.far {
                args.extend(far.serve(&mut stage, observer)?);
            }
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let answer = observer.answer(&mut stage, &args, probe.group.as_ref(), PATIENCE)?;
            let report: Report = serde_json::from_slice(&answer).during("whyslow's report")?;
            let judged = (probe.judge)(&report);
            if let Some(missing) = judged.missing {
                return Err(Error::Missing(missing));
            }
            (outcome.found, outcome.because) = (judged.found, judged.because);
            Ok(())
        })
    }
}

impl Judged {
    /// What was found, and of the claims about it those that do not hold.
    fn of(found: String, claims: &[(bool, &str)]) -> Self {
        let because = claims.iter().filter(|(holds, _)| !holds).map(|(_, claim)| (*claim).to_owned()).collect();
        Self { found, because, missing: None }
    }

    /// That it cannot be judged here, for want of this.
    fn not_without(missing: String) -> Self {
        Self { found: String::new(), because: Vec::new(), missing: Some(missing) }
    }
}

/// Where others keep more of the processors busy than this, a disk's own server is late too: the disk is no longer what it was
/// made to be, and nobody knows what it is.
const TOO_BUSY: f64 = 0.5;

/// That the machine was too busy for a disk to be what it was made to be; none where it was not.
fn too_busy(report: &Report) -> Option<String> {
    let environment = &report.environment;
    let share = environment.others_cpus.zip(environment.host.cpus).map(|(others, all)| others / f64::from(all.max(1)));
    let share = share.filter(|&share| share > TOO_BUSY)?;
    Some(format!("a quiet machine: others kept {:.0} % of the processors busy", share * 100.0))
}

/// Whether two numbers differ by no more than a share of the second.
fn near(found: f64, expected: f64, share: f64) -> bool {
    (found / expected - 1.0).abs() <= share
}
