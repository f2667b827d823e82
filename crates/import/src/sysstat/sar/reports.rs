//! The reports of sar: what their columns are, and which counters they are rates of.

use crate::run::{Run, Step};
use crate::sysstat::{devices, processor};
use crate::table::Row;
use whyslow_model::catalogue::{Interface, Irq, Meminfo, System, Vmstat};
use whyslow_model::key::{Machine, NetKey, PerCpu};

const KIB: f64 = 1024.0;

/// A report, known by columns that no other has.
pub struct Report {
    marks: &'static [&'static str],
    label: Option<&'static str>,
    tell: fn(&mut Run, Step, &Row),
}

const REPORTS: &[Report] = &[
    Report { marks: &["%idle"], label: Some("CPU"), tell: processors },
    Report { marks: &["tps"], label: Some("DEV"), tell: disk },
    Report { marks: &["rxpck/s"], label: Some("IFACE"), tell: interface },
    Report { marks: &["rxerr/s"], label: Some("IFACE"), tell: interface_errors },
    Report { marks: &["intr/s"], label: Some("INTR"), tell: interrupt },
    Report { marks: &["kbmemfree"], label: None, tell: memory },
    Report { marks: &["kbswpfree"], label: None, tell: swap },
    Report { marks: &["pswpin/s"], label: None, tell: swapping },
    Report { marks: &["pgpgin/s"], label: None, tell: paging },
    Report { marks: &["runq-sz"], label: None, tell: queue },
    Report { marks: &["cswch/s"], label: None, tell: switches },
    Report { marks: &["rtps"], label: None, tell: nothing },
];

impl Report {
    /// The report with this header.
    pub fn of(header: &[&str]) -> Option<&'static Self> {
        let labelled = |r: &&Report| r.label.is_none_or(|label| header.first() == Some(&label));
        REPORTS.iter().filter(labelled).find(|r| r.marks.iter().all(|mark| header.contains(mark)))
    }

    /// How many fields stand before the numbers of a row, beside the time.
    pub fn labels(&self) -> usize {
        usize::from(self.label.is_some())
    }

    /// Whether its shares add up to the whole.
    pub fn is_processors(&self) -> bool {
        self.label == Some("CPU")
    }

    /// Lets the counters grow by what a row tells of a step.
    pub fn tell(&self, run: &mut Run, step: Step, row: &Row) {
        (self.tell)(run, step, row);
    }
}

