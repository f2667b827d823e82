//! A stream that is limited by its application.

use crate::error::Result;
use crate::expect::Expect;
use crate::netns::NetNs;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::long_wire;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "paced-stream",
    what: "a TCP stream over a long wire sends less than its window allows",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (near, far) = (NetNs::new(stage, "near")?, NetNs::new(stage, "far")?);
    let net = stage.dice.between(1, 250);
    let delay = stage.dice.between(10_000, 30_000);
    long_wire(stage, &near, &far, net, delay)?;
    let at = format!("10.214.{net}.2:{}", stage.dice.port());
    Launch::new("sink").with("at", &at).in_netns(&far)?.start(stage)?;
    let rate = stage.dice.between(100, 400) << 10;
    Launch::new("source").with("to", &at).with("rate", rate).in_netns(&near)?.start(stage)?;
    Ok(Expect::healthy())
}
