//! Many small packets.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::wire::wired_pair;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "net.small_packets",
    what: "a program multicasts tiny datagrams as fast as it can",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let net = stage.dice.between(1, 250);
    let (near, _far) = wired_pair(stage, net)?;
    // Nobody at the other end has joined the group: what is dear is the sending.
    near.ip(&["route", "add", "239.0.0.0/8", "dev", "wire0"])?;
    let at = format!("239.{net}.0.1:{}", stage.dice.port());
    let size = stage.dice.between(16, 200);
    let source = Launch::new("udp-source").with("to", at).with("rate", 0).with("size", size).in_netns(&near)?;
    let source = source.start(stage)?;
    let wires = ["wire0", "wire1"].map(|name| Who::Named("interface", name.into()));
    let never = ["net.link_saturated", "net.udp_overflow", "cpu.irq_imbalance", "cpu.saturated"];
    Ok(Expect::first("net.small_packets", wires).by([Who::Process(source.pid)]).never(&never))
}
