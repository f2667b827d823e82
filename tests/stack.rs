//! Tests of `whyslow stack` on this machine's kernel.

mod skip;

use skip::{has_program, is_root, skip};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use whyslow_documents::expectation::{self, Expectations};
use whyslow_documents::io_stack::{IoStack, LimitKind, NodeKind, SCHEMA, StackNode};

const WHYSLOW: &str = env!("CARGO_BIN_EXE_whyslow");

fn run(args: &[&str]) -> Output {
    Command::new(WHYSLOW).arg("stack").args(args).stdin(Stdio::null()).output().unwrap()
}

fn document(out: &Output) -> IoStack {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stdout)))
}

fn below<'s>(stack: &'s IoStack, node: &StackNode) -> Vec<&'s StackNode> {
    node.below.iter().map(|below| stack.node(&below.id).expect("every edge leads to a node")).collect()
}

fn named<'s>(stack: &'s IoStack, name: &str) -> &'s StackNode {
    let [id] = stack.named(name)[..] else { panic!("{name}: {:?}", stack.named(name)) };
    stack.node(id).unwrap()
}

/// Returns the names of this node and the nodes below it, down to the last.
fn chain<'s>(stack: &'s IoStack, from: &str) -> Vec<&'s str> {
    let mut names = Vec::new();
    let mut next = Some(named(stack, from));
    while let Some(node) = next {
        names.push(node.name.as_str());
        next = below(stack, node).into_iter().next();
    }
    names
}

#[test]
fn every_edge_of_this_machine_leads_to_a_node_and_every_path_begins_at_one() {
    let stack = document(&run(&["--json"]));
    assert_eq!(stack.schema, SCHEMA);
    assert!(stack.nodes.iter().any(|node| node.kind == NodeKind::FileSystem && node.name == "/"));
    assert!(stack.nodes.iter().any(|node| node.kind == NodeKind::Interface && node.name == "lo"));
    for node in &stack.nodes {
        below(&stack, node);
    }
    assert!(!stack.paths.is_empty());
    for path in &stack.paths {
        assert!(stack.node(&path.top).is_some(), "{}", path.top);
        for limit in &path.smallest {
            let node = stack.node(&limit.node).unwrap();
            assert!(node.limits.iter().any(|other| other.value == limit.value && other.kind == limit.kind));
        }
    }
}

