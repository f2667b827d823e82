//! The storage and network stacks of a machine, `whyslow.stack/1`: the layers that a request or packet passes through
//! on its way down, and their limits. Public interface, described in docs/stack.md: fields may be added, existing ones
//! do not change.
//!
//! Nodes and the edges to those below them form an acyclic graph: several file systems share a disk, several containers
//! a bridge.

mod alignment;
mod diagram;
mod guest;
mod load;
mod network;
mod path;
mod storage;
#[cfg(test)]
mod storage_tests;

pub use diagram::StackGroup;
pub use load::NodeLoad;

use crate::blind_spots;
use crate::diagnosis::{BlindSpot, Reading};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Irq, IrqLine, MachineInfo, MappedDevice};
use whyslow_model::human;
use whyslow_model::window::Window;

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.stack/1";

/// The stacks of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoStack {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The name of the machine, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Everything that a request or packet passes through.
    pub nodes: Vec<StackNode>,
    /// Where requests and packets enter, and the smallest limits on the way down from there.
    pub paths: Vec<IoPath>,
    /// How a drawing arranges the nodes that an overview has to show.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagram: Vec<StackGroup>,
    /// What could not be observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blind_spots: Vec<BlindSpot>,
}

/// Storage, the network, or virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StackKind {
    /// From file systems to adapters.
    Storage,
    /// From interfaces to network cards.
    Network,
    /// Virtual machines that run here; their disks and network cards are in the other two.
    Guests,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// A mounted file system; named by its first mount point.
    FileSystem,
    /// A swap area.
    Swap,
    /// A device of the device mapper: a logical volume, an encrypted device, a multipath device.
    MappedDevice,
    /// A software RAID array.
    Array,
    /// A loop device.
    LoopDevice,
    /// Compressed memory.
    Zram,
    /// A partition.
    Partition,
    /// A disk, real or virtual.
    Disk,
    /// What disks are attached to.
    Adapter,
    /// The server of a network file system.
    Server,
    /// A network interface.
    Interface,
    /// A virtual machine that runs here.
    Guest,
    /// A disk of a virtual machine that runs here.
    GuestDisk,
    /// A network card of a virtual machine that runs here.
    GuestCard,
}

/// Something that a request or packet passes through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackNode {
    /// Unique in the document: `block:sda1`, `mount:/`, `interface:eth0@net:[4026532281]`.
    pub id: String,
    /// Storage, network or guests.
    pub stack: StackKind,
    /// What it is.
    pub kind: NodeKind,
    /// Its name.
    pub name: String,
    /// The network namespace of an interface, if it is not the observer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Further mount points of a file system.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_points: Vec<String>,
    /// Whether nothing uses it that an overview has to show: a file system in memory, an interface that is down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub minor: bool,
    /// Settings and properties.
    pub facts: Vec<NodeFact>,
    /// The limits that it sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<NodeLimit>,
    /// Its interrupt lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<InterruptLine>,
    /// What is wrong with how it is set up, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What it did over the last seconds, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<NodeLoad>,
    /// What is directly below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<NodeBelow>,
}

impl StackNode {
    fn new(stack: StackKind, kind: NodeKind, id: String, name: &str) -> Self {
        Self {
            id,
            stack,
            kind,
            name: name.to_owned(),
            netns: None,
            mount_points: Vec::new(),
            minor: false,
            facts: Vec::new(),
            limits: Vec::new(),
            interrupts: Vec::new(),
            problems: Vec::new(),
            load: None,
            below: Vec::new(),
        }
    }

    /// Adds a text fact, if it is known.
    fn says(&mut self, name: &str, text: Option<impl Into<String>>) {
        if let Some(text) = text.map(Into::into).filter(|text: &String| !text.is_empty()) {
            self.facts.push(NodeFact { name: name.to_owned(), value: Reading::Text(text), unit: String::new() });
        }
    }

    /// Adds a number, if it is known.
    fn has(&mut self, name: &str, number: Option<f64>, unit: &str) {
        if let Some(number) = number {
            self.facts.push(NodeFact { name: name.to_owned(), value: Reading::Number(number), unit: unit.to_owned() });
        }
    }

    /// Adds a limit, if it is known. Zero and negative values mean no limit.
    fn limit(&mut self, kind: LimitKind, setting: &str, value: Option<f64>, how: impl FnOnce(f64) -> String) {
        if let Some(value) = value.filter(|value| *value > 0.0) {
            self.limits.push(NodeLimit {
                kind,
                setting: setting.to_owned(),
                value,
                unit: kind.unit().to_owned(),
                how: how(value),
                smallest_for: Vec::new(),
            });
        }
    }

