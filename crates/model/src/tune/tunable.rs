//! One entry of the catalogue of tunables.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A setting of the kernel, or of a thing in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunable {
    /// What it goes by: the sysctl's own name, else the class of thing and the kernel's word for it.
    pub name: String,
    /// What it does, in a sentence or two.
    pub means: String,
    /// When it is worth changing, and which way.
    #[serde(default)]
    pub used_for: String,
    /// The unit the kernel takes it in: `bytes`, `KiB`, `pages`, `s`, `ms`, `us`, `ns`, `%`, or a word; empty for none.
    #[serde(default)]
    pub unit: String,
    /// Which values are taken: `0..200`, `1.. or max`, `3 x 0..`, `never|madvise`, `listed`, `cpu mask`, `cpu list`, `text`.
    pub values: String,
    /// The kernel's default, or in words what it is computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Of what there is one each.
    pub scope: Scope,
    /// How it is read and written.
    pub access: Access,
    /// When a change shows.
    pub effect: Effect,
    /// How many seconds the old value's traces take to wash out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<u32>,
    /// What can go wrong.
    pub risk: Risk,
    /// Whether it is of the network: whoever changes it may be cut off by that, so that it is taken back unless confirmed.
    #[serde(default)]
    pub network: bool,
    /// Whether the kernel rounds what it is given, so that another number may be read back.
    #[serde(default)]
    pub rounds: bool,
    /// The value that says 'the other of a pair counts', and cannot be written: the pair's other half brings it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unset: Option<String>,
    /// Tunables of the same thing that the kernel changes along with this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbs: Vec<String>,
    /// Tunables that must be set before this one where both change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// How it is kept over a reboot.
    pub persist: Persist,
    /// The first kernel that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The first kernel that no longer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The document that describes it.
    pub source: String,
}

/// Of what there is one setting each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The machine.
    Machine,
    /// The network namespace of whoever asks.
    Netns,
    /// A disk, by the kernel's name: `sda`.
    Disk,
    /// A network interface: `eth0`.
    Interface,
    /// A queue of an interface: `eth0/rx-0`.
    NetQueue,
    /// A processor: `cpu0`.
    Cpu,
    /// An idle state of a processor: `cpu0/state1`.
    IdleState,
    /// An interrupt line, by number.
    Irq,
    /// A mounted file system, by its mount point.
    Mount,
    /// A mounted ext4 file system, by its device: `sda1`.
    Ext4,
    /// A control group, by its path: `/user.slice`.
    Cgroup,
    /// A disk's use by a control group: `sda/system.slice`.
    GroupDisk,
    /// A process, by its number.
    Process,
    /// A size of huge pages: `hugepages-2048kB`.
    PageSize,
    /// A line in a file that the machine reads at boot.
    Line,
}

impl Scope {
    /// Whether a name says all, with no thing behind it.
    pub fn is_one(self) -> bool {
        matches!(self, Self::Machine | Self::Netns)
    }

    /// What stands behind the @.
    pub fn word(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Netns => "network namespace",
            Self::Disk => "disk",
            Self::Interface => "interface",
            Self::NetQueue => "queue of an interface",
            Self::Cpu => "processor",
            Self::IdleState => "idle state of a processor",
            Self::Irq => "interrupt line",
            Self::Mount => "mount point",
            Self::Ext4 => "ext4 file system",
            Self::Cgroup => "control group",
            Self::GroupDisk => "disk in a control group",
            Self::Process => "process",
            Self::PageSize => "size of huge pages",
            Self::Line => "line",
        }
    }
}

/// How a tunable is read and written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// A file under /proc/sys that its name leads to.
    Sysctl,
    /// A file; `{}` stands for the thing, `{0}` and `{1}` for the parts of its name between slashes.
    File(String),
    /// A file in a control group: the controller of version 1 that has it, or `v2`.
    Cgroup(String),
    /// A limit on a disk in a file of a control group that has a line for each: by the disk's number, and in version 2 by a key.
    CgroupDisk {
        /// The controller of version 1 that has it, or `v2`.
        tree: String,
        /// The file in the group.
        file: String,
        /// The word before its value, where a line holds several.
        #[serde(default)]
        key: String,
    },
    /// The queueing discipline at the root of an interface, by rtnetlink.
    Qdisc,
    /// A parameter of an interface that SIOCETHTOOL knows: `ring.rx`.
    Ethtool(String),
    /// An option of a mounted file system: `commit`.
    Mount(String),
    /// A system call on a process: `nice`.
    Process(String),
    /// A line of a file, by what stands before its value.
    Line {
        /// The file, from the root.
        file: String,
        /// The line up to its value.
        prefix: String,
        /// The line behind its value.
        suffix: String,
        /// What the file starts with where it is made anew.
        header: String,
        /// Further lines, up to their values, for the second and later words of a value.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more: Vec<String>,
    },
}

/// When a change shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// At once, and so does taking it back.
    Instant,
    /// At once, but what the old value left behind takes time to go: full caches, dirty pages, open connections.
    WashOut,
    /// To files that are opened afterwards: whoever keeps one open goes on with the old value.
    Reopen,
    /// Only to what is started after it: a process, a connection.
    Restart,
    /// At the next boot.
    Reboot,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Nothing but the speed.
    Low,
    /// Work may be delayed, refused or interrupted.
    Medium,
    /// Processes may be killed, data endangered or the machine lost.
    High,
}

/// How a setting is kept over a reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persist {
    /// A line for sysctl.d(5).
    Sysctl,
    /// A line for tmpfiles.d(5).
    Tmpfiles,
    /// A rule for udev(7), of this subsystem.
    Udev(String),
    /// A property of systemd.resource-control(5), in a drop-in of the unit.
    Unit(String),
    /// It cannot be: what to do instead.
    No(String),
}

/// Why a tunable has no value here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unavailable {
    /// This kernel, driver or file system does not have it.
    Unsupported(String),
    /// The thing it is a setting of is not there.
    Absent(String),
    /// We may not; `remedy` says what would allow it.
    NotPermitted {
        /// What was refused.
        why: String,
        /// What would allow it.
        remedy: String,
    },
    /// It should have worked and did not.
    Failed(String),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(why) => write!(f, "unsupported here: {why}"),
            Self::Absent(why) => write!(f, "not there: {why}"),
            Self::NotPermitted { why, remedy } => write!(f, "not permitted: {why}; {remedy}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

impl std::error::Error for Unavailable {}

/// What a tunable is on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Here {
    /// Of which thing; `None` where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Unavailable>,
    /// The values that the kernel lists, where it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// A tunable with what it is here: an entry of `tune list --json`, the document of `tune show --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunableDocument {
    /// The entry of the catalogue.
    #[serde(flatten)]
    pub tunable: Tunable,
    /// What it is here, thing by thing.
    pub here: Vec<Here>,
}
