use super::*;
use crate::testing::{SECOND, window};
use whyslow_model::catalogue::{FileSystemDevice, Layer, Mount, Partition};
use whyslow_model::key::LinkKey;

const MS: u64 = SECOND / 1000;

/// Returns two seconds of four disks as a RAID 5: each has 50 reads per second, of 10 ms each; the array has 100 reads and 100
/// writes of 8 KiB.
fn raid5(rotation_rate: Option<f64>) -> Window {
    window([0, 2], |t, s| {
        let disks = ["sda", "sdb", "sdc", "sdd"];
        for name in disks {
            s.block.disk.push(Disk {
                reads: (50 * t).into(),
                writes: 0.into(),
                read_bytes: (409_600 * t).into(),
                write_bytes: 0.into(),
                read_time: (500 * MS * t).into(),
                write_time: 0.into(),
                weighted_time: (500 * MS * t).into(),
                flushes: (10 * t).into(),
                busy_time: (500 * MS * t).into(),
                ..Disk::new(name.into())
            });
            s.block.queue.push(Queue {
                size: 1e12.into(),
                rotational: rotation_rate.map(|_| 1.0).or(Some(0.0)).into(),
                rotation_rate: rotation_rate.into(),
                transport: "ata".into(),
                link_speed: 6e9.into(),
                device_depth: 32.0.into(),
                ..Queue::new(name.into())
            });
            // One of them by its partition.
            let member: Name = if name == "sdd" { "sdd1".into() } else { name.into() };
            s.block.layer.push(Layer::new(LinkKey { upper: "md0".into(), lower: member }));
        }
        s.block.partition.push(Partition::new("sdd1".into()));
        // A file system on the first disk, as if it were not a member.
        s.block.mount.push(Mount { device: "sda".into(), kind: "xfs".into(), ..Mount::new("/srv".into()) });
        s.block.file_system_device.push(FileSystemDevice {
            role: "journal".into(),
            ..FileSystemDevice::new(LinkKey { upper: "sda".into(), lower: "sda".into() })
        });
        s.block.layer.push(Layer::new(LinkKey { upper: "sdd1".into(), lower: "sdd".into() }));
        for name in ["md0", "sdd1"] {
            s.block.queue.push(Queue { size: 1e12.into(), ..Queue::new(name.into()) });
        }
        s.block.disk.push(Disk {
            reads: (100 * t).into(),
            writes: (100 * t).into(),
            read_bytes: (819_200 * t).into(),
            write_bytes: (819_200 * t).into(),
            ..Disk::new("md0".into())
        });
        s.block.array.push(Array {
            level: "raid5".into(),
            members: 4.0.into(),
            chunk: 524_288.0.into(),
            ..Array::new("md0".into())
        });
    })
}

fn expected(window: &Window) -> Expectations {
    expectations(&IoStack::from_window(window), window, &DriveFacts::default())
}

fn rates(expected: &Expectations, id: &str) -> Vec<(String, f64)> {
    let thing = expected.things.iter().find(|thing| thing.id == id);
    thing
        .map(|thing| thing.rates.iter().map(|rate| (rate.what.clone(), rate.expected.round())).collect())
        .unwrap_or_default()
}

#[test]
fn an_array_is_what_its_members_make_of_it() {
    let window = raid5(None);
    let expected = expected(&window);
    // One request at a time takes 10 ms: 100 per second.
    assert_eq!(
        rates(&expected, "block:sda"),
        [
            ("random requests".to_owned(), 100.0),
            ("requests at most".to_owned(), 3200.0),
            ("throughput of its link".to_owned(), 600e6)
        ]
    );
    assert_eq!(
        rates(&expected, "block:md0"),
        [
            ("random reads".to_owned(), 400.0),
            ("random writes".to_owned(), 100.0),
            // Half of them reads: 400 / (0.5 + 0.5 × 4).
            ("random requests as they come".to_owned(), 160.0)
        ]
    );
    let array = expected.things.iter().find(|thing| thing.id == "block:md0").unwrap();
    assert_eq!(array.rates[2].measured, Some(200.0));
    assert_eq!(array.layouts[0].change, "RAID 10 of the same members");
    assert_eq!((array.layouts[0].times * 100.0).round(), 167.0);
}

