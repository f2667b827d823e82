//! Reports of sar, their columns, and the metrics that these become.

use super::sysstat::{ALL_CPUS, DISK, ONE_CPU, record_disk};
use crate::prelude::*;
use crate::table::AnyColumns;
use whyslow_model::catalogue::{
    Frequency, Interface, Irq, Limits, Link, Meminfo, Pressure, Protocol, Softnet, System, Vmstat,
};
use whyslow_model::key::PerCpu;

/// A report, identified by columns that no other report has.
pub struct SarReport {
    marks: &'static [&'static str],
    label: Option<&'static str>,
    pub record: fn(&mut ToolRun, ReportInterval, &TableRow),
}

const fn report(
    marks: &'static [&'static str],
    label: Option<&'static str>,
    record: fn(&mut ToolRun, ReportInterval, &TableRow),
) -> SarReport {
    SarReport { marks, label, record }
}

const REPORTS: &[SarReport] = &[
    report(&["%idle"], Some("CPU"), cpus),
    report(&["tps"], Some("DEV"), record_disk),
    report(&["rxpck/s"], Some("IFACE"), network_interface),
    report(&["rxerr/s"], Some("IFACE"), network_interface),
    report(&["dropd/s"], Some("CPU"), backlog),
    report(&["atmptf/s"], None, protocols),
    report(&["active/s"], None, protocols),
    report(&["idgmerr/s"], None, protocols),
    report(&["irec/s"], None, protocols),
    report(&["idisc/s"], None, protocols),
    report(&["tcpsck"], None, protocols),
    report(&["intr/s"], Some("INTR"), interrupt_line),
    report(&["all"], Some("INTR"), interrupt_line),
    report(&["intr/s"], Some("CPU"), interrupts_of_cpu),
    report(&["MHz"], Some("CPU"), frequency),
    report(&["kbmemfree"], None, memory),
    report(&["kbswpfree"], None, |run, interval, row| host(run, interval, row, &MEMORY)),
    report(&["pswpin/s"], None, |run, interval, row| host(run, interval, row, &PAGING)),
    report(&["pgpgin/s"], None, |run, interval, row| host(run, interval, row, &PAGING)),
    report(&["runq-sz"], None, |run, interval, row| host(run, interval, row, &SYSTEM)),
    report(&["cswch/s"], None, |run, interval, row| host(run, interval, row, &SYSTEM)),
    report(&["file-nr"], None, |run, interval, row| host(run, interval, row, &TABLES)),
    report(&["%scpu"], None, |run, interval, row| host(run, interval, row, &PRESSURE)),
    report(&["%sio"], None, |run, interval, row| host(run, interval, row, &PRESSURE)),
    report(&["%smem"], None, |run, interval, row| host(run, interval, row, &PRESSURE)),
];

/// All columns of all reports, for the declarations of the formats.
pub const COLUMNS: &[&dyn AnyColumns] = &[
    &ALL_CPUS, &ONE_CPU, &DISK, &INTERFACE, &BACKLOG, &PROTOCOLS, &SYSTEM, &FREQUENCY, &MEMORY, &PAGING, &TABLES,
    &PRESSURE, &IRQ,
];

/// Columns of reports that the diagnosis does not use, or that other reports cover better: file systems, total transfers,
/// terminals, huge pages, total NFS, ICMP, IPv6, sensors, mpstat's nodes and single interrupts.
const SKIPPED: &str = "FILESYSTEM rtps TTY kbhugfree frmpg/s call/s scall/s imsg/s ierr/s tcp6sck irec6/s ihdrer6/s imsg6/s \
    ierr6/s idgm6/s TEMP FAN IN BAT BUS wghMHz fch_rxf/s NODE LOC/s NET_RX/s";

/// Returns true for the header of a report that is skipped.
pub fn is_skipped(header: &[&str]) -> bool {
    header.iter().all(|field| number(field).is_none()) && SKIPPED.split(' ').any(|column| header.contains(&column))
}

impl SarReport {
    pub fn from_header(header: &[&str]) -> Option<&'static Self> {
        let ends = [header.first(), header.last()];
        let labelled = |r: &&SarReport| r.label.is_none_or(|label| ends.contains(&Some(&label)));
        REPORTS.iter().filter(labelled).find(|r| r.marks.iter().all(|mark| header.contains(mark)))
    }

    /// Returns the number of fields, besides the time, that precede the numbers of a row.
    pub fn labels(&self) -> usize {
        usize::from(self.label.is_some())
    }

    /// Returns true if a header has the label after the numbers, as with -p and --pretty since sysstat 12.
    pub fn is_labelled_last(&self, header: &[&str]) -> bool {
        self.label.is_some_and(|label| header.first() != Some(&label))
    }

    /// Returns true if its rows are CPU shares, which add up to 100.
    pub fn is_cpu_shares(&self) -> bool {
        self.marks.contains(&"%idle")
    }
}

