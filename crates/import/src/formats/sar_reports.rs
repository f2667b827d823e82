//! The reports of sar, their columns and the metrics these become.

use super::sysstat::{ALL_CPUS, DISK, ONE_CPU, record_disk};
use crate::prelude::*;
use crate::table::AnyColumns;
use whyslow_model::catalogue::{
    Frequency, Interface, Irq, Limits, Meminfo, Pressure, Protocol, Softnet, System, Vmstat,
};
use whyslow_model::key::PerCpu;

/// A report, identified by the columns that no other has.
pub struct SarReport {
    marks: &'static [&'static str],
    label: Option<&'static str>,
    pub record: fn(&mut ToolRun, Interval, &TableRow),
}

const fn report(
    marks: &'static [&'static str],
    label: Option<&'static str>,
    record: fn(&mut ToolRun, Interval, &TableRow),
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
    report(&["kbmemfree"], None, |run, interval, row| host(run, interval, row, &MEMORY)),
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
const SKIPPED: &[&str] = &[
    "FILESYSTEM",
    "rtps",
    "TTY",
    "kbhugfree",
    "frmpg/s",
    "call/s",
    "scall/s",
    "imsg/s",
    "ierr/s",
    "tcp6sck",
    "irec6/s",
    "ihdrer6/s",
    "imsg6/s",
    "ierr6/s",
    "idgm6/s",
    "TEMP",
    "FAN",
    "IN",
    "BAT",
    "BUS",
    "wghMHz",
    "fch_rxf/s",
    "NODE",
    "LOC/s",
    "NET_RX/s",
];

/// Whether this is the header of a report that is skipped.
pub fn is_skipped(header: &[&str]) -> bool {
    header.iter().all(|field| number(field).is_none()) && header.iter().any(|field| SKIPPED.contains(field))
}

impl SarReport {
    /// The report with this header.
    pub fn of(header: &[&str]) -> Option<&'static Self> {
        let labelled = |r: &&SarReport| r.label.is_none_or(|label| header.first() == Some(&label));
        REPORTS.iter().filter(labelled).find(|r| r.marks.iter().all(|mark| header.contains(mark)))
    }

    /// How many fields besides the time precede the numbers of a row.
    pub fn labels(&self) -> usize {
        usize::from(self.label.is_some())
    }

    /// Whether its rows are CPU shares, which add up to 100.
    pub fn is_cpu_shares(&self) -> bool {
        self.marks.contains(&"%idle")
    }
}

/// The columns of a row without header, if the numbers leave no doubt.
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
        return Some((SarReport::of(&["DEV", "tps"])?, TRANSFERS));
    }
    if let Some(names) = shares(fields) {
        return Some((SarReport::of(&["CPU", "%idle"])?, names));
    }
    let numbers: Vec<f64> = fields.iter().map(|f| number(f)).collect::<Option<_>>()?;
    let &[free, _, used, percent, buffers, cached, ..] = &numbers[..] else { return None };
    // Used is a share of all memory, most of which is in the other columns.
    let all = used / (percent / 100.0);
    let fits = numbers.len() == KBMEM.len() && (all / (free + used + buffers + cached) - 1.0).abs() < 0.02;
    fits.then_some((SarReport::of(&["kbmemfree"])?, KBMEM))
}

/// The columns of CPU shares: for five or six that add up to 100 there is only one order.
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
const INTERFACE: MetricColumns<Interface> = MetricColumns::new(&[
    col("rxpck/s", "rx_packets", 1.0),
    col("txpck/s", "tx_packets", 1.0),
    col("rxkB/s", "rx_bytes", KIB),
    col("rxbyt/s", "rx_bytes", 1.0),
    col("txkB/s", "tx_bytes", KIB),
    col("txbyt/s", "tx_bytes", 1.0),
    col("rxmcst/s", "rx_multicast", 1.0),
    col("rxerr/s", "rx_errors", 1.0),
    col("txerr/s", "tx_errors", 1.0),
    col("coll/s", "tx_collisions", 1.0),
    col("rxdrop/s", "rx_dropped", 1.0),
    col("txdrop/s", "tx_dropped", 1.0),
    col("txcarr/s", "tx_carrier", 1.0),
    col("rxfram/s", "rx_frame", 1.0),
    col("rxfifo/s", "rx_fifo", 1.0),
    col("txfifo/s", "tx_fifo", 1.0),
]);

fn network_interface(run: &mut ToolRun, interval: Interval, row: &TableRow) {
    run.rates(interval, interface(row.label()), row, &INTERFACE);
}

const PROTOCOLS: MetricColumns<Protocol> = MetricColumns::new(&[
    col("active/s", "tcp_active_opens", 1.0),
    col("passive/s", "tcp_passive_opens", 1.0),
    col("iseg/s", "tcp_in_segs", 1.0),
    col("oseg/s", "tcp_out_segs", 1.0),
    col("atmptf/s", "tcp_attempt_fails", 1.0),
    col("estres/s", "tcp_estab_resets", 1.0),
    col("retrans/s", "tcp_retrans_segs", 1.0),
    col("isegerr/s", "tcp_in_errs", 1.0),
    col("orsts/s", "tcp_out_rsts", 1.0),
    col("idgm/s", "udp_in_datagrams", 1.0),
    col("odgm/s", "udp_out_datagrams", 1.0),
    col("noport/s", "udp_no_ports", 1.0),
    col("idgmerr/s", "udp_in_errors", 1.0),
    col("irec/s", "ip_in_receives", 1.0),
    col("idisc/s", "ip_in_discards", 1.0),
    col("odisc/s", "ip_out_discards", 1.0),
    col("asmf/s", "ip_reasm_fails", 1.0),
    col("tcpsck", "tcp_in_use", 1.0),
    col("tcp-tw", "tcp_time_wait", 1.0),
    col("udpsck", "udp_in_use", 1.0),
]);