#[test]
fn a_drive_that_rotates_is_judged_by_its_mechanics() {
    let window = raid5(Some(7200.0));
    let first = |expected: &Expectations| rates(expected, "block:sda")[0].1;
    assert_eq!(first(&expected(&window)), 79.0);
    let known = DriveFacts { rotation_rate: None, seek: Some(0.004) };
    assert_eq!(first(&expectations(&IoStack::from_window(&window), &window, &known)), 122.0);
}

#[test]
fn a_disk_with_many_requests_at_once_says_why_nothing_is_known() {
    let window = window([0, 2], |t, s| {
        s.block.disk.push(Disk {
            reads: (400 * t).into(),
            writes: 0.into(),
            read_time: (4000 * MS * t).into(),
            write_time: 0.into(),
            weighted_time: (4000 * MS * t).into(),
            ..Disk::new("sda".into())
        });
        s.block.queue.push(Queue { size: 1e12.into(), ..Queue::new("sda".into()) });
    });
    let expected = expected(&window);
    assert_eq!(rates(&expected, "block:sda"), []);
    assert!(expected.things[0].notes[0].starts_with("A request took 10 ms with 4 in flight"), "{expected:?}");
}

#[test]
fn an_idle_machine_promises_nothing_that_was_not_seen() {
    let whole = raid5(None);
    let idle = Window::new(vec![whole.snapshots()[0].clone()]);
    assert_eq!(rates(&expected(&idle), "block:sda"), [("throughput of its link".to_owned(), 600e6)]);
    assert_eq!(rates(&expected(&idle), "block:md0"), []);
}

#[test]
fn a_log_inside_costs_a_drive_that_rotates_a_positioning() {
    let of_mount = |window: &Window| {
        let things = expected(window).things;
        things
            .into_iter()
            .find(|thing| thing.id == "mount:/srv")
            .map(|thing| (thing.layouts[0].change.clone(), thing.layouts[0].times))
    };
    assert_eq!(of_mount(&raid5(Some(7200.0))), Some(("the log on a drive of its own".to_owned(), 2.0)));
    assert_eq!(of_mount(&raid5(None)), None, "nothing moves");
}

/// Returns two seconds of a disk behind two paths of 16 Gbit/s each; those in `failed` carry nothing. It answers 100 reads per
/// second in 5 ms each.
fn multipath(failed: &[&str]) -> Window {
    window([0, 2], |t, s| {
        for name in ["sda", "sdb"] {
            s.block.queue.push(Queue {
                size: 1e12.into(),
                transport: "fc".into(),
                link_speed: 16e9.into(),
                device_depth: 32.0.into(),
                ..Queue::new(name.into())
            });
            let key = LinkKey { upper: "dm-0".into(), lower: name.into() };
            s.block.layer.push(Layer { kind: "dm".into(), ..Layer::new(key.clone()) });
            let state = if failed.contains(&name) { "failed" } else { "active" };
            s.block.path.push(Path { state: state.into(), ..Path::new(key) });
        }
        s.block.queue.push(Queue { size: 1e12.into(), ..Queue::new("dm-0".into()) });
        s.block.mapped.push(MappedDevice { target: "multipath".into(), ..MappedDevice::new("dm-0".into()) });
        s.block.disk.push(Disk {
            reads: (100 * t).into(),
            writes: 0.into(),
            read_time: (500 * MS * t).into(),
            write_time: 0.into(),
            weighted_time: (500 * MS * t).into(),
            ..Disk::new("dm-0".into())
        });
    })
}

#[test]
fn paths_carry_together_what_those_in_use_carry() {
    let of = |failed: &[&str]| {
        let expected = expected(&multipath(failed));
        let notes = expected.things.iter().find(|thing| thing.id == "block:dm-0").map(|thing| thing.notes.join(" "));
        (rates(&expected, "block:dm-0"), notes.unwrap_or_default())
    };
    let named = |all: [f64; 3]| {
        ["random requests", "requests at most", "throughput of its paths"]
            .map(str::to_owned)
            .into_iter()
            .zip(all)
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&[]), (named([200.0, 12_800.0, 3.2e9]), String::new()));
    let one = "1 of its 2 paths have failed, and carry nothing.".to_owned();
    assert_eq!(of(&["sdb"]), (named([200.0, 6_400.0, 1.6e9]), one));
}
