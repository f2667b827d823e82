//! Runs one case with both programs in turn.

use crate::rig::{Rig, Wire};
use serde_json::Value;
use whyslow_documents::bench::{BenchReport, NetEnd};
use whyslow_pairs::comparison::{Comparison, Figures};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::in_turn::in_turn;

pub struct Case {
    wire: Wire,
    streams: u32,
    /// Whether whyslow's receivers read the data, as iperf3's do.
    copy: bool,
}

impl Case {
    /// Returns one stream and eight on both paths, by default and with `--copy`.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for copy in [false, true] {
            for wire in [Wire::Loopback, Wire::Veth] {
                all.extend([1, 8].map(|streams| Self { wire, streams, copy }));
            }
        }
        all
    }

    pub fn name(&self) -> String {
        let wire = if self.wire == Wire::Veth { "veth" } else { "loopback" };
        let streams = if self.streams == 1 { "1 stream".to_owned() } else { format!("{} streams", self.streams) };
        format!("{wire}, {streams}{}", if self.copy { ", received in full" } else { "" })
    }
}

pub fn compare(case: &Case, rig: &Rig, pairs: usize, seconds: u32) -> Result<Vec<Comparison>> {
    let pairs = in_turn(pairs, || ours(case, rig, seconds), || theirs(case, rig, seconds))?;
    Ok(vec![Comparison::from_pairs(case.name(), &pairs)?])
}

/// Runs whyslow: received bit/s, and CPU time of both ends' threads per bit.
fn ours(case: &Case, rig: &Rig, seconds: u32) -> Result<Figures> {
    let (streams, seconds) = (case.streams.to_string(), seconds.to_string());
    let mut args = vec!["--only", "streams", "--direction", "up", "--streams", &streams, "--for", &seconds];
    args.extend(case.copy.then_some("--copy"));
    let report: BenchReport = serde_json::from_str(&rig.whyslow(case.wire, &args)?)?;
    let rounds = report.network.unwrap_or_default().rounds;
    let run = rounds.iter().flat_map(|round| &round.runs).find(|run| run.asked.streams == case.streams);
    let run = run.ok_or_else(|| Failure::new("whyslow measured nothing"))?;
    let of_end = |end: &NetEnd| (end.cost.user_seconds + end.cost.system_seconds) / (end.all_bytes as f64 * 8.0);
    let cost = run.there.as_ref().map(|there| of_end(&run.here) + of_end(there));
    Ok(Figures { cost, ..Figures::from_rate("whyslow", run.bandwidth.unwrap_or(0.0) * 8.0)? })
}

/// Runs iperf3 without the first second, like whyslow's ramp. It reports CPU time as a percentage of both ends.
fn theirs(case: &Case, rig: &Rig, seconds: u32) -> Result<Figures> {
    let (streams, seconds) = (case.streams.to_string(), seconds.to_string());
    let said = rig.iperf3(case.wire, &["-P", &streams, "-t", &seconds, "-O", "1"])?;
    let json: Value = serde_json::from_str(&said)?;
    let end = &json["end"];
    let number = |value: &Value| {
        value.as_f64().ok_or_else(|| Failure::new(format!("iperf3 measured nothing: {}", json["error"])))
    };
    let rate = number(&end["sum_received"]["bits_per_second"])?;
    let used = &end["cpu_utilization_percent"];
    let busy = (number(&used["host_total"])? + number(&used["remote_total"])?) / 100.0;
    Ok(Figures { cost: Some(busy / rate), ..Figures::from_rate("iperf3", rate)? })
}
