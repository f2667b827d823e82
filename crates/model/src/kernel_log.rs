//! Text patterns of the kernel log messages that the diagnosis understands.
//!
//! Two programs use them: the parsers of `diagnose`, and the prefilter with which `import` skips all other lines of a
//! long log. Both use these tables, so each pattern is in one place: [`prefilter`] is derived.

/// Phase of the condition that a message reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPhase {
    /// Begins or continues.
    Begins,
    /// Ends.
    Ends,
    /// A single event, over by itself.
    Passes,
}

/// The subject of a message, which determines how it is found in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSubject {
    /// The machine.
    Host,
    /// A stuck task.
    Task,
    /// A stuck CPU.
    Cpu,
    /// The machine, with the message itself as the detail.
    Message,
    /// A memory module.
    MemoryModule,
    /// The temperature or power limit of a CPU.
    Temperature,
    /// A kernel setting that limits a table.
    Limit(&'static str),
    /// A listening socket, by its port.
    ListeningSocket,
    /// A network interface.
    Interface,
    /// A file system, by its device.
    FileSystem,
    /// A control group.
    Cgroup,
    /// An NFS server.
    NfsServer,
    /// The order of a failed page allocation.
    PageAllocation,
    /// A device-mapper volume.
    Volume,
    /// A device-mapper snapshot, which the message does not name.
    Snapshot,
    /// A path to storage.
    StoragePath,
    /// The daemon of a disk in a Ceph cluster (OSD).
    CephOsd,
    /// The machine, with the program that logged the message as the detail.
    Program(&'static str),
    /// The machine, if a temporary file is large.
    TemporaryFile,
    /// A PCIe device, by its address.
    PcieDevice,
    /// An interrupt line.
    Interrupt,
    /// The machine, with the location in the kernel as the detail.
    Crash,
}

/// A message that fits in one line.
pub struct LogPattern {
    /// The topic, a word that rules use.
    pub topic: &'static str,
    /// Words that it must contain, all of them. The first is the rarest: the prefilter searches for it alone.
    pub words: &'static [&'static str],
    /// Whether the condition begins or ends.
    pub phase: LogPhase,
    /// Its subject.
    pub subject: LogSubject,
}

impl LogPattern {
    /// Returns whether a line is this message.
    pub fn matches(&self, text: &str) -> bool {
        self.words.iter().all(|words| text.contains(words))
    }
}

/// Declares patterns: topic, subject, words. Words after `ends` report the end of a condition, those after `passes` one
/// that ended by itself. If several patterns match a line, the first one wins.
macro_rules! log_patterns {
    ($($topic:literal $subject:expr => $($words:tt)|+ $(, passes $($event:tt)|+)? $(, ends $($end:tt)|+)? ;)*) => {
        /// All patterns.
        pub const LOG_PATTERNS: &[LogPattern] = &[ $(
            $( $( LogPattern { topic: $topic, words: &$event, phase: LogPhase::Passes, subject: $subject }, )+ )?
            $( LogPattern { topic: $topic, words: &$words, phase: LogPhase::Begins, subject: $subject }, )+
            $( $( LogPattern { topic: $topic, words: &$end, phase: LogPhase::Ends, subject: $subject }, )+ )?
        )* ];
    };
}

use LogSubject::*;

