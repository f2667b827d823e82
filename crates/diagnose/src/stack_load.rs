//! Load of each device and interface of the stacks over a window, by the signals that rules judge.

use crate::facts::Facts;
use crate::scope::Scope;
use crate::signal::Entity;
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::Subject;
use whyslow_documents::io_stack::{IoStack, NodeLoad};
use whyslow_model::catalogue::Disk;
use whyslow_model::window::{Change, Window};
use whyslow_quantities::disk;

/// Adds the load over a window to the nodes; a window of fewer than two samples has nothing to add.
pub fn add_loads(stack: &mut IoStack, window: &Window) {
    if window.snapshots().len() < 2 {
        return;
    }
    let facts = Facts::from_window(window);
    let of = |scope| facts.entities(scope).iter().map(|entity| (name(&entity.subject), entity));
    let disks: BTreeMap<String, &Entity> = of(Scope::Disk).collect();
    let devices = window.changes::<Disk>();
    let devices = devices.iter().map(|change| {
        let device = change.key().to_string();
        let load = of_device(change, disks.get(&device).copied());
        (format!("block:{device}"), load)
    });
    let interfaces = of(Scope::Interface).map(|(name, entity)| (format!("interface:{name}"), of_interface(entity)));
    let mut loads: BTreeMap<String, NodeLoad> = devices.chain(interfaces).collect();
    for node in &mut stack.nodes {
        node.load = loads.remove(&node.id).filter(|load| *load != NodeLoad::default());
    }
}

/// Returns a name with its network namespace.
fn name(subject: &Subject) -> String {
    let netns = subject.netns.as_ref().map(|netns| format!("@{netns}"));
    format!("{}{}", subject.name, netns.unwrap_or_default())
}

/// Returns the load of a device. Partitions have counters too, but only whole devices are judged.
fn of_device(change: &Change<'_, Disk>, judged: Option<&Entity>) -> NodeLoad {
    let judged = |signal| judged.and_then(|disk| disk.number(signal));
    NodeLoad {
        busy: disk::BUSY.over(change),
        waiting: judged("disk.stall"),
        read: disk::READ_RATE.over(change),
        write: disk::WRITE_RATE.over(change),
        requests: disk::TRANSFERS.over(change),
        latency: disk::WAIT.over(change),
        queue: disk::QUEUE.over(change),
        ceiling: judged("disk.ceiling_rate"),
        request_ceiling: judged("disk.ceiling"),
    }
}

fn of_interface(interface: &Entity) -> NodeLoad {
    let bytes = |signal| interface.number(signal).map(|bits| bits / 8.0);
    NodeLoad {
        busy: interface.number("iface.use"),
        read: bytes("iface.receiving"),
        write: bytes("iface.sending"),
        requests: interface.number("iface.packets"),
        ceiling: bytes("iface.speed"),
        ..NodeLoad::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::{Interface, Link, Partition, Queue};
    use whyslow_model::key::NetKey;

    const MS: u64 = SECOND / 1000;

    /// Returns two seconds of a disk that is busy for half of the time with 100 reads per second of 4096 bytes, 5 ms each, all
    /// on its partition; and of an interface that receives 125,000 bytes per second.
    fn busy() -> Window {
        window([0, 2], |t, s| {
            for device in ["sda", "sda1"] {
                s.block.disk.push(Disk {
                    reads: (100 * t).into(),
                    read_bytes: (409_600 * t).into(),
                    read_time: (500 * MS * t).into(),
                    busy_time: (500 * MS * t).into(),
                    weighted_time: (500 * MS * t).into(),
                    ..Disk::new(device.into())
                });
                s.block.queue.push(Queue { size: 1e9.into(), ..Queue::new(device.into()) });
            }
            s.block.partition.push(Partition::new("sda1".into()));
            let key = NetKey { name: "eth0".into(), ns: "web".into() };
            s.net.interface.push(Interface {
                rx_bytes: (125_000 * t).into(),
                tx_bytes: 0.into(),
                ..Interface::new(key.clone())
            });
            s.net.link.push(Link { speed: 1e7.into(), ..Link::new(key) });
        })
    }

    #[test]
    fn devices_partitions_and_interfaces_have_their_load() {
        let window = busy();
        let mut stack = IoStack::from_window(&window);
        add_loads(&mut stack, &window);
        let load = |id: &str| stack.node(id).and_then(|node| node.load.clone());
        for device in ["block:sda", "block:sda1"] {
            let load = load(device).expect(device);
            assert_eq!((load.busy, load.read, load.write, load.queue), (Some(0.5), Some(409_600.0), None, Some(0.5)));
            assert_eq!((load.requests, load.latency), (Some(100.0), Some(0.005)), "{device}");
        }
        // A million bits per second of ten million.
        let eth0 = load("interface:eth0@web").expect("a load");
        assert_eq!((eth0.busy, eth0.read, eth0.ceiling), (Some(0.1), Some(125_000.0), Some(1_250_000.0)));
    }

    #[test]
    fn a_single_sample_has_no_load() {
        let window = Window::new(busy().snapshots()[..1].to_vec());
        let mut stack = IoStack::from_window(&window);
        add_loads(&mut stack, &window);
        assert!(!stack.nodes.is_empty() && stack.nodes.iter().all(|node| node.load.is_none()));
    }
}
