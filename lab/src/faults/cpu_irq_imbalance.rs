//! One processor takes in all packets.

use crate::error::{Error, Result};
use crate::expect::{Expect, Who};
use crate::firewall::{long_chain, steer};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::wired_pair;
use crate::worker::Launch;
use std::thread::available_parallelism;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.irq_imbalance",
    what: "all packets of a wire are handed to one processor, and each passes a long packet filter there",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let processors = available_parallelism()?.get() as u64;
    if processors < 2 {
        return Err(Error::Missing("a second processor".into()));
    }
    let net = stage.dice.between(1, 250);
    let (near, far) = wired_pair(stage, net)?;
    let (chosen, rules) = (stage.dice.between(0, processors - 1), stage.dice.between(10_000, 14_000));
    long_chain(stage, &far, rules)?;
    steer(&far, "wire1", chosen)?;
    let at = format!("10.213.{net}.2:{}", stage.dice.port());
    // No such port is open there; who answers that it is not is held to a few answers a second.
    let (rate, size) = (stage.dice.between(40_000, 60_000), stage.dice.between(600, 1400));
    Launch::new("udp-source").with("to", at).with("rate", rate).with("size", size).in_netns(&near)?.start(stage)?;
    let expect = Expect::first("cpu.irq_imbalance", [Who::Named("cpu", format!("cpu{chosen}"))]);
    let who = Who::Named("interface", "wire1".into());
    Ok(expect.by([who]).never(&["cpu.saturated", "cpu.system_time", "net.small_packets", "net.loss"]))
}
