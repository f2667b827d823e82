//! Names that are the same on every machine: those of the kernel and of standards, and words of tools. They reveal nothing about
//! the users of the machine, and rules check some of them, so they are kept.

/// Folders of the Filesystem Hierarchy Standard, of the kernel's own file systems and of container runtimes; rules know `/snap`.
const FOLDERS: &[&str] = &[
    ".",
    "..",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libexec",
    "usr",
    "local",
    "share",
    "include",
    "src",
    "etc",
    "opt",
    "srv",
    "var",
    "log",
    "cache",
    "spool",
    "crash",
    "run",
    "lock",
    "user",
    "tmp",
    "home",
    "root",
    "mnt",
    "media",
    "boot",
    "efi",
    "EFI",
    "grub",
    "dev",
    "proc",
    "sys",
    "snap",
    "shm",
    "mqueue",
    "hugepages",
    "pts",
    "mapper",
    "disk",
    "by-id",
    "by-uuid",
    "by-path",
    "by-label",
    "by-partuuid",
    "block",
    "bus",
    "class",
    "devices",
    "fs",
    "cgroup",
    "unified",
    "kernel",
    "debug",
    "tracing",
    "security",
    "config",
    "module",
    "modules",
    "net",
    "netns",
    "self",
    "task",
    "fd",
    "fdinfo",
    "stat",
    "status",
    "io",
    "pressure",
    "cpu",
    "memory",
    "queue",
    "vm",
    "pci",
    "docker",
    "containers",
    "containerd",
    "kubelet",
    "pods",
    "volumes",
    "overlay",
    "overlay2",
    "merged",
    "diff",
    "work",
    "lower",
    "upper",
    "snapshots",
    "swap",
    "swapfile",
    "swap.img",
    "zero",
    "null",
    "full",
    "random",
    "urandom",
    "kmsg",
    "console",
    "tty",
    "sos_commands",
    "-",
    "standard input",
];

/// Common names, without the extension, of files with saved output of tools.
const FILES: &[&str] = &[
    "vmstat",
    "iostat",
    "mpstat",
    "pidstat",
    "sar",
    "sadf",
    "top",
    "htop",
    "atop",
    "free",
    "ps",
    "dmesg",
    "messages",
    "syslog",
    "kern",
    "kernel",
    "journalctl",
    "uptime",
    "df",
    "mount",
    "lsblk",
    "lscpu",
    "netstat",
    "ss",
    "nstat",
    "ip",
    "ethtool",
    "ifconfig",
    "meminfo",
    "cpuinfo",
    "diskstats",
    "interrupts",
    "softirqs",
    "slabinfo",
    "buddyinfo",
    "zoneinfo",
    "stat",
    "fio",
    "dd",
    "iperf",
    "iperf3",
    "ping",
    "sysctl",
    "mdstat",
    "smartctl",
    "perf",
    "report",
    "data",
];

/// File name extensions.
const ENDINGS: &[&str] = &[
    "txt", "log", "gz", "xz", "bz2", "zst", "tar", "json", "csv", "html", "out", "conf", "so", "sock", "socket", "img",
    "iso", "raw", "qcow2", "vmdk", "vdi", "swap", "db", "dat", "wal", "tmp", "pid", "parquet", "whyslow",
];

/// Prefixes of block device names that are followed by letters or digits only.
const DEVICES: &[&str] = &[
    "sd",
    "hd",
    "vd",
    "xvd",
    "nvme",
    "mmcblk",
    "dm-",
    "md",
    "md_d",
    "loop",
    "sr",
    "zram",
    "ram",
    "nbd",
    "rbd",
    "drbd",
    "bcache",
    "dasd",
    "fd",
    "st",
    "nst",
    "sg",
    "pmem",
    "zd",
    "mtdblock",
    "ubiblock",
    "mpath",
    "ata",
    "host",
    "scsi",
    "rport-",
    "connection",
    "emcpower",
    "c",
    "cciss/c",
    "ida/c",
];

/// Prefixes of interface names that the kernel, systemd.net-naming-scheme(7) or common tools number.
const INTERFACES: &[&str] = &[
    "eth", "eno", "ens", "enp", "enP", "em", "p", "wlan", "wlp", "wlP", "wwan", "wwp", "ib", "ibp", "ibs", "bond",
    "team", "br", "virbr", "vnet", "vlan", "vxlan", "flannel.", "cni", "docker", "tun", "tap", "macvtap", "wg", "ppp",
    "dummy", "ifb", "gre", "gretap", "erspan", "sit", "ip6tnl", "ip6gre", "tunl", "ip_vti", "ip6_vti", "usb", "lan",
    "wan", "sl", "can", "lxcbr", "lxdbr", "nlmon", "hsr", "vmnet", "venet",
];