    fn lies_on(&mut self, id: String, role: Option<&str>) {
        if id != self.id && !self.below.iter().any(|below| below.id == id) {
            self.below.push(NodeBelow { id, role: role.map(str::to_owned) });
        }
    }

    fn mounted_on(&self, point: &str) -> bool {
        self.name == point || self.mount_points.iter().any(|other| other == point)
    }

    /// Returns the text fact with this name.
    pub fn words(&self, name: &str) -> Option<&str> {
        self.facts.iter().find(|fact| fact.name == name).and_then(|fact| match &fact.value {
            Reading::Text(text) => Some(text.as_str()),
            Reading::Number(_) => None,
        })
    }
}

/// A node directly below another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeBelow {
    /// Its id.
    pub id: String,
    /// What it is to the node above, if that has several: `journal`, `data`, `other end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

/// A setting or property.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeFact {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Reading,
    /// The unit of a number: a base unit, as in the diagnosis document.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

/// What a limit bounds. Limits of one kind are compared with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Bytes of a request; a larger one is split.
    RequestSize,
    /// Requests in flight; others wait.
    RequestsInFlight,
    /// Bytes of a packet; a larger one is fragmented or dropped (MTU).
    PacketSize,
    /// Bits per second.
    BitRate,
    /// Packets that wait for the kernel, in the card's memory.
    ReceiveRing,
    /// Packets that wait for the card.
    SendRing,
}

impl LimitKind {
    /// Returns the name of the kind.
    pub fn words(self) -> &'static str {
        match self {
            Self::RequestSize => "request size",
            Self::RequestsInFlight => "requests in flight",
            Self::PacketSize => "packet size",
            Self::BitRate => "bit rate",
            Self::ReceiveRing => "receive ring",
            Self::SendRing => "send ring",
        }
    }

    /// Formats a value. Packet sizes stay in plain bytes, whatever their magnitude.
    pub fn quantity(self, value: f64) -> String {
        match self {
            Self::PacketSize => format!("{value} B"),
            _ => human::quantity(value, self.unit()),
        }
    }

    /// Returns the unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            Self::RequestSize | Self::PacketSize => "bytes",
            Self::RequestsInFlight | Self::ReceiveRing | Self::SendRing => "count",
            Self::BitRate => "bit/s",
        }
    }
}

/// A limit that a node sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeLimit {
    /// What it bounds.
    pub kind: LimitKind,
    /// The setting or property that it comes from.
    pub setting: String,
    /// The limit.
    pub value: f64,
    /// Its unit: a base unit.
    pub unit: String,
    /// How it comes about; empty where the setting says it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub how: String,
    /// The tops of paths on which it is the smallest, and others are larger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smallest_for: Vec<String>,
}

/// An interrupt line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptLine {
    /// Its number.
    pub line: String,
    /// What the driver calls it, if it has ever been raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The CPUs that it interrupts: `0-3,8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
}

/// The way of requests or packets from where they enter down to hardware, the network, or memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoPath {
    /// The id of the node where they enter.
    pub top: String,
    /// The top of an earlier path that differs from this one by names only: of another container with the same settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub like: Option<String>,
    /// The smallest limit of each kind on the way.
    pub smallest: Vec<SmallestLimit>,
}

/// The smallest limit of a kind on a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SmallestLimit {
    /// What it bounds.
    pub kind: LimitKind,
    /// The id of the node that sets it.
    pub node: String,
    /// The setting or property that it comes from.
    pub setting: String,
    /// The limit.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// How many limits of this kind the path has.
    pub compared: usize,
    /// The largest of those.
    pub largest: f64,
    /// The same in words.
    pub words: String,
}

impl IoStack {
    /// Builds the stacks from the newest readings of a window.
    pub fn from_window(window: &Window) -> Self {
        let mut stack = Self { schema: SCHEMA.into(), ..Self::default() };
        let machine = window.the::<MachineInfo>();
        stack.host = machine.and_then(|machine| machine.name.get()).map(str::to_owned);
        stack.nodes = storage::nodes(window);
        stack.nodes.extend(network::nodes(window));
        stack.nodes.extend(guest::cards(window));
        stack.nodes.extend(guest::machines(window));
        stack.blind_spots = blind_spots::of_sources(window, &[]);
        stack.blind_spots.extend(unread_tables(window));
        stack.drop_edges_to_nowhere();
        stack.find_paths();
        stack
    }