log_patterns! {
    // kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h
    "hung_task" Task => ["blocked for more than", "task "];
    "lockup" Cpu => ["soft lockup", "stuck for"] | ["hard LOCKUP"] | ["self-detected stall"] | ["detected stall"]
        | ["detected expedited stalls"] | ["kthread starved for"];
    // arch/x86/kernel/dumpstack.c, arch/x86/kernel/traps.c, arch/arm64/kernel/traps.c: the counter of crashes is on the line
    "oops" Crash => ["Oops: ", "[#"] | ["general protection fault", "[#"] | ["invalid opcode: ", "[#"]
        | ["stack segment: ", "[#"] | ["double fault: ", "[#"] | ["divide error: ", "[#"] | ["Internal error: ", "[#"];
    // kernel/workqueue.c
    "work_item" Message => ["hogged CPU for", "workqueue: "];
    // arch/x86/kernel/cpu/mce, drivers/edac, drivers/acpi/apei; the log of the board's own controller (ipmitool sel)
    "memory_error" MemoryModule => ["EDAC", " CE "] | ["EDAC", " UE "] | ["EDAC", "memory", "error"]
        | ["Memory failure: "] | ["[Hardware Error]", "memory error"] | ["orrectable ECC", "| Asserted"];
    "machine_check_fatal" Message => ["Fatal Machine check"] | ["Fatal machine check"] | ["Processor context corrupt"];
    "machine_check" Message => ["Machine check events logged"] | ["Machine Check Exception"] | ["Machine Check: "]
        | ["Hardware error from APEI"] | ["[Hardware Error]", "ncorrected"];
    "thermal" Temperature => ["emperature above threshold"] | ["ower limit notification"],
        ends ["emperature/speed normal"] | ["ower limit normal"];
    // net/netfilter, net/core/neighbour.c, net/ipv4
    "conntrack_full" Host => ["conntrack", "table full"];
    "neighbor_overflow" Limit("net.ipv4.neigh.default.gc_thresh3") =>
        ["eighbour table overflow"] | ["eighbor table overflow"];
    "route_overflow" Limit("net.ipv4.route.max_size") => ["dst cache overflow"] | ["oute cache is full"];
    "syn_flood" ListeningSocket => ["SYN flooding on port"];
    "tcp_memory" Limit("net.ipv4.tcp_mem") => ["TCP: out of memory"] | ["Out of socket memory"];
    "tcp_orphans" Limit("net.ipv4.tcp_max_orphans") => ["orphaned sockets"];
    // net/sched/sch_generic.c, drivers/net
    "transmit_timeout" Interface => ["NETDEV WATCHDOG"] | ["ransmit timed out"] | ["x Unit Hang"]
        | ["Hardware Unit Hang"] | ["x timeout detected"];
    "half_duplex" Interface => ["ink is ", "alf "] | ["ink up", "alf"] | ["ink is up", "half"];
    "link" Interface => ["Link is Down"] | ["Link is down"] | ["link is down"]
        | [": link down"] | [" link down", "eth"] | [": Link Down"] | ["link status definitely down"],
        ends ["Link is Up"] | ["Link is up"] | ["link is up"] | [": link up"] | [" link up"] | [": Link Up"]
        | ["link status definitely up"];
    // fs/ext4/super.c, fs/xfs, fs/btrfs, fs/jbd2
    "fs_stopped" FileSystem => ["emounting filesystem read-only"] | ["emounting fs read-only"] | ["orced read"]
        | ["hutting down filesystem"] | ["has been shut down"] | ["borting journal on device"];
    "fs_error" FileSystem => ["-fs error"] | ["XFS", "orruption"] | ["XFS", "metadata I/O error"]
        | ["XFS", "CRC error"] | ["XFS internal error"] | ["BTRFS error"] | ["BTRFS", "csum failed"]
        | ["BTRFS", "checksum error"] | ["BTRFS", "transid verify failed"] | ["BTRFS", "corrupt leaf"]
        | ["JBD2: Detected IO errors"] | ["REISERFS error"] | ["FAT-fs", "rror"];
    // fs/file_table.c, kernel/cgroup/pids.c, net/sunrpc, kernel/time/clocksource.c, mm/page_alloc.c
    "file_table" Limit("fs.file-max") => ["file-max limit"];
    "pids" Cgroup => ["fork rejected by pids controller in "];
    // A soft mount gives up: its programs get an error and go on.
    "nfs" NfsServer => ["nfs: server ", "not responding"], passes ["nfs: server ", "not responding, timed out"], ends ["nfs: server ", " OK"];
    "clocksource" Host => ["Marking clocksource", "unstable"] | ["Clocksource tsc unstable"];
    "allocation" PageAllocation => ["page allocation failure"] | ["possible memory allocation deadlock"];
    // drivers/md
    "pool_full" Volume => ["out-of-data-space"] | ["out of data space", "thin"] | ["out of metadata space", "thin"];
    // drivers/md/dm-snap.c: after an I/O error it says 'Error reading/writing' instead
    "snapshot_full" Snapshot => ["Unable to allocate exception", "nvalidating snapshot"];
    "path" StoragePath => ["Failing path"] | ["path is down"] | ["remaining active paths: 0"]
        | ["remote port time out"] | ["detected conn error"] | ["session recovery timed out"] | ["LOOP DOWN detected"]
        | ["Link Down Event"] | ["nvme", "starting error recovery"] | ["nvme", "failed to connect socket"]
        | ["nvme", "Failed reconnect attempt"] | ["NVME-FC", "connectivity lost"],
        ends ["einstating path"] | ["einstated path"] | ["path is up"] | ["LOOP UP detected"] | ["Link Up Event"]
        | ["nvme", "Successfully reconnected"] | ["NVME-FC", "controller connect complete"];
    // User-space programs, as pasted from their output and logs: bash, Redis, etcd, ZooKeeper, MySQL, PostgreSQL,
    // nginx, PHP-FPM, Apache, uWSGI, Java, Go
    "workers" Host => ["server reached ", "max_children"] | ["server reached MaxRequestWorkers"] | ["server reached MaxClients"]
        | ["connect() to unix:", "Resource temporarily unavailable"] | ["listen queue of socket", "full"];
    // Limits of inotify, and the system-wide file table.
    "no_watch" Host => ["oo many open files", "notify"] | ["oo many open files in system"];
    "open_files" Host => ["oo many open files"];
    // ENOSPC that is not about a file system: shared memory, semaphores, watches, a disk written to its end.
    "no_room" Host => ["o space left on device", "inotify"] | ["o space left on device", "directory watch"]
        | ["o space left on device", "Error: 28: "] | ["o space left on device", "shmget"]
        | ["o space left on device", "semaphore"] | ["o space left on device", "semget"]
        | ["o space left on device", "mutex"] | ["o space left on device", "shared memory"]
        | ["o space left on device", "/dev/"] | ["o space left on device", "dd: error writing"]
        | ["o space left on device", "dd: writing"];
    "no_space" Host => ["o space left on device"];
    "fork_refused" Host => ["sh: fork: ", "Resource temporarily unavailable"];
    "slow_fsync" Program("Redis") => ["AOF fsync is taking too long"];
    "slow_fsync" Program("etcd") => ["slow fdatasync"] | ["sync duration of ", "expected less than"];
    "slow_fsync" Program("ZooKeeper") => ["fsync-ing the write ahead log in "];
    "temp_file" TemporaryFile => ["emporary file: path ", "size "];
    "too_many_clients" Program("MySQL") => ["oo many connections", "1040"];
    "too_many_clients" Program("PostgreSQL") => ["sorry, too many clients already"]
        | ["remaining connection slots are reserved"];
    // Where an address is bound instead, it is one that this machine does not have. What has no IPv6 says so of ::1.
    "no_port" Host => ["annot assign requested address", "connect"];
    // net/ceph/osdmap.c
    "osd" CephOsd => ["libceph: osd", " down"], ends ["libceph: osd", " up"];
    // drivers/pci/pcie/aer.c, kernel/irq/spurious.c
    "pcie" PcieDevice => ["PCIe Bus Error: "];
    "irq_disabled" Interrupt => ["Disabling IRQ #"];
}

