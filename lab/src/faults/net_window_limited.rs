//! The buffer is smaller than bandwidth times delay.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::netns::NetNs;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::long_wire;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "net.window_limited",
    what: "a TCP stream over a long wire stops for a receive buffer far below bandwidth times delay",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (near, far) = (NetNs::new(stage, "near")?, NetNs::new(stage, "far")?);
    let net = stage.dice.between(1, 250);
    let delay = stage.dice.between(10_000, 30_000);
    long_wire(stage, &near, &far, net, delay)?;
    let (port, buffer) = (stage.dice.port(), stage.dice.between(16, 48) << 10);
    let at = format!("10.214.{net}.2:{port}");
    Launch::new("sink").with("at", &at).with("buffer", buffer).in_netns(&far)?.start(stage)?;
    // Reno is in every kernel and, as most do, leaves all pacing to the window.
    Launch::new("source").with("to", &at).with("congestion", "reno").in_netns(&near)?.start(stage)?;
    let never = ["net.loss", "net.link_saturated", "net.shaped"];
    Ok(Expect::first("net.window_limited", [Who::Port(port)]).never(&never))
}
