//! Which lines can bear on a diagnosis: all others are let go at once, so that a log of any size is read in a stream.

use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// What a line must say to be kept. The judgement reads these lines; all others tell nothing it asks.
const INTEREST: &[&str] = &[
    // Devices, so that a target has a name and a model.
    "Direct-Access",
    ": ATA-",
    "ATAPI: ",
    "ATA DISK drive",
    "Attached scsi disk",
    ": [sd",
    "scsi host",
    ": SerialNumber: ",
    ": usb-storage ",
    "SATA max",
    "PATA max",
    ": mmc",
    // Errors of storage.
    "ense",
    "/O error",
    "medium error",
    "target error",
    "timeout error",
    "transport error",
    "offline error",
    "return code",
    "hostbyte",
    "ASC",
    "SCSI Error",
    "SCSI disk error",
    "ERROR on channel",
    "offline",
    "to dead device",
    "TIMEOUT_ERROR",
    "imeout",
    "timed out",
    "timing out",
    "time out",
    " abort",
    "ABORT",
    "Abort command",
    "reset",
    "resetting",
    "RESET",
    "Emask",
    "SErr",
    "error: {",
    "status: {",
    "{ Uncorr",
    "BadCRC",
    "lost interrupt",
    "dma_timer_expiry",
    "revalidation failed",
    ": disabled",
    "limiting SATA link speed",
    "failed to IDENTIFY",
    "CSTS=",
    "(sct ",
    "robe failure",
    "not ready",
    ": error -",
    "fault_state",
    "FAULT state",
    "SAS host is non-operational",
    "firmware error",
    "ontroller",
    "Dump Card State",
    "kernel panic",
    " PD ",
    "AEN: ",
    "callbacks suppressed",
    "messages suppressed",
    // Arrays and paths.
    "Disk failure",
    "non-fresh",
    "not enough operational",
    "degraded",
    "DEGRADED",
    "conf printout",
    "wd:",
    "dev:sd",
    "dev:hd",
    "Operation continuing",
    "recovery done",
    " out of ",
    "no spare",
    "skipping faulty",
    "md: updating",
    "ailing path",
    "instat",
    "path is ",
    "active paths: 0",
    "conn error",
    "LOOP ",
    "Link Down Event",
    "Link Up Event",
    // Memory.
    "Killed process",
    "oom-kill",
    "ut of memory",
    "ut of socket memory",
    "allocation failure",
    "allocation deadlock",
    "Memory failure",
    "Call Trace",
    "BUG: ",
    "WARNING: ",
    "Oops",
    "anic",
    // Processors and tasks.
    "blocked for more than",
    "soft lockup",
    "hard LOCKUP",
    "detected stall",
    "self-detected stall",
    "expedited stalls",
    "starved for",
    "above threshold",
    "ower limit",
    "temperature/speed normal",
    "achine check",
    "Machine Check",
    "Hardware Error",
    "Hardware error",
    "EDAC",
    "unstable",
    "Disabling IRQ",
    // Network and limits.
    "conntrack",
    "table overflow",
    "cache overflow",
    "cache is full",
    "SYN flooding",
    "orphaned sockets",
    "NETDEV WATCHDOG",
    "Unit Hang",
    "ink is ",
    "link down",
    "link up",
    "Link Down",
    "Link Up",
    "link status definitely",
    "file-max",
    "pids controller",
    "nfs: server ",
    "PCIe Bus Error",
    // File systems.
    "emounting f",
    "orced read",
    "hutting down filesystem",
    "has been shut down",
    "borting journal",
    "-fs error",
    "XFS",
    "BTRFS",
    "JBD2: ",
    "REISERFS",
    "FAT-fs",
    "out-of-data-space",
    "of data space",
    "of metadata space",
];

/// What a line without a prefix must say to be taken for the kernel's.
const BARE: &[&str] = &[
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
    "possible SYN flooding",
    "Possible SYN flooding",
];

/// The parts of a report on memory that the judgement reads, by how they begin.
const REPORT: [&str; 5] = ["memory: usage ", "anon ", "file ", "file_dirty ", "file_writeback "];

static INTERESTING: LazyLock<AhoCorasick> = LazyLock::new(|| matcher(INTEREST));
static KERNEL: LazyLock<AhoCorasick> = LazyLock::new(|| matcher(BARE));

fn matcher(words: &[&str]) -> AhoCorasick {
    AhoCorasick::new(words).expect("a short list of words is no burden")
}

/// Whether a line can bear on a diagnosis.
pub fn is_interesting(text: &str) -> bool {
    INTERESTING.is_match(text)
}

/// Whether a line is the kernel's by its words alone.
pub fn is_bare(text: &str) -> bool {
    KERNEL.is_match(text)
}

/// Whether a report on memory, with a list of processes, begins.
pub fn begins_report(text: &str) -> bool {
    text.contains("invoked oom-killer")
}

/// Whether a report on memory ends.
pub fn ends_report(text: &str) -> bool {
    text.contains("Killed process ") || text.contains("no killable processes")
}

/// Whether a line of a report on memory is one that the judgement reads: `[  123]  0  123 ...` or a statistic.
pub fn is_of_report(text: &str) -> bool {
    let process = |rest: &str| rest.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == 'p');
    text.strip_prefix('[').is_some_and(process) || REPORT.iter().any(|words| text.starts_with(words))
}
