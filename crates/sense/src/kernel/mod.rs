//! The machine, its limits and settings, the kernel's log, and whyslow itself.

mod features;
mod hypervisor;
mod kmsg;
mod limits;
mod machine;
mod observer;
mod pcie;
mod sysctl;
mod sysvipc;

pub(crate) use machine::read as read_machine;
pub(crate) use sysctl::one_line;

use crate::source::{Source, stateless};

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    let mut sources = vec![
        stateless(machine::INFO, machine::read),
        stateless(limits::INFO, limits::read),
        stateless(sysvipc::INFO, sysvipc::read),
        stateless(sysctl::INFO, sysctl::read),
        Box::new(kmsg::KernelLog::default()),
        stateless(observer::INFO, observer::read),
        stateless(pcie::INFO, pcie::read),
    ];
    sources.extend(features::sources());
    sources
}
