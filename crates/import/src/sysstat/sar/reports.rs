//! The reports of sar: what their columns are, and which counters they are rates of.

use super::network;
use crate::number::KIB;
use crate::run::{Run, SECOND, Step};
use crate::sysstat::{devices, processor};
use crate::table::Row;
use whyslow_model::catalogue::{Frequency, Irq, Limits, Meminfo, Pressure, System, Vmstat};
use whyslow_model::key::{Machine, PerCpu};

/// A report, known by columns that no other has.
pub struct Report {
    marks: &'static [&'static str],
    label: Option<&'static str>,
    tell: fn(&mut Run, Step, &Row),
}

const REPORTS: &[Report] = &[
    Report { marks: &["%idle"], label: Some("CPU"), tell: processors },
    Report { marks: &["tps"], label: Some("DEV"), tell: disk },
    Report { marks: &["rxpck/s"], label: Some("IFACE"), tell: network::interface },
    Report { marks: &["rxerr/s"], label: Some("IFACE"), tell: network::interface_errors },
    Report { marks: &["dropd/s"], label: Some("CPU"), tell: network::backlog },
    Report { marks: &["atmptf/s"], label: None, tell: network::tcp_errors },
    Report { marks: &["active/s"], label: None, tell: network::tcp },
    Report { marks: &["idgmerr/s"], label: None, tell: network::udp },
    Report { marks: &["irec/s"], label: None, tell: network::ip },
    Report { marks: &["idisc/s"], label: None, tell: network::ip_errors },
    Report { marks: &["tcpsck"], label: None, tell: network::sockets },
    Report { marks: &["intr/s"], label: Some("INTR"), tell: interrupt },
    Report { marks: &["all"], label: Some("INTR"), tell: interrupt },
    Report { marks: &["intr/s"], label: Some("CPU"), tell: interrupts_of },
    Report { marks: &["MHz"], label: Some("CPU"), tell: frequency },
    Report { marks: &["kbmemfree"], label: None, tell: memory },
    Report { marks: &["kbswpfree"], label: None, tell: swap },
    Report { marks: &["pswpin/s"], label: None, tell: swapping },
    Report { marks: &["pgpgin/s"], label: None, tell: paging },
    Report { marks: &["runq-sz"], label: None, tell: queue },
    Report { marks: &["cswch/s"], label: None, tell: switches },
    Report { marks: &["file-nr"], label: None, tell: tables },
    Report { marks: &["%scpu"], label: None, tell: pressure },
    Report { marks: &["%sio"], label: None, tell: pressure },
    Report { marks: &["%smem"], label: None, tell: pressure },
];

/// Reports that tell nothing the judgement asks, or what others tell better: file systems, transfers in all, terminals,
/// huge pages, NFS in all, ICMP, IPv6, sensors, what mpstat tells of nodes and of single interrupts.
const PASSED_OVER: &[&str] = &[
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

/// Whether this is the header of a report that is passed over.
pub fn is_passed_over(header: &[&str]) -> bool {
    let words = header.iter().all(|field| crate::number::number(field).is_none());
    words && header.iter().any(|field| PASSED_OVER.contains(field))
}

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
        self.marks.contains(&"%idle")
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

/// mpstat shows the interrupts of a processor in the same row.
fn processors(run: &mut Run, step: Step, row: &Row) {
    if row.label() == "all" {
        processor::mean(run, step, row);
        if let Some(interrupts) = row.get("intr/s") {
            run.grow::<System>(step, row.line, Machine, &[("interrupts", Some(interrupts))]);
        }
    } else if let Ok(cpu) = row.label().parse() {
        processor::one(run, step, row, cpu);
    }
}

fn disk(run: &mut Run, step: Step, row: &Row) {
    devices::grow(run, step, row.label(), row);
}

/// sar sums a line up over the processors.
fn interrupt(run: &mut Run, step: Step, row: &Row) {
    let rate = row.first(&[("intr/s", 1.0), ("all", 1.0)]);
    if row.label() == "sum" {
        run.grow::<System>(step, row.line, Machine, &[("interrupts", rate)]);
    } else {
        let line = PerCpu { name: row.label().into(), cpu: PerCpu::ALL };
        run.grow::<Irq>(step, row.line, line, &[("count", rate)]);
    }
}

/// What mpstat says of a processor; that of all is their sum.
fn interrupts_of(run: &mut Run, step: Step, row: &Row) {
    if row.label() == "all" {
        run.grow::<System>(step, row.line, Machine, &[("interrupts", row.get("intr/s"))]);
    }
}

fn frequency(run: &mut Run, step: Step, row: &Row) {
    if let Ok(cpu) = row.label().parse() {
        run.row::<Frequency>(step.to, row.line, cpu).current = row.times("MHz", 1e6).into();
    }
}

/// Pressure over the interval; what it was over the last 10 s and more is left.
fn pressure(run: &mut Run, step: Step, row: &Row) {
    let share = |column: &str| row.times(column, SECOND / 100.0);
    let rates = [
        ("cpu_some", share("%scpu")),
        ("io_some", share("%sio")),
        ("io_full", share("%fio")),
        ("memory_some", share("%smem")),
        ("memory_full", share("%fmem")),
    ];
    run.grow::<Pressure>(step, row.line, Machine, &rates);
}

/// Entries of the kernel's tables.
fn tables(run: &mut Run, step: Step, row: &Row) {
    let limits = run.row::<Limits>(step.to, row.line, Machine);
    limits.files = row.get("file-nr").into();
    limits.inodes = row.get("inode-nr").into();
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
    memory.active = bytes("kbactive");
    memory.inactive = bytes("kbinact");
    memory.anon_pages = bytes("kbanonpg");
    memory.slab = bytes("kbslab");
    memory.kernel_stack = bytes("kbkstack");
    memory.page_tables = bytes("kbpgtbl");
    memory.vmalloc_used = bytes("kbvmused");
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
