//! Storage nodes: mounts and swap areas, the block devices below them, adapters and servers.

use super::alignment::Alignment;
use super::{LimitKind, NodeKind, StackKind, StackNode, guest, interrupt_lines};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{
    Array, FileSystemDevice, Layer, MachineInfo, MappedDevice, Mount, NfsMount, Partition, Queue, Swap, Zram,
};
use whyslow_model::human;
use whyslow_model::key::LinkKey;
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// File systems that keep files in memory, without a device.
const IN_MEMORY: [&str; 3] = ["devtmpfs", "ramfs", "tmpfs"];
/// Segments of a queue without a limit of its own (drivers/md: USHRT_MAX).
const UNLIMITED_SEGMENTS: f64 = 65_535.0;
/// Request size of a driver without a limit of its own, which sysfs shows in KiB (block/blk-settings.c: UINT_MAX
/// sectors).
const UNLIMITED_REQUEST: f64 = (u32::MAX / 2) as f64 * 1024.0;
/// RAID levels that spread data over members in chunks.
const STRIPED_LEVELS: [&str; 5] = ["raid0", "raid4", "raid5", "raid6", "raid10"];
/// UUID prefixes of device-mapper devices, and the subsystem that created them (dm/uuid of
/// Documentation/ABI/testing/sysfs-block-dm).
const MADE_BY: [(&str, &str); 6] = [
    ("LVM-", "LVM"),
    ("CRYPT-", "dm-crypt"),
    ("mpath-", "multipath"),
    ("part", "partition"),
    ("DMRAID-", "BIOS RAID"),
    ("Stratis-", "Stratis"),
];

pub(super) fn nodes(window: &Window) -> Vec<StackNode> {
    let facts = StorageFacts::from_window(window);
    let mut nodes = guest::disks(&facts, window);
    nodes.extend(facts.file_systems());
    nodes.extend(facts.swap_areas());
    nodes.extend(facts.devices());
    nodes.extend(facts.adapters(window));
    nodes.extend(facts.servers());
    nodes
}

pub(super) struct StorageFacts<'w> {
    mounts: BTreeMap<Name, &'w Mount>,
    queues: BTreeMap<Name, &'w Queue>,
    layers: BTreeMap<LinkKey, &'w Layer>,
    partitions: BTreeMap<Name, &'w Partition>,
    arrays: BTreeMap<Name, &'w Array>,
    mapped: BTreeMap<Name, &'w MappedDevice>,
    zram: BTreeMap<Name, &'w Zram>,
    swaps: BTreeMap<Name, &'w Swap>,
    nfs: BTreeMap<Name, &'w NfsMount>,
    parts: BTreeMap<LinkKey, &'w FileSystemDevice>,
    page: Option<f64>,
}

impl<'w> StorageFacts<'w> {
    fn from_window(window: &'w Window) -> Self {
        Self {
            mounts: window.newest(),
            queues: window.newest(),
            layers: window.newest(),
            partitions: window.newest(),
            arrays: window.newest(),
            mapped: window.newest(),
            zram: window.newest(),
            swaps: window.newest(),
            nfs: window.newest(),
            parts: window.newest(),
            page: window.the::<MachineInfo>().and_then(|machine| machine.page_size.get()),
        }
    }