/// Interfaces without a number.
const WHOLE_INTERFACES: &[&str] =
    &["lo", "all", "any", "default", "docker_gwbridge", "no interface", "kube-ipvs0", "cilium_host"];

/// Prefixes of interface names that show the kind of an interface: rules check it.
const INTERFACE_KINDS: &[&str] = &[
    "veth", "virbr", "vnet", "vlan", "vxlan", "docker", "bond", "team", "macvtap", "tun", "tap", "wg", "ppp", "gre",
    "sit", "br",
];

/// Prefixes of kernel thread names that are followed by numbers, CPUs and devices only, and complete names of others.
const KERNEL_THREADS: &[&str] = &[
    "kworker",
    "ksoftirqd",
    "migration",
    "cpuhp",
    "idle_inject",
    "watchdog",
    "rcu_preempt",
    "rcu_sched",
    "rcu_bh",
    "rcu_gp",
    "rcu_par_gp",
    "rcu_tasks_kthread",
    "rcu_tasks_rude_kthread",
    "rcu_tasks_trace_kthread",
    "rcuob",
    "rcuos",
    "rcuop",
    "rcuog",
    "rcuc",
    "rcub",
    "irq",
    "swapper",
    "kthreadd",
    "kthrotld",
    "kdevtmpfs",
    "kauditd",
    "khungtaskd",
    "oom_reaper",
    "writeback",
    "kcompactd",
    "kswapd",
    "khugepaged",
    "ksmd",
    "kintegrityd",
    "kblockd",
    "kstrp",
    "ktimers",
    "ktimersoftd",
    "pool_workqueue_release",
    "pdflush",
    "bdi-default",
    "flush-",
    "events",
    "aio",
    "crypto",
    "scsi_eh_",
    "scsi_tmf_",
    "jbd2",
    "kjournald",
    "ext4-rsv-conver",
    "xfsaild",
    "xfs-buf",
    "xfs-conv",
    "xfs-cil",
    "xfs-reclaim",
    "xfs-blockgc",
    "xfs-inodegc",
    "xfs-log",
    "xfs-sync",
    "xfs_mru_cache",
    "xfsalloc",
    "btrfs-cleaner",
    "btrfs-transacti",
    "btrfs-worker",
    "btrfs-endio",
    "btrfs-delalloc",
    "dmcrypt_write",
    "kcryptd",
    "kcryptd_io",
    "kdmflush",
    "dm_bufio_cache",
    "md",
    "nvme-wq",
    "nvme-reset-wq",
    "nvme-delete-wq",
    "loop",
    "nbd",
    "nfsd",
    "nfsiod",
    "rpciod",
    "xprtiod",
    "lockd",
    "kpsmoused",
    "khubd",
    "hwrng",
    "kaluad",
    "kmpath_rdacd",
    "kmpathd",
    "kmpath_handlerd",
    "mld",
    "ipv6_addrconf",
    "netns",
    "psimon",
    "iou-sqp-",
    "iou-wrk-",
    "vhost-",
    "kvm-pit",
    "kvm-nx-lpage-re",
    "z_wr_iss",
    "z_wr_int",
    "z_rd_iss",
    "z_rd_int",
    "txg_sync",
    "txg_quiesce",
    "arc_reclaim",
    "arc_prune",
    "zvol",
    "spl_kmem_cache",
    "ata_sff",
    "edac-poller",
    "devfreq_wq",
    "watchdogd",
    "cifsd",
    "drbd_w_",
    "drbd_r_",
    "drbd_a_",
    "drbd_s_",
    "usb-storage",
    "tpm_dev_wq",
    "inet_frag_wq",
    "slub_flushwq",
    "mm_percpu_wq",
    "acpi_thermal_pm",
    "charger_manager",
    "bcache",
    "bcache_writebac",
    "bcache_gc",
    "bond",
];

/// Placeholders for an unknown process, and whyslow itself.
const NO_PROCESSES: &[&str] = &["", "kernel", "whyslow", "idle", "all", "unknown"];

/// Path components of control groups that systemd and container runtimes create.
const GROUPS: &[&str] = &[
    "",
    "init.scope",
    "system.slice",
    "user.slice",
    "machine.slice",
    "-.slice",
    "app.slice",
    "session.slice",
    "background.slice",
    "init",
    "kubepods",
    "kubepods.slice",
    "kubepods-burstable.slice",
    "kubepods-besteffort.slice",
    "kubepods-guaranteed.slice",
    "burstable",
    "besteffort",
    "guaranteed",
    "docker",
    "lxc",
    "lxc.payload",
    "lxc.monitor",
    "libpod",
    "podman",
    "container",
    "containers",
    "machine",
    "supervisor",
    "kernel",
    "system",
    "user",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "proc-sys-fs-binfmt_misc.mount",
];

