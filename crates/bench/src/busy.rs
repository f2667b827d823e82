//! Processor time of the whole machine.

use whyslow_model::catalogue::Cpu;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};

/// Processor time used in a window, all processors together, seconds: neither idle nor stolen. None where it is not known.
pub(crate) fn busy_seconds(window: &Window) -> Option<f64> {
    let modes: [fn(&Cpu) -> Counter; 5] = [|c| c.user, |c| c.nice, |c| c.system, |c| c.irq, |c| c.softirq];
    let busy = |change: &Change<'_, Cpu>| modes.iter().map(|mode| change.grown(mode)).sum::<Option<f64>>();
    window.changes::<Cpu>().iter().map(busy).sum::<Option<f64>>().map(|ns| ns / 1e9)
}
