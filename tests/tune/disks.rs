//! Tests of settings of disks and their file systems: made and undone.

use crate::cage::{in_cage, tool};
use crate::disk::Loop;
use crate::group::Group;
use std::fs;
use whyslow_testing::RestoredSetting;

#[test]
fn a_limit_on_a_disk_is_set_in_a_group() {
    in_cage(|cage| {
        let disk = Loop::new(cage);
        let Some(group) = Group::new(cage, "blkio") else { return };
        let file = "blkio.throttle.read_bps_device";
        let name = format!("cgroup.{file}@{}{}", disk.name(), group.name());
        cage.expect(0, &["set", &format!("{name}=1MiB"), "--yes"]);
        assert!(group.read(file).ends_with(" 1048576"), "{}", group.read(file));
        assert_eq!(cage.expect(0, &["get", &name]), "1048576\n");
        cage.expect(0, &["undo"]);
        assert_eq!(group.read(file), "");
    });
}

#[test]
fn a_scheduler_brings_back_what_it_reset() {
    in_cage(|cage| {
        let disk = Loop::new(cage);
        let file = |name: &str| format!("/sys/block/{}/queue/{name}", disk.name());
        let read = |name: &str| fs::read_to_string(file(name)).unwrap().trim().to_owned();
        fs::write(file("scheduler"), "none").unwrap();
        fs::write(file("nr_requests"), "96").unwrap();
        fs::write(file("read_ahead_kb"), "128").unwrap();
        let change = |text: &str| text.replace('#', disk.name());
        cage.expect(0, &["set", &change("disk.scheduler@#=mq-deadline"), &change("disk.read_ahead_kb@#=1MiB")]);
        assert_eq!(
            (read("scheduler").as_str(), read("read_ahead_kb").as_str()),
            ("none [mq-deadline] kyber bfq", "1024")
        );
        assert_ne!(read("nr_requests"), "96");
        cage.expect(0, &["undo"]);
        assert_eq!((read("scheduler").as_str(), read("nr_requests").as_str()), ("[none] mq-deadline kyber bfq", "96"));
        assert_eq!(read("read_ahead_kb"), "128");
        // Both in one transaction, in the wrong order.
        cage.expect(0, &["set", &change("disk.nr_requests@#=32"), &change("disk.scheduler@#=bfq")]);
        assert_eq!(read("nr_requests"), "32");
        cage.expect(0, &["undo"]);
        assert_eq!((read("scheduler").as_str(), read("nr_requests").as_str()), ("[none] mq-deadline kyber bfq", "96"));
        // Under an alias that the kernel accepts, and a former name.
        for (asked, shown) in [("deadline", "none [mq-deadline] kyber bfq"), ("noop", "[none] mq-deadline kyber bfq")] {
            cage.expect(0, &["set", &change(&format!("disk.scheduler@#={asked}"))]);
            assert_eq!(read("scheduler"), shown);
        }
        let out = cage.expect(2, &["set", "--dry-run", &change("disk.scheduler@#=cfq")]);
        assert!(out.contains("this kernel has no cfq; it has none, mq-deadline, kyber, bfq"), "{out}");
        cage.expect(0, &["undo", "--all"]);
        fs::write(file("nr_requests"), "96").unwrap();
        // A value that somebody sets after the change of the scheduler must stay.
        cage.expect(0, &["set", &change("disk.scheduler@#=kyber")]);
        fs::write(file("nr_requests"), "48").unwrap();
        cage.expect(0, &["undo"]);
        assert_eq!(read("scheduler"), "[none] mq-deadline kyber bfq");
    });
}

#[test]
fn a_mounted_file_system_keeps_its_other_options() {
    in_cage(|cage| {
        let mut disk = Loop::new(cage);
        let point = disk.mount(cage);
        let options = || tool("findmnt", &["-no", "OPTIONS", &point]);
        let before = options();
        let at = |text: &str| text.replace('#', &point);
        cage.expect(
            0,
            &["set", &at("mount.atime@#=noatime"), &at("mount.commit@#=30"), &at("mount.lazytime@#=lazytime"), "--yes"],
        );
        let set =
            ["mount.max_batch_time@#=2000", "mount.discard@#=discard", "mount.auto_da_alloc@#=noauto_da_alloc"].map(at);
        cage.expect(0, &["set", &set[0], &set[1], &set[2], "--yes"]);
        let after = options();
        for word in ["noatime", "nosuid", "commit=30", "lazytime", "max_batch_time=2000", "discard", "noauto_da_alloc"]
        {
            assert!(after.split(',').any(|option| option == word), "{word}: {after}");
        }
        cage.expect(0, &["undo", "--all"]);
        assert_eq!(options(), before);
        cage.expect(0, &["set", &at("mount.atime@#=strictatime"), &at("mount.diratime@#=nodiratime"), "--yes"]);
        assert_eq!(cage.expect(0, &["get", &at("mount.atime@#")]), "strictatime\n");
        cage.expect(0, &["undo"]);
        assert_eq!(options(), before);
    });
}

