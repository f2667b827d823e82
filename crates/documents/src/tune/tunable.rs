//! Tunables, as described in the catalogue.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A setting of the kernel or of one of its objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tunable {
    /// The sysctl's own name, otherwise the class of object and the kernel's word for the setting.
    pub name: String,
    /// What it does, in a sentence or two.
    pub means: String,
    /// When to change it, and in which direction.
    #[serde(default)]
    pub used_for: String,
    /// The kernel's unit: `bytes`, `KiB`, `pages`, `s`, `ms`, `us`, `ns`, `%`, or a word; empty for none.
    #[serde(default)]
    pub unit: String,
    /// The allowed values: `0..200`, `1.. or max`, `3 x 0..`, `2 x 1.. ascending`, `never|madvise`, `listed`, `cpu mask`, `cpu list`, `text`.
    pub values: String,
    /// The kernel's default, or what it is computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The class of object that has this setting.
    pub scope: TunableScope,
    /// How it is read and written.
    pub access: Access,
    /// When a change takes effect.
    pub effect: Effect,
    /// Seconds until the effects of the old value have gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle: Option<u32>,
    /// What can go wrong.
    pub risk: Risk,
    /// Whether it affects the network: a change that could cut off the user is rolled back unless it is confirmed.
    #[serde(default)]
    pub network: bool,
    /// Whether a wrong value can stall the machine, or whoever would set it right: a change is rolled back unless it is confirmed.
    /// Unless the entry says otherwise, it follows from risk and scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// Whether it limits what programs may use: a change that lowers it is rolled back unless it is confirmed.
    #[serde(default)]
    pub limit: bool,
    /// The number that stands for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlimited: Option<String>,
    /// Other names of values, by name: `deadline` for `mq-deadline`. The value is shown by its own name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<String, String>,
    /// The file in which the kernel lists the values it has; `{}` stands for the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed_in: Option<String>,
    /// The kernel module that adds a value to those, as the kernel requests it: `tcp_{}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Whether the kernel rounds the value, so that another one is read back.
    #[serde(default)]
    pub rounds: bool,
    /// The value that means 'the other of the pair is in force' and cannot be written: writing the other one restores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unset: Option<String>,
    /// Other tunables of the same object that the kernel changes along with this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbs: Vec<String>,
    /// Tunables that must be set before this one if both change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// How it is made persistent.
    pub persist: Persist,
    /// The first kernel that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The first kernel without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The document that describes it.
    pub source: String,
    /// What other Unix systems call it, by system, with the unit if that differs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub elsewhere: BTreeMap<String, String>,
}

/// The class of object that has a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Scope")]
pub enum TunableScope {
    /// The machine.
    Machine,
    /// The network namespace of the caller.
    Netns,
    /// A disk, by kernel name: `sda`.
    Disk,
    /// A network interface: `eth0`.
    Interface,
    /// A queue of an interface: `eth0/rx-0`.
    NetQueue,
    /// A CPU: `cpu0`.
    Cpu,
    /// An idle state of a CPU: `cpu0/state1`.
    IdleState,
    /// An interrupt line, by number.
    Irq,
    /// A mounted file system, by its mount point.
    Mount,
    /// A mounted ext4 file system, by its device: `sda1`.
    Ext4,
    /// A control group, by its path: `/user.slice`.
    Cgroup,
    /// A control group's use of a disk: `sda/system.slice`.
    GroupDisk,
    /// A process, by PID.
    Process,
    /// A size of huge pages: `hugepages-2048kB`.
    PageSize,
    /// A line in a file that is read at boot.
    Line,
}

impl TunableScope {
    /// Returns whether the name is complete without an object.
    pub fn is_one(self) -> bool {
        matches!(self, Self::Machine | Self::Netns)
    }

    /// Returns the description of the object after the @.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// A file under /proc/sys, whose path follows from the name.
    Sysctl,
    /// A file; `{}` stands for the object, `{0}` and `{1}` for the parts of its name between slashes.
    File(String),
    /// A file in a control group: the v1 controller that has it, or `v2`.
    Cgroup(String),
    /// A limit for a disk in a file of a control group with a line for each disk: by device number, and in v2 by a key.
    CgroupDisk {
        /// The v1 controller that has it, or `v2`.
        tree: String,
        /// The file in the group.
        file: String,
        /// The key before the value, if a line has several.
        #[serde(default)]
        key: String,
    },
    /// The queueing discipline at the root of an interface, by rtnetlink.
    Qdisc,
    /// A parameter of an interface, set by SIOCETHTOOL: `ring.rx`.
    Ethtool(String),
    /// An option of a mounted file system: `commit`.
    Mount(String),
    /// A system call for a process: `nice`.
    Process(String),
    /// A line of a file, found by the text before its value.
    Line {
        /// The file's absolute path.
        file: String,
        /// The line up to the value.
        prefix: String,
        /// The line after the value.
        suffix: String,
        /// The header if the file is created.
        header: String,
        /// Further lines, up to the value, for the second and later words of a value.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more: Vec<String>,
    },
}

/// When a change takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Immediately, as does rolling it back.
    Instant,
    /// Immediately, but effects of the old value remain for a while: full caches, dirty pages, open connections.
    WashOut,
    /// For files opened afterwards: open files keep the old value.
    Reopen,
    /// For processes or connections started afterwards.
    Restart,
    /// At the next boot.
    Reboot,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    /// Nothing except performance.
    Low,
    /// Work may be delayed, refused or interrupted.
    Medium,
    /// Processes may be killed, data endangered or the machine lost.
    High,
}

/// What a wrong value can stall, so that nobody can set it right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stalls {
    /// At most what it is about.
    Nothing,
    /// The machine.
    Machine,
    /// The control group it is set for: the one of this session, or of what it was started from.
    Session,
}

/// How a setting is made persistent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Persist {
    /// A line in sysctl.d(5).
    Sysctl,
    /// A line in tmpfiles.d(5).
    Tmpfiles,
    /// A udev(7) rule, for this subsystem.
    Udev(String),
    /// A property of systemd.resource-control(5), in a drop-in of the unit.
    Unit(String),
    /// It cannot be made persistent; what to do instead.
    No(String),
}

/// Why a tunable has no value here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unavailable {
    /// This kernel, driver or file system does not have it.
    Unsupported(String),
    /// The object does not exist.
    Absent(String),
    /// Permission denied; `remedy` says what would allow it.
    NotPermitted {
        /// What was refused.
        why: String,
        /// What would allow it.
        remedy: String,
    },
    /// It failed unexpectedly.
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

/// A tunable's value on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Here {
    /// The object; `None` if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Unavailable>,
    /// The values that the kernel lists, if it does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// A tunable with its values on this machine: an entry of `tune list --json`, the document of `tune show --json`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TunableDocument {
    /// The entry of the catalogue.
    #[serde(flatten)]
    pub tunable: Tunable,
    /// The values, by object.
    pub here: Vec<Here>,
}