/// Types of file systems, and other sources of mounts that are not devices.
const SOURCES: &[&str] = &[
    "",
    "none",
    "proc",
    "procfs",
    "sysfs",
    "devtmpfs",
    "devpts",
    "tmpfs",
    "udev",
    "dev",
    "run",
    "shm",
    "cgroup",
    "cgroup2",
    "cgmfs",
    "bpf",
    "bpffs",
    "tracefs",
    "debugfs",
    "securityfs",
    "pstore",
    "efivarfs",
    "mqueue",
    "hugetlbfs",
    "configfs",
    "fusectl",
    "rootfs",
    "overlay",
    "overlayfs",
    "aufs",
    "squashfs",
    "systemd-1",
    "binfmt_misc",
    "sunrpc",
    "nfsd",
    "nsfs",
    "ramfs",
    "lxcfs",
    "gvfsd-fuse",
    "fuse",
    "sshfs",
    "portal",
    "selinuxfs",
    "autofs",
    "swapfile",
];

/// Mount options whose values are chosen by users; values of other options are kept if they are numbers or one lower-case word.
const NAMED_OPTIONS: &[&str] = &[
    "addr",
    "clientaddr",
    "mountaddr",
    "srcaddr",
    "username",
    "user",
    "domain",
    "password",
    "pass",
    "credentials",
    "subvol",
    "lowerdir",
    "upperdir",
    "workdir",
    "src",
    "unc",
    "prefixpath",
    "netbiosname",
    "servern",
    "fsname",
    "source",
    "name",
    "label",
    "logdev",
    "journal_path",
    "rtdev",
    "device",
    "backup_volfile_servers",
    "mon_addr",
    "secret",
    "fsid",
    "backup",
];

/// Words in labels that importers generate, and of the tools whose output they read.
const LABEL_WORDS: &[&str] = &[
    "a",
    "an",
    "the",
    "of",
    "to",
    "from",
    "on",
    "by",
    "in",
    "with",
    "at",
    "and",
    "or",
    "per",
    "line",
    "host",
    "peer",
    "client",
    "server",
    "sender",
    "receiver",
    "sum",
    "command",
    "process",
    "thread",
    "file",
    "files",
    "system",
    "read",
    "reads",
    "write",
    "writes",
    "rewrite",
    "reread",
    "readwrite",
    "randread",
    "randwrite",
    "randrw",
    "rw",
    "trim",
    "verify",
    "random",
    "sequential",
    "seq",
    "rand",
    "mixed",
    "seek",
    "seeks",
    "create",
    "created",
    "delete",
    "deleted",
    "stat",
    "open",
    "close",
    "fsync",
    "fdatasync",
    "sync",
    "flush",
    "discard",
    "block",
    "blocks",
    "char",
    "character",
    "buffered",
    "cached",
    "disk",
    "direct",
    "record",
    "stride",
    "backwards",
    "run",
    "queue",
    "request",
    "requests",
    "operation",
    "operations",
    "udp",
    "tcp",
    "sctp",
    "stream",
    "streams",
    "transfer",
    "node",
    "pod",
    "container",
    "port",
    "instance",
    "database",
    "count",
    "none",
    "other",
    "order",
    "group",
    "job",
    "KiB",
    "MiB",
    "GiB",
    "KB",
    "MB",
    "GB",
    "bytes",
    "bs",
    "iodepth",
    "Oracle",
    "Redis",
    "InnoDB",
    "PostgreSQL",
    "OOMKilled",
    "Evicted",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "zero",
    "urandom",
    "null",
    "memory",
    "cpu",
    "io",
    "network",
    "irq",
    "dd",
    "fio",
    "iperf",
    "iperf3",
    "ping",
    "time",
    "hdparm",
    "iozone",
    "bonnie++",
    "scheduler",
    "deadline",
    "mq-deadline",
    "cfq",
    "bfq",
    "noop",
    "kyber",
    "ioengine",
    "libaio",
    "io_uring",
    "psync",
    "pvsync",
    "posixaio",
    "mmap",
    "splice",
    "rwmixread",
    "rate",
    "bitrate",
    "protocol",
    "TCP",
    "UDP",
    "message",
    "size",
    "window",
    "MSS",
    "congestion",
    "control",
    "cubic",
    "bbr",
    "reno",
    "direction",
    "receive",
    "send",
    "end_fsync",
    "dsync",
    "default",
    "yes",
    "no",
];

