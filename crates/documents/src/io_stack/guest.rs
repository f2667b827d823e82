//! Virtual machines on this host. Their disks and network cards lie on file systems, devices and taps of the host.

use super::network::interface_id;
use super::storage::{StorageFacts, device_id};
use super::{NodeKind, StackKind, StackNode};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Guest, GuestCpu, GuestDisk, GuestNic, MachineInfo, Process, VirtualFunction};
use whyslow_model::cpu_list;
use whyslow_model::key::{GuestDevice, NetKey, TaskKey};
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// Returns the disks, each on the device or file system that holds it.
pub(super) fn disks(storage: &StorageFacts<'_>, window: &Window) -> Vec<StackNode> {
    let guests = window.newest();
    let node = |disk: &GuestDisk| {
        let mut node = node(&guests, &disk.disk, StackKind::Storage, NodeKind::GuestDisk);
        describe_disk(&mut node, disk);
        let file = disk.file.get().unwrap_or_default();
        match disk.host_device.get().filter(|_| file.starts_with("/dev/")) {
            Some(device) => node.lies_on(device_id(device), None),
            None => storage.add_file_below(&mut node, file),
        }
        node
    };
    window.newest::<GuestDisk>().into_values().map(node).collect()
}

/// Returns the network cards, each on its tap.
pub(super) fn cards(window: &Window) -> Vec<StackNode> {
    let guests = window.newest();
    let node = |card: &GuestNic| {
        let mut node = node(&guests, &card.card, StackKind::Network, NodeKind::GuestCard);
        node.says("model", card.model.get());
        node.says("connected to", card.backend.get());
        let by = card.vhost.get().map(|vhost| if vhost > 0.0 { "the kernel (vhost)" } else { "QEMU's main loop" });
        node.says("packets moved by", by);
        node.has("pairs of queues", card.queues.get(), "count");
        node.says("MAC address", card.mac.get());
        if let Some(tap) = card.interface.get() {
            node.lies_on(interface_id(&NetKey { ns: "".into(), name: tap.into() }), None);
        }
        node
    };
    window.newest::<GuestNic>().into_values().map(node).collect()
}

/// Returns the virtual machines themselves.
pub(super) fn machines(window: &Window) -> Vec<StackNode> {
    let host = window.the::<MachineInfo>();
    let host_cpus = host.and_then(|host| host.processors.get());
    let bound = bound_cpus(window, host_cpus);
    let (guests, processes) = (window.newest::<Guest>(), window.newest::<Process>());
    let functions = window.newest::<VirtualFunction>();
    let node = |(task, guest): (&TaskKey, &&Guest)| {
        let name = guest_name(Some(guest), *task);
        let mut node = StackNode::new(StackKind::Guests, NodeKind::Guest, format!("guest:{name}"), &name);
        describe(&mut node, guest, processes.get(task).and_then(|process| process.rss.get()));
        let passed = guest.passed_through.get().map(|devices| passed_through(devices, &functions));
        node.says("passed through", passed);
        node.says("bound to CPUs", bound.get(task).map(cpu_list::format));
        if guest.accelerator.get() == Some("tcg") && host.and_then(|host| host.kvm.get()) == Some(1.0) {
            node.problems.push("Its CPUs are emulated (TCG), although the host has KVM.".into());
        }
        for (other, cpus) in bound.iter().filter(|(other, _)| *other != task) {
            let shared = bound.get(task).map(|own| own & cpus).filter(|shared| !shared.is_empty());
            let other = guest_name(guests.get(other).copied(), *other);
            node.problems
                .extend(shared.map(|cpus| format!("It shares CPUs {} with {other}.", cpu_list::format(&cpus))));
        }
        node
    };
    guests.iter().map(node).collect()
}

