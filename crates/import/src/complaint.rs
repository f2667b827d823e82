//! Finds the topic of a text without tool output, to suggest which command to run.

/// Maximum number of lines to examine.
const MOST_LINES: u32 = 500;

/// A kind of complaint.
struct Topic {
    name: &'static str,
    words: &'static [&'static str],
    /// Commands whose output would show the cause.
    commands: &'static str,
}

/// In order of precedence: the first of several equally frequent topics wins.
static TOPICS: [Topic; 6] = [
    Topic {
        name: "clock frequencies",
        words: &["mhz", "ghz", "frequency", "frequencies", "cpufreq", "governor", "turbo", "boost", "throttled"],
        commands: "turbostat --show Core,CPU,Busy%,Bzy_MHz,CoreTmp -n 3; grep . /sys/devices/system/cpu/cpu0/cpufreq/*",
    },
    Topic {
        name: "memory",
        words: &["memory", "oom", "swap", "swapping", "ram", "slab", "leak", "hugepages"],
        commands: "free -m; vmstat 1 10; cat /proc/meminfo; dmesg",
    },
    Topic {
        name: "tasks that hang",
        words: &["hang", "hangs", "hung", "stuck", "freeze", "freezes", "frozen", "deadlock", "blocked"],
        commands: "dmesg; ps -eo pid,stat,wchan:30,comm; echo w > /proc/sysrq-trigger; dmesg | tail -n 200",
    },
    Topic {
        name: "storage",
        words: &[
            "disk",
            "disks",
            "drive",
            "drives",
            "ssd",
            "ssds",
            "hdd",
            "nvme",
            "raid",
            "raid1",
            "raid5",
            "raid6",
            "raid10",
            "mdadm",
            "lvm",
            "xfs",
            "ext4",
            "btrfs",
            "zfs",
            "filesystem",
            "fsync",
            "i/o",
            "iops",
            "mount",
            "emmc",
            "array",
            "storage",
            "write",
            "writes",
            "fio",
            "dd",
        ],
        commands: "iostat -x 1 10; vmstat 1 10; dmesg",
    },
    Topic {
        name: "the network",
        words: &[
            "network",
            "networking",
            "ping",
            "packet",
            "packets",
            "tcp",
            "udp",
            "ethernet",
            "nic",
            "iperf",
            "iperf3",
            "wifi",
            "wlan",
            "mtu",
            "bandwidth",
            "interface",
            "ipoib",
            "rdma",
            "nfs",
        ],
        commands: "sar -n DEV,EDEV,TCP,ETCP 1 10; nstat -az; ethtool -S INTERFACE",
    },
    Topic {
        name: "CPU time",
        words: &["cpu", "cpus", "core", "cores", "load", "kworker", "interrupts", "irq", "scheduler"],
        commands: "top -b -n 2; mpstat -P ALL 1 10; vmstat 1 10",
    },
];
/// Suggested commands if no topic is mentioned.
const ANY: &str = "vmstat 1 10; iostat -x 1 10; top -b -n 2; dmesg";

/// Number of times that text other than tool output mentions each topic.
#[derive(Default)]
pub(crate) struct Complaint {
    mentions: [u32; 6],
    lines: u32,
}

impl Complaint {
    /// Counts the topics that a line mentions.
    pub(crate) fn add(&mut self, line: &str) {
        if self.lines >= MOST_LINES {
            return;
        }
        self.lines += 1;
        for word in line.split(|c: char| !(c.is_alphanumeric() || c == '/')) {
            let is_word = |known: &&str| known.eq_ignore_ascii_case(word);
            for (topic, mentions) in TOPICS.iter().zip(&mut self.mentions) {
                *mentions += u32::from(topic.words.iter().any(is_word));
            }
        }
    }

    /// Describes what was found instead of output, and what to run. Does not quote the text, which may hold secrets.
    pub(crate) fn advice(&self) -> String {
        let most = self.mentions.iter().copied().max().unwrap_or(0);
        let topic = TOPICS.iter().zip(self.mentions).find(|(_, mentions)| *mentions == most && most > 0);
        match topic {
            Some((Topic { name, commands, .. }, _)) => {
                format!("only text, which seems to be about {name}; add what this prints while it is slow: {commands}")
            }
            None => format!("only other text; add what this prints while it is slow: {ANY}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::refusal_of;

    #[test]
    fn the_topic_mentioned_most_decides() {
        let found = |text: &str| refusal_of(text).found;
        let of = |topic: &str| TOPICS.iter().find(|t| t.name == topic).unwrap().commands;
        let disks = found("Hello,\nmy RAID5 of three disks is slow. The load is low, too.\nRegards,\nA. User\n");
        assert!(disks.contains("about storage") && disks.ends_with(of("storage")), "{disks}");
        let clock = found("The CPU stays at 800 MHz whatever governor I choose.\n");
        assert!(clock.contains("about clock frequencies"), "{clock}");
        let nothing = found("It is slow. Why?\n");
        assert!(nothing.ends_with(ANY), "{nothing}");
    }

    #[test]
    fn nothing_of_the_text_is_quoted() {
        assert!(!refusal_of("The password of the disk is hunter2.\n").to_string().contains("hunter2"));
    }
}
