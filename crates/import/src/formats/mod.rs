//! The formats, one file each. Each format is declared in its own file and listed here.

mod atop;
mod atop_screen;
mod biolatency;
mod biosnoop;
mod biotop;
mod blkparse;
mod bonding;
mod bonnie;
mod btrfs;
mod btt;
mod busybox_top;
mod ceph;
mod containers;
mod converter;
mod cpuinfo;
mod cpupower;
mod dd;
mod df;
mod dmsetup;
mod dropwatch;
mod dstat;
mod edac;
mod ethtool;
mod ethtool_reports;
mod fdisk;
mod fio;
mod fio_text;
mod free;
mod ftrace;
mod gc_log;
mod hdparm;
mod ifconfig;
mod innodb;
mod interrupts;
mod iosnoop;
mod iostat;
mod iostat_headerless;
mod iotop;
mod iozone;
mod ip;
mod ipcs;
mod iperf;
mod iperf3;
mod jstack;
mod jstat;
pub(crate) mod kernel_files;
pub(crate) mod kernel_log;
pub mod kernel_names;
mod kernel_stack;
mod kubectl_describe;
mod kubectl_get;
mod latency_histogram;
mod lparstat;
mod lsblk;
mod lscpu;
mod lspci;
mod lsusb;
mod lvm;
mod mdadm;
mod mdstat;
mod memcached;
mod meminfo;
mod mii_tool;
mod mkfs_xfs;
mod mount;
mod mountstats;
mod mtr;
mod multipath;
mod netstat;
mod nfsiostat;
mod nfsstat;
mod nmon;
mod nstat;
mod numactl;
mod numastat;
mod nvme;
mod offcputime;
mod parted;
mod pcp;
mod perf_report;
mod perf_stat;
mod pg_activity;
mod pidstat;
mod pidstat_headerless;
mod ping;
mod pmap;
mod proc_counters;
mod proc_scsi;
mod proc_stat;
mod proc_vmstat;
mod processlist;
mod ps;
mod ps_headerless;
mod psql;
mod raid_controller;
mod redis;
mod sadf_d;
mod sar;
mod sar_reports;
mod slab;
mod slow_operations;
mod smartctl;
mod smartd;
mod spmgr;
mod ss;
mod ss_info;
mod ss_summary;
mod stat_f;
mod statspack;
mod sysctl;
mod sysstat;
mod sysstat_json;
mod task_table;
mod tc;
mod time;
mod top;
mod top_headerless;
mod turbostat;
mod ulimit;
mod uptime;
mod vcgencmd;
mod virsh;
mod vmstat;
mod vmstat_d;
mod vmstat_s;
mod vmware_balloon;
mod wireless;
mod zones;
mod zpool;
mod zpool_iostat;

pub use converter::{converted, is_metadata, recording};

use crate::banner::Banner;
use crate::clock;
use crate::command::CommandLine;
use crate::format::{Format, Recognized};
use crate::lines::Lines;
use crate::margin::{Margin, indentation};
use crate::supportconfig;
use std::collections::HashMap;
use std::sync::LazyLock;