    /// Returns the mount points of each mounted file system: one can be mounted several times.
    fn mounted(&self) -> BTreeMap<(&str, &str), Vec<&'w Mount>> {
        let mut mounted: BTreeMap<_, Vec<&Mount>> = BTreeMap::new();
        for mount in self.mounts.values() {
            let key = (mount.number.get().unwrap_or(&*mount.point), mount.device.get().unwrap_or_default());
            mounted.entry(key).or_default().push(mount);
        }
        for mounts in mounted.values_mut() {
            mounts.sort_by(|a, b| (a.point.len(), &a.point).cmp(&(b.point.len(), &b.point)));
        }
        mounted
    }

    fn file_systems(&self) -> Vec<StackNode> {
        let mut found: Vec<StackNode> = self.mounted().values().map(|mounts| self.file_system(mounts)).collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Creates the node of one file system; `mounts` are its mounts, at least one.
    fn file_system(&self, mounts: &[&Mount]) -> StackNode {
        let first = mounts[0];
        let kind = first.kind.get().unwrap_or_default();
        let options = first.options.get().unwrap_or_default();
        let mut node = StackNode::new(StackKind::Storage, NodeKind::FileSystem, mount_id(&first.point), &first.point);
        node.minor = IN_MEMORY.contains(&kind);
        node.says("type", Some(kind));
        node.has("size", first.size.get().filter(|size| *size > 0.0), "bytes");
        node.mount_points = mounts[1..].iter().map(|mount| mount.point.to_string()).collect();
        let device = first.device.get().unwrap_or_default();
        if self.queues.contains_key(device) {
            // If the file system has several devices, this is one of them.
            let own = LinkKey { upper: device.into(), lower: device.into() };
            let role = self.parts.get(&own).and_then(|part| part.role.get()).filter(|role| *role == "data");
            node.lies_on(device_id(device), role);
        }
        self.add_parts(&mut node, device, kind);
        if is_network(kind) {
            self.add_network_options(&mut node, first, options);
        } else if let Some(upper) = option(options, "upperdir=") {
            // An overlay writes to the file system that holds this directory.
            self.add_file_below(&mut node, upper);
        } else if node.below.is_empty() && !node.minor && device != kind {
            node.says("source", Some(device));
        }
        node.says("options", Some(options_once(options)));
        node
    }

    /// Adds the journal, and the devices of a file system that has several.
    fn add_parts(&self, node: &mut StackNode, device: &str, kind: &str) {
        let parts = self.parts.iter().filter(|(link, _)| &*link.upper == device).collect::<Vec<_>>();
        for (link, part) in &parts {
            let role = part.role.get().unwrap_or_default();
            match role {
                "no journal" => node.says("journal", Some("none")),
                "journal" if link.lower == link.upper => node.says("journal", Some("internal")),
                "journal" => node.says("journal", Some(format!("on {}", link.lower))),
                _ => {}
            }
            if link.lower != link.upper {
                node.lies_on(device_id(&link.lower), Some(role));
            }
        }
        if kind == "btrfs" && parts.len() > 1 {
            node.has("devices", Some(parts.len() as f64), "count");
        }
        node.says("data profile", parts.iter().find_map(|(_, part)| part.profile.get()));
    }

    /// Adds the server and request sizes of NFS and CIFS (nfs(5), mount.cifs(8)).
    fn add_network_options(&self, node: &mut StackNode, mount: &Mount, options: &str) {
        let server = self.nfs.get(&mount.point).and_then(|nfs| nfs.server.get());
        if let Some(server) = server.or(mount.device.get()) {
            node.lies_on(server_id(server), None);
        }
        let number = |name: &str| option(options, name)?.parse::<f64>().ok();
        node.limit(LimitKind::RequestSize, "rsize", number("rsize="), |_| "reads".into());
        node.limit(LimitKind::RequestSize, "wsize", number("wsize="), |_| "writes".into());
        node.has("connections", number("nconnect="), "count");
    }

    /// Adds an edge to the file system that holds this file.
    pub(super) fn add_file_below(&self, node: &mut StackNode, path: &str) {
        if let Some(holder) = self.holder(path) {
            node.lies_on(holder, None);
        }
    }

    /// Returns the id of the file system with the longest mount point on the path.
    fn holder(&self, path: &str) -> Option<String> {
        let leads =
            |point: &str| path.strip_prefix(point.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'));
        let holder = self.mounts.values().filter(|mount| leads(&mount.point)).max_by_key(|mount| mount.point.len())?;
        let mounted = self.mounted();
        let first = mounted.values().find(|mounts| mounts.iter().any(|mount| mount.point == holder.point))?.first()?;
        Some(mount_id(&first.point))
    }

    fn swap_areas(&self) -> Vec<StackNode> {
        let node = |swap: &&Swap| {
            let id = format!("swap:{}", swap.area);
            let mut node = StackNode::new(StackKind::Storage, NodeKind::Swap, id, &swap.area);
            node.says("type", Some("swap"));
            node.has("size", swap.size.get(), "bytes");
            node.has("priority", swap.priority.get(), "count");
            let device = swap.area.strip_prefix("/dev/").filter(|name| self.queues.contains_key(*name));
            match device.map(Name::from).or_else(|| self.by_mapped_name(&swap.area)) {
                Some(device) => node.lies_on(device_id(&device), None),
                None => self.add_file_below(&mut node, &swap.area),
            }
            node
        };
        self.swaps.values().map(node).collect()
    }

    /// Returns the device-mapper device behind `/dev/mapper/NAME`.
    fn by_mapped_name(&self, path: &str) -> Option<Name> {
        let name = path.strip_prefix("/dev/mapper/")?;
        self.mapped.values().find(|mapped| mapped.name.get() == Some(name)).map(|mapped| mapped.device.clone())
    }

    /// Returns the devices that have a size; unused loop devices have none.
    fn devices(&self) -> Vec<StackNode> {
        let mut found: Vec<StackNode> = self
            .queues
            .values()
            .filter(|queue| queue.size.get().is_some_and(|size| size > 0.0))
            .map(|queue| self.device(queue))
            .collect();
        found.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        found
    }

    fn device(&self, queue: &Queue) -> StackNode {
        let name = &queue.device;
        let kind = self.kind(name);
        let mut node = StackNode::new(StackKind::Storage, kind, device_id(name), name);
        match kind {
            NodeKind::Partition => self.describe_partition(&mut node, queue),
            NodeKind::MappedDevice => self.describe_mapped(&mut node),
            NodeKind::Array => self.describe_array(&mut node, queue),
            NodeKind::LoopDevice => self.describe_loop(&mut node),
            NodeKind::Zram => self.describe_zram(&mut node),
            _ => describe_disk(&mut node, queue),
        }
        node.has("size", queue.size.get(), "bytes");
        if kind != NodeKind::Partition {
            describe_queue(&mut node, queue);
            self.add_queue_limits(&mut node, queue);
        }
        for link in self.layers.keys().filter(|link| link.upper == *name) {
            if self.queues.contains_key(&link.lower) && kind != NodeKind::LoopDevice {
                node.lies_on(device_id(&link.lower), None);
            }
        }
        if let Some(id) = adapter_id(queue) {
            node.lies_on(id, None);
        }
        node
    }

    fn kind(&self, name: &Name) -> NodeKind {
        if self.partitions.contains_key(name) {
            NodeKind::Partition
        } else if self.mapped.contains_key(name) || name.starts_with("dm-") {
            NodeKind::MappedDevice
        } else if self.arrays.contains_key(name) {
            NodeKind::Array
        } else if name.starts_with("loop") {
            NodeKind::LoopDevice
        } else if name.starts_with("zram") {
            NodeKind::Zram
        } else {
            NodeKind::Disk
        }
    }

    fn describe_partition(&self, node: &mut StackNode, queue: &Queue) {
        let start = self.partitions.get(&queue.device).and_then(|partition| partition.start.get());
        node.has("start", start, "bytes");
        let disk = self.layers.keys().find(|link| link.upper == queue.device).and_then(|l| self.queues.get(&l.lower));
        let (Some(start), Some(disk)) = (start, disk) else { return };
        let alignment = Alignment::from_queue(start, disk);
        node.says("alignment", alignment.words());
        node.problems.extend(alignment.problem());
    }

    fn describe_mapped(&self, node: &mut StackNode) {
        let Some(mapped) = self.mapped.get(node.name.as_str()) else { return };
        node.says("mapped name", mapped.name.get());
        let uuid = mapped.uuid.get().unwrap_or_default();
        node.says("made by", MADE_BY.iter().find(|(prefix, _)| uuid.starts_with(prefix)).map(|(_, by)| *by));
        node.says("target", mapped.target.get());
        node.has("stripes", mapped.stripes.get(), "count");
        node.limit(LimitKind::RequestSize, "chunk", mapped.chunk.get(), |_| {
            "a larger one goes to several devices".into()
        });
    }

    fn describe_array(&self, node: &mut StackNode, queue: &Queue) {
        let Some(array) = self.arrays.get(&queue.device) else { return };
        let level = array.level.get().unwrap_or_default();
        node.says("level", Some(level));
        node.has("members", array.members.get(), "count");
        node.says("state", array.state.get());
        if let Some(missing) = array.degraded.get().filter(|missing| *missing > 0.0) {
            let missing = human::quantity(missing, "count");
            node.problems.push(format!("It is degraded: {missing} of its members missing."));
        }
        if STRIPED_LEVELS.contains(&level) {
            node.limit(LimitKind::RequestSize, "chunk_size", array.chunk.get(), |_| {
                "a larger one goes to several members".into()
            });
        }
    }

    fn describe_loop(&self, node: &mut StackNode) {
        let Some((link, layer)) = self.layers.iter().find(|(link, _)| *link.upper == *node.name) else { return };
        let file = layer.file.get().unwrap_or_default();
        node.says("file", Some(file));
        node.has("offset", layer.offset.get().filter(|offset| *offset > 0.0), "bytes");
        let direct = layer.direct.get();
        node.says("file access", direct.map(|direct| if direct > 0.0 { "direct" } else { "through the page cache" }));
        let path = file.strip_suffix(" (deleted)").unwrap_or(file);
        // The mount that holds the file, unless the path leads elsewhere in the namespace in which the loop device was
        // set up.
        let holder = self.holder(path).filter(|id| self.is_mount_of(id, &link.lower));
        match holder {
            Some(id) => node.lies_on(id, None),
            None if self.queues.contains_key(&link.lower) => node.lies_on(device_id(&link.lower), None),
            None => node.says("on", Some(&*link.lower)),
        }
    }

    fn is_mount_of(&self, id: &str, device: &str) -> bool {
        self.mounts.values().any(|mount| mount_id(&mount.point) == id && mount.device.get() == Some(device))
    }

    fn describe_zram(&self, node: &mut StackNode) {
        let Some(zram) = self.zram.get(node.name.as_str()) else { return };
        node.says("compression", zram.algorithm.get());
        node.has("stored", zram.stored.get(), "bytes");
        node.has("memory", zram.memory.get(), "bytes");
        node.has("memory limit", zram.memory_limit.get().filter(|limit| *limit > 0.0), "bytes");
    }

    /// Adds the limits from queue settings (Documentation/block/queue-sysfs.rst).
    fn add_queue_limits(&self, node: &mut StackNode, queue: &Queue) {
        let bounded = |size: Option<f64>| size.filter(|size| *size < UNLIMITED_REQUEST);
        node.limit(LimitKind::RequestSize, "max_sectors_kb", bounded(queue.max_request.get()), |_| String::new());
        node.limit(LimitKind::RequestSize, "max_hw_sectors_kb", bounded(queue.max_hw_request.get()), |_| {
            "hardware".into()
        });
        let segments = queue.max_segments.get().filter(|segments| *segments < UNLIMITED_SEGMENTS);
        let scattered = segments.zip(self.page).map(|(segments, page)| segments * page);
        node.limit(LimitKind::RequestSize, "max_segments", scattered, |_| {
            let segments = human::quantity(segments.unwrap_or_default(), "count");
            format!("{segments} segments, if each is one page")
        });
        if node.limits.iter().all(|limit| !limit.setting.starts_with("chunk")) {
            node.limit(LimitKind::RequestSize, "chunk_sectors", queue.chunk.get(), |_| {
                "split at multiples of it".into()
            });
        }
        if let (Some(requests), Some(queues)) = (queue.nr_requests.get(), queue.hardware_queues.get()) {
            node.limit(LimitKind::RequestsInFlight, "nr_requests", Some(requests * queues), |_| match queues {
                1.0 => String::new(),
                _ => format!("{} × {} queues", human::quantity(requests, "count"), human::quantity(queues, "count")),
            });
        }
        node.limit(LimitKind::RequestsInFlight, "queue_depth", queue.device_depth.get(), |_| "the device".into());
    }

    fn adapters(&self, window: &Window) -> Vec<StackNode> {
        let interrupts = interrupt_lines(window);
        let mut found = BTreeMap::new();
        for queue in self.queues.values() {
            let Some(id) = adapter_id(queue) else { continue };
            found.entry(id.clone()).or_insert_with(|| {
                let bus = queue.bus.get();
                let name = queue.adapter.get().or(bus).unwrap_or_default();
                let mut node = StackNode::new(StackKind::Storage, NodeKind::Adapter, id, name);
                node.says("driver", queue.driver.get());
                node.says("bus address", bus);
                node.has("NUMA node", queue.numa_node.get(), "count");
                node.limit(LimitKind::RequestsInFlight, "can_queue", queue.adapter_depth.get(), |_| {
                    "all its devices together".into()
                });
                node.interrupts = bus.and_then(|bus| interrupts.get(bus)).cloned().unwrap_or_default();
                node
            });
        }
        found.into_values().collect()
    }

    fn servers(&self) -> Vec<StackNode> {
        let mut found = BTreeMap::new();
        for mount in self.mounts.values().filter(|mount| mount.kind.get().is_some_and(is_network)) {
            let server = self.nfs.get(&mount.point).and_then(|nfs| nfs.server.get()).or(mount.device.get());
            let Some(server) = server else { continue };
            let options = mount.options.get().unwrap_or_default();
            found.entry(server_id(server)).or_insert_with_key(|id| {
                let mut node = StackNode::new(StackKind::Storage, NodeKind::Server, id.clone(), server);
                node.says("address", option(options, "addr=").or_else(|| option(options, "ip=")));
                node.says("transport", option(options, "proto="));
                node.says("version", option(options, "vers="));
                node
            });
        }
        found.into_values().collect()
    }
}

fn describe_disk(node: &mut StackNode, queue: &Queue) {
    node.says("model", queue.model.get());
    node.says("serial", queue.serial.get());
    node.says("firmware", queue.firmware.get());
    node.says("transport", queue.transport.get());
    node.says("address", queue.address.get());
    let rotational = queue.rotational.get();
    node.says("medium", rotational.map(|spins| if spins > 0.0 { "rotating" } else { "not rotating" }));
    if let Some(state) = queue.state.get().filter(|state| *state != "running") {
        node.problems.push(format!("Its state is {state}."));
    }
}

/// Adds the settings of a queue that are not limits.
fn describe_queue(node: &mut StackNode, queue: &Queue) {
    node.says("scheduler", queue.scheduler.get());
    node.says("cache", queue.write_cache.get());
    node.has("read-ahead", queue.read_ahead.get(), "bytes");
    node.has("logical block", queue.logical_block.get(), "bytes");
    node.has("physical block", queue.physical_block.get(), "bytes");
    node.has("optimal I/O size", queue.optimal_io.get().filter(|size| *size > 0.0), "bytes");
    node.has("write-back throttling", queue.wbt_latency.get().map(|ns| ns / 1e9), "s");
    node.has("hardware queues", queue.hardware_queues.get(), "count");
}

fn is_network(kind: &str) -> bool {
    kind == "nfs" || kind == "nfs4" || kind == "cifs" || kind == "smb3"
}

/// Returns the value of an option such as `rsize=`.
fn option<'o>(options: &'o str, name: &str) -> Option<&'o str> {
    options.split(',').find_map(|option| option.strip_prefix(name))
}

/// Returns the options of the mount and of the file system, each once.
fn options_once(options: &str) -> String {
    let mut seen = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        if !seen.contains(&option) {
            seen.push(option);
        }
    }
    seen.join(",")
}

fn mount_id(point: &str) -> String {
    format!("mount:{point}")
}

pub(super) fn device_id(device: &str) -> String {
    format!("block:{device}")
}

fn server_id(server: &str) -> String {
    format!("server:{server}")
}

/// Returns the id of a disk's adapter; includes the bus, since two hosts can share an address, and two NVMe disks a
/// controller.
fn adapter_id(queue: &Queue) -> Option<String> {
    let (name, bus) = (queue.adapter.get(), queue.bus.get());
    let parts: Vec<&str> = name.into_iter().chain(bus).collect();
    (!parts.is_empty()).then(|| format!("adapter:{}", parts.join("@")))
}