fn protocols(run: &mut ToolRun, interval: Interval, row: &TableRow) {
    run.rates(interval, interface("ip"), row, &PROTOCOLS);
}

const BACKLOG: MetricColumns<Softnet> = MetricColumns::new(&[
    col("total/s", "processed", 1.0),
    col("dropd/s", "dropped", 1.0),
    col("squeezd/s", "squeezed", 1.0),
    col("rx_rps/s", "received_rps", 1.0),
    col("flw_lim/s", "flow_limited", 1.0),
]);

/// The row `all` is the sum of the others.
fn backlog(run: &mut ToolRun, interval: Interval, row: &TableRow) {
    if let Ok(cpu) = row.label().parse() {
        run.rates(interval, cpu, row, &BACKLOG);
    }
}

const FREQUENCY: MetricColumns<Frequency> = MetricColumns::new(&[col("MHz", "current", 1e6)]);

fn frequency(run: &mut ToolRun, interval: Interval, row: &TableRow) {
    if let Ok(cpu) = row.label().parse() {
        run.rates(interval, cpu, row, &FREQUENCY);
    }
}

const MEMORY: MetricColumns<Meminfo> = MetricColumns::new(&[
    col("kbmemfree", "mem_free", KIB),
    col("kbavail", "mem_available", KIB),
    col("kbbuffers", "buffers", KIB),
    col("kbcached", "cached", KIB),
    col("kbcommit", "committed_as", KIB),
    col("kbdirty", "dirty", KIB),
    col("kbactive", "active", KIB),
    col("kbinact", "inactive", KIB),
    col("kbanonpg", "anon_pages", KIB),
    col("kbslab", "slab", KIB),
    col("kbkstack", "kernel_stack", KIB),
    col("kbpgtbl", "page_tables", KIB),
    col("kbvmused", "vmalloc_used", KIB),
    col("kbswpfree", "swap_free", KIB),
    col("kbswpfree", "swap_total", KIB),
    add("kbswpused", "swap_total", KIB),
]);
const PAGING: MetricColumns<Vmstat> = MetricColumns::new(&[
    col("pswpin/s", "pswpin", 1.0),
    col("pswpout/s", "pswpout", 1.0),
    col("pgpgin/s", "pgpgin", KIB),
    col("pgpgout/s", "pgpgout", KIB),
    col("fault/s", "pgfault", 1.0),
    col("majflt/s", "pgmajfault", 1.0),
    col("pgfree/s", "pgfree", 1.0),
    col("pgscank/s", "pgscan_kswapd", 1.0),
    col("pgscand/s", "pgscan_direct", 1.0),
]);
const SYSTEM: MetricColumns<System> = MetricColumns::new(&[
    col("runq-sz", "running", 1.0),
    col("blocked", "blocked", 1.0),
    col("ldavg-1", "load_1m", 1.0),
    col("ldavg-5", "load_5m", 1.0),
    col("ldavg-15", "load_15m", 1.0),
    col("plist-sz", "tasks", 1.0),
    col("cswch/s", "context_switches", 1.0),
    col("proc/s", "forks", 1.0),
    col("intr/s", "interrupts", 1.0),
    col("all", "interrupts", 1.0),
]);
/// Entries of the kernel's tables.
const TABLES: MetricColumns<Limits> =
    MetricColumns::new(&[col("file-nr", "files", 1.0), col("inode-nr", "inodes", 1.0)]);
/// Pressure over the interval, not over the last 10 s and more.
const PRESSURE: MetricColumns<Pressure> = MetricColumns::new(&[
    col("%scpu", "cpu_some", SECOND / 100.0),
    col("%sio", "io_some", SECOND / 100.0),
    col("%fio", "io_full", SECOND / 100.0),
    col("%smem", "memory_some", SECOND / 100.0),
    col("%fmem", "memory_full", SECOND / 100.0),
]);

fn host<F: Family<Key = Machine>>(run: &mut ToolRun, interval: Interval, row: &TableRow, columns: &MetricColumns<F>) {
    run.rates(interval, Machine, row, columns);
}

/// mpstat shows a CPU's interrupts in the same row.
fn cpus(run: &mut ToolRun, interval: Interval, row: &TableRow) {
    if row.label() == "all" {
        run.rates(interval, Machine, row, &ALL_CPUS);
        interrupts_of_cpu(run, interval, row);
    } else if let Ok(cpu) = row.label().parse() {
        run.rates(interval, cpu, row, &ONE_CPU);
    }
}

const IRQ: MetricColumns<Irq> = MetricColumns::new(&[col("intr/s", "count", 1.0), col("all", "count", 1.0)]);

/// sar sums a line over the CPUs.
fn interrupt_line(run: &mut ToolRun, interval: Interval, row: &TableRow) {
    if row.label() == "sum" {
        host(run, interval, row, &SYSTEM);
    } else {
        let line = PerCpu { name: row.label().into(), cpu: PerCpu::ALL };
        run.rates(interval, line, row, &IRQ);
    }
}

/// The row `all` is the sum of the others.
fn interrupts_of_cpu(run: &mut ToolRun, interval: Interval, row: &TableRow) {
    if row.label() == "all" && row.get("intr/s").is_some() {
        run.grow::<System>(interval, row.line, Machine, &[("interrupts", row.get("intr/s"))]);
    }
}
