//! The machine, its limits and settings, the kernel's log, and the observer itself.

mod hypervisor;
mod kmsg;
mod limits;
mod machine;
mod observer;
mod sysctl;
mod sysvipc;

use crate::source::Source;
use whyslow_model::value::{Gauge, State};

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(machine::Machine),
        Box::new(limits::Limits),
        Box::new(sysvipc::SysvIpc),
        Box::new(sysctl::Settings),
        Box::new(kmsg::KernelLog::default()),
        Box::new(observer::SelfCost),
    ]
}

/// A gauge that is absent where there is no reading.
fn gauge(reading: Option<u64>) -> Gauge {
    reading.map_or(Gauge::ABSENT, Gauge::from)
}

/// A state that is absent where there is no reading.
fn state(reading: Option<String>) -> State {
    reading.map_or_else(State::default, State::from)
}
