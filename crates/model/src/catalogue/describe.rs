//! The description of a metric in the catalogue.

use crate::key::{KeyColumn, KeyPartKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How readings of a metric relate to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// A count that only grows; the difference of two readings matters.
    Counter,
    /// A level; each reading is meaningful by itself.
    Gauge,
    /// Words: a setting or a condition.
    State,
    /// A histogram; the difference of two readings matters.
    Histogram,
}

/// The unit of raw readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// A number of things.
    #[serde(rename = "count")]
    Count,
    /// A ratio, 0..1.
    #[serde(rename = "ratio")]
    Ratio,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Hertz.
    #[serde(rename = "Hz")]
    Hertz,
    /// Degrees Celsius.
    #[serde(rename = "Cel")]
    Celsius,
    /// No unit: words.
    #[serde(rename = "text")]
    Text,
}

/// What the words of a column name: `--pseudonymise` replaces them accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    /// Words of the kernel, a tool or whyslow, models of hardware, versions: nothing that somebody made up here.
    Word,
    /// A block device by the kernel's name; tools also print names of volumes.
    Device,
    /// A volume of LVM, the device mapper or multipath: `group/volume`.
    Volume,
    /// A network interface.
    Interface,
    /// A network interface, then '/' or a blank and a part of it: `eth0/rx_missed`, `eth0 fq_codel 8001:`.
    InterfaceDetail,
    /// A network namespace.
    Namespace,
    /// A process or thread.
    Process,
    /// Control groups by their paths, one per line.
    Cgroup,
    /// A file, folder or mount point.
    Path,
    /// What is mounted or swapped to: a device, a server and its path, a file, or a type of file system.
    Source,
    /// Mount options, separated by commas.
    Options,
    /// A host's name or address.
    Host,
    /// Addresses, separated by blanks, each with or without port or prefix; a connection is `LOCAL->REMOTE`.
    Endpoint,
    /// The UUID of a mapped device, which begins with what made it.
    Uuid,
    /// A serial number or another identity without a structure.
    Id,
    /// A few words that a tool or whyslow put together, names of any kind among them.
    Label,
    /// A sentence, with names of any kind in it.
    Text,
    /// A line of a log.
    Log,
    /// A thing of the inventory; column `kind` says of what kind it is.
    Item,
    /// The subject of a finding; column `kind` says what it is.
    Subject,
    /// The key of a finding, which has its subject in it.
    FindingKey,
}

/// One metric of a family, as described in the catalogue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Metric {
    /// The name within its family; also the struct field and the column.
    pub name: &'static str,
    /// Counter, gauge, state or histogram.
    pub kind: MetricKind,
    /// The unit of raw readings.
    pub unit: Unit,
    /// What its words name, if they are words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<NameKind>,
    /// The OpenTelemetry name, `system.*` or `process.*` where the semantic conventions have one.
    pub otel: &'static str,
    /// The OpenTelemetry attribute that distinguishes it from other metrics of that name, `key=value`; empty without one.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub otel_attribute: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Whether only the output of other tools has it, and whyslow does not read it itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_captures: bool,
    /// The value at which the kernel's counter wraps to zero; absent for 64-bit counters, which never do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wraps_at: Option<u64>,
    /// Whether it distinguishes an entity from an earlier one of the same name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub identifies: bool,
}

/// What the counts of a family begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountedSince {
    /// The boot of the machine; a card's driver may have been loaded later.
    Boot,
    /// When the mount, the connection or the queueing discipline was made. How long ago that was is unknown, but for a mount.
    Creation,
}

/// A family of metrics: one row per entity, one column per metric.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FamilyInfo {
    /// The family's name; also its table in a Snapshot and on disk.
    pub name: &'static str,
    /// Names it had in earlier versions, which recordings and commands may still use.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub former_names: &'static [&'static str],
    /// The name of the key.
    pub key: &'static str,
    /// The columns of the key.
    pub key_columns: &'static [KeyColumn],
    /// What the words in the key's text columns name, in order.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub key_names: &'static [NameKind],
    /// The kernel file or interface it is read from.
    pub source: &'static str,
    /// One sentence on what a row is.
    pub help: &'static str,
    /// Whether its rows are events: each happened once, before the sample that has it, and later samples do not repeat it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub events: bool,
    /// What its counts begin with, if they mean something although they were read only once. The CPU time of a process since it
    /// started does not: it does not say when it was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<CountedSince>,
    /// Whether its counters are parts of a whole, and what a tool does not count separately is contained in another of them, as
    /// interrupts are in system time. The parts of two tools do not add up to the whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub parts: bool,
    /// Whether only the output of other tools has it, and whyslow does not read it itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_captures: bool,
    /// Its metrics, in column order.
    pub metrics: &'static [Metric],
}

impl FamilyInfo {
    /// Returns whether `name` is the family's current name or a former one.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.former_names.contains(&name)
    }

    /// Returns the names and kinds of the key columns.
    pub fn key_columns(&self) -> impl Iterator<Item = (&'static str, KeyPartKind)> {
        let key = self.key;
        self.key_columns.iter().map(move |column| (column.name.unwrap_or(key), column.kind))
    }
}
