//! Machines that are made up second by second.

// Each test program uses a part of this.
#![allow(dead_code)]

use whyslow_diagnose::{RuleBook, diagnose};
use whyslow_model::catalogue::Pressure;
use whyslow_model::diagnosis::{Diagnosis, Origin};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

pub const SECOND: u64 = 1_000_000_000;
/// Snapshots, a second apart.
const SAMPLES: u64 = 11;

/// Diagnoses a machine; `fill` writes what its counters stand at after so many seconds.
pub fn machine(fill: impl Fn(u64, &mut Snapshot)) -> Diagnosis {
    judged(&RuleBook::built_in(), fill)
}

/// The same by these rules.
pub fn judged(book: &RuleBook, fill: impl Fn(u64, &mut Snapshot)) -> Diagnosis {
    diagnose(&window(fill), Origin::Live, book)
}

/// The same as it was recorded.
pub fn recorded(fill: impl Fn(u64, &mut Snapshot)) -> Diagnosis {
    diagnose(&window(fill), Origin::Recording, &RuleBook::built_in())
}

fn window(fill: impl Fn(u64, &mut Snapshot)) -> Window {
    let snapshots = (0..SAMPLES).map(|t| {
        let mut s = Snapshot { boot_ns: (t + 1) * SECOND, wall_ns: (t * SECOND) as i64, ..Snapshot::default() };
        fill(t, &mut s);
        s.sort();
        s
    });
    Window::new(snapshots.collect())
}

/// A machine on which nobody waits for a CPU, memory or storage.
pub fn no_pressure(s: &mut Snapshot) {
    s.processor.pressure.push(Pressure {
        cpu_some: 0.into(),
        memory_some: 0.into(),
        io_some: 0.into(),
        ..Pressure::new(MachineKey)
    });
}