/// Returns the columns of a row without header, if the numbers make them certain.
pub fn headerless(fields: &[&str]) -> Option<(&'static SarReport, &'static [&'static str])> {
    const TRANSFERS: &[&str] = &["tps", "rd_sec/s", "wr_sec/s"];
    const KBMEM: &[&str] = &[
        "kbmemfree",
        "kbavail",
        "kbmemused",
        "%memused",
        "kbbuffers",
        "kbcached",
        "kbcommit",
        "%commit",
        "kbactive",
        "kbinact",
        "kbdirty",
    ];
    let device = fields.first()?.strip_prefix("dev").is_some_and(|n| n.contains('-'));
    if device && fields.len() == 1 + TRANSFERS.len() {
        return Some((SarReport::from_header(&["DEV", "tps"])?, TRANSFERS));
    }
    if let Some(names) = shares(fields) {
        return Some((SarReport::from_header(&["CPU", "%idle"])?, names));
    }
    let numbers: Vec<f64> = fields.iter().map(|f| number(f)).collect::<Option<_>>()?;
    let &[free, _, used, percent, buffers, cached, ..] = &numbers[..] else { return None };
    // %memused is a share of all memory, most of which is in the other columns.
    let all = used / (percent / 100.0);
    let fits = numbers.len() == KBMEM.len() && (all / (free + used + buffers + cached) - 1.0).abs() < 0.02;
    fits.then_some((SarReport::from_header(&["kbmemfree"])?, KBMEM))
}

/// Returns the columns of CPU shares: five or six of them that add up to 100 have only one order.
fn shares(fields: &[&str]) -> Option<&'static [&'static str]> {
    const NOW: &[&str] = &["%user", "%nice", "%system", "%iowait", "%steal", "%idle"];
    const OLD: &[&str] = &["%user", "%nice", "%system", "%iowait", "%idle"];
    let (label, shares) = fields.split_first()?;
    let names = [NOW, OLD].into_iter().find(|names| names.len() == shares.len())?;
    let shares: Vec<f64> = shares.iter().map(|f| number(f)).collect::<Option<_>>()?;
    let whole = (shares.iter().sum::<f64>() - 100.0).abs() < 0.1;
    (whole && (*label == "all" || label.parse::<u32>().is_ok())).then_some(names)
}

/// Bytes until sysstat 8, KiB since.
const INTERFACE: MetricColumns<Interface> = columns![
    "rxpck/s" => rx_packets, "txpck/s" => tx_packets, "rxkB/s" => rx_bytes * KIB, "rxbyt/s" => rx_bytes,
    "txkB/s" => tx_bytes * KIB, "txbyt/s" => tx_bytes, "rxmcst/s" => rx_multicast, "rxerr/s" => rx_errors,
    "txerr/s" => tx_errors, "coll/s" => tx_collisions, "rxdrop/s" => rx_dropped, "txdrop/s" => tx_dropped,
    "txcarr/s" => tx_carrier, "rxfram/s" => rx_frame, "rxfifo/s" => rx_fifo, "txfifo/s" => tx_fifo,
];

fn network_interface(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    run.rates(interval, interface(row.label()), row, &INTERFACE);
    if let Some(speed) = implied_speed(row) {
        run.row::<Link>(interval.to, row.line, interface(row.label())).speed = speed.into();
    }
}

/// Returns the speed in bit/s from which `%ifutil` was computed: that of the fuller direction, since sysstat assumes full
/// duplex by default (compute_ifutil of rd_stats.c). Below a few per cent, its two decimals are too coarse.
fn implied_speed(row: &TableRow) -> Option<f64> {
    let used = row.get("%ifutil").filter(|percent| *percent > 5.0)? / 100.0;
    let rate = |column: &str| row.times(column, KIB * 8.0);
    let fuller = [rate("rxkB/s"), rate("txkB/s")].into_iter().flatten().reduce(f64::max)?;
    Some(fuller / used)
}

const PROTOCOLS: MetricColumns<Protocol> = columns![
    "active/s" => tcp_active_opens, "passive/s" => tcp_passive_opens, "iseg/s" => tcp_in_segs,
    "oseg/s" => tcp_out_segs, "atmptf/s" => tcp_attempt_fails, "estres/s" => tcp_estab_resets,
    "retrans/s" => tcp_retrans_segs, "isegerr/s" => tcp_in_errs, "orsts/s" => tcp_out_rsts,
    "idgm/s" => udp_in_datagrams, "odgm/s" => udp_out_datagrams, "noport/s" => udp_no_ports,
    "idgmerr/s" => udp_in_errors, "irec/s" => ip_in_receives, "idisc/s" => ip_in_discards,
    "odisc/s" => ip_out_discards, "asmf/s" => ip_reasm_fails, "fragf/s" => ip_frag_fails, "tcpsck" => tcp_in_use,
    "tcp-tw" => tcp_time_wait, "udpsck" => udp_in_use,
];

fn protocols(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    run.rates(interval, interface("ip"), row, &PROTOCOLS);
}

