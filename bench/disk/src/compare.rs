//! One case, run by both programs in turn.

use crate::cases::Case;
use crate::peer::{self, Peer};
use crate::rig::Rig;
use serde::Serialize;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use whyslow_model::bench::Median;
use whyslow_pairs::dice::Dice;
use whyslow_pairs::failure::{Failure, Result};

/// How a case came out.
#[derive(Serialize)]
pub struct Comparison {
    /// Its name.
    pub case: String,
    /// The other program's requests a second, or bytes a second of a stream: the median.
    pub peer_rate: f64,
    /// Its processor time for a request, seconds: the median; none where that is not compared.
    pub peer_cost: Option<f64>,
    /// Pairs run.
    pub pairs: usize,
    /// whyslow's rate by the other's.
    pub rate: Median,
    /// whyslow's processor time for a request by the other's.
    pub cost: Option<Median>,
}

/// Runs a case in pairs of random order.
///
/// # Errors
/// Where a program fails, or a signal came.
pub fn compare(case: &Case, rig: &Rig, whyslow: &Path, pairs: usize, seconds: u32) -> Result<Comparison> {
    let job = rig.job(&job(case, seconds))?;
    let ours = || peer::whyslow(whyslow, case, &job);
    let theirs = || case.peer.run(case, rig, &job);
    let mut dice = Dice::new(SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64));
    let (mut rates, mut costs, mut peer) = (Vec::new(), Vec::new(), (Vec::new(), Vec::new()));
    for _ in 0..pairs {
        let (ours, theirs) = if dice.toss() {
            let ours = ours()?;
            (ours, theirs()?)
        } else {
            let theirs = theirs()?;
            (ours()?, theirs)
        };
        rates.push(ours.rate / theirs.rate);
        costs.extend(ours.cost.zip(theirs.cost).map(|(ours, theirs)| ours / theirs));
        peer.0.push(theirs.rate);
        peer.1.extend(theirs.cost);
    }
    let of = |ratios| Median::of(ratios).ok_or_else(|| Failure::new("no pairs to run"));
    Ok(Comparison {
        case: case.name.clone(),
        peer_rate: of(peer.0)?.value,
        peer_cost: Median::of(peer.1).map(|cost| cost.value),
        pairs,
        rate: of(rates)?,
        cost: Median::of(costs),
    })
}

/// What both run, or whyslow does where the other has its own idea of it. Load is timed, and streams end with the file.
fn job(case: &Case, seconds: u32) -> String {
    let how = match case.peer {
        Peer::Fio => format!("ioengine=io_uring\ndirect=1\nruntime={seconds}\nramp_time=500ms\ntime_based=1"),
        _ => "ioengine=psync".into(),
    };
    format!("[job]\n{how}\n{}\n", case.options)
}
