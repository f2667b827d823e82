//! The list of formats.

use crate::format::Format;
use crate::{database, kernel_log, limits, measured, net, proc, procps, storage, sysstat};

/// Every format. Where two tell the same counter of the same thing, the one that stands first is believed: it tells it
/// more exactly.
pub const FORMATS: &[Format] = &[
    sysstat::sar::FORMAT,
    sysstat::pidstat::FORMAT,
    sysstat::iostat::FORMAT,
    procps::vmstat::FORMAT,
    kernel_log::FORMAT,
    proc::meminfo::FORMAT,
    procps::free::FORMAT,
    proc::mdstat::FORMAT,
    proc::scsi::FORMAT,
    proc::diskstats::FORMAT,
    proc::net_dev::FORMAT,
    proc::softnet::FORMAT,
    proc::interrupts::INTERRUPTS,
    proc::interrupts::SOFTIRQS,
    net::ifconfig::FORMAT,
    net::ethtool::FORMAT,
    net::ss::FORMAT,
    procps::top::FORMAT,
    procps::ps::FORMAT,
    measured::dd::FORMAT,
    measured::iperf::FORMAT,
    measured::bonnie::FORMAT,
    storage::df::FORMAT,
    limits::sysv::IPCS,
    limits::sysv::SYSCTL,
    storage::fdisk::FORMAT,
    database::statspack::FORMAT,
];

/// The place of a format among the others.
pub(crate) fn rank(tool: &str) -> usize {
    FORMATS.iter().position(|f| f.name == tool).unwrap_or(FORMATS.len())
}