/// Top-level domains, besides those of countries, which have two letters.
const DOMAINS: &[&str] = &[
    "com",
    "net",
    "org",
    "edu",
    "gov",
    "mil",
    "int",
    "info",
    "biz",
    "name",
    "cloud",
    "dev",
    "app",
    "local",
    "localdomain",
    "lan",
    "internal",
    "intern",
    "intranet",
    "corp",
    "home",
    "private",
    "test",
    "example",
    "invalid",
    "arpa",
    "online",
    "tech",
    "systems",
];

/// Two-letter endings that are more often file extensions than country domains.
const NO_COUNTRIES: &[&str] =
    &["so", "ko", "sh", "py", "rs", "md", "gz", "xz", "db", "cc", "ps", "rb", "pl", "ms", "id", "io"];

/// Whether a name begins with one of these and continues with digits, device letters and separators only.
fn is_numbered(name: &str, families: &[&str], rest_is: impl Fn(&str) -> bool) -> bool {
    families.iter().any(|family| name.strip_prefix(family).is_some_and(&rest_is))
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

pub fn is_folder(name: &str) -> bool {
    FOLDERS.contains(&name)
}

/// Whether this is a common name of a file with a tool's output, without its extension.
pub fn is_file(stem: &str) -> bool {
    FILES.contains(&stem)
}

pub fn is_ending(name: &str) -> bool {
    ENDINGS.contains(&name)
}

/// Whether a name is that of a device: `sda1`, `nvme0n1p2`, `dm-0`, `mpathb`, `8:16`, `2:0:0:1`, `0000:01:00.0`, `cciss/c0d0p1`.
pub fn is_device(name: &str) -> bool {
    const LETTERED: [&str; 6] = ["sd", "hd", "vd", "xvd", "dasd", "mpath"];
    // Letters of a disk: there are 18,278 up to `zzz`.
    let lettered = |rest: &str| {
        let letters = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        let letters =
            letters.strip_suffix('p').filter(|head| !head.is_empty() && letters.len() < rest.len()).unwrap_or(letters);
        (1..=3).contains(&letters.len()) && letters.bytes().all(|b| b.is_ascii_lowercase())
    };
    let numbered =
        |rest: &str| starts_with_digit(rest) && rest.bytes().all(|b| b.is_ascii_digit() || b"npcdtsb.:-_".contains(&b));
    let is_number = name.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b)) && name.contains(':');
    let is_total = ["", "host", "memory", "ceph", "all", "total", "Total", "none", "md", "Device"].contains(&name);
    is_total
        || (is_number && starts_with_digit(name))
        || is_numbered(name, &LETTERED, lettered)
        || is_numbered(name, DEVICES, numbered)
}

/// Whether a name is a generic interface name: `eth0`, `enp3s0f1np1.100`, but not `br-0a1b2c3d4e5f`.
pub fn is_interface(name: &str) -> bool {
    let rest_is = |rest: &str| {
        starts_with_digit(rest) && rest.bytes().all(|b| b.is_ascii_digit() || b"nspdufviPb.:_-".contains(&b))
    };
    WHOLE_INTERFACES.contains(&name) || name.is_empty() || (name.len() < 16 && is_numbered(name, INTERFACES, rest_is))
}

/// Returns the kind of interface that a name indicates.
pub fn interface_kind(name: &str) -> Option<&'static str> {
    INTERFACE_KINDS.iter().find(|kind| name.starts_with(**kind)).copied()
}

/// Whether a name is that of a kernel thread: `kworker/u8:1-events_unbound`, `jbd2/dm-0-8`, `scsi_eh_2`, but not with a device
/// that a user named.
pub fn is_kernel_thread(name: &str) -> bool {
    let rest_is = |rest: &str| {
        let rest = rest.trim_start_matches(['/', '-', ':', '_']);
        let device = rest.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        let is_plain = rest.bytes().all(|b| b.is_ascii_digit() || b"/:+-_u.Hnpqirsxt".contains(&b));
        rest.is_empty() || is_plain || is_device(rest) || is_device(device) || is_work(rest)
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    KERNEL_THREADS.iter().any(|thread| name.strip_prefix(thread).is_some_and(rest_is))
        // `irq/35-eth0`, `irq/9-acpi`, and array threads such as `md0_raid1`.
        || name.strip_prefix("irq/").is_some_and(|rest| rest.split_once('-').is_some_and(|(_, of)| is_interface(of) || is_device(of)))
        || name.strip_prefix("md").is_some_and(|rest| rest.split_once("_raid").is_some_and(|(number, _)| starts_with_digit(number)))
}

/// Whether the rest of a `kworker` name is a workqueue of the kernel: `u8:1-events_unbound`, `0:1H-kblockd`.
fn is_work(rest: &str) -> bool {
    let Some((pool, queue)) = rest.split_once(['-', '+']) else { return false };
    let is_pool = pool.contains(':') && pool.bytes().all(|b| b.is_ascii_digit() || b"u:HR".contains(&b));
    is_pool && queue.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b))
}