#[test]
fn a_file_system_that_is_mounted_again_is_another() {
    in_cage(|cage| {
        let mut disk = Loop::new(cage);
        let point = disk.mount(cage);
        let name = format!("ext4.mb_stream_req@{}", disk.name());
        let before = cage.expect(0, &["get", &name]);
        cage.expect(0, &["set", &format!("{name}=64")]);
        cage.expect(0, &["undo"]);
        assert_eq!(cage.expect(0, &["get", &name]), before);
        cage.expect(0, &["set", &format!("{name}=64")]);
        tool("umount", &[&point]);
        tool("mount", &[&disk.device, &point]);
        cage.expect(0, &["set", &format!("/sys/fs/ext4/{}/mb_stream_req=64", disk.name())]);
        assert!(cage.expect(0, &["undo", "2"]).contains("gone"), "another one has the name");
        assert_eq!(cage.expect(0, &["get", &name]), "64\n");
    });
}

#[test]
fn what_the_kernel_makes_another_value_of_is_put_back() {
    in_cage(|cage| {
        let disk = Loop::new(cage);
        let file = format!("/sys/block/{}/queue/nr_requests", disk.name());
        let read = || fs::read_to_string(&file).unwrap().trim().to_owned();
        fs::write(&file, "96").unwrap();
        // The kernel silently applies its minimum of 4 (BLKDEV_MIN_RQ).
        let change = format!("disk.nr_requests@{}=2", disk.name());
        let out = cage.expect(1, &["set", &change]);
        assert!(out.contains("the kernel set 4 instead of 2; everything was rolled back"), "{out}");
        assert_eq!(read(), "96");
        assert!(cage.expect(0, &["undo", "--all"]).contains("nothing to undo"));
        // The value must not stay either if the program dies before it has recorded the result.
        let journal = cage.path("tune/journal.jsonl");
        let text = fs::read_to_string(&journal).unwrap();
        fs::write(&journal, format!("{}\n", text.lines().next().unwrap())).unwrap();
        fs::write(&file, "2").unwrap();
        assert_eq!(read(), "4");
        cage.expect(0, &["recover"]);
        assert_eq!(read(), "96");
    });
}

#[test]
fn another_spelling_of_the_value_is_the_value() {
    in_cage(|cage| {
        let name = "/sys/module/printk/parameters/time";
        let read = || fs::read_to_string(name).unwrap().trim().to_owned();
        let before = read();
        let _restored = RestoredSetting::record(name);
        let (on, off) = (format!("{name}=1"), format!("{name}=0"));
        let (first, second, shown) = if before == "Y" { (&off, &on, "N") } else { (&on, &off, "Y") };
        cage.expect(0, &["set", first, "--yes"]);
        assert_eq!(read(), shown);
        // A second run has nothing to do.
        cage.expect(0, &["set", first, "--yes"]);
        assert_eq!(cage.json(&["history"]).as_array().unwrap().len(), 1);
        cage.expect(0, &["verify"]);
        cage.expect(0, &["set", second, "--yes"]);
        assert_eq!(read(), before);
        cage.expect(0, &["undo", "--all"]);
        assert_eq!(read(), before);
    });
}

#[test]
fn a_disk_is_known_again_by_what_stays_with_it() {
    in_cage(|cage| {
        cage.own("/etc");
        cage.own("/run");
        let disk = Loop::new(cage);
        let number = fs::read_to_string(format!("/sys/block/{}/dev", disk.name())).unwrap();
        let database = format!("/run/udev/data/b{}", number.trim());
        let known_as = |serial: &str| {
            fs::create_dir_all("/run/udev/data").unwrap();
            fs::write(&database, format!("E:ID_SERIAL={serial}\n")).unwrap();
        };
        let name = format!("disk.read_ahead_kb@{}", disk.name());
        cage.expect(0, &["set", &format!("{name}=1MiB")]);
        // A loop device has nothing that identifies it at the next boot.
        let out = cage.expect(1, &["persist"]);
        let out: Vec<&str> = out.split_whitespace().collect();
        assert!(out.join(" ").contains("no serial number"), "{out:?}");
        known_as("first");
        let rules = "/etc/udev/rules.d/99-whyslow.rules";
        assert!(cage.expect(0, &["persist", "--dry-run"]).contains(&format!("would write {rules}")));
        assert!(!fs::exists(rules).unwrap());
        cage.expect(0, &["persist"]);
        let text = fs::read_to_string(rules).unwrap();
        let rule = "ENV{DEVTYPE}==\"disk\", ENV{ID_SERIAL}==\"first\", ATTR{queue/read_ahead_kb}=\"1024\"";
        assert!(text.contains(rule) && !text.contains("KERNEL==") && !text.contains(disk.name()), "{text}");
        // The name now belongs to another disk: the line in the file is still removed.
        known_as("second");
        cage.expect(0, &["verify"]);
        cage.expect(0, &["undo"]);
        assert!(!fs::exists(rules).unwrap(), "{}", fs::read_to_string(rules).unwrap_or_default());
        cage.expect(0, &["undo"]);
    });
}
