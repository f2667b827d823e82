//! Packets are lost on the way.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::netns::NetNs;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::lossy_wire;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "net.loss",
    what: "a TCP stream crosses a wire that loses a packet in some tens, whatever its load",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (near, far) = (NetNs::new(stage, "near")?, NetNs::new(stage, "far")?);
    let net = stage.dice.between(1, 250);
    let (delay, loss) = (stage.dice.between(1_000, 10_000), stage.dice.between(100, 500));
    lossy_wire(stage, &near, &far, net, delay, loss)?;
    let port = stage.dice.port();
    let at = format!("10.214.{net}.2:{port}");
    Launch::new("sink").with("at", &at).in_netns(&far)?.start(stage)?;
    let algorithm = stage.dice.pick(&["reno", "cubic"]);
    let source = Launch::new("source").with("to", &at).with("congestion", algorithm).in_netns(&near)?.start(stage)?;
    let never = ["net.window_limited", "net.link_saturated", "net.small_packets", "net.udp_overflow"];
    Ok(Expect::first("net.loss", [Who::Port(port)]).by([Who::Process(source.pid)]).never(&never))
}
