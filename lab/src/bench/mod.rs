//! Disks and links of known speed, measured with `whyslow bench`, whose results must agree.

mod disk;
mod network;

use crate::cgroup::Cgroup;
use crate::error::{Context, Error, Result};
use crate::observer::Observer;
use crate::testbed::Testbed;
use crate::trial::Outcome;
use network::BenchServer;
use std::time::Duration;
use whyslow_documents::bench::BenchReport;

pub const TRIALS: &[BenchTrial] =
    &[disk::APART, disk::SHARED, disk::KNEE, disk::LATENCY, network::BUFFER, network::LINK_RATE, disk::RATE];

/// Time limit of a benchmark.
const TIMEOUT: Duration = Duration::from_secs(180);

pub struct BenchTrial {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one sentence.
    pub what: &'static str,
    /// Sets up a disk or link, with a speed derived from the testbed's seed.
    setup: fn(&mut Testbed) -> Result<Benchmark>,
}

/// Measurement of the disk or link, with the expected result.
struct Benchmark {
    /// Arguments of `whyslow bench`.
    args: Vec<String>,
    /// Cgroup that whyslow runs in.
    group: Option<Cgroup>,
    /// Server that it measures against.
    server: Option<BenchServer>,
    /// Expected result as text.
    expected: String,
    check: Box<dyn Fn(&BenchReport) -> Checked>,
}

/// A result after comparison with the expected one.
#[derive(Default)]
struct Checked {
    /// Result as text.
    found: String,
    /// Reasons why it is wrong.
    because: Vec<String>,
    /// Missing requirement of the machine, if the trial cannot be judged.
    missing: Option<String>,
}

impl BenchTrial {
    /// Sets up, measures, judges and tears down.
    ///
    /// # Errors
    /// Returns only [`Error::Interrupted`]: all other errors become outcomes.
    pub fn run(&self, seed: u64, observer: &Observer) -> Result<Outcome> {
        Outcome::run(self.name, seed, |outcome| {
            let mut bed = Testbed::new(self.name, seed)?;
            let benchmark = (self.setup)(&mut bed)?;
            outcome.expected.clone_from(&benchmark.expected);
            let mut args = vec!["bench", "--json"];
            args.extend(benchmark.args.iter().map(String::as_str));
            let options = match &benchmark.server {
                Some(server) => server.start(&mut bed, observer)?,
                None => Vec::new(),
            };
            args.extend(options.iter().map(String::as_str));
            let output = observer.run(&bed, &args, benchmark.group.as_ref(), TIMEOUT)?;
            let report: BenchReport = serde_json::from_slice(&output).context("whyslow's report")?;
            let checked = (benchmark.check)(&report);
            if let Some(missing) = checked.missing {
                return Err(Error::Missing(missing));
            }
            (outcome.found_first, outcome.because) = (checked.found, checked.because);
            Ok(())
        })
    }
}

impl Benchmark {
    fn new(args: &[&str], expected: impl Into<String>, check: impl Fn(&BenchReport) -> Checked + 'static) -> Self {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self { args, group: None, server: None, expected: expected.into(), check: Box::new(check) }
    }
}

impl Checked {
    /// Creates a result with the claims about it that do not hold.
    fn new(found: String, claims: &[(bool, &str)]) -> Self {
        let because = claims.iter().filter(|(holds, _)| !holds).map(|(_, claim)| (*claim).to_owned()).collect();
        Self { found, because, missing: None }
    }

    /// Creates the result for a report that lacks `what`.
    fn no(what: &str) -> Self {
        Self::new("nothing".into(), &[(false, &format!("no {what}"))])
    }

    /// Creates the result for a machine that lacks what this trial needs.
    fn missing(what: String) -> Self {
        Self { missing: Some(what), ..Self::default() }
    }
}

/// Returns whether a number differs from the expected one by at most a share of it.
fn near(found: f64, expected: f64, share: f64) -> bool {
    (found / expected - 1.0).abs() <= share
}