const BACKLOG: MetricColumns<Softnet> = columns![
    "total/s" => processed, "dropd/s" => dropped, "squeezd/s" => squeezed, "rx_rps/s" => received_rps,
    "flw_lim/s" => flow_limited,
];

/// Records the backlog of each CPU; the row `all` is the sum of the others.
fn backlog(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    if let Ok(cpu) = row.label().parse() {
        run.rates(interval, cpu, row, &BACKLOG);
    }
}

const FREQUENCY: MetricColumns<Frequency> = columns!["MHz" => current * 1e6];

fn frequency(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    if let Ok(cpu) = row.label().parse() {
        run.rates(interval, cpu, row, &FREQUENCY);
    }
}

const MEMORY: MetricColumns<Meminfo> = columns![
    "kbmemfree" => mem_free * KIB, "kbavail" => mem_available * KIB, "kbbuffers" => buffers * KIB,
    "kbcached" => cached * KIB, "kbcommit" => committed_as * KIB, "kbdirty" => dirty * KIB,
    "kbactive" => active * KIB, "kbinact" => inactive * KIB, "kbanonpg" => anon_pages * KIB,
    "kbslab" => slab * KIB, "kbkstack" => kernel_stack * KIB, "kbpgtbl" => page_tables * KIB,
    "kbvmused" => vmalloc_used * KIB, "kbswpfree" => swap_free * KIB, "kbswpfree" => swap_total * KIB,
    "kbswpused" += swap_total * KIB,
];
/// Total memory, from kbmemused and %memused: the pages that count as used differ between versions of sysstat.
const ALL_MEMORY: MetricColumns<Meminfo> = columns!["total" => mem_total * KIB];

fn memory(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    host(run, interval, row, &MEMORY);
    let share = row.get("%memused").map(|percent| percent / 100.0).filter(|share| *share > 0.0);
    if let Some((used, share)) = row.get("kbmemused").zip(share) {
        let total = TableRow::new(row.line, "", [("total".to_owned(), used / share)]).until(row.last_line);
        host(run, interval, &total, &ALL_MEMORY);
    }
}

const PAGING: MetricColumns<Vmstat> = columns![
    "pswpin/s" => pswpin, "pswpout/s" => pswpout, "pgpgin/s" => pgpgin * KIB, "pgpgout/s" => pgpgout * KIB,
    "fault/s" => pgfault, "majflt/s" => pgmajfault, "pgfree/s" => pgfree, "pgscank/s" => pgscan_kswapd,
    "pgscand/s" => pgscan_direct,
];
const SYSTEM: MetricColumns<System> = columns![
    "runq-sz" => running, "blocked" => blocked, "ldavg-1" => load_1m, "ldavg-5" => load_5m,
    "ldavg-15" => load_15m, "plist-sz" => tasks, "cswch/s" => context_switches, "proc/s" => forks,
    "intr/s" => interrupts, "all" => interrupts,
];
/// Entries of the kernel's tables.
const TABLES: MetricColumns<Limits> = columns![
    "file-nr" => files, "inode-nr" => inodes,
];
/// Pressure over the interval, not over the last 10 s or longer.
const PRESSURE: MetricColumns<Pressure> = columns![
    "%scpu" => cpu_some * SECOND / 100.0, "%sio" => io_some * SECOND / 100.0,
    "%fio" => io_full * SECOND / 100.0, "%smem" => memory_some * SECOND / 100.0,
    "%fmem" => memory_full * SECOND / 100.0,
];

fn host<F: Family<Key = MachineKey>>(
    run: &mut ToolRun,
    interval: ReportInterval,
    row: &TableRow,
    columns: &MetricColumns<F>,
) {
    run.rates(interval, MachineKey, row, columns);
}

/// Records CPU time; mpstat shows a CPU's interrupts in the same row.
fn cpus(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    if row.label() == "all" {
        run.rates(interval, MachineKey, row, &ALL_CPUS);
        interrupts_of_cpu(run, interval, row);
    } else if let Ok(cpu) = row.label().parse() {
        run.rates(interval, cpu, row, &ONE_CPU);
    }
}

const IRQ: MetricColumns<Irq> = columns![
    "intr/s" => count, "all" => count,
];

/// Records an interrupt line, which sar sums over the CPUs.
fn interrupt_line(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    if row.label() == "sum" {
        host(run, interval, row, &SYSTEM);
    } else {
        let line = PerCpu { name: row.label().into(), cpu: PerCpu::ALL };
        run.rates(interval, line, row, &IRQ);
    }
}

/// Records the interrupts in the row `all`, which is the sum of the others.
fn interrupts_of_cpu(run: &mut ToolRun, interval: ReportInterval, row: &TableRow) {
    if row.label() == "all" && row.get("intr/s").is_some() {
        run.grow::<System>(interval, row.line, MachineKey, &[("interrupts", row.get("intr/s"))]);
    }
}