fn describe(node: &mut StackNode, guest: &Guest, resident: Option<f64>) {
    node.has("CPUs", guest.cpus.get(), "count");
    node.says("run by", guest.accelerator.get());
    node.says("CPU model", guest.cpu_model.get());
    node.says("machine", guest.machine.get());
    node.has("memory", guest.memory.get(), "bytes");
    node.has(
        "memory that the balloon leaves",
        guest.memory_now.get().filter(|now| Some(*now) != guest.memory.get()),
        "bytes",
    );
    node.has("memory on this machine", resident, "bytes");
    node.says("memory backing", guest.memory_backing.get());
    node.says("memory on NUMA nodes", guest.memory_nodes.get());
    node.has("I/O threads", guest.io_threads.get().filter(|threads| *threads > 0.0), "count");
    node.says("balloon", guest.balloon.get().map(|balloon| if balloon > 0.0 { "yes" } else { "no" }));
}

/// Formats PCI addresses; a virtual function (SR-IOV) with the address of the device that it belongs to.
fn passed_through(devices: &str, functions: &BTreeMap<Name, &VirtualFunction>) -> String {
    let words = |device: &str| {
        // QEMU accepts addresses without a domain, and sysfs paths.
        let address = device.rsplit('/').next().unwrap_or(device);
        let address = if address.matches(':').count() == 1 { format!("0000:{address}") } else { address.to_owned() };
        match functions.get(address.as_str()).and_then(|function| function.part_of.get()) {
            Some(whole) => format!("{address} (virtual function of {whole})"),
            None => address,
        }
    };
    devices.split(' ').map(words).collect::<Vec<_>>().join(", ")
}

/// Returns the host CPUs that the virtual CPUs of each guest may run on, for guests that may not run on all.
fn bound_cpus(window: &Window, host_cpus: Option<f64>) -> BTreeMap<TaskKey, BTreeSet<u32>> {
    let mut bound: BTreeMap<TaskKey, BTreeSet<u32>> = BTreeMap::new();
    let guests = window.newest::<Guest>();
    for cpu in window.newest::<GuestCpu>().into_values() {
        let guest = guests.keys().find(|task| task.pid == cpu.thread.pid);
        if let Some((task, cpus)) = guest.zip(cpu.cpus.get().and_then(cpu_list::parse)) {
            bound.entry(*task).or_default().extend(cpus);
        }
    }
    bound.retain(|_, cpus| host_cpus.is_some_and(|all| (cpus.len() as f64) < all));
    bound
}

/// Returns the guest's name; its process number if it has none.
fn guest_name(guest: Option<&Guest>, task: TaskKey) -> String {
    guest.and_then(|guest| guest.name.get()).map_or_else(|| task.pid.to_string(), str::to_owned)
}

/// Creates a node named `GUEST/DEVICE`.
fn node(guests: &BTreeMap<TaskKey, &Guest>, device: &GuestDevice, stack: StackKind, kind: NodeKind) -> StackNode {
    let name = format!("{}/{}", guest_name(guests.get(&device.task).copied(), device.task), device.name);
    StackNode::new(stack, kind, format!("guest:{name}"), &name)
}

