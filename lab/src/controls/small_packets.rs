//! Small packets that cost little.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::wired_pair;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "small-packets",
    what: "a program multicasts some ten thousand tiny datagrams a second, far fewer than it could",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let net = stage.dice.between(1, 250);
    let (near, _far) = wired_pair(stage, net)?;
    near.ip(&["route", "add", "239.0.0.0/8", "dev", "wire0"])?;
    let at = format!("239.{net}.0.1:{}", stage.dice.port());
    let (rate, size) = (stage.dice.between(10_000, 40_000), stage.dice.between(16, 200));
    Launch::new("udp-source").with("to", at).with("rate", rate).with("size", size).in_netns(&near)?.start(stage)?;
    Ok(Expect::healthy())
}
