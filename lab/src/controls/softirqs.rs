//! A processor with much softirq work that is not full.

use crate::error::Result;
use crate::expect::Expect;
use crate::firewall::{long_chain, steer};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::wired_pair;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "softirqs",
    what: "all packets of a wire are handed to one processor, which has time left for more",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let net = stage.dice.between(1, 250);
    let (near, far) = wired_pair(stage, net)?;
    let rules = stage.dice.between(2_000, 4_000);
    long_chain(stage, &far, rules)?;
    steer(&far, "wire1", 0)?;
    let at = format!("10.213.{net}.2:{}", stage.dice.port());
    let (rate, size) = (stage.dice.between(15_000, 25_000), stage.dice.between(600, 1400));
    Launch::new("udp-source").with("to", at).with("rate", rate).with("size", size).in_netns(&near)?.start(stage)?;
    Ok(Expect::healthy())
}
