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
    storage::smartctl::FORMAT,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Lines;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The formats that some line of a text begins.
    fn begun(text: &[u8]) -> BTreeSet<&'static str> {
        let mut lines = Lines::new("x", text);
        let mut found = BTreeSet::new();
        while lines.peek(0).is_some() {
            found.extend(FORMATS.iter().filter(|format| (format.starts)(&mut lines)).map(|format| format.name));
            lines.skip(1);
        }
        found
    }

    fn collect(folder: &Path, found: &mut BTreeSet<&'static str>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|e| e == "txt") {
                found.extend(begun(&std::fs::read(path).unwrap()));
            }
        }
    }

    #[test]
    fn every_format_has_a_capture_that_is_fuzzed() {
        let mut found = BTreeSet::new();
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), &mut found);
        let without: Vec<&str> = FORMATS.iter().map(|f| f.name).filter(|name| !found.contains(name)).collect();
        assert_eq!(without, Vec::<&str>::new());
    }
}