pub fn is_no_process(name: &str) -> bool {
    NO_PROCESSES.contains(&name)
}

pub fn is_group(part: &str) -> bool {
    GROUPS.contains(&part)
}

pub fn is_source(name: &str) -> bool {
    SOURCES.contains(&name)
}

pub fn is_named_option(name: &str) -> bool {
    NAMED_OPTIONS.contains(&name)
}

pub fn is_label_word(word: &str) -> bool {
    LABEL_WORDS.contains(&word)
}

/// Whether a word with dots is a fully qualified host name.
pub fn is_full_host_name(word: &str) -> bool {
    let labels: Vec<&str> = word.split('.').collect();
    let is_label = |label: &&str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && !label.starts_with('-')
    };
    let Some(end) = labels.last() else { return false };
    let is_country = end.len() == 2 && end.bytes().all(|b| b.is_ascii_lowercase()) && !NO_COUNTRIES.contains(end);
    labels.len() > 1 && labels.iter().all(is_label) && (is_country || DOMAINS.contains(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_the_kernel_are_told_from_names_of_volumes() {
        for name in [
            "sda",
            "sdaa12",
            "nvme0n1p2",
            "nvme1c0n1",
            "dm-12",
            "md127",
            "mpathb",
            "mpathap1",
            "loop0p1",
            "8:16",
            "2:0:0:1",
            "0000:01:00.0",
            "cciss/c0d0p1",
            "xvdb1",
            "vda",
        ] {
            assert!(is_device(name), "{name}");
        }
        for name in
            ["tank", "vg0-data", "sdalice", "oradata1", "data", "mpathoracle", "dm-crypt", "host-a", "customers"]
        {
            assert!(!is_device(name), "{name}");
        }
    }

    #[test]
    fn interfaces_with_a_number_are_told_from_named_ones() {
        for name in [
            "lo",
            "eth0",
            "enp3s0f1np1",
            "eno1",
            "bond0.100",
            "wlp2s0",
            "docker0",
            "flannel.1",
            "p1p2",
            "tun0",
            "eth0:1",
        ] {
            assert!(is_interface(name), "{name}");
        }
        for name in
            ["uplink", "eth-dmz", "veth1a2b3c", "br-0a1b2c3d4e5f", "enx001122aabbcc", "tun-office", "p", "public0net"]
        {
            assert!(!is_interface(name), "{name}");
        }
        assert_eq!((interface_kind("tun-office"), interface_kind("uplink")), (Some("tun"), None));
    }

    #[test]
    fn threads_of_the_kernel_are_told_from_programs() {
        for name in [
            "kworker/u8:1",
            "kworker/0:1H-kblockd",
            "kworker/u16:3-events_unbound",
            "ksoftirqd/12",
            "jbd2/sda1-8",
            "jbd2/dm-0-8",
            "scsi_eh_2",
            "kswapd0",
            "idle_inject/3",
            "md0_raid1",
            "irq/35-eth0",
            "[kthreadd]",
            "iou-sqp-1234",
            "xfsaild/dm-3",
            "flush-8:0",
            "nfsd",
            "swapper/0",
            "loop0",
        ] {
            assert!(is_kernel_thread(name), "{name}");
        }
        for name in [
            "nginx",
            "kworkerd",
            "mdadm",
            "loopback",
            "jbd2/customers-8",
            "cryptominer",
            "eventsd",
            "nfsdump",
            "ksmtuned",
            "bondage",
            "irq/35-alice",
        ] {
            assert!(!is_kernel_thread(name), "{name}");
        }
    }

    #[test]
    fn hosts_are_told_from_files_and_settings() {
        for name in ["db1.corp.example", "www.heise.de", "a.local"] {
            assert!(is_full_host_name(name), "{name}");
        }
        for name in
            ["net.ipv4.tcp_mem", "libc.so", "ata1.00", "page_alloc.c", "eth0", "6.1.0", "a.", ".de", "vm.swappiness"]
        {
            assert!(!is_full_host_name(name), "{name}");
        }
    }
}
