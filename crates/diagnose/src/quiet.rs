//! Whether a window of the machine as a whole leaves anything to look for in its processes.

use crate::facts::Facts;
use crate::judge::judge;
use crate::rulebook::RuleBook;
use whyslow_model::catalogue::{Cpu, Pressure, System};
use whyslow_model::value::Counter;
use whyslow_model::window::Window;

/// Time lost below which no rule about time lost holds.
const STALL: f64 = 0.02;
/// Above this a processor may be full of one thread's work.
const BUSY: f64 = 0.8;

/// Whether nothing is found, nobody stalls (pressure stall information), no processor is nearly full and no task waits
/// for a block request. Tables of processes and threads may be missing from the window. False where it cannot be told.
pub fn is_quiet(window: &Window, book: &RuleBook) -> bool {
    nobody_stalls(window) && no_processor_is_full(window) && nobody_is_blocked(window) && nothing_is_found(window, book)
}

fn nobody_stalls(window: &Window) -> bool {
    let Some(pressure) = window.change::<Pressure>() else { return false };
    let below = |f: fn(&Pressure) -> Counter| pressure.rate(f).is_some_and(|ns| ns / 1e9 < STALL);
    below(|p| p.cpu_some) && below(|p| p.memory_some) && below(|p| p.io_some)
}

fn no_processor_is_full(window: &Window) -> bool {
    let cores = window.changes::<Cpu>();
    !cores.is_empty()
        && cores.iter().all(|core| {
            let idle = core.rate(|c| c.idle).zip(core.rate(|c| c.iowait)).map(|(idle, iowait)| idle + iowait);
            idle.is_some_and(|idle| idle / 1e9 > 1.0 - BUSY)
        })
}

fn nobody_is_blocked(window: &Window) -> bool {
    window.change::<System>().is_some_and(|system| system.max(|s| s.blocked) == Some(0.0))
}

fn nothing_is_found(window: &Window, book: &RuleBook) -> bool {
    let (found, alike) = judge(book.all(), &Facts::of(window));
    found.is_empty() && alike.is_empty()
}
