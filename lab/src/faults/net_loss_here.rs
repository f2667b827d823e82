//! A packet filter loses packets.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::firewall::lossy;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::wired_pair;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "net.loss.here",
    what: "a packet filter of this machine throws away a few of a TCP stream's packets",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let net = stage.dice.between(1, 250);
    let (near, far) = wired_pair(stage, net)?;
    let loss = stage.dice.between(100, 400);
    lossy(stage, &far, loss)?;
    let port = stage.dice.port();
    let at = format!("10.213.{net}.2:{port}");
    Launch::new("sink").with("at", &at).in_netns(&far)?.start(stage)?;
    let algorithm = stage.dice.pick(&["reno", "cubic"]);
    let source = Launch::new("source").with("to", &at).with("congestion", algorithm).in_netns(&near)?.start(stage)?;
    let never = ["net.window_limited", "net.link_saturated", "net.small_packets", "net.udp_overflow"];
    Ok(Expect::first("net.loss", [Who::Port(port)]).by([Who::Process(source.pid)]).never(&never))
}
