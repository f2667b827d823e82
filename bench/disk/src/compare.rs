//! One case, run by both programs in turn.

use crate::cases::Case;
use crate::rig::Rig;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use whyslow_pairs::child;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::pairs::{Dice, Median, median};

/// How a case came out.
#[derive(Serialize)]
pub struct Comparison {
    /// Its name.
    pub case: String,
    /// fio's requests a second: the median.
    pub fio_rate: f64,
    /// fio's processor time for a request, seconds: the median.
    pub fio_cost: f64,
    /// Pairs run.
    pub pairs: usize,
    /// whyslow's requests a second by fio's.
    pub rate: Median,
    /// whyslow's processor time for a request by fio's.
    pub cost: Median,
}

/// What one run came to.
struct Figures {
    rate: f64,
    /// Processor time of the threads that made the load, for each request, seconds.
    cost: f64,
}

/// Runs a case in pairs of random order.
///
/// # Errors
/// Where a program fails, or a signal came.
pub fn compare(case: &Case, rig: &Rig, whyslow: &Path, pairs: usize, seconds: u32) -> Result<Comparison> {
    let options = &case.options;
    let text =
        format!("[job]\nioengine=io_uring\ndirect=1\nruntime={seconds}\nramp_time=500ms\ntime_based=1\n{options}\n");
    let job = rig.job(&text)?;
    let whyslow = whyslow.to_str().ok_or_else(|| Failure::new("the path of whyslow is not UTF-8"))?;
    let ours = || figures(case, whyslow, &["bench", "disk", "--job", &job, "--json-fio"]);
    let theirs = || figures(case, "fio", &[&job, "--output-format=json"]);
    let mut dice = Dice::new(SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64));
    let (mut rates, mut costs, mut fio) = (Vec::new(), Vec::new(), (Vec::new(), Vec::new()));
    for _ in 0..pairs {
        let (ours, theirs) = if dice.toss() {
            let ours = ours()?;
            (ours, theirs()?)
        } else {
            let theirs = theirs()?;
            (ours()?, theirs)
        };
        rates.push(ours.rate / theirs.rate);
        costs.push(ours.cost / theirs.cost);
        fio.0.push(theirs.rate);
        fio.1.push(theirs.cost);
    }
    let of = |ratios| median(ratios).ok_or_else(|| Failure::new("no pairs to run"));
    Ok(Comparison {
        case: case.name.clone(),
        fio_rate: of(fio.0)?.value,
        fio_cost: of(fio.1)?.value,
        pairs,
        rate: of(rates)?,
        cost: of(costs)?,
    })
}

/// Both programs tell in the same form.
fn figures(case: &Case, program: &str, args: &[&str]) -> Result<Figures> {
    let text = child::output(program, args, Duration::from_secs(120))?;
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..])?;
    let job = &json["jobs"][0];
    let flow = &job[if case.writes { "write" } else { "read" }];
    let number = |value: &Value| value.as_f64().ok_or_else(|| Failure::new(format!("{program} told no number: {job}")));
    let rate = number(&flow["iops"])?;
    if rate <= 0.0 {
        return Err(Failure::new(format!("{program} did nothing: {job}")));
    }
    let busy = (number(&job["usr_cpu"])? + number(&job["sys_cpu"])?) / 100.0;
    Ok(Figures { rate, cost: busy / rate })
}
