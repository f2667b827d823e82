//! A nearly idle machine on which tests plant faults.

use whyslow_model::catalogue::{Cpu, Pressure, System};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;

pub const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 16:43:20 UTC, in nanoseconds.
pub const START: i64 = 1_795_279_400 * SECOND as i64;

/// Returns its counters after this many seconds: two processors that work one second in `rest`, and no pressure.
pub fn machine(seconds: u64, rest: u64) -> Snapshot {
    let mut s = Snapshot::default();
    let nanoseconds = seconds * SECOND;
    for cpu in 0..2 {
        s.processor.cpu.push(Cpu {
            user: (nanoseconds / rest).into(),
            system: 0.into(),
            idle: (nanoseconds / rest * (rest - 1)).into(),
            iowait: 0.into(),
            ..Cpu::new(cpu)
        });
    }
    s.processor.pressure.push(Pressure {
        cpu_some: 0.into(),
        memory_some: 0.into(),
        io_some: 0.into(),
        ..Pressure::new(MachineKey)
    });
    s.processor.system.push(System { blocked: 0.0.into(), ..System::new(MachineKey) });
    s
}
