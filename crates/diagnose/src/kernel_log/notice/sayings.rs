//! What the kernel says, by topic. Of several that fit a line, the first is meant.

use super::about::{self, About};

/// Whether a message says that something begins or that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// It is so from now on, or once more.
    Begins,
    /// It is over.
    Ends,
}

/// A message.
pub struct Saying {
    /// The topic, a word that rules use.
    pub topic: &'static str,
    /// Words that are in it, all of them.
    words: &'static [&'static str],
    /// Whether it begins or is over.
    pub says: Says,
    /// What it is about.
    pub about: fn(&str) -> Option<About>,
}

impl Saying {
    /// Whether a line is this message.
    pub fn fits(&self, text: &str) -> bool {
        self.words.iter().all(|words| text.contains(words))
    }
}

/// Declares sayings: topic, words, about; `over` before those that say it is over.
macro_rules! sayings {
    ($($topic:literal $about:ident: $($words:tt)|+ $(, over $($end:tt)|+)? ;)*) => {
        /// All of them.
        pub const SAYINGS: &[Saying] = &[ $(
            $( Saying { topic: $topic, words: &$words, says: Says::Begins, about: about::$about }, )+
            $( $( Saying { topic: $topic, words: &$end, says: Says::Ends, about: about::$about }, )+ )?
        )* ];
    };
}

sayings! {
    // kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h
    "hung_task" task: ["blocked for more than", "task "];
    "lockup" processor: ["soft lockup", "stuck for"] | ["hard LOCKUP"] | ["self-detected stall"] | ["detected stall"]
        | ["detected expedited stalls"] | ["kthread starved for"];
    // arch/x86/kernel/cpu/mce, drivers/edac, drivers/acpi/apei
    "memory_error" module: ["EDAC", " CE "] | ["EDAC", " UE "] | ["EDAC", "memory", "error"] | ["Memory failure: "]
        | ["[Hardware Error]", "memory error"];
    "machine_check" said: ["Machine check events logged"] | ["Machine Check Exception"] | ["Machine Check: "]
        | ["Hardware error from APEI"] | ["[Hardware Error]", "ncorrected"];
    "thermal" heat: ["emperature above threshold"] | ["ower limit notification"],
        over ["emperature/speed normal"] | ["ower limit normal"];
    // net/netfilter, net/core/neighbour.c, net/ipv4
    "conntrack_full" host: ["conntrack", "table full"];
    "neighbor_overflow" neighbors: ["eighbour table overflow"] | ["eighbor table overflow"];
    "route_overflow" routes: ["dst cache overflow"] | ["oute cache is full"];
    "syn_flood" listener: ["SYN flooding on port"];
    "tcp_memory" tcp_memory: ["TCP: out of memory"] | ["Out of socket memory"];
    "tcp_orphans" tcp_orphans: ["orphaned sockets"];
    // net/sched/sch_generic.c, drivers/net
    "transmit_timeout" interface: ["NETDEV WATCHDOG"] | ["ransmit timed out"] | ["x Unit Hang"] | ["Hardware Unit Hang"]
        | ["x timeout detected"];
    "half_duplex" interface: ["ink is ", "alf "] | ["ink up", "alf"] | ["ink is up", "half"];
    "link" interface: ["NIC", "Link is Down"] | ["Link is Down"] | ["Link is down"] | ["link is down"] | [": link down"]
        | ["eth", " link down"] | [": Link Down"] | ["link status definitely down"],
        over ["Link is Up"] | ["Link is up"] | ["link is up"] | [": link up"] | [" link up"] | [": Link Up"]
        | ["link status definitely up"];
    // fs/ext4/super.c, fs/xfs, fs/btrfs, fs/jbd2
    "fs_stopped" file_system: ["emounting filesystem read-only"] | ["emounting fs read-only"] | ["orced read"]
        | ["hutting down filesystem"] | ["has been shut down"] | ["borting journal on device"];
    "fs_error" file_system: ["-fs error"] | ["XFS", "orruption"] | ["XFS", "metadata I/O error"] | ["XFS", "CRC error"]
        | ["XFS internal error"] | ["BTRFS error"] | ["BTRFS", "csum failed"] | ["BTRFS", "checksum error"]
        | ["BTRFS", "transid verify failed"] | ["BTRFS", "corrupt leaf"] | ["JBD2: Detected IO errors"]
        | ["REISERFS error"] | ["FAT-fs", "rror"];
    // fs/file_table.c, kernel/cgroup/pids.c, net/sunrpc, kernel/time/clocksource.c, mm/page_alloc.c
    "file_table" open_files: ["file-max limit"];
    "pids" group: ["fork rejected by pids controller in "];
    "nfs" server: ["nfs: server ", "not responding"], over ["nfs: server ", " OK"];
    "clocksource" host: ["Marking clocksource", "unstable"] | ["Clocksource tsc unstable"];
    "allocation" allocation: ["page allocation failure"] | ["possible memory allocation deadlock"];
    // drivers/md
    "pool_full" volume: ["out-of-data-space"] | ["thin", "out of data space"] | ["thin", "out of metadata space"];
    "path" path: ["Failing path"] | ["path is down"] | ["remaining active paths: 0"] | ["remote port time out"]
        | ["detected conn error"] | ["session recovery timed out"] | ["LOOP DOWN detected"] | ["Link Down Event"],
        over ["einstating path"] | ["einstated path"] | ["path is up"] | ["LOOP UP detected"] | ["Link Up Event"];
    // drivers/pci/pcie/aer.c, kernel/irq/spurious.c
    "pcie" slot: ["PCIe Bus Error: "];
    "irq_disabled" interrupt: ["Disabling IRQ #"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_saying_is_hidden_by_one_before_it() {
        for (at, saying) in SAYINGS.iter().enumerate() {
            let line = saying.words.join(" ");
            let first = SAYINGS.iter().position(|s| s.fits(&line)).unwrap();
            assert!(first == at || SAYINGS[first].topic == saying.topic, "{line}");
        }
    }
}
