//! Swap that is used and still.

use crate::cgroup::Cgroup;
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use crate::zram;

/// The trial.
pub const TRIAL: Trial =
    Trial { name: "still-swap", what: "memory lies in swap and nobody asks for it", quick: false, make };

fn make(stage: &mut Stage) -> Result<Expect> {
    let group = Cgroup::new(stage, "still", &["memory"])?;
    let limit = stage.dice.between(32, 64) << 20;
    zram::swap(stage, 4 * limit)?;
    group.set("memory.limit_in_bytes", limit)?;
    let touch = Launch::new("touch").with("bytes", limit * 2).flag("still").in_cgroup(&group)?;
    touch.start(stage)?;
    Ok(Expect::healthy())
}
