//! Packets of short connections are lost on the way.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::netns::NetNs;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::lossy_wire;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "net.loss.short",
    what: "connections too short to be sampled cross a wire that loses a packet in some tens",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (near, far) = (NetNs::new(stage, "near")?, NetNs::new(stage, "far")?);
    let net = stage.dice.between(1, 250);
    let (delay, loss) = (stage.dice.between(1_000, 4_000), stage.dice.between(300, 600));
    lossy_wire(stage, &near, &far, net, delay, loss)?;
    let at = format!("10.214.{net}.2:{}", stage.dice.port());
    Launch::new("sink").with("at", &at).in_netns(&far)?.start(stage)?;
    let (bytes, visitors) = (stage.dice.between(4, 20) << 10, stage.dice.between(2, 6));
    let visits = Launch::new("visits").with("to", &at).with("bytes", bytes).with("visitors", visitors);
    let visits = visits.in_netns(&near)?.start(stage)?;
    // Without BPF nobody knows which peer it is.
    let who = [Who::Named("connection", format!("*->10.214.{net}.2")), Who::Host];
    let never = ["net.window_limited", "net.link_saturated", "net.listen_overflow"];
    Ok(Expect::first("net.loss", who).by([Who::Process(visits.pid), Who::Host]).never(&never))
}
