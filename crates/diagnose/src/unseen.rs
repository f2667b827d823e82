//! Resources of which captures tell nothing.

use crate::facts::Facts;
use crate::scope::Scope;
use whyslow_model::diagnosis::{BlindSpot, NOT_CAPTURED};

/// What is not seen where none of these signals is known, and the capture that shows it.
const RESOURCES: [(&[&str], &str, &str); 3] = [
    (&["cpu.busy"], "the CPUs", "add the output of: mpstat -P ALL 1 10"),
    (&["mem.total", "mem.cached", "mem.swap_in_rate"], "memory", "add the output of: vmstat 1 10; free -m"),
    (&["net.bytes_rate", "net.retransmit_share"], "the network", "add the output of: sar -n DEV,TCP,ETCP 1 10"),
];
/// The same for things of which there are several.
const THINGS: [(Scope, &str, &str); 2] = [
    (Scope::Disk, "the block devices", "add the output of: iostat -x 1 10"),
    (Scope::Process, "the processes", "add the output of: top -b -n 2"),
];

/// The resources that no capture tells of.
pub fn unseen(facts: &Facts) -> Vec<BlindSpot> {
    let resources = RESOURCES
        .iter()
        .filter(|(signals, ..)| signals.iter().all(|s| facts.host_number(s).is_none()))
        .map(|(_, what, remedy)| (what, remedy));
    let things =
        THINGS.iter().filter(|(scope, ..)| facts.entities(*scope).is_empty()).map(|(_, what, remedy)| (what, remedy));
    let unseen = resources.chain(things).map(|(what, remedy)| BlindSpot {
        what: (*what).into(),
        why: NOT_CAPTURED.into(),
        remedy: (*remedy).into(),
    });
    unseen.chain(uncounted(facts)).collect()
}

/// How many processors there are, where only the mean of them was told: the run queue is judged by it.
fn uncounted(facts: &Facts) -> Option<BlindSpot> {
    let mean = facts.host_number("cpu.busy").is_some() && facts.host_number("cpu.count").is_none();
    mean.then(|| BlindSpot {
        what: "the number of CPUs".into(),
        why: "only their average is reported, so how many of the runnable tasks wait is unknown".into(),
        remedy: "add the output of: mpstat -P ALL 1 10".into(),
    })
}