#[test]
fn a_picture_has_the_boxes_that_the_document_arranges() {
    let folder = whyslow_testing::folder();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let [svg, png] = ["stack.svg", "stack.png"].map(file);
    let ids = |args: &[&str]| {
        let stack = document(&run(args));
        stack.diagram.into_iter().flat_map(|group| group.columns.concat()).collect::<Vec<String>>()
    };
    // Other tests mount and unmount file systems on the disk at the same time.
    assert!(ids(&["/", "--json"]).contains(&"mount:/".to_owned()));
    assert_eq!(ids(&["lo", "--json"]), ["interface:lo"]);
    for (name, boxes) in [("/", None), ("lo", Some(1))] {
        assert_eq!(run(&[name, "-o", &svg]).status.code(), Some(0));
        let drawn = fs::read_to_string(&svg).unwrap();
        assert!(drawn.contains(&format!("<tspan class=\"name\">{name}</tspan>")), "{drawn}");
        let count = drawn.matches("<rect class=\"node\"").count();
        assert_eq!(count, boxes.unwrap_or(count));
    }
    assert_eq!(run(&["/", "-o", &png]).status.code(), Some(0));
    assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn the_disk_of_this_machine_has_the_limits_that_sysfs_shows() {
    let stack = document(&run(&["--json"]));
    let disks: Vec<&StackNode> = stack.nodes.iter().filter(|node| node.kind == NodeKind::Disk).collect();
    if disks.is_empty() {
        return skip("no disk");
    }
    for disk in disks {
        let file = format!("/sys/block/{}/queue/max_sectors_kb", disk.name.replace('/', "!"));
        let kib: f64 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let limit = disk.limits.iter().find(|limit| limit.setting == "max_sectors_kb").unwrap();
        assert_eq!(limit.value, kib * 1024.0);
    }
}

/// Runs a script that mounts file systems, in its own mount namespace.
fn in_own_mounts(script: &str, args: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh", WHYSLOW]).args(args);
    whyslow_testing::ends_with_test(&mut command).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_file_system_in_a_file_leads_through_the_loop_device_to_the_disk_under_any_name() {
    if !is_root() || !has_program("mkfs.ext4") {
        return;
    }
    let file = whyslow_testing::file_in("/var/tmp");
    file.as_file().set_len(64 << 20).unwrap();
    let device = match whyslow_testing::LoopDevice::on(file.path(), false) {
        Ok(device) => device,
        Err(error) => return skip(&format!("no loop device: {error}")),
    };
    let folder = whyslow_testing::folder_in("/var/tmp");
    let point = folder.path().join("a\nb \x1b[31m\u{202e}");
    fs::create_dir(&point).unwrap();
    let point = point.to_str().unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", &device.node()]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let node = device.node();
    let script = "mount \"$2\" \"$3\"; \"$1\" stack --json \"$3\"; umount \"$3\"";
    let stack = document(&in_own_mounts(script, &[&node, point]));
    let top = named(&stack, point);
    assert_eq!((top.words("type"), top.words("journal")), (Some("ext4"), Some("internal")));
    let names = chain(&stack, point);
    assert_eq!(names[1], device.name());
    let name = device.name();
    let loop_device = named(&stack, &name);
    assert_eq!(loop_device.words("file"), file.path().to_str());
    assert_eq!(loop_device.words("file access"), Some("through the page cache"));
    assert_eq!(below(&stack, loop_device)[0].kind, NodeKind::FileSystem, "{names:?}");
    // As text, the name stays on one line and moves no cursor.
    let script = "mount \"$2\" \"$3\"; \"$1\" stack -v \"$3\"; umount \"$3\"";
    let text = in_own_mounts(script, &[&node, point]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(!text.contains(['\x1b', '\u{202e}']), "{text:?}");
    assert!(text.contains(r"a\nb \x1b[31m\u{202e}"), "{text}");
}

#[test]
fn file_systems_on_several_devices_and_with_an_external_log_show_them_all() {
    if !is_root() || !has_program("mkfs.btrfs") || !has_program("mkfs.xfs") {
        return;
    }
    let mut devices = Vec::new();
    // mkfs.xfs needs at least 300 MiB.
    for size in [400 << 20, 400 << 20] {
        let file = whyslow_testing::file_in("/var/tmp");
        file.as_file().set_len(size).unwrap();
        match whyslow_testing::LoopDevice::on(file.path(), false) {
            Ok(device) => devices.push((device, file)),
            Err(error) => return skip(&format!("no loop device: {error}")),
        }
    }
    let [first, second] = [devices[0].0.node(), devices[1].0.node()];
    let folder = whyslow_testing::folder_in("/var/tmp");
    let point = folder.path().to_str().unwrap();
    let script =
        |make: &str, mount: &str| format!("{make} >&2; {mount} \"$4\" >&2; \"$1\" stack --json \"$4\"; umount \"$4\"");
    let make = script("mkfs.btrfs -q -f -d raid1 \"$2\" \"$3\"", "btrfs device scan \"$3\" >&2; mount \"$2\"");
    let out = in_own_mounts(&make, &[&first, &second, point]);
    let stack = document(&out);
    let top = named(&stack, point);
    assert_eq!((top.words("type"), top.words("data profile")), (Some("btrfs"), Some("raid1")));
    let mut names: Vec<&str> = below(&stack, top).iter().map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    let mut expected = [devices[0].0.name(), devices[1].0.name()];
    expected.sort_unstable();
    assert_eq!(names, expected);

    let make = script("mkfs.xfs -q -f -l logdev=\"$3\",size=64m \"$2\"", "mount -o logdev=\"$3\" \"$2\"");
    let stack = document(&in_own_mounts(&make, &[&first, &second, point]));
    let top = named(&stack, point);
    assert_eq!(top.words("journal"), Some(format!("on {}", devices[1].0.name()).as_str()));
    let roles: Vec<_> = top.below.iter().map(|below| below.role.as_deref()).collect();
    assert_eq!(roles, [None, Some("journal")]);
}

/// A network namespace, removed when dropped.
struct Netns(String);

impl Netns {
    fn new(what: &str) -> Self {
        let name = whyslow_testing::name(what);
        assert!(Self::ip(&["netns", "add", &name]));
        Self(name)
    }

    fn ip(args: &[&str]) -> bool {
        Command::new("ip").args(args).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Runs ip(8) in the namespace.
    fn run(&self, line: &str) -> bool {
        Self::ip(&[&["-n", &self.0], &line.split(' ').collect::<Vec<_>>()[..]].concat())
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        Self::ip(&["netns", "del", &self.0]);
    }
}

#[test]
fn a_container_leads_through_its_veth_and_bridge_and_the_smallest_mtu_is_marked() {
    if !is_root() {
        return;
    }
    let (host, container) = (Netns::new("stack-host"), Netns::new("stack-box"));
    for line in [
        &format!("link add outer mtu 1400 type veth peer name inner mtu 1400 netns {}", container.0),
        "link add br0 mtu 1400 type bridge",
        "link set outer master br0",
        "link add uplink mtu 1300 type ifb",
        "link set uplink master br0",
        "tuntap add tap0 mode tap",
        "link set tap0 master br0",
        "link set br0 mtu 1400",
        "link set outer up",
        "link set uplink up",
        "link set br0 up",
    ] {
        if !host.run(line) {
            return skip(&format!("ip {line}"));
        }
    }
    container.run("link set inner up");
    let guest = format!("tap0@{}", host.0);
    assert_eq!(chain(&document(&run(&["--json", &guest])), &guest), ["tap0", "br0", "uplink"]);
    let stack = document(&run(&["--json", &format!("inner@{}", container.0)]));
    let of = |netns: &str, name: &str| format!("interface:{name}@{netns}");
    let ids: Vec<&str> = stack.nodes.iter().map(|node| node.id.as_str()).collect();
    let expected = [of(&container.0, "inner"), of(&host.0, "br0"), of(&host.0, "outer"), of(&host.0, "uplink")];
    for id in &expected {
        assert!(ids.contains(&id.as_str()), "{id}: {ids:?}");
    }
    assert_eq!(chain(&stack, &format!("inner@{}", container.0)), ["inner", "outer", "br0", "uplink"]);
    let uplink = stack.node(&of(&host.0, "uplink")).unwrap();
    let mtu = uplink.limits.iter().find(|limit| limit.kind == LimitKind::PacketSize).unwrap();
    assert_eq!((mtu.value, &mtu.smallest_for[..]), (1300.0, &[of(&container.0, "inner")][..]));
    let bridge = stack.node(&of(&host.0, "br0")).unwrap();
    assert_eq!(bridge.problems, ["Packets of br0 can have 1400 B, those of uplink only 1300 B."]);
}

#[test]
fn vlans_bonds_macvlans_and_tunnels_lie_on_what_they_send_through() {
    if !is_root() {
        return;
    }
    let netns = Netns::new("stack-kinds");
    // Not every kernel has dummy interfaces.
    if !netns.run("link add card type ifb") {
        return skip("no ifb");
    }
    for (line, name, expected) in [
        ("link add link card name card.7 type vlan id 7", "card.7", &["card.7", "card"][..]),
        ("link add link card name mac0 type macvlan mode bridge", "mac0", &["mac0", "card"]),
        ("link add tunnel type vxlan id 5 dev card dstport 4789", "tunnel", &["tunnel", "card"]),
        ("link add bond0 type bond mode active-backup", "bond0", &["bond0"]),
    ] {
        if !netns.run(line) {
            skip(&format!("ip {line}"));
            continue;
        }
        let name = format!("{name}@{}", netns.0);
        let stack = document(&run(&["--json", &name]));
        assert_eq!(chain(&stack, &name), expected);
        let node = named(&stack, &name);
        match node.words("type") {
            Some("vlan") => assert!(node.facts.iter().any(|fact| fact.name == "VLAN"), "{node:?}"),
            Some("bond") => assert_eq!(node.words("bond mode"), Some("active-backup")),
            _ => {}
        }
    }
}

/// Without privileges, it shows what it can and names what it cannot.
#[test]
fn every_user_sees_the_disks_and_interfaces() {
    if !is_root() {
        return;
    }
    let bin = whyslow_testing::folder();
    fs::set_permissions(bin.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = bin.path().join("whyslow");
    whyslow_testing::install(Path::new(WHYSLOW), &program);
    let as_nobody = |program: &Path, args: &[&str]| {
        let mut command = Command::new(program);
        command.arg("stack").args(args).uid(65534).gid(65534).current_dir("/").stdin(Stdio::null());
        command.output().unwrap()
    };
    let all = document(&run(&["--json"]));
    let seen = document(&as_nobody(&program, &["--json"]));
    let devices = |stack: &IoStack| {
        // Other tests set up loop devices at the same time.
        let device = |node: &&StackNode| node.id.starts_with("block:") && node.kind != NodeKind::LoopDevice;
        stack.nodes.iter().filter(device).map(|node| node.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(devices(&seen), devices(&all));
    assert!(seen.nodes.iter().any(|node| node.id == "interface:lo"));
    assert!(seen.blind_spots.iter().any(|spot| spot.remedy.contains("root")), "{:?}", seen.blind_spots);
}

#[test]
fn a_drive_that_rotates_is_expected_to_do_what_its_mechanics_allow() {
    let expect = |args: &[&str]| {
        let mut command = Command::new(WHYSLOW);
        command.args(["expect", "--for", "300ms"]).args(args).stdin(Stdio::null()).output().unwrap()
    };
    let out = expect(&["--json", "--rpm", "7200", "--seek", "8.5ms"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let expected: Expectations = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(expected.schema, expectation::SCHEMA);
    let disks = document(&run(&["--json"]));
    let disks = disks.nodes.iter().filter(|node| node.kind == NodeKind::Disk);
    for disk in disks.filter(|disk| disk.words("medium") == Some("rotating")) {
        let thing = expected.things.iter().find(|thing| thing.id == disk.id).expect("what it should deliver");
        assert_eq!((thing.rates[0].what.as_str(), thing.rates[0].expected.round()), ("random requests", 79.0));
    }
    let out = expect(&["/no/such/thing"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("/no/such/thing"));
}
