//! A busy loopback.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial =
    Trial { name: "loopback", what: "TCP streams of a moderate rate run over loopback", quick: true, make };

fn make(stage: &mut Stage) -> Result<Expect> {
    let at = format!("127.0.0.1:{}", stage.dice.port());
    Launch::new("sink").with("at", &at).start(stage)?;
    let (streams, rate) = (stage.dice.between(1, 4), stage.dice.between(20, 60) << 20);
    Launch::new("source").with("to", &at).with("streams", streams).with("rate", rate).start(stage)?;
    Ok(Expect::healthy())
}