fn describe_disk(node: &mut StackNode, disk: &GuestDisk) {
    node.says("model", disk.model.get());
    node.says("controller", disk.controller.get());
    node.says("file", disk.file.get());
    node.says("format", disk.format.get());
    node.says("cache", disk.cache.get());
    node.says("aio", disk.aio.get());
    node.says("discard", disk.discard.get());
    node.says("zeros", disk.detect_zeroes.get().filter(|words| *words != "off"));
    node.says("served by", Some(disk.io_thread.get().unwrap_or("QEMU's main loop")));
    node.has("queues", disk.queues.get(), "count");
    node.says("serial", disk.serial.get());
    node.says("WWN", disk.wwn.get());
    node.says("shares limits", disk.limit_group.get().filter(|group| !group.contains(&*disk.disk.name)));
    for (name, limit, unit) in [
        ("limit of requests", &disk.limit_operations, "1/s"),
        ("limit of reads", &disk.limit_reads, "1/s"),
        ("limit of writes", &disk.limit_writes, "1/s"),
        ("limit", &disk.limit_bytes, "bytes/s"),
        ("limit of reading", &disk.limit_read_bytes, "bytes/s"),
        ("limit of writing", &disk.limit_write_bytes, "bytes/s"),
    ] {
        node.has(name, limit.get(), unit);
    }
    match disk.cache.get() {
        Some("unsafe") => {
            node.problems
                .push("Flushes of the guest are ignored (cache=unsafe): a crash of the host loses data.".into());
        }
        Some("writethrough" | "directsync") => {
            let mode = disk.cache.get().unwrap_or_default();
            node.problems.push(format!("Each write is flushed to the storage of the host (cache={mode})."));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io_stack::IoStack;
    use whyslow_model::catalogue::{Link, Mount, Queue};
    use whyslow_model::snapshot::Snapshot;

    #[test]
    fn disks_and_cards_of_guests_lie_on_those_of_their_host() {
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        let task = TaskKey { pid: 7, tid: 7, start: 1 };
        let device = |name: &str| GuestDevice { task, name: name.into() };
        s.kernel.machine.push(MachineInfo { processors: 4.into(), kvm: 1.into(), ..MachineInfo::default() });
        s.guest.guest.push(Guest { name: "web1".into(), accelerator: "tcg".into(), ..Guest::new(task) });
        let other = TaskKey { pid: 8, tid: 8, start: 1 };
        let passed_through = "01:10.0 /sys/bus/pci/devices/0000:02:00.0".into();
        s.guest.guest.push(Guest { name: "db".into(), passed_through, ..Guest::new(other) });
        let part_of = "0000:01:00.0".into();
        s.kernel.virtual_function.push(VirtualFunction { part_of, ..VirtualFunction::new("0000:01:10.0".into()) });
        let card =
            |bus: &str, name: &str| Link { bus: bus.into(), ..Link::new(NetKey { ns: "".into(), name: name.into() }) };
        s.net.link.extend([card("0000:01:00.0", "eth0"), card("0000:01:10.0", "eth1")]);
        for (pid, cpus) in [(7, "0-1"), (8, "1,3")] {
            s.guest
                .guest_cpu
                .push(GuestCpu { cpus: cpus.into(), ..GuestCpu::new(TaskKey { pid, tid: pid + 10, start: 1 }) });
        }
        let disk = |name: &str, file: &str| GuestDisk {
            file: file.into(),
            host_device: "sda".into(),
            ..GuestDisk::new(device(name))
        };
        s.guest.guest_disk.push(disk("a", "/dev/vg/a"));
        s.guest.guest_disk.push(GuestDisk { cache: "unsafe".into(), ..disk("b", "/srv/b.img") });
        s.guest.guest_nic.push(GuestNic { interface: "vnet0".into(), ..GuestNic::new(device("net0")) });
        s.block.queue.push(Queue { size: 1e9.into(), ..Queue::new("sda".into()) });
        s.block.mount.push(Mount { device: "sda".into(), kind: "ext4".into(), ..Mount::new("/srv".into()) });
        s.net.link.push(Link { kind: "tun".into(), ..Link::new(NetKey { ns: "".into(), name: "vnet0".into() }) });
        s.sort();
        let stack = IoStack::from_window(&Window::new(vec![s]));
        let below = |id: &str| stack.node(id).unwrap().below.iter().map(|below| below.id.as_str()).collect::<Vec<_>>();
        assert_eq!(below("guest:web1/a"), ["block:sda"]);
        assert_eq!(below("guest:web1/b"), ["mount:/srv"]);
        assert_eq!(below("guest:web1/net0"), ["interface:vnet0"]);
        assert_eq!(stack.node("guest:web1/b").unwrap().problems.len(), 1);
        let web1 = stack.node("guest:web1").unwrap();
        assert_eq!(web1.words("bound to CPUs"), Some("0-1"));
        let emulated = "Its CPUs are emulated (TCG), although the host has KVM.";
        let db = stack.node("guest:db").unwrap();
        assert_eq!(db.words("passed through"), Some("0000:01:10.0 (virtual function of 0000:01:00.0), 0000:02:00.0"));
        let says = |id: &str, fact: &str| stack.node(id).unwrap().words(fact).map(str::to_owned);
        assert_eq!(says("interface:eth1", "virtual function of").as_deref(), Some("0000:01:00.0"));
        assert!(stack.node("interface:eth0").unwrap().facts.iter().any(|fact| fact.name == "virtual functions"));
        assert_eq!(web1.problems, [emulated, "It shares CPUs 1 with db."]);
        assert_eq!(stack.named("web1/a"), ["guest:web1/a"]);
    }
}
