//! The list of formats.

use crate::format::Format;
use crate::{database, kernel_log, limits, measured, memory, net, proc, procps, storage, sysstat};

/// Every format. Where two tell the same counter of the same thing, the one that stands first is believed: it tells it
/// more exactly.
pub const FORMATS: &[Format] = &[
    sysstat::sar::SAR,
    sysstat::sar::MPSTAT,
    sysstat::document::FORMAT,
    sysstat::pidstat::FORMAT,
    sysstat::iostat::FORMAT,
    procps::vmstat::FORMAT,
    kernel_log::FORMAT,
    proc::meminfo::FORMAT,
    procps::free::FORMAT,
    procps::vmstat_s::FORMAT,
    proc::mdstat::FORMAT,
    proc::scsi::FORMAT,
    proc::diskstats::FORMAT,
    procps::vmstat_d::FORMAT,
    proc::interrupts::INTERRUPTS,
    proc::interrupts::SOFTIRQS,
    proc::softnet::FORMAT,
    proc::net_dev::FORMAT,
    net::ip::FORMAT,
    net::netstat::INTERFACES,
    net::ifconfig::FORMAT,
    net::ethtool::FORMAT,
    net::ss::FORMAT,
    net::nstat::FORMAT,
    net::netstat::PROTOCOLS,
    net::tc::FORMAT,
    procps::top::FORMAT,
    procps::ps::FORMAT,
    procps::uptime::FORMAT,
    measured::dd::FORMAT,
    measured::iperf::FORMAT,
    measured::iperf3::FORMAT,
    measured::fio::FORMAT,
    measured::bonnie::FORMAT,
    measured::iozone::FORMAT,
    measured::perf_stat::FORMAT,
    storage::df::FORMAT,
    storage::lsblk::FORMAT,
    storage::mount::FORMAT,
    storage::fdisk::FORMAT,
    storage::parted::FORMAT,
    storage::spmgr::FORMAT,
    storage::xfs_info::FORMAT,
    storage::nfs::NFSIOSTAT,
    storage::nfs::MOUNTSTATS,
    memory::numactl::FORMAT,
    memory::numastat::FORMAT,
    limits::sysv::IPCS,
    limits::sysv::SYSCTL,
    limits::ulimit::FORMAT,
    database::statspack::FORMAT,
];

/// The place of a format among the others.
pub(crate) fn rank(tool: &str) -> usize {
    FORMATS.iter().position(|f| f.name == tool).unwrap_or(FORMATS.len())
}
