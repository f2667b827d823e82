//! Messages that state a problem and its subject in one line: tables that overflow, links that go down, file systems with
//! errors, tasks that are stuck. They are counted by topic and subject; the messages themselves are listed in
//! [`whyslow_model::kernel_log`].

mod crash;
mod subject;

use super::LogMessage;
use super::stack::{self, Waits};
use super::words::number_after;
use std::collections::BTreeMap;
pub use subject::SNAPSHOT;
use subject::{MessageSubject, devices_of_thread, subject_of};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::kernel_log::{HANDLERS, LOG_PATTERNS, LogPhase};

/// Maximum number of distinct details kept for one notice.
const MOST_DETAILS: usize = 6;

/// Messages of one topic about one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The topic, a word that rules use.
    pub topic: &'static str,
    pub subject: Subject,
    /// Number of messages, including suppressed ones.
    pub count: f64,
    /// Whether the condition still holds at the end of the log.
    pub stands: bool,
    /// Whether it was ever reported to be over.
    pub ended: bool,
    /// How often it began again after that.
    pub returns: f64,
    /// Details that differ between the messages: which task, which CPU.
    pub details: Vec<String>,
    /// Other names of the subject.
    pub aliases: Vec<String>,
    /// Longest time that a task or CPU had been stuck when it was logged, in seconds, if the messages contain it.
    pub longest: Option<f64>,
    /// First and last line about it.
    pub lines: (u64, u64),
    /// What its tasks wait for, by their stacks.
    pub waits: Option<Waits>,
}

/// Gathers the notices of a log.
pub fn gather<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> Vec<Notice> {
    let lines: Vec<LogMessage<'_>> = lines.collect();
    let mut notices = of_messages(lines.iter().copied());
    add_stacks(&mut notices, &lines);
    name_snapshot(&mut notices, &lines);
    if let Some(notice) = notices.iter_mut().find(|notice| notice.topic == "oops") {
        notice.details = crash::places(&lines);
    }
    notices
}

