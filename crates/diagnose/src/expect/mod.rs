//! What storage and network should deliver, by the physics of drives, the arithmetic of RAID and stripes, and the encoding of
//! links; and which layout would deliver more. This is not a judgement: what delivers less than expected may have had nothing to
//! do.

mod array;
mod drive;
mod link;
mod log;
mod multipath;

use crate::stack_load::add_loads;
use std::collections::BTreeMap;
use whyslow_documents::expectation::{Expectations, ExpectedRate, SCHEMA, ThingExpected};
use whyslow_documents::io_stack::{IoStack, NodeKind, NodeLoad, StackNode};
use whyslow_model::catalogue::{Array, Disk, Link, MappedDevice, Path, PcieLink, Queue};
use whyslow_model::human::quantity;
use whyslow_model::key::{LinkKey, NetKey};
use whyslow_model::value::Name;
use whyslow_model::window::Window;

pub(crate) const PER_SECOND: &str = "1/s";
const BYTES_PER_SECOND: &str = "bytes/s";

/// Properties of drives that the user knows and the kernel does not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DriveFacts {
    /// Revolutions per minute of rotating drives that do not report them.
    pub rotation_rate: Option<f64>,
    /// Mean seek time of rotating drives, seconds, instead of the typical one for their rotation rate.
    pub seek: Option<f64>,
}

/// Returns what the parts of a stack should deliver, beside what they did over a window.
pub fn expectations(stack: &IoStack, window: &Window, facts: &DriveFacts) -> Expectations {
    let mut stack = stack.clone();
    add_loads(&mut stack, window);
    let machine = Machine {
        queues: window.newest(),
        arrays: window.newest(),
        mapped: window.newest(),
        paths: window.newest(),
        pcie: window.newest(),
        stack: &stack,
        facts,
    };
    let links: BTreeMap<NetKey, &Link> = window.newest();
    let changes = window.changes::<Disk>();
    let things = stack.nodes.iter().filter(|node| !node.minor).filter_map(|node| {
        let mut thing = match node.kind {
            NodeKind::Disk => drive::of_disk(&machine, node),
            NodeKind::Array | NodeKind::MappedDevice => {
                let change = changes.iter().find(|change| *change.key().to_string() == *node.name);
                multipath::of_device(&machine, node)
                    .unwrap_or_else(|| array::of_device(&machine, node, &array::Pattern::from_change(change)))
            }
            NodeKind::FileSystem => log::of_file_system(&machine, node, &changes),
            NodeKind::Adapter => link::of_adapter(&machine, node),
            NodeKind::Interface => link::of_interface(node, &links, &machine.pcie),
            _ => return None,
        };
        thing.id.clone_from(&node.id);
        thing.name = node.id.strip_prefix("interface:").unwrap_or(&node.name).to_owned();
        (!thing.rates.is_empty() || !thing.layouts.is_empty() || !thing.notes.is_empty()).then_some(thing)
    });
    Expectations {
        schema: SCHEMA.into(),
        host: stack.host.clone(),
        seconds: window.seconds(),
        things: things.collect(),
        blind_spots: stack.blind_spots.clone(),
    }
}

/// Storage configuration of the machine.
struct Machine<'w> {
    queues: BTreeMap<Name, &'w Queue>,
    arrays: BTreeMap<Name, &'w Array>,
    mapped: BTreeMap<Name, &'w MappedDevice>,
    paths: BTreeMap<LinkKey, &'w Path>,
    pcie: BTreeMap<Name, &'w PcieLink>,
    stack: &'w IoStack,
    facts: &'w DriveFacts,
}

impl<'w> Machine<'w> {
    fn queue(&self, node: &StackNode) -> Option<&'w Queue> {
        self.queues.get(node.name.as_str()).copied()
    }

    /// Returns the state of a path of a multipath device.
    fn state(&self, device: &StackNode, path: &StackNode) -> Option<&'w str> {
        let key = LinkKey { upper: device.name.as_str().into(), lower: path.name.as_str().into() };
        self.paths.get(&key)?.state.get()
    }

    /// Returns the bandwidth of the bus of the adapter with this id, bytes per second.
    fn bus_rate(&self, adapter: &str) -> Option<f64> {
        let bus = self.stack.node(adapter)?.words("bus address")?;
        Some(link::of_pcie(self.pcie.get(bus)?)?.rate)
    }

    /// Iterates over the nodes directly below.
    fn below(&self, node: &'w StackNode) -> impl Iterator<Item = &'w StackNode> {
        node.below.iter().filter_map(|below| self.stack.node(&below.id))
    }

    /// Returns the disk that a partition is on; for any other node, the node itself.
    fn disk_of(&self, node: &'w StackNode) -> &'w StackNode {
        match (node.kind, self.below(node).next()) {
            (NodeKind::Partition, Some(disk)) => disk,
            _ => node,
        }
    }
}

fn requests(node: &StackNode) -> Option<f64> {
    load(node)?.requests
}

fn bytes(node: &StackNode) -> Option<f64> {
    let load = load(node)?;
    Some(load.read.unwrap_or(0.0) + load.write.unwrap_or(0.0)).filter(|_| load.read.is_some() || load.write.is_some())
}

fn load(node: &StackNode) -> Option<&NodeLoad> {
    node.load.as_ref()
}

fn rate(what: &str, expected: f64, unit: &str, formula: String, source: &str, measured: Option<f64>) -> ExpectedRate {
    ExpectedRate { what: what.into(), expected, unit: unit.into(), formula, source: source.into(), measured }
}

fn per_second(requests: f64) -> String {
    quantity(requests.round(), "count")
}

fn thing(what: String) -> ThingExpected {
    ThingExpected { what, ..ThingExpected::default() }
}

#[cfg(test)]
mod tests;
