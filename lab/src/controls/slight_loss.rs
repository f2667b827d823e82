//! A packet lost now and then, which costs nothing.

use crate::error::Result;
use crate::expect::Expect;
use crate::netns::NetNs;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::lossy_wire;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "slight-loss",
    what: "TCP streams of a moderate rate cross a wire that loses one packet in ten thousand",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (near, far) = (NetNs::new(stage, "near")?, NetNs::new(stage, "far")?);
    let net = stage.dice.between(1, 250);
    let delay = stage.dice.between(500, 3_000);
    lossy_wire(stage, &near, &far, net, delay, 1)?;
    let at = format!("10.214.{net}.2:{}", stage.dice.port());
    Launch::new("sink").with("at", &at).in_netns(&far)?.start(stage)?;
    let (streams, rate) = (stage.dice.between(1, 3), stage.dice.between(500, 2_000) << 10);
    let source = Launch::new("source").with("to", &at).with("streams", streams).with("rate", rate);
    source.with("congestion", stage.dice.pick(&["reno", "cubic", "bbr"])).in_netns(&near)?.start(stage)?;
    Ok(Expect::healthy())
}
