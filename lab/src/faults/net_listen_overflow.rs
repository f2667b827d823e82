//! The accept queue overflows.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "net.listen_overflow",
    what: "a server accepts more slowly than its callers come, and its queue is short",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (port, backlog) = (stage.dice.port(), stage.dice.between(1, 8));
    let at = format!("127.0.0.1:{port}");
    let pause = stage.dice.between(200, 500);
    let accept = Launch::new("accept").with("at", &at).with("backlog", backlog).with("every-ms", pause);
    let accept = accept.start(stage)?;
    let callers = backlog + stage.dice.between(10, 30);
    Launch::new("connect").with("to", &at).with("callers", callers).with("patience-ms", 1500).start(stage)?;
    let expect = Expect::first("net.listen_overflow", [Who::Port(port)]).by([Who::Process(accept.pid)]);
    Ok(expect.never(&["net.udp_overflow", "net.loss"]))
}