/// All formats. If two have the same counter of the same object, the first one is used because it is more exact.
pub const FORMATS: &[Format] = &[
    sar::SAR,
    sar::MPSTAT,
    sysstat_json::FORMAT,
    sadf_d::FORMAT,
    pidstat::FORMAT,
    pidstat_headerless::FORMAT,
    iostat::FORMAT,
    iotop::FORMAT,
    vmstat::FORMAT,
    lparstat::REPORT,
    lparstat::CONFIGURATION,
    nmon::FORMAT,
    pcp::FORMAT,
    atop::FORMAT,
    atop_screen::FORMAT,
    dstat::FORMAT,
    // Its first line begins with a time, like the lines of a log.
    innodb::FORMAT,
    innodb::VARIABLES,
    // A kernel message uses the same words.
    vcgencmd::FORMAT,
    kernel_log::FORMAT,
    kernel_stack::FORMAT,
    kernel_files::FORMAT,
    meminfo::FORMAT,
    free::FORMAT,
    slab::SLABTOP,
    slab::SLABINFO,
    vmstat_s::FORMAT,
    mdstat::FORMAT,
    mdadm::FORMAT,
    btrfs::STATS,
    btrfs::USAGE,
    btrfs::DF,
    btrfs::SHOW,
    proc_scsi::FORMAT,
    proc_counters::DISKSTATS,
    proc_stat::FORMAT,
    proc_vmstat::FORMAT,
    vmstat_d::FORMAT,
    blkparse::FORMAT,
    btt::FORMAT,
    ftrace::FORMAT,
    biosnoop::FORMAT,
    iosnoop::FORMAT,
    biolatency::FORMAT,
    latency_histogram::FORMAT,
    slow_operations::FORMAT,
    offcputime::FORMAT,
    biotop::FORMAT,
    interrupts::INTERRUPTS,
    interrupts::SOFTIRQS,
    proc_counters::SOFTNET,
    proc_counters::NET_DEV,
    proc_counters::NETLINK,
    ip::FORMAT,
    netstat::INTERFACES,
    ifconfig::FORMAT,
    ethtool::FORMAT,
    bonding::FORMAT,
    wireless::FORMAT,
    ss::FORMAT,
    ss_summary::FORMAT,
    nstat::FORMAT,
    netstat::PROTOCOLS,
    tc::FORMAT,
    dropwatch::FORMAT,
    top::FORMAT,
    busybox_top::FORMAT,
    top_headerless::FORMAT,
    ps::FORMAT,
    ps_headerless::FORMAT,
    pmap::FORMAT,
    uptime::FORMAT,
    turbostat::FORMAT,
    cpupower::FORMAT,
    lscpu::FORMAT,
    cpuinfo::FORMAT,
    dd::FORMAT,
    time::FORMAT,
    hdparm::FORMAT,
    ping::FORMAT,
    mtr::FORMAT,
    iperf::FORMAT,
    iperf3::FORMAT,
    fio::FORMAT,
    bonnie::FORMAT,
    iozone::FORMAT,
    perf_stat::FORMAT,
    pg_activity::FORMAT,
    perf_report::FORMAT,
    df::FORMAT,
    smartctl::FORMAT,
    smartd::FORMAT,
    nvme::FORMAT,
    zpool::STATUS,
    // Its header could be that of lsblk.
    zpool::LIST,
    zpool_iostat::FORMAT,
    stat_f::FORMAT,
    edac::FORMAT,
    processlist::FORMAT,
    memcached::FORMAT,
    vmware_balloon::FORMAT,
    lsblk::FORMAT,
    lspci::FORMAT,
    lsusb::FORMAT,
    mount::FORMAT,
    fdisk::FORMAT,
    parted::FORMAT,
    spmgr::FORMAT,
    multipath::FORMAT,
    mii_tool::FORMAT,
    mkfs_xfs::FORMAT,
    nfsiostat::FORMAT,
    nfsstat::FORMAT,
    mountstats::FORMAT,
    numactl::FORMAT,
    numastat::FORMAT,
    ipcs::FORMAT,
    sysctl::FORMAT,
    ulimit::FORMAT,
    statspack::FORMAT,
    redis::FORMAT,
    psql::FORMAT,
    lvm::REPORTS,
    lvm::LVDISPLAY,
    dmsetup::FORMAT,
    containers::DOCKER_STATS,
    containers::CGTOP,
    containers::KUBECTL_TOP,
    kubectl_describe::FORMAT,
    kubectl_get::FORMAT,
    zones::BUDDYINFO,
    zones::ZONEINFO,
    virsh::BLKDEVIOTUNE,
    virsh::DOMSTATS,
    virsh::DOMMEMSTAT,
    virsh::DOMINFO,
    virsh::VCPUPIN,
    virsh::DUMPXML,
    ceph::FORMAT,
    jstack::FORMAT,
    jstat::FORMAT,
    gc_log::FORMAT,
    raid_controller::MEGACLI,
    raid_controller::STORCLI,
    raid_controller::SSACLI,
    // Any text may contain these.
    kernel_names::FORMAT,
];

