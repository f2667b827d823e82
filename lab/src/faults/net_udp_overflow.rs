//! Datagrams are dropped for want of buffer.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "net.udp_overflow",
    what: "datagrams come faster than their reader takes them from a small buffer",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let port = stage.dice.port();
    let at = format!("127.0.0.1:{port}");
    let (buffer, pause) = (stage.dice.between(16, 128) << 10, stage.dice.between(5_000, 20_000));
    let sink = Launch::new("udp-sink").with("at", &at).with("buffer", buffer).with("every-us", pause).start(stage)?;
    let rate = stage.dice.between(1000, 4000);
    let size = stage.dice.between(200, 1400);
    Launch::new("udp-source").with("to", &at).with("size", size).with("rate", rate).start(stage)?;
    let expect = Expect::first("net.udp_overflow", [Who::Port(port)]).by([Who::Process(sink.pid)]);
    Ok(expect.never(&["net.listen_overflow", "net.softnet", "net.loss"]))
}
