//! One case, run by both programs in turn.

use crate::rig::{Rig, Wire};
use serde::Serialize;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};
use whyslow_model::bench::Median;
use whyslow_model::bench::Report;
use whyslow_pairs::dice::Dice;
use whyslow_pairs::failure::{Failure, Result};

/// Streams over a path.
pub struct Case {
    wire: Wire,
    streams: u32,
    /// Whether whyslow's receivers read the bytes, as iperf3's do.
    copy: bool,
}

/// How a case came out.
#[derive(Serialize)]
pub struct Comparison {
    /// Its name.
    pub case: String,
    /// iperf3's bits a second: the median.
    pub iperf3: f64,
    /// Pairs run.
    pub pairs: usize,
    /// whyslow's bits a second by iperf3's.
    pub ratio: Median,
}

impl Case {
    /// One stream and eight over both paths; as whyslow is unless told otherwise, and with receivers that copy.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for copy in [false, true] {
            for wire in [Wire::Loopback, Wire::Veth] {
                all.extend([1, 8].map(|streams| Self { wire, streams, copy }));
            }
        }
        all
    }

    /// Its name.
    pub fn name(&self) -> String {
        let wire = if self.wire == Wire::Veth { "veth" } else { "loopback" };
        let streams = if self.streams == 1 { "1 stream".to_owned() } else { format!("{} streams", self.streams) };
        format!("{wire}, {streams}{}", if self.copy { ", received in full" } else { "" })
    }
}

/// Runs a case in pairs of random order.
///
/// # Errors
/// Where a program fails, or a signal came.
pub fn compare(case: &Case, rig: &Rig, pairs: usize, seconds: u32) -> Result<Comparison> {
    let mut dice = Dice::new(SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64));
    let (mut ratios, mut iperf3) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        let (ours, theirs) = if dice.toss() {
            let ours = ours(case, rig, seconds)?;
            (ours, theirs(case, rig, seconds)?)
        } else {
            let theirs = theirs(case, rig, seconds)?;
            (ours(case, rig, seconds)?, theirs)
        };
        ratios.push(ours / theirs);
        iperf3.push(theirs);
    }
    let of = |values| Median::of(values).ok_or_else(|| Failure::new("no pairs to run"));
    Ok(Comparison { case: case.name(), iperf3: of(iperf3)?.value, pairs, ratio: of(ratios)? })
}

/// whyslow's bits a second, as they arrive.
fn ours(case: &Case, rig: &Rig, seconds: u32) -> Result<f64> {
    let (streams, seconds) = (case.streams.to_string(), seconds.to_string());
    let mut args = vec!["--only", "streams", "--direction", "up", "--streams", &streams, "--for", &seconds];
    args.extend(case.copy.then_some("--copy"));
    let report: Report = serde_json::from_str(&rig.whyslow(case.wire, &args)?)?;
    let rounds = report.network.unwrap_or_default().rounds;
    let run = rounds.iter().flat_map(|round| &round.runs).find(|run| run.asked.streams == case.streams);
    run.and_then(|run| run.bandwidth).map(|bytes| bytes * 8.0).ok_or_else(|| Failure::new("whyslow measured nothing"))
}

/// iperf3's; its first second is left out, as whyslow leaves out its beginning.
fn theirs(case: &Case, rig: &Rig, seconds: u32) -> Result<f64> {
    let (streams, seconds) = (case.streams.to_string(), seconds.to_string());
    let said = rig.iperf3(case.wire, &["-P", &streams, "-t", &seconds, "-O", "1"])?;
    let json: Value = serde_json::from_str(&said)?;
    let rate = json["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.filter(|rate| *rate > 0.0).ok_or_else(|| Failure::new(format!("iperf3 measured nothing: {}", json["error"])))
}