/// A program that prints files: the output may have any format.
const CAT: &str = "cat";

static PROGRAMS: LazyLock<HashMap<&str, Recognized>> =
    LazyLock::new(|| FORMATS.iter().flat_map(|format| format.programs).map(|p| (p.name, p.recognized)).collect());

/// Ranks the tools that report the same counter: ethtool first, since a card knows what it dropped, while sar shows what the
/// driver adds up; then the order of the list.
pub(crate) fn rank(name: &str) -> usize {
    if name == ethtool::FORMAT.name {
        return 0;
    }
    FORMATS.iter().position(|f| f.name == name).unwrap_or(FORMATS.len())
}

/// Returns true if all output of a program is in known formats, so that an unrecognized line is suspicious.
pub(crate) fn is_fully_read(program: &str) -> bool {
    PROGRAMS.get(program).is_some_and(|recognized| *recognized != Recognized::Partly)
}

/// Returns true if the output of a command is in a known format, or consists of lines of files that are.
pub(crate) fn is_read(command: &CommandLine) -> bool {
    PROGRAMS.contains_key(command.program()) || command.is_grep() || command.program() == CAT
}

/// Returns true if a command is reasonable but its output is not expected to yield figures: other programs summarize or filter
/// it, or its program also prints other things.
pub(crate) fn is_for_people(command: &CommandLine) -> bool {
    const PROGRAMS_FOR_PEOPLE: [&str; 6] = ["taskset", "cut", "sort", "for", "timeout", "ulimit"];
    let is_partly_read = PROGRAMS.get(command.program()) == Some(&Recognized::Partly);
    is_partly_read || command.is_summed_up() || PROGRAMS_FOR_PEOPLE.contains(&command.program())
}

fn is_bare_command(program: &str) -> bool {
    program == CAT || PROGRAMS.get(program) == Some(&Recognized::Anywhere)
}

/// Parses a line of text as a command line.
pub(crate) fn command_of(text: &str) -> Option<CommandLine> {
    CommandLine::at_prompt(text).or_else(|| CommandLine::bare(text, is_bare_command))
}

/// Returns true if a line of text is a command line.
pub(crate) fn is_command(text: &str) -> bool {
    command_of(text).is_some()
}

/// Returns the command line in the file name of a sosreport.
pub(crate) fn command_in_file_name(file: &str) -> Option<CommandLine> {
    CommandLine::in_file_name(file, is_bare_command)
}

/// Returns true if the next line begins an output with a comment, which looks like a command at root's prompt.
pub(crate) fn begins_with_comment(lines: &mut Lines<'_>) -> bool {
    let starts = |lines: &mut Lines<'_>| FORMATS.iter().any(|f| (f.starts)(lines));
    if !lines.next_is(|text| text.trim_start().starts_with('#')) {
        return false;
    }
    let indent = lines.peek(0).map_or(0, indentation);
    if indent == 0 || starts(lines) {
        return starts(lines);
    }
    lines.behind(Margin::Indent(indent), starts)
}

/// Returns true if the next line begins something other than the output of `own`: a prompt, or another tool's output.
pub(crate) fn another_output_starts(lines: &mut Lines<'_>, own: &str) -> bool {
    let Some(text) = lines.peek(0) else { return true };
    is_command(text)
        || supportconfig::section(text).is_some()
        || Banner::read(text).is_some()
        || clock::date_line(text).is_some()
        || FORMATS.iter().any(|f| f.name != own && (f.starts)(lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Lines;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Returns the formats that begin at any line of a text.
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

    #[test]
    fn every_declared_column_becomes_a_counter_or_gauge_of_the_catalogue() {
        for format in FORMATS {
            for columns in format.columns {
                assert_eq!(columns.unknown(), Vec::<&str>::new(), "{}", format.name);
            }
        }
    }
}
