//! Storage stacks built from constructed rows.

use super::{IoStack, LimitKind, NodeBelow, StackNode};
use whyslow_model::catalogue::{
    Array, FileSystemDevice, Layer, MachineInfo, MappedDevice, Mount, Partition, Queue, Swap, Zram,
};
use whyslow_model::key::{LinkKey, MachineKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

fn stack(fill: impl FnOnce(&mut Snapshot)) -> IoStack {
    let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
    s.kernel.machine.push(MachineInfo { page_size: 4096.0.into(), ..MachineInfo::new(MachineKey) });
    fill(&mut s);
    s.sort();
    IoStack::from_window(&Window::new(vec![s]))
}

fn queue(device: &str) -> Queue {
    Queue { size: 1e9.into(), ..Queue::new(device.into()) }
}

fn layer(upper: &str, lower: &str, kind: &str) -> Layer {
    Layer { kind: kind.into(), ..Layer::new(LinkKey { upper: upper.into(), lower: lower.into() }) }
}

fn mount(point: &str, device: &str, kind: &str) -> Mount {
    Mount { device: device.into(), kind: kind.into(), options: "rw".into(), ..Mount::new(point.into()) }
}

/// Formats each node with those below it.
fn edges(stack: &IoStack) -> Vec<String> {
    let below = |node: &StackNode| node.below.iter().map(|b| b.id.as_str()).collect::<Vec<_>>().join(" ");
    stack.nodes.iter().map(|node| format!("{} > {}", node.id, below(node)).trim_end().to_owned()).collect()
}

fn smallest(stack: &IoStack, top: &str, kind: LimitKind) -> String {
    let path = stack.paths.iter().find(|path| path.top == top).unwrap();
    path.smallest.iter().find(|limit| limit.kind == kind).unwrap().words.clone()
}

#[test]
fn a_volume_on_an_array_leads_to_the_adapters_of_its_disks() {
    let found = stack(|s| {
        s.block.mount.push(Mount { number: "253:0".into(), ..mount("/srv", "dm-0", "xfs") });
        s.block.mount.push(Mount { number: "253:0".into(), ..mount("/srv/again", "dm-0", "xfs") });
        s.block.mapped.push(MappedDevice {
            name: "vg-srv".into(),
            uuid: "LVM-abc".into(),
            target: "linear".into(),
            ..MappedDevice::new("dm-0".into())
        });
        s.block.array.push(Array { level: "raid0".into(), chunk: 65_536.0.into(), ..Array::new("md0".into()) });
        s.block.queue.extend([queue("dm-0"), queue("md0")]);
        for (disk, host) in [("sda", "host0"), ("sdb", "host1")] {
            s.block.queue.push(Queue {
                max_request: 1_310_720.0.into(),
                max_segments: 168.0.into(),
                nr_requests: 64.0.into(),
                hardware_queues: 1.0.into(),
                device_depth: 32.0.into(),
                adapter: host.into(),
                bus: "0000:00:1f.2".into(),
                adapter_depth: 31.0.into(),
                ..queue(disk)
            });
            s.block.layer.push(layer("md0", disk, "md"));
        }
        s.block.layer.push(layer("dm-0", "md0", "dm"));
    });
    let expected = [
        "mount:/srv > block:dm-0",
        "block:dm-0 > block:md0",
        "block:md0 > block:sda block:sdb",
        "block:sda > adapter:host0@0000:00:1f.2",
        "block:sdb > adapter:host1@0000:00:1f.2",
        "adapter:host0@0000:00:1f.2 >",
        "adapter:host1@0000:00:1f.2 >",
    ];
    assert_eq!(edges(&found), expected);
    assert_eq!(found.nodes[0].mount_points, ["/srv/again"]);
    assert_eq!(found.named("/srv/again"), ["mount:/srv"]);
    assert_eq!([found.named("/dev/mapper/vg-srv"), found.named("sdb")], [["block:dm-0"], ["block:sdb"]]);
    assert_eq!(found.named("sdz"), <[&str; 0]>::default());
    assert_eq!(found.nodes[1].words("made by"), Some("LVM"));
    let words = "request size 64 KiB at md0 (a larger one goes to several members)";
    assert_eq!(smallest(&found, "mount:/srv", LimitKind::RequestSize), words);
    let words = "requests in flight 31 at host1 (all its devices together)";
    assert_eq!(smallest(&found, "mount:/srv", LimitKind::RequestsInFlight), words);
    // 168 segments of 4 KiB.
    let scattered = found.nodes[3].limits.iter().find(|limit| limit.setting == "max_segments").unwrap();
    assert_eq!(scattered.value, 688_128.0);
}

#[test]
fn a_partition_off_its_blocks_is_a_problem_and_one_off_the_stripe_is_not() {
    let of = |start: f64, offset: f64| {
        let disk = Queue {
            physical_block: 4096.0.into(),
            optimal_io: 1_048_576.0.into(),
            alignment_offset: offset.into(),
            ..queue("sda")
        };
        let found = stack(|s| {
            s.block.queue.extend([disk, queue("sda1")]);
            s.block.layer.push(layer("sda1", "sda", "partition"));
            s.block.partition.push(Partition { start: start.into(), ..Partition::new("sda1".into()) });
        });
        let node = found.node("block:sda1").unwrap();
        (node.words("alignment").unwrap().to_owned(), node.problems.len())
    };
    let aligned = "aligned to blocks of 4 KiB and to the optimal I/O size of 1 MiB";
    assert_eq!(of(1_048_576.0, 0.0), (aligned.into(), 0));
    // Sector 63.
    let words = "3.50 KiB past a block of 4 KiB, 31.5 KiB past the optimal I/O size of 1 MiB";
    assert_eq!(of(32_256.0, 0.0), (words.into(), 1));
    assert_eq!(of(69_632.0, 0.0), ("aligned to blocks of 4 KiB, 68 KiB past the optimal I/O size of 1 MiB".into(), 0));
    // A disk whose physical block starts at sector 7: sector 63 is aligned.
    assert_eq!(of(32_256.0, 3584.0).1, 0);
}

#[test]
fn a_loop_device_lies_on_the_file_system_of_its_file() {
    let found = stack(|s| {
        s.block.mount.extend([
            mount("/", "vda", "ext4"),
            mount("/run", "tmpfs", "tmpfs"),
            mount("/l", "loop0", "ext4"),
        ]);
        s.block.queue.extend([queue("vda"), queue("loop0"), queue("loop1"), queue("loop2")]);
        let file = |file: &str| Layer { file: file.into(), direct: 0.0.into(), ..Layer::default() };
        let on = |upper: &str, lower: &str, row: Layer| Layer { link: layer(upper, lower, "loop").link, ..row };
        s.block.layer.push(on("loop0", "vda", file("/srv/a.img")));
        s.block.layer.push(on("loop1", "tmpfs", file("/run/b.img (deleted)")));
        // Set up in another namespace, in which the path leads elsewhere.
        s.block.layer.push(on("loop2", "vda", file("/run/c.img")));
    });
    let expected = [
        "mount:/ > block:vda",
        "mount:/l > block:loop0",
        "mount:/run >",
        "block:loop0 > mount:/",
        "block:loop1 > mount:/run",
        "block:loop2 > block:vda",
        "block:vda >",
    ];
    assert_eq!(edges(&found), expected);
    assert_eq!(found.node("block:loop0").unwrap().words("file access"), Some("through the page cache"));
}

#[test]
fn swap_lies_on_its_device_or_on_the_file_system_of_its_file() {
    let found = stack(|s| {
        s.block.mount.push(mount("/", "vda", "ext4"));
        s.block.queue.extend([queue("vda"), queue("zram0")]);
        s.block.zram.push(Zram { algorithm: "zstd".into(), ..Zram::new("zram0".into()) });
        s.memory.swap.extend([Swap::new("/dev/zram0".into()), Swap::new("/swapfile".into())]);
    });
    let expected = [
        "mount:/ > block:vda",
        "swap:/dev/zram0 > block:zram0",
        "swap:/swapfile > mount:/",
        "block:zram0 >",
        "block:vda >",
    ];
    assert_eq!(edges(&found), expected);
}

#[test]
fn an_external_journal_and_further_devices_are_below_a_file_system() {
    let found = stack(|s| {
        s.block.mount.extend([mount("/a", "sda1", "ext4"), mount("/b", "sdb", "btrfs")]);
        s.block.queue.extend([queue("sda1"), queue("sdb"), queue("sdc"), queue("sdd1")]);
        let part = |upper: &str, lower: &str, role: &str| {
            let link = LinkKey { upper: upper.into(), lower: lower.into() };
            FileSystemDevice { role: role.into(), ..FileSystemDevice::new(link) }
        };
        s.block.file_system_device.push(part("sda1", "sdd1", "journal"));
        for lower in ["sdb", "sdc"] {
            let profile = "raid1".into();
            s.block.file_system_device.push(FileSystemDevice { profile, ..part("sdb", lower, "data") });
        }
    });
    let [a, b] = ["mount:/a", "mount:/b"].map(|id| found.node(id).unwrap());
    assert_eq!(a.words("journal"), Some("on sdd1"));
    let journal = NodeBelow { id: "block:sdd1".into(), role: Some("journal".into()) };
    assert!(a.below.contains(&journal), "{:?}", a.below);
    assert_eq!(b.words("data profile"), Some("raid1"));
    assert_eq!(b.below.iter().map(|below| below.id.as_str()).collect::<Vec<_>>(), ["block:sdb", "block:sdc"]);
}

#[test]
fn a_mount_of_nfs_has_the_sizes_of_its_requests_and_a_server() {
    let found = stack(|s| {
        s.block.mount.push(Mount {
            options: "rw,relatime,vers=4.2,rsize=1048576,wsize=65536,proto=tcp,nconnect=4,addr=10.0.0.9".into(),
            ..mount("/nfs", "filer:/data", "nfs4")
        });
    });
    assert_eq!(edges(&found), ["mount:/nfs > server:filer:/data", "server:filer:/data >"]);
    assert_eq!(smallest(&found, "mount:/nfs", LimitKind::RequestSize), "request size 64 KiB at /nfs (writes)");
    assert_eq!(found.nodes[1].words("address"), Some("10.0.0.9"));
}

#[test]
fn an_overlay_writes_to_the_file_system_of_its_upper_directory() {
    let found = stack(|s| {
        s.block.mount.push(mount("/", "vda", "ext4"));
        s.block.mount.push(Mount {
            number: "0:40".into(),
            options: "rw,lowerdir=/a:/b,upperdir=/var/lib/docker/x/diff,workdir=/w".into(),
            ..mount("/merged", "overlay", "overlay")
        });
        s.block.queue.push(queue("vda"));
    });
    assert_eq!(edges(&found)[1], "mount:/merged > mount:/");
}

#[test]
fn a_request_size_that_is_not_bounded_is_no_limit() {
    // As sysfs shows UINT_MAX sectors: 2147483647 KiB.
    let unbounded = 2_147_483_647.0 * 1024.0;
    let disk = Queue { max_request: 131_072.0.into(), max_hw_request: unbounded.into(), ..queue("zram0") };
    let found = stack(|s| s.block.queue.push(disk));
    let limits: Vec<&str> = found.nodes[0].limits.iter().map(|limit| limit.setting.as_str()).collect();
    assert_eq!(limits, ["max_sectors_kb"]);
}

#[test]
fn a_device_without_a_size_is_not_there() {
    let found = stack(|s| s.block.queue.push(Queue { size: 0.0.into(), ..queue("loop3") }));
    assert_eq!(found.nodes, []);
}

#[test]
fn images_of_packages_are_alike_and_file_systems_on_loop_devices_otherwise_are_not() {
    let found = stack(|s| {
        s.block.mount.push(mount("/", "vda", "ext4"));
        s.block.queue.push(queue("vda"));
        for (number, (point, kind)) in
            [("/snap/a", "squashfs"), ("/snap/b", "squashfs"), ("/x", "ext4"), ("/y", "ext4")].into_iter().enumerate()
        {
            let device = format!("loop{number}");
            s.block.mount.push(mount(point, &device, kind));
            s.block.queue.push(Queue { size: (1e6 + number as f64).into(), ..queue(&device) });
            let file = format!("/var/{number}.img");
            s.block.layer.push(Layer { file: file.as_str().into(), ..layer(&device, "vda", "loop") });
        }
    });
    let alike: Vec<_> =
        found.paths.iter().filter_map(|path| Some((path.top.as_str(), path.like.as_deref()?))).collect();
    assert_eq!(alike, [("mount:/snap/b", "mount:/snap/a")]);
}

#[test]
fn a_multipath_device_lies_on_its_paths_and_says_what_only_root_sees() {
    let found = stack(|s| {
        s.block.mapped.push(MappedDevice {
            name: "mpatha".into(),
            uuid: "mpath-36001".into(),
            ..MappedDevice::new("dm-2".into())
        });
        s.block.queue.push(queue("dm-2"));
        for (path, address) in [("sdc", "1:0:0:7"), ("sdd", "2:0:1:7")] {
            s.block.queue.push(Queue { address: address.into(), state: "offline".into(), ..queue(path) });
            s.block.layer.push(layer("dm-2", path, "dm"));
        }
    });
    assert_eq!(edges(&found), ["block:dm-2 > block:sdc block:sdd", "block:sdc >", "block:sdd >"]);
    let device = found.node("block:dm-2").unwrap();
    assert_eq!((device.words("made by"), device.words("mapped name")), (Some("multipath"), Some("mpatha")));
    let path = found.node("block:sdd").unwrap();
    assert_eq!(
        (path.words("address"), &path.problems[..]),
        (Some("2:0:1:7"), &["Its state is offline.".to_owned()][..])
    );
    // Without its table it is unknown whether it spreads requests.
    assert_eq!(found.blind_spots.len(), 1);
    assert_eq!(found.blind_spots[0].remedy, "run as root");
}

#[test]
fn a_degraded_array_and_a_striped_volume_are_described() {
    let found = stack(|s| {
        s.block.array.push(Array {
            level: "raid1".into(),
            degraded: 1.0.into(),
            chunk: 0.0.into(),
            ..Array::new("md1".into())
        });
        s.block.mapped.push(MappedDevice {
            target: "striped".into(),
            stripes: 4.0.into(),
            chunk: 65_536.0.into(),
            ..MappedDevice::new("dm-3".into())
        });
        s.block.queue.extend([queue("md1"), Queue { chunk: 65_536.0.into(), ..queue("dm-3") }]);
    });
    assert_eq!(found.node("block:md1").unwrap().problems, ["It is degraded: 1 of its members missing."]);
    // The chunk is listed once, although the queue reports it too.
    let limits: Vec<_> = found.node("block:dm-3").unwrap().limits.iter().map(|limit| limit.setting.as_str()).collect();
    assert_eq!(limits, ["chunk"]);
    assert_eq!(found.blind_spots, []);
}
