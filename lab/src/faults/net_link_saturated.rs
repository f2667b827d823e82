//! A link at its rate.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::wired_pair;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "net.link_saturated",
    what: "TCP streams fill a wire up to the rate of its shaper",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let net = stage.dice.between(1, 250);
    let (near, far) = wired_pair(stage, net)?;
    let rate = format!("{}mbit", stage.dice.between(20, 80));
    near.tc(&["qdisc", "add", "dev", "wire0", "root", "tbf", "rate", &rate, "burst", "64kb", "latency", "50ms"])?;
    let (port, streams) = (stage.dice.port(), stage.dice.between(1, 4));
    let at = format!("10.213.{net}.2:{port}");
    Launch::new("sink").with("at", &at).in_netns(&far)?.start(stage)?;
    let source = Launch::new("source").with("to", &at).with("streams", streams).in_netns(&near)?.start(stage)?;
    let who = [Who::Process(source.pid), Who::Port(port)];
    let never = ["net.window_limited", "net.udp_overflow", "cpu.saturated"];
    Ok(Expect::first("net.link_saturated", [Who::Named("interface", "wire0".into())]).by(who).never(&never))
}