    /// Returns the node with this id.
    pub fn node(&self, id: &str) -> Option<&StackNode> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Returns the ids of the nodes with this name: a mount point, a device with or without /dev/, an interface with or
    /// without its namespace. If several namespaces have the interface, returns only the one in the observer's own,
    /// when there is one.
    pub fn named(&self, name: &str) -> Vec<&str> {
        let device = name.strip_prefix("/dev/mapper/").or_else(|| name.strip_prefix("/dev/")).unwrap_or(name);
        let is_it = |node: &&StackNode| match node.kind {
            NodeKind::Interface => node.name == name || node.id.strip_prefix("interface:") == Some(name),
            NodeKind::FileSystem => node.mounted_on(name),
            NodeKind::Swap | NodeKind::Server | NodeKind::Adapter => node.name == name,
            _ => node.name == device || node.words("mapped name") == Some(device),
        };
        let found: Vec<&StackNode> = self.nodes.iter().filter(is_it).collect();
        let own = found.iter().any(|node| node.kind == NodeKind::Interface && node.netns.is_none());
        let elsewhere = |node: &&StackNode| own && node.netns.is_some() && node.name == name;
        found.into_iter().filter(|node| !elsewhere(node)).map(|node| node.id.as_str()).collect()
    }

    /// Returns the part of the stacks that involves these nodes: the nodes themselves, all below them, and all above.
    pub fn around(&self, ids: &[&str]) -> Self {
        let mut kept: BTreeSet<&str> = ids.iter().flat_map(|id| self.reachable(id)).collect();
        kept.extend(self.nodes.iter().filter(|node| self.reaches(&node.id, ids)).map(|node| node.id.as_str()));
        let nodes = self.nodes.iter().filter(|node| kept.contains(node.id.as_str())).cloned().map(|mut node| {
            node.below.retain(|below| kept.contains(below.id.as_str()));
            // Nodes requested by name are always shown.
            node.minor = false;
            node
        });
        let mut part = Self { nodes: nodes.collect(), paths: Vec::new(), diagram: Vec::new(), ..self.clone() };
        part.find_paths();
        part
    }

    fn reaches(&self, from: &str, ids: &[&str]) -> bool {
        self.reachable(from).iter().any(|id| ids.contains(id))
    }

    /// Drops edges to nodes that the kernel removed between two readings.
    fn drop_edges_to_nowhere(&mut self) {
        let known: BTreeSet<String> = self.nodes.iter().map(|node| node.id.clone()).collect();
        for node in &mut self.nodes {
            node.below.retain(|below| known.contains(&below.id));
        }
    }
}

/// Reports that the tables of the device mapper could not be read: only root may, and they show how a volume is spread
/// over devices.
fn unread_tables(window: &Window) -> Option<BlindSpot> {
    let unread = window.newest::<MappedDevice>().values().any(|mapped| mapped.target.get().is_none());
    unread.then(|| BlindSpot {
        what: "stripes and chunks of the device mapper".into(),
        why: "/dev/mapper/control cannot be used".into(),
        remedy: "run as root".into(),
    })
}

/// Returns the interrupt lines of each PCI device.
fn interrupt_lines(window: &Window) -> BTreeMap<String, Vec<InterruptLine>> {
    let mut names = BTreeMap::new();
    for (line, irq) in window.newest::<Irq>() {
        if let Some(device) = irq.device.get() {
            names.entry(line.name.to_string()).or_insert_with(|| device.to_owned());
        }
    }
    let mut lines: BTreeMap<String, Vec<InterruptLine>> = BTreeMap::new();
    for (line, row) in window.newest::<IrqLine>() {
        let Some(bus) = row.bus.get() else { continue };
        lines.entry(bus.to_owned()).or_default().push(InterruptLine {
            name: names.get(&*line).cloned(),
            line: line.to_string(),
            cpus: row.cpus.get().map(str::to_owned),
        });
    }
    for lines in lines.values_mut() {
        lines.sort_by_key(|line| line.line.parse::<u32>().unwrap_or(u32::MAX));
    }
    lines
}

/// Formats a number of bytes.
fn bytes(bytes: f64) -> String {
    human::quantity(bytes, "bytes")
}