/// Adds what the stacks of a log show: to the messages they belong to, or as separate notices.
fn add_stacks(notices: &mut Vec<Notice>, lines: &[LogMessage<'_>]) {
    let mut blocked = stack::blocked(lines.iter().copied());
    for notice in notices.iter_mut() {
        match notice.topic {
            "hung_task" => notice.waits = blocked.take(),
            "lockup" => notice.waits = stack::stuck_cpus(lines.iter().copied()),
            _ => {}
        }
    }
    if let Some(waits) = blocked {
        let names = waits.names.iter().take(MOST_DETAILS).cloned().collect();
        let aliases = waits.names.iter().flat_map(|name| devices_of_thread(name)).collect();
        notices.push(Notice {
            topic: "stacks",
            subject: Subject::host(),
            count: waits.tasks,
            stands: true,
            ended: false,
            returns: 0.0,
            longest: None,
            details: names,
            aliases,
            lines: waits.lines,
            waits: Some(waits),
        });
    }
}

/// Names the snapshot that the kernel invalidated. The message does not name it, but from then on every read of it fails: it is
/// the volume of the device mapper with the next error.
fn name_snapshot(notices: &mut [Notice], lines: &[LogMessage<'_>]) {
    let Some(notice) = notices.iter_mut().find(|notice| notice.topic == "snapshot_full") else { return };
    let later = lines.iter().filter(|line| line.sequence > notice.lines.0 && line.text.contains("error"));
    let device = later.filter_map(|line| number_after::<u32>(line.text, "dm-")).next();
    add_new(&mut notice.aliases, device.map(|minor| format!("dm-{minor}")));
    add_new(&mut notice.details, device.map(|minor| format!("dm-{minor}")));
}

fn of_messages<'a>(lines: impl Iterator<Item = LogMessage<'a>>) -> Vec<Notice> {
    let mut notices: BTreeMap<(&'static str, String), Notice> = BTreeMap::new();
    // The kernel's rate limit reports how many messages it suppressed before the next one of the kind.
    let mut held_back = 0.0;
    let mut handlers: Vec<String> = Vec::new();
    for said in lines {
        if said.text.starts_with(HANDLERS[0]) {
            handlers.clear();
        } else if let Some(handler) = handler(said.text) {
            add_new(&mut handlers, Some(handler.to_owned()));
        }
        if let Some(count) = suppressed(said.text) {
            held_back = count * said.times;
            continue;
        }
        let Some(pattern) = LOG_PATTERNS.iter().find(|p| p.matches(said.text)) else { continue };
        let Some(mut about) = subject_of(pattern.subject, said.text) else { continue };
        if pattern.topic == "irq_disabled" && !handlers.is_empty() {
            about.detail = Some(std::mem::take(&mut handlers).join(", "));
        }
        let key = (pattern.topic, about.subject.name.clone());
        match pattern.phase {
            LogPhase::Begins | LogPhase::Passes => {
                let notice = notices.entry(key).or_insert_with(|| begin(pattern.topic, &about, said.sequence));
                let stood = notice.stands && notice.count > 0.0;
                notice.returns += f64::from(u8::from(notice.ended && !notice.stands));
                notice.add(about, said, std::mem::take(&mut held_back));
                notice.stands = stood || pattern.phase == LogPhase::Begins;
            }
            LogPhase::Ends => {
                let notice = notices.entry(key).or_insert_with(|| begin(pattern.topic, &about, said.sequence));
                (notice.stands, notice.ended) = (false, true);
            }
        }
    }
    notices.into_values().filter(|notice| notice.count > 0.0).collect()
}

fn begin(topic: &'static str, about: &MessageSubject, line: u64) -> Notice {
    Notice {
        topic,
        subject: about.subject.clone(),
        count: 0.0,
        stands: true,
        ended: false,
        returns: 0.0,
        longest: None,
        details: Vec::new(),
        aliases: Vec::new(),
        lines: (line, line),
        waits: None,
    }
}

impl Notice {
    fn add(&mut self, about: MessageSubject, said: LogMessage<'_>, held_back: f64) {
        if self.count == 0.0 {
            self.lines.0 = said.sequence;
        }
        self.lines.1 = said.sequence;
        self.stands = true;
        self.count += said.times + held_back;
        let stuck = ["blocked for more than ", "stuck for "].iter();
        let stuck = stuck.filter_map(|words| number_after::<u32>(said.text, words)).max().map(f64::from);
        self.longest = self.longest.into_iter().chain(stuck).reduce(f64::max);
        if let Some(total) = about.total {
            self.count = self.count.max(total);
        }
        add_new(&mut self.details, about.detail);
        for alias in about.aliases {
            add_new(&mut self.aliases, Some(alias));
        }
    }
}

fn add_new(to: &mut Vec<String>, text: Option<String>) {
    if let Some(text) = text
        && to.len() < MOST_DETAILS
        && !to.contains(&text)
    {
        to.push(text);
    }
}

/// Parses the handler from `[<00000000fb4d4f4b>] usb_hcd_irq`, `[<f8a1a2b0>] (usb_hcd_irq+0x0/0x60 [usbcore])` or `[<...>]
/// irq_default_primary_handler threaded [<...>] iwl_pcie_irq_handler`: of two, the one that does the work.
fn handler(text: &str) -> Option<&str> {
    let (_, function) = text.trim_start().strip_prefix(HANDLERS[1])?.rsplit_once(">] ")?;
    let function = function.trim_start_matches('(').split(['+', ' ', ')']).next()?;
    (!function.is_empty() && function != "?").then_some(function)
}

/// Parses the count from `printk: 4489 messages suppressed.`, `net_ratelimit: 20 callbacks suppressed`.
fn suppressed(text: &str) -> Option<f64> {
    let count = if text.ends_with("messages suppressed.") {
        text.rsplit(' ').nth(2)?.parse().ok()
    } else if text.contains("net_ratelimit") {
        number_after::<u32>(text, "net_ratelimit: ")
    } else {
        None
    };
    count.map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_log::log;

    fn notices(lines: &[&str]) -> Vec<(&'static str, String, f64)> {
        gather(log(lines)).into_iter().map(|n| (n.topic, n.subject.name, n.count)).collect()
    }

    #[test]
    fn messages_held_back_count() {
        let lines = [
            "printk: 4489 messages suppressed.",
            "nf_conntrack: table full, dropping packet.",
            "net_ratelimit: 10 callbacks suppressed",
            "ip_conntrack: table full, dropping packet",
        ];
        assert_eq!(notices(&lines), [("conntrack_full", "host".to_owned(), 4501.0)]);
    }

    #[test]
    fn a_lockup_names_the_cpu_and_the_task() {
        let lines = [
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:1234]",
            "watchdog: BUG: soft lockup - CPU#2 stuck for 23s!",
        ];
        let all = gather(log(&lines));
        assert_eq!(all[0].details, ["CPU 1 in kworker/1:2:1234", "CPU 2"]);
        assert_eq!(all[0].longest, Some(23.0));
    }

    #[test]
    fn every_topic_has_its_subject() {
        for (line, topic, name) in [
            ("INFO: task jbd2/sda1-8:812 blocked for more than 120 seconds.", "hung_task", "host"),
            ("watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:1234]", "lockup", "host"),
            ("rcu: INFO: rcu_sched self-detected stall on CPU", "lockup", "host"),
            ("CPU3: Core temperature above threshold, cpu clock throttled (total events = 77)", "thermal", "host"),
            ("mce: [Hardware Error]: Machine check events logged", "machine_check", "host"),
            (
                "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x1)",
                "memory_error",
                "CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
            ),
            (
                "EDAC MC0: CE page 0x1, offset 0x0, grain 0, syndrome 0x0, row 1, channel 0, label \"DIMM_A1\": amd64_edac",
                "memory_error",
                "DIMM_A1",
            ),
            (
                "3 | 02/27/2022 | 01:12:09 | Memory | Correctable ECC (@DIMMG1(CPU2)) | Asserted",
                "memory_error",
                "DIMMG1(CPU2)",
            ),
            (
                "neighbour: arp_cache: neighbor table overflow!",
                "neighbor_overflow",
                "net.ipv4.neigh.default.gc_thresh3",
            ),
            ("Neighbour table overflow.", "neighbor_overflow", "net.ipv4.neigh.default.gc_thresh3"),
            ("dst cache overflow", "route_overflow", "net.ipv4.route.max_size"),
            (
                "TCP: request_sock_TCP: Possible SYN flooding on port 443. Sending cookies.  Check SNMP counters.",
                "syn_flood",
                "*:443",
            ),
            ("TCP: request_sock_TCP: Possible SYN flooding on port [::]:80. Sending cookies.", "syn_flood", "[::]:80"),
            ("TCP: out of memory -- consider tuning tcp_mem", "tcp_memory", "net.ipv4.tcp_mem"),
            ("TCP: too many orphaned sockets", "tcp_orphans", "net.ipv4.tcp_max_orphans"),
            ("e1000e: eth0 NIC Link is Down", "link", "eth0"),
            ("e1000e 0000:00:19.0 enp0s25: NIC Link is Down", "link", "enp0s25"),
            ("bonding: bond0: link status definitely down for interface eth1, disabling it", "link", "eth1"),
            ("tg3 0000:02:00.0: em1: Link is down", "link", "em1"),
            ("r8169 0000:03:00.0: eth0: link down", "link", "eth0"),
            ("NETDEV WATCHDOG: eth0 (e1000e): transmit queue 0 timed out", "transmit_timeout", "eth0"),
            (
                "r8169 0000:03:00.0 enp3s0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5376 ms",
                "transmit_timeout",
                "enp3s0",
            ),
            ("e1000e: eth0 NIC Link is Up 100 Mbps Half Duplex, Flow Control: None", "half_duplex", "eth0"),
            ("EXT4-fs (sda1): Remounting filesystem read-only", "fs_stopped", "sda1"),
            ("XFS (dm-0): Log I/O Error Detected.  Shutting down filesystem", "fs_stopped", "dm-0"),
            ("BTRFS info (device sdb1 state EA): forced readonly", "fs_stopped", "sdb1"),
            ("EXT3-fs error (device sd(8,3)): ext3_get_inode_loc: unable to read inode block", "fs_error", "sda3"),
            (
                "EXT4-fs error (device nvme0n1p2): ext4_find_entry:1455: inode #2: comm ls: reading",
                "fs_error",
                "nvme0n1p2",
            ),
            (
                "BTRFS warning (device sda2): csum failed root 5 ino 257 off 0 csum 0x1 expected csum 0x2",
                "fs_error",
                "sda2",
            ),
            ("VFS: file-max limit 65536 reached", "file_table", "fs.file-max"),
            (
                "cgroup: fork rejected by pids controller in /user.slice/user-0.slice",
                "pids",
                "/user.slice/user-0.slice",
            ),
            ("nfs: server filer1 not responding, still trying", "nfs", "filer1"),
            ("clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable", "clocksource", "host"),
            ("swapper: page allocation failure. order:4, mode:0x4020", "allocation", "host"),
            ("device-mapper: thin: 253:4: switching pool to out-of-data-space (queue IO) mode", "pool_full", "dm-4"),
            (
                "device-mapper: snapshots: Invalidating snapshot: Unable to allocate exception.",
                "snapshot_full",
                SNAPSHOT,
            ),
            ("device-mapper: multipath: 253:3: Failing path 8:32.", "path", "dm-3"),
            ("mpatha: sdc - tur checker reports path is down", "path", "mpatha"),
            (
                " rport-1:0-2: blocked FC remote port time out: removing target and saving binding",
                "path",
                "rport-1:0-2",
            ),
            ("nvme nvme1: starting error recovery", "path", "nvme1"),
            ("nvme nvme1: Failed reconnect attempt 3/60", "path", "nvme1"),
            ("nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", "pcie", "0000:01:00.0"),
            ("Disabling IRQ #16", "irq_disabled", "16"),
        ] {
            assert_eq!(
                notices(&[line]),
                [(topic, name.to_owned(), notices(&[line]).first().map_or(0.0, |n| n.2))],
                "{line}"
            );
        }
        assert_eq!(notices(&["device-mapper: snapshots: Invalidating snapshot: Error reading/writing."]), []);
        for line in
            ["ata1: SATA link down (SStatus 0 SControl 300)", "pcieport 0000:00:1c.0: pciehp: Slot(1): Link Down"]
        {
            assert_eq!(notices(&[line]), [], "{line}");
        }
    }

    #[test]
    fn what_is_over_no_longer_stands() {
        let lines = ["eth0: link down", "eth0: link up, 1000Mbps", "eth0: link down", "eth0: link up, 1000Mbps"];
        let notice = gather(log(&lines)).remove(0);
        assert_eq!((notice.count, notice.stands, notice.lines), (2.0, false, (0, 2)));
        assert!(gather(log(&lines[..1]))[0].stands);
        let lines = ["nvme nvme1: starting error recovery", "nvme nvme1: Successfully reconnected (2 attempt)"];
        assert!(!gather(log(&lines)).remove(0).stands);
    }

    #[test]
    fn the_handlers_of_a_disabled_interrupt_are_details() {
        let lines = [
            "irq 16: nobody cared (try booting with the \"irqpoll\" option)",
            " [<ffffffff810d5c3a>] __report_bad_irq+0x3a/0xd0",
            "handlers:",
            "[<00000000fb4d4f4b>] usb_hcd_irq [usbcore]",
            "[<f8a1a2b0>] (ata_bmdma_interrupt+0x0/0x190)",
            "[<1>] irq_default_primary_handler threaded [<2>] iwl_pcie_irq_handler",
            "Disabling IRQ #16",
            "Disabling IRQ #17",
        ];
        let details: Vec<Vec<String>> = gather(log(&lines)).into_iter().map(|notice| notice.details).collect();
        assert_eq!(details, [vec!["usb_hcd_irq, ata_bmdma_interrupt, iwl_pcie_irq_handler".to_owned()], vec![]]);
    }

    #[test]
    fn what_comes_back_after_it_was_over_is_counted() {
        let (fails, returns) = (
            "device-mapper: multipath: 253:3: Failing path 8:32.",
            "device-mapper: multipath: 253:3: Reinstating path 8:32.",
        );
        let path = |lines: &[&str]| gather(log(lines)).remove(0);
        let flapping = path(&[fails, returns, fails, fails, returns, fails, returns]);
        assert_eq!((flapping.count, flapping.returns, flapping.stands), (4.0, 2.0, false));
        assert_eq!(path(&[fails, fails, returns]).returns, 0.0);
    }

    #[test]
    fn details_and_other_names() {
        let lines = [
            "INFO: task jbd2/sda1-8:812 blocked for more than 120 seconds.",
            "INFO: task mysqld:900 blocked for more than 120 seconds.",
            "device-mapper: multipath: 253:3: Failing path 8:32.",
            "device-mapper: multipath: Failing path 65:48.",
        ];
        let all = gather(log(&lines));
        assert_eq!(
            (all[0].details.as_slice(), all[0].aliases.as_slice()),
            (
                &["jbd2/sda1-8[812]".to_owned(), "mysqld[900]".to_owned()][..],
                &["sda1".to_owned(), "sda".to_owned()][..]
            )
        );
        assert_eq!(all[1].aliases, ["sdc"]);
        assert_eq!(all[2].subject.name, "sdt");
    }
}
