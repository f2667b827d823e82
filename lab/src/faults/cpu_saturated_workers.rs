//! Many small processes of one program use more than the one large process beside them.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.saturated.workers",
    what: "single-threaded workers use more CPU together than one process with fewer threads, and less each",
    quick: false,
    make,
};

/// One turn of a computing thread, which begins anew as soon as it ends.
const TURN_US: u64 = 20_000;

fn make(stage: &mut Stage) -> Result<Expect> {
    let cpus = std::thread::available_parallelism()?.get() as u64;
    let workers = 3 * cpus + stage.dice.between(0, 2);
    for _ in 0..workers {
        Launch::new("spin").start(stage)?;
    }
    // Every thread gets the same share of the CPUs, so that the threads decide which program has more.
    let threads = workers - stage.dice.between(1, 2);
    let turn = |launch: Launch| launch.with("busy-us", TURN_US).with("every-us", TURN_US);
    turn(Launch::new("naps").with("threads", threads)).start(stage)?;
    let never = ["cpu.single_thread", "cpu.throttled", "cpu.steal"];
    Ok(Expect::first("cpu.saturated", [Who::Host]).by([Who::Command("lab-spin")]).never(&never))
}