/// Columns of a row that was cut from its header, where the numbers themselves leave no doubt.
pub fn headless(fields: &[&str]) -> Option<(&'static Report, &'static [&'static str])> {
    const DISK: &[&str] = &["tps", "rd_sec/s", "wr_sec/s"];
    const MEMORY: &[&str] = &[
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
    if device && fields.len() == 1 + DISK.len() {
        return Some((Report::of(&["DEV", "tps"])?, DISK));
    }
    let numbers: Vec<f64> = fields.iter().map(|f| crate::number::number(f)).collect::<Option<_>>()?;
    let &[free, _, used, percent, buffers, cached, ..] = &numbers[..] else { return None };
    // Used is a share of all memory, of which the other columns are the greatest part.
    let all = used / (percent / 100.0);
    let fits = numbers.len() == MEMORY.len() && (all / (free + used + buffers + cached) - 1.0).abs() < 0.02;
    fits.then_some((Report::of(&["kbmemfree"])?, MEMORY))
}

fn label(row: &Row) -> &str {
    row.labels.last().map_or("", String::as_str)
}

/// mpstat shows the interrupts of a processor in the same row.
fn processors(run: &mut Run, step: Step, row: &Row) {
    if label(row) == "all" {
        processor::mean(run, step, row);
        if let Some(interrupts) = row.get("intr/s") {
            run.grow::<System>(step, row.line, Machine, &[("interrupts", Some(interrupts))]);
        }
    } else if let Ok(cpu) = label(row).parse() {
        processor::one(run, step, row, cpu);
    }
}

fn disk(run: &mut Run, step: Step, row: &Row) {
    devices::grow(run, step, label(row), row);
}

fn interface_key(row: &Row) -> NetKey {
    NetKey { ns: "".into(), name: label(row).into() }
}

/// Bytes until sysstat 8, KiB since.
fn interface(run: &mut Run, step: Step, row: &Row) {
    let bytes = |kib, plain| row.first(&[(kib, KIB), (plain, 1.0)]);
    let rates = [
        ("rx_packets", row.get("rxpck/s")),
        ("tx_packets", row.get("txpck/s")),
        ("rx_bytes", bytes("rxkB/s", "rxbyt/s")),
        ("tx_bytes", bytes("txkB/s", "txbyt/s")),
        ("rx_multicast", row.get("rxmcst/s")),
    ];
    run.grow::<Interface>(step, row.line, interface_key(row), &rates);
}

fn interface_errors(run: &mut Run, step: Step, row: &Row) {
    let rates = [
        ("rx_errors", row.get("rxerr/s")),
        ("tx_errors", row.get("txerr/s")),
        ("tx_collisions", row.get("coll/s")),
        ("rx_dropped", row.get("rxdrop/s")),
        ("tx_dropped", row.get("txdrop/s")),
        ("tx_carrier", row.get("txcarr/s")),
        ("rx_frame", row.get("rxfram/s")),
        ("rx_fifo", row.get("rxfifo/s")),
        ("tx_fifo", row.get("txfifo/s")),
    ];
    run.grow::<Interface>(step, row.line, interface_key(row), &rates);
}

/// sar sums a line up over the processors.
fn interrupt(run: &mut Run, step: Step, row: &Row) {
    if label(row) == "sum" {
        run.grow::<System>(step, row.line, Machine, &[("interrupts", row.get("intr/s"))]);
    } else {
        let line = PerCpu { name: label(row).into(), cpu: PerCpu::ALL };
        run.grow::<Irq>(step, row.line, line, &[("count", row.get("intr/s"))]);
    }
}

fn memory(run: &mut Run, step: Step, row: &Row) {
    let bytes = |column| row.times(column, KIB).into();
    let memory = run.row::<Meminfo>(step.to, row.line, Machine);
    memory.mem_free = bytes("kbmemfree");
    memory.mem_available = bytes("kbavail");
    memory.buffers = bytes("kbbuffers");
    memory.cached = bytes("kbcached");
    memory.committed_as = bytes("kbcommit");
    memory.dirty = bytes("kbdirty");
    if row.get("kbswpfree").is_some() {
        swap(run, step, row);
    }
}

fn swap(run: &mut Run, step: Step, row: &Row) {
    let free = row.times("kbswpfree", KIB);
    let memory = run.row::<Meminfo>(step.to, row.line, Machine);
    memory.swap_free = free.into();
    memory.swap_total = free.zip(row.times("kbswpused", KIB)).map(|(free, used)| free + used).into();
}

fn swapping(run: &mut Run, step: Step, row: &Row) {
    let rates = [("pswpin", row.get("pswpin/s")), ("pswpout", row.get("pswpout/s"))];
    run.grow::<Vmstat>(step, row.line, Machine, &rates);
}

fn paging(run: &mut Run, step: Step, row: &Row) {
    let rates = [
        ("pgpgin", row.times("pgpgin/s", KIB)),
        ("pgpgout", row.times("pgpgout/s", KIB)),
        ("pgfault", row.get("fault/s")),
        ("pgmajfault", row.get("majflt/s")),
        ("pgfree", row.get("pgfree/s")),
        ("pgscan_kswapd", row.get("pgscank/s")),
        ("pgscan_direct", row.get("pgscand/s")),
    ];
    run.grow::<Vmstat>(step, row.line, Machine, &rates);
}

fn queue(run: &mut Run, step: Step, row: &Row) {
    let system = run.row::<System>(step.to, row.line, Machine);
    system.running = row.get("runq-sz").into();
    system.blocked = row.get("blocked").into();
    system.load_1m = row.get("ldavg-1").into();
    system.load_5m = row.get("ldavg-5").into();
    system.load_15m = row.get("ldavg-15").into();
    system.tasks = row.get("plist-sz").into();
}

fn switches(run: &mut Run, step: Step, row: &Row) {
    let rates =
        [("context_switches", row.get("cswch/s")), ("forks", row.get("proc/s")), ("interrupts", row.get("intr/s"))];
    run.grow::<System>(step, row.line, Machine, &rates);
}

/// What the devices' own reports tell better.
fn nothing(_: &mut Run, _: Step, _: &Row) {}