/// Declares lists of words, each for one parser, and [`WORD_LISTS`] of all of them.
macro_rules! word_lists {
    ($($(#[$doc:meta])* $name:ident: $($words:literal)|+;)*) => {
        $( $(#[$doc])* pub const $name: &[&str] = &[$($words),+]; )*
        const WORD_LISTS: &[&[&str]] = &[$($name),*];
    };
}

word_lists! {
    /// Messages that are never harmless, whatever their subject.
    ALARMS: "Call Trace" | "BUG: " | "Oops" | "anic" | "WARNING: " | "timed out";
    /// What precedes the stacks of tasks (kernel/sched/core.c, drivers/tty/sysrq.c, arch/arm64).
    STACKS: "Call trace:" | "PC stack" | "Show Blocked State";
    /// Where in the kernel a crash happened.
    PLACES: "RIP: 0010:" | "pc : ";
    /// The number of messages suppressed by the rate limit.
    SUPPRESSED: "callbacks suppressed" | "messages suppressed";

    /// Devices: messages that give a target a name, model, serial number or port.
    DEVICES: "Direct-Access" | ": ATA-" | "ATAPI: " | "ATA DISK drive" | "Attached scsi disk" | ": [sd" | "scsi host"
        | ": SerialNumber: " | ": usb-storage " | "SATA max" | "PATA max" | ": mmc";

    /// SCSI sense data and results, in the wording of all drivers.
    SCSI_SENSE: "ense" | "sns = " | "ASC" | "return code" | "hostbyte" | "SCSI Error" | "SCSI disk error" | "ERROR on channel";
    /// SCSI: a command was not completed in time.
    SCSI_TIMEOUTS: "TIMEOUT_ERROR" | "aborting command due to timeout" | "timing out command";
    /// SCSI: the kernel aborts a command.
    SCSI_ABORTS: "ttempting task abort" | "Attempting to queue an ABORT" | "Attempting to abort cmd"
        | "uas_eh_abort_handler" | "Abort command issued" | "ABORT operation started";
    /// SCSI: the kernel takes a device offline.
    SCSI_OFFLINE: "Device offlined" | "rejecting I/O to offline device" | "rejecting I/O to dead device"
        | "rejecting I/O as device removed";
    /// SCSI: a device or bus is reset, or reports that it was.
    SCSI_RESETS: "bus is being reset for host" | "device reset occurred" | "ttempting target reset"
        | "ttempting device reset" | "ttempting bus reset" | "uas_eh_device_reset_handler start" | "resetting logical";
    /// An iSCSI session or a Fibre Channel port did not come back: its disks fail with it, but are not broken.
    PATH_LOST: "session recovery timed out" | "blocked FC remote port time out";

    /// libata: results and registers.
    ATA_REGISTERS: " Emask " | " SErr " | "SError: {" | "error: {" | "status: {" | "qc timeout" | "resetting link"
        | "failed command: ";
    /// libata: the device is disabled.
    ATA_OFFLINE: "reset failed, giving up" | ": disabled" | "disable device";
    /// libata: the device does not come back from a reset, or does not identify itself.
    ATA_NO_ANSWER: "COMRESET failed" | "failed to IDENTIFY" | "revalidation failed";
    /// libata: the link runs slower because of errors.
    ATA_SLOWED: "limiting SATA link speed" | "interface fatal error";

    /// The old IDE drivers: the medium.
    IDE_MEDIUM: "UncorrectableError" | "SectorIdNotFound" | "AddrMarkNotFound";
    /// The old IDE drivers: timeouts.
    IDE_TIMEOUTS: "dma_timer_expiry" | "lost interrupt" | "irq timeout" | "DMA timeout" | "timeout waiting";
    /// The old IDE drivers: a garbled transfer, a device fault, no response.
    IDE_OTHERS: "BadCRC" | "DeviceFault" | "no response";

    /// NVMe.
    NVME: "(sct " | "completion polled" | "timeout, " | "timeout. " | "CSTS=" | "frozen state error detected"
        | "resetting controller" | " QID " | "timeout request";
    /// NVMe: the controller is disabled.
    NVME_OFFLINE: "Removing after" | "Disabling device after reset failure" | "Device not ready";

    /// Memory cards and eMMC: timeouts.
    MMC_TIMEOUTS: "imeout waiting" | "timed out" | "timeout for tag";
    /// Memory cards and eMMC: errors by number.
    MMC_ERRORS: "error -";

    /// The block layer.
    BLOCK: "/O error" | "medium error" | "target error" | "timeout error" | "transport error" | "protection error"
        | "offline error" | "IO error on backing device";

    /// Faults of a host adapter or its firmware.
    ADAPTER_FAULTS: "fault_state(" | "sending diag reset" | "SAS host is non-operational" | "FW in FAULT state"
        | "Fatal firmware error" | "Controller encountered a fatal error"
        | "Controller encountered an error and was reset" | "ontroller lockup detected" | "Host adapter reset request"
        | "Host bus reset request" | "Adapter kernel panic" | "ISP System Error" | "Dump Card State Begins"
        | "ontroller reset occurred";
    /// What RAID controllers report about the disks behind them.
    BEHIND_CONTROLLER: " PD " | "AEN: " | "3w-";

    /// Software RAID (drivers/md).
    ARRAYS: "Disk failure" | "non-fresh" | "not enough operational" | "degraded" | "DEGRADED" | "conf printout" | "wd:"
        | "dev:sd" | "dev:hd" | "Operation continuing" | "recovery done" | " out of " | "no spare" | "skipping faulty"
        | "md: updating";

    /// Stems of messages that no parser looks for, but that would be taken for the continuation of the message before them if
    /// they were dropped from a log without times.
    CONTEXT: "offline" | "imeout" | "time out" | "timing out" | " abort" | "ABORT" | "reset" | "RESET" | "Emask" | "SErr"
        | "not ready" | "fault_state" | "firmware error" | "ontroller" | "kernel panic" | "robe failure"
        | "limiting SATA link speed" | "ailing path" | "instat" | "path is " | "conn error" | "LOOP "
        | "allocation failure" | "Memory failure" | "above threshold" | "ower limit" | "achine check"
        | "Machine Check" | "Hardware Error" | "Hardware error" | "EDAC" | "unstable" | "Disabling IRQ" | "conntrack"
        | "table overflow" | "SYN flooding" | "Unit Hang" | "ink is " | "link down" | "link up" | "Link Down"
        | "Link Up" | "file-max" | "pids controller" | "nfs: server " | "emounting f" | "borting journal" | "XFS"
        | "BTRFS" | "JBD2: " | "REISERFS" | "FAT-fs" | "of data space" | "of metadata space";

    /// OOM kills.
    OOM: "Killed process" | "oom-kill" | "ut of memory" | "no killable processes";
}

/// Prefixes of the parsed lines in the report before an OOM kill. They are too common to search for anywhere else.
pub const MEMORY_REPORT: &[&str] = &[
    "memory: usage ",
    "Memory cgroup stats for ",
    "Task in ",
    "anon ",
    "rss ",
    "file ",
    "cache ",
    "file_dirty ",
    "dirty ",
    "file_writeback ",
    "writeback ",
    "shmem ",
    "slab_unreclaimable ",
    "kernel ",
    "slab_reclaimable:",
    "mapped:",
    "free:",
];

/// Suffixes of the parsed lines in that report that begin with a number of pages.
const PAGE_COUNTS: [&str; 4] = [" pages RAM", " pages of RAM", " pages reserved", " reserved pages"];

/// Returns whether a line of the report before an OOM kill is parsed.
pub fn is_memory_report(text: &str) -> bool {
    let counts_pages = || {
        text.starts_with(|c: char| c.is_ascii_digit())
            && PAGE_COUNTS.contains(&text.trim_end().trim_start_matches(|c: char| c.is_ascii_digit()))
    };
    MEMORY_REPORT.iter().any(|words| text.starts_with(words)) || counts_pages() || slab_in_report(text).is_some()
}

/// Returns the name and the size in KiB of a cache in the list of unreclaimable slabs before an OOM kill: `dentry 120KB 140KB`
/// (mm/slab_common.c: dump_unreclaimable_slab).
pub fn slab_in_report(text: &str) -> Option<(&str, u64)> {
    let mut words = text.split_whitespace();
    let [name, used, total] = [words.next()?, words.next()?, words.next()?];
    let kib = |word: &str| word.strip_suffix("KB")?.parse::<u64>().ok();
    (words.next().is_none() && kib(used).is_some()).then(|| Some((name, kib(total)?)))?
}

/// The line after which the kernel lists the handlers of an interrupt that it is about to disable, and the prefix of
/// each of these lines (kernel/irq/spurious.c).
pub const HANDLERS: [&str; 2] = ["handlers:", "[<"];

/// Messages that only the kernel prints: they identify a kernel line even without time and host.
pub const UNMISTAKABLE: &[&str] = &[
    "SCSI disk error",
    "SCSI error :",
    "SCSI Error",
    "I/O error: dev",
    "I/O error, dev ",
    "rejecting I/O to",
    "conf printout",
    "ERROR on channel",
    "ASC/ASCQ=",
    "sense key ",
    "Sense Key : ",
    "hostbyte=",
    "Add. Sense: ",
    "Additional sense indicates",
    "oom-killer:",
    "oom-kill:",
    "Killed process ",
    "Out of Memory:",
    "Out of memory:",
    "nf_conntrack: table full",
    "ip_conntrack: table full",
    "eighbour table overflow",
    "neighbor table overflow",
    "write_disk_sb failed",
    "nvalidating snapshot: Unable to allocate exception",
    "end_request:",
    "blk_update_request:",
    "print_req_error:",
    "Buffer I/O error",
    "aborting command due to timeout",
    ": dma_intr: ",
    "Emask 0x",
    "NETDEV WATCHDOG",
    "blocked for more than 1",
    "soft lockup - CPU",
    "self-detected stall on CPU",
    "cpu clock throttled",
    "EXT3-fs error",
    "EXT4-fs error",
    "sh: fork: retry: Resource temporarily unavailable",
    "sh: fork: Resource temporarily unavailable",
    "AOF fsync is taking too long",
    "slow fdatasync",
    "fsync-ing the write ahead log in ",
    "temporary file: path ",
    "| Correctable ECC",
    "| Uncorrectable ECC",
    "/1040): Too many connections",
    "ERROR 1040 (",
    "] [1040] Too many connections",
    "FATAL: sorry, too many clients already",
    "FATAL:  sorry, too many clients already",
    "FATAL: remaining connection slots are reserved",
    "FATAL:  remaining connection slots are reserved",
    "failed (99: Cannot assign requested address) while connecting",
    "libceph: osd",
    "possible SYN flooding",
    "Possible SYN flooding",
    "connect() to unix:",
    "server reached pm.max_children",
    "server reached MaxRequestWorkers",
    ": too many open files",
    ": Too many open files",
    "server reached max_children",
    "server reached MaxClients",
    "listen queue of socket",
    ": no space left on device",
    ": No space left on device",
    ": page allocation failure",
    "possible memory allocation deadlock in ",
    "[Hardware Error]: ",
    "EDAC MC",
    "Machine Check Exception: ",
    "PCIe Bus Error: severity",
    "Disabling IRQ #",
    "rcu: INFO: ",
    "BTRFS error (device ",
    "BTRFS critical (device ",
    "nvme nvme",
    "bcache: ",
];

/// Returns the prefilter's words; a relevant line contains at least one of them: the first of each pattern, and all
/// lists.
pub fn prefilter() -> impl Iterator<Item = &'static str> {
    LOG_PATTERNS
        .iter()
        .filter_map(|pattern| pattern.words.first().copied())
        .chain(WORD_LISTS.iter().copied().flatten().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pattern_is_hidden_by_an_earlier_one() {
        for (at, pattern) in LOG_PATTERNS.iter().enumerate() {
            let line = pattern.words.join(" ");
            let first = LOG_PATTERNS.iter().position(|p| p.matches(&line)).unwrap();
            assert!(first == at || LOG_PATTERNS[first].topic == pattern.topic, "{line}");
        }
    }

    #[test]
    fn every_pattern_passes_the_prefilter() {
        for pattern in LOG_PATTERNS {
            let line = pattern.words.join(" ");
            assert!(prefilter().any(|words| line.contains(words)), "{line}");
        }
    }
}
