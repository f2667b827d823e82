use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

const TASK: TaskKey = TaskKey { pid: 7, tid: 7, start: 9 };

fn words(line: &str) -> Vec<String> {
    line.lines()
        .flat_map(|line| line.split('\t'))
        .map(|word| word.trim().to_owned())
        .filter(|w| !w.is_empty())
        .collect()
}

/// Command line of a guest started by libvirt 9 (the arguments of its qemuxml2argvdata).
const LIBVIRT: &str = r#"/usr/libexec/qemu-kvm
-name	guest=web1,debug-threads=on
-S
-object	{"qom-type":"secret","id":"masterKey0","format":"raw","file":"/var/lib/libvirt/qemu/domain-1-web1/master-key.aes"}
-machine	pc-q35-rhel9.2.0,usb=off,dump-guest-core=off,memory-backend=pc.ram,hpet=off,acpi=on
-accel	kvm
-cpu	host,migratable=on
-m	size=4194304k
-object	{"qom-type":"memory-backend-memfd","id":"pc.ram","hugetlb":true,"hugetlbsize":2097152,"share":true,"prealloc":true,"size":4294967296,"host-nodes":[0,1],"policy":"bind"}
-overcommit	mem-lock=off
-smp	4,sockets=1,dies=1,cores=4,threads=1
-object	{"qom-type":"iothread","id":"iothread1"}
-uuid	4a1c2f5e-0b1d-4c7e-9c1a-3f0f9e6d7b11
-display	none
-no-user-config
-nodefaults
-chardev	socket,id=charmonitor,fd=25,server=on,wait=off
-mon	chardev=charmonitor,id=monitor,mode=control
-device	{"driver":"virtio-scsi-pci","iothread":"iothread1","num_queues":4,"id":"scsi0","bus":"pci.3","addr":"0x0"}
-blockdev	{"driver":"file","filename":"/var/lib/libvirt/images/web1,old.qcow2","aio":"native","node-name":"libvirt-2-storage","read-only":false,"discard":"unmap","cache":{"direct":true,"no-flush":false}}
-blockdev	{"node-name":"libvirt-2-format","read-only":false,"discard":"unmap","detect-zeroes":"unmap","cache":{"direct":true,"no-flush":false},"driver":"qcow2","file":"libvirt-2-storage","backing":null}
-device	{"driver":"virtio-blk-pci","bus":"pci.4","addr":"0x0","drive":"libvirt-2-format","id":"virtio-disk0","bootindex":1,"write-cache":"on","serial":"WEB1ROOT"}
-blockdev	{"driver":"host_device","filename":"/dev/vg0/web1-data","node-name":"libvirt-1-storage","read-only":false}
-device	{"driver":"scsi-hd","bus":"scsi0.0","channel":0,"scsi-id":0,"lun":1,"device_id":"drive-scsi0-0-0-1","drive":"libvirt-1-storage","id":"scsi0-0-0-1","write-cache":"off","wwn":6917529027641081857}
-device	{"driver":"ide-cd","bus":"ide.0","id":"sata0-0-0"}
-netdev	{"type":"tap","fds":"27:28","vhost":true,"vhostfds":"29:30","id":"hostnet0"}
-device	{"driver":"virtio-net-pci","mq":true,"vectors":6,"netdev":"hostnet0","id":"net0","mac":"52:54:00:AA:bb:01","bus":"pci.1","addr":"0x0"}
-device	{"driver":"vfio-pci","host":"0000:3b:02.0","id":"hostdev0","bus":"pci.5","addr":"0x0"}
-device	{"driver":"virtio-balloon-pci","id":"balloon0","bus":"pci.6","addr":"0x0"}
-sandbox	on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-msg	timestamp=on"#;

#[test]
fn a_guest_of_libvirt_is_read_from_json() {
    let config = guest(TASK, &words(LIBVIRT)).unwrap();
    let guest = &config.guest;
    assert_eq!(
        (guest.name.get(), guest.accelerator.get(), guest.cpu_model.get()),
        (Some("web1"), Some("kvm"), Some("host"))
    );
    assert_eq!(
        (guest.cpus.get(), guest.memory.get(), guest.io_threads.get()),
        (Some(4.0), Some(4_294_967_296.0), Some(1.0))
    );
    assert_eq!((guest.memory_backing.get(), guest.memory_nodes.get()), (Some("hugetlb"), Some("0,1")));
    assert_eq!((guest.balloon.get(), guest.passed_through.get()), (Some(1.0), Some("0000:3b:02.0")));
    assert_eq!(guest.machine.get(), Some("pc-q35-rhel9.2.0"));
    let [root, data] = &config.disks[..] else { panic!("{:?}", config.disks) };
    assert_eq!(
        shown(root),
        ["virtio-blk-pci", "-", "/var/lib/libvirt/images/web1,old.qcow2", "qcow2", "none", "native", "unmap", "-"]
    );
    assert_eq!(
        (root.serial.get(), root.detect_zeroes.get(), &*root.disk.name),
        (Some("WEB1ROOT"), Some("unmap"), "virtio-disk0")
    );
    assert_eq!(
        shown(data),
        ["scsi-hd", "virtio-scsi-pci", "/dev/vg0/web1-data", "-", "writethrough", "threads", "ignore", "iothread1"]
    );
    assert_eq!((data.queues.get(), data.wwn.get()), (Some(4.0), Some("6000000000000001")));
    let [card] = &config.cards[..] else { panic!("{:?}", config.cards) };
    assert_eq!((card.row.model.get(), card.row.backend.get()), (Some("virtio-net-pci"), Some("tap")));
    assert_eq!(
        (card.row.vhost.get(), card.row.queues.get(), card.row.mac.get()),
        (Some(1.0), Some(2.0), Some("52:54:00:aa:bb:01"))
    );
    assert_eq!(card.tap, Some(TapName::OfDescriptor(27)));
}

fn shown(d: &GuestDisk) -> [&str; 8] {
    [&d.model, &d.controller, &d.file, &d.format, &d.cache, &d.aio, &d.discard, &d.io_thread]
        .map(|s| s.get().unwrap_or("-"))
}

/// Parses a command line as written by an administrator, and by Proxmox.
#[test]
fn a_guest_that_was_started_by_hand_is_read_from_keys_and_values() {
    let line = "/usr/bin/kvm\t-id\t100\t-name\tdb,debug-threads=on\t-smp\t2,sockets=1,maxcpus=8\t-m\t2G,slots=2,maxmem=8G
        -cpu\tqemu64,+ssse3\t-machine\ttype=pc-i440fx-7.1
        -drive\tfile=/dev/pve/vm-100-disk-0,if=none,id=drive-scsi0,cache=writethrough,aio=io_uring,format=raw,detect-zeroes=on
        -device\tlsi,id=scsihw0,bus=pci.0
        -device\tscsi-hd,bus=scsihw0.0,scsi-id=0,drive=drive-scsi0,id=scsi0
        -drive\tfile=/srv/a,,b.img,if=virtio,cache=unsafe,readonly=on
        -drive\tfile=/iso/debian.iso,media=cdrom
        -drive\tif=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE.fd
        -hda\t/srv/old.img
        -netdev\ttype=tap,id=net0,ifname=tap100i0,script=no,vhost=off
        -device\te1000,mac=BC:24:11:00:00:01,netdev=net0,id=net0
        -nic\tuser,model=virtio-net-pci
        -monitor\tstdio\t-S";
    let config = guest(TASK, &words(line)).unwrap();
    let guest = &config.guest;
    assert_eq!((guest.name.get(), guest.accelerator.get(), guest.cpus.get()), (Some("db"), Some("kvm"), Some(2.0)));
    assert_eq!((guest.memory.get(), guest.memory_backing.get()), (Some(2_147_483_648.0), Some("anonymous")));
    assert_eq!((guest.balloon.get(), guest.passed_through.get(), guest.memory_nodes.get()), (Some(0.0), None, None));
    let disks: Vec<[&str; 8]> = config.disks.iter().map(shown).collect();
    assert_eq!(
        disks,
        [
            ["scsi-hd", "lsi", "/dev/pve/vm-100-disk-0", "raw", "writethrough", "io_uring", "ignore", "-"],
            ["virtio-blk", "-", "/srv/a,b.img", "-", "unsafe", "threads", "ignore", "-"],
            ["ide-hd", "-", "/srv/old.img", "-", "writeback", "threads", "ignore", "-"],
        ]
    );
    assert_eq!(config.disks[1].read_only.get(), Some(1.0));
    let cards: Vec<_> = config.cards.iter().map(|c| (c.row.model.get(), c.row.vhost.get(), c.tap.clone())).collect();
    assert_eq!(
        cards,
        [
            (Some("e1000"), Some(0.0), Some(TapName::Given("tap100i0".into()))),
            (Some("virtio-net-pci"), Some(0.0), None)
        ]
    );
}

#[test]
fn what_is_not_given_has_the_defaults_of_qemu() {
    let config = guest(TASK, &words("qemu-system-aarch64\t-M\tvirt\t-smp\tcores=2,threads=2")).unwrap();
    let Guest { name, accelerator, cpus, memory, architecture, .. } = config.guest;
    assert_eq!((name.get(), accelerator.get(), architecture.get()), (None, Some("tcg"), Some("aarch64")));
    assert_eq!((cpus.get(), memory.get()), (Some(4.0), Some(134_217_728.0)));
    assert_eq!((config.disks.len(), config.cards.len()), (0, 0));
}

#[test]
fn secrets_in_the_addresses_of_images_are_left_out() {
    let line = "qemu-system-x86_64
        -drive\tfile=rbd:pool/web1:id=admin:key=AQBsecret==:auth_supported=cephx,if=virtio
        -drive\tfile=iscsi://user%hunter2@10.0.0.1/iqn.x/1,if=virtio
        -blockdev\t{\"driver\":\"rbd\",\"pool\":\"vms\",\"image\":\"db\",\"key-secret\":\"s0\",\"node-name\":\"n0\"}
        -device\tvirtio-blk-pci,drive=n0";
    let config = guest(TASK, &words(line)).unwrap();
    let files: Vec<_> = config.disks.iter().filter_map(|disk| disk.file.get()).collect();
    assert_eq!(files, ["rbd:vms/db", "rbd:pool/web1", "iscsi://10.0.0.1/iqn.x/1"]);
}

#[test]
fn other_programs_are_no_guests() {
    for line in ["qemu-img\tconvert", "/usr/bin/qemu-nbd\t-c\t/dev/nbd0", "nginx\t-m\t4", ""] {
        assert_eq!(guest(TASK, &words(line)), None, "{line}");
    }
    assert!(["qemu-system-x86", "qemu-kvm", "kvm", "qemu:web1"].into_iter().all(may_be_qemu));
    assert!(!may_be_qemu("kvm-nx-lpage-re"));
}

#[test]
fn layers_that_refer_to_each_other_end() {
    let line = "qemu-kvm\t-blockdev\tdriver=raw,node-name=a,file=b\t-blockdev\tdriver=raw,node-name=b,file=a\t-device\tvirtio-blk-pci,drive=a";
    assert_eq!(guest(TASK, &words(line)).unwrap().disks.len(), 0);
}

fn limits(disk: &GuestDisk) -> (Option<&str>, [Option<f64>; 6]) {
    let requests = [&disk.limit_operations, &disk.limit_reads, &disk.limit_writes];
    let bytes = [&disk.limit_bytes, &disk.limit_read_bytes, &disk.limit_write_bytes];
    let [a, b, c] = requests.map(|limit| limit.get());
    let [d, e, f] = bytes.map(|limit| limit.get());
    (disk.limit_group.get(), [a, b, c, d, e, f])
}

#[test]
fn limits_of_a_drive_and_of_a_filter_are_those_of_the_disk() {
    let line = r#"qemu-kvm
        -drive	file=/a,if=virtio,throttling.iops-total=100,throttling.bps-write=1000000,throttling.group=g
        -drive	file=/b,if=virtio,iops_rd=50,bps=0
        -drive	file=/c,if=virtio
        -object	{"qom-type":"throttle-group","id":"tg","limits":{"iops-total":70,"bps-read":9}}
        -object	throttle-group,id=old,x-bps-total=5
        -blockdev	{"driver":"throttle","node-name":"n","throttle-group":"tg","file":{"driver":"file","filename":"/d"}}
        -blockdev	driver=throttle,node-name=m,throttle-group=old,file.driver=file,file.filename=/e
        -device	virtio-blk-pci,drive=n
        -device	virtio-blk-pci,drive=m"#;
    let config = guest(TASK, &words(&line.replace("\\t", "\t"))).unwrap();
    let found: Vec<_> = config.disks.iter().map(|disk| (disk.file.get().unwrap(), limits(disk))).collect();
    let none = None;
    assert_eq!(
        found,
        [
            ("/d", (Some("tg"), [Some(70.0), none, none, none, Some(9.0), none])),
            ("/e", (Some("old"), [none, none, none, Some(5.0), none, none])),
            ("/a", (Some("g"), [Some(100.0), none, none, none, none, Some(1e6)])),
            ("/b", (None, [none, Some(50.0), none, none, none, none])),
            ("/c", (None, [None; 6])),
        ]
    );
}

#[test]
fn drives_without_an_id_are_called_by_their_place() {
    let named = |line: &str| {
        let disks = guest(TASK, &words(line)).unwrap().disks;
        disks.iter().map(|disk| (disk.disk.name.to_string(), disk.file.get().unwrap().to_owned())).collect::<Vec<_>>()
    };
    let given = "-hdb\t/b\t-cdrom\t/c.iso\t-drive\tfile=/a\t-drive\tfile=/d\t-drive\tfile=/v,if=virtio\t-drive\tfile=/w,if=virtio,index=4\t-drive\tfile=/s,if=scsi,unit=3\t-drive\tfile=/x,if=scsi,id=x";
    let names = |line: &str| named(line).into_iter().map(|(name, file)| format!("{name}={file}")).collect::<Vec<_>>();
    assert_eq!(
        names(&format!("qemu-kvm\t{given}")),
        ["ide0-hd1=/b", "ide0-hd0=/a", "ide1-hd1=/d", "virtio0=/v", "virtio4=/w", "scsi0-hd3=/s", "x=/x"]
    );
    assert_eq!(names("qemu-kvm\t-M\tq35\t-hdb\t/b"), ["ide1-hd0=/b"]);
    assert_eq!(
        names("qemu-kvm\t-drive\tfile=/z,if=ide,bus=18446744073709551615,unit=9"),
        ["ide9223372036854775807-hd1=/z"]
    );
}

const STATUS: &str = include_str!("fixtures/libvirt-9.0.xml");

#[test]
fn libvirt_knows_the_limits_that_it_has_set() {
    let status = libvirt_guest(STATUS).unwrap();
    let mut disk = GuestDisk::default();
    status.limits["virtio-disk0"].set(&mut disk);
    assert_eq!((status.pid, status.limits.len()), (18806, 1));
    assert_eq!(limits(&disk), (None, [Some(120.0), None, None, None, Some(2e6), None]));
    let shared = STATUS.replace("</iotune>", "<group_name>slow</group_name></iotune>");
    libvirt_guest(&shared).unwrap().limits["virtio-disk0"].set(&mut disk);
    assert_eq!(disk.limit_group.get(), Some("slow"));
    for other in ["", "<network/>", "<domain/>", "<domstatus pid='x'><domain><devices/></domain></domstatus>"] {
        assert_eq!(libvirt_guest(other), None, "{other}");
    }
}

/// Answers of QEMU 7.2.
fn blocks() -> Value {
    let limited = json!({ "iops": 120, "iops_rd": 0, "iops_wr": 0, "bps": 0, "bps_rd": 2_000_000, "bps_wr": 0,
        "group": "/machine/peripheral/disk0/virtio-backend", "file": "/a", "drv": "raw" });
    json!([
        { "device": "", "qdev": "/machine/peripheral/disk0/virtio-backend", "inserted": limited },
        { "device": "ide0-hd0", "qdev": "/machine/unattached/device[23]", "inserted": { "iops": 0, "file": "/b", "drv": "qcow2" } },
        { "device": "filtered", "qdev": "x", "inserted": { "iops": 0, "file": "/c", "drv": "throttle" } },
        { "device": "cd0", "qdev": "cd" },
    ])
}

fn disk(name: &str, file: &str) -> GuestDisk {
    let disk = whyslow_model::key::GuestDevice { task: TASK, name: name.into() };
    GuestDisk { file: file.into(), limit_operations: 7.into(), ..GuestDisk::new(disk) }
}

#[test]
fn the_monitor_knows_the_limits_that_are_in_force() {
    let mut disks =
        [disk("disk0", "/a"), disk("ide0-hd0", "/b"), disk("filtered", "/c"), disk("cd0", ""), disk("z", "/z")];
    monitor::set_limits(&blocks(), &mut disks);
    let operations = disks.each_ref().map(|disk| disk.limit_operations.get());
    // The second disk's limit was removed; the third disk's is that of a filter.
    assert_eq!(operations, [Some(120.0), None, Some(7.0), Some(7.0), Some(7.0)]);
    assert_eq!(disks[0].limit_read_bytes.get(), Some(2e6));
}

#[test]
fn the_monitor_counts_what_disks_move() {
    let entry = |device: &str, qdev: &str, reads: u64| json!({ "device": device, "qdev": qdev, "stats": { "rd_operations": reads, "wr_total_time_ns": 5 } });
    let statistics = json!([
        entry("", "/machine/peripheral/disk0/virtio-backend", 3),
        entry("ide0-hd0", "/machine/unattached/device[23]", 4),
    ]);
    let rows =
        monitor::disk_io(&blocks(), &statistics, &[disk("disk0", "/a"), disk("ide0-hd0", "/b"), disk("z", "/z")]);
    let found: Vec<_> = rows.iter().map(|row| (&*row.disk.name, row.reads.get(), row.write_time.get())).collect();
    assert_eq!(found, [("disk0", Some(3), Some(5)), ("ide0-hd0", Some(4), Some(5))]);
    assert_eq!(monitor::memory_now(&json!({ "actual": 5 })), Some(5));
    let cpus = json!([{ "cpu-index": 0, "thread-id": 11 }, { "cpu-index": 1 }]);
    assert_eq!(monitor::cpu_threads(&cpus), [(0, 11)]);
}

#[test]
fn monitors_that_answer_by_qmp_have_a_socket() {
    let line = "qemu-kvm
        -qmp\tunix:/run/a,,b.sock,server=on,wait=off
        -qmp\ttcp:localhost:4444
        -chardev\tsocket,id=c0,path=/run/c.sock,server=on
        -mon\tchardev=c0,mode=control
        -chardev\tsocket,id=c1,path=/run/d.sock
        -mon\tchardev=c1,mode=readline
        -chardev\tsocket,id=c2,fd=25
        -mon\tchardev=c2,mode=control";
    assert_eq!(guest(TASK, &words(line)).unwrap().monitors, ["/run/a,b.sock", "/run/c.sock"]);
}

proptest! {
    /// What is damaged is no status, or one without a part.
    #[test]
    fn no_status_of_libvirt_makes_the_parser_panic(at in any::<prop::sample::Index>(), drop in 0_usize..40, text in "\\PC{0,8}") {
        let from = at.index(STATUS.len());
        let text = format!("{}{text}{}", &STATUS[..from], &STATUS[(from + drop).min(STATUS.len())..]);
        let _ = libvirt_guest(&text);
    }

    #[test]
    fn no_answer_of_a_monitor_makes_the_reader_panic(text in "\\PC{0,40}", name in "inserted|qdev|device|stats|iops|file") {
        let mut answer = blocks();
        answer[0][name] = json!(text);
        let mut disks = [disk("disk0", "/a"), disk("z", "/z")];
        for answer in [answer, json!({ "a": 1 }), Value::Null] {
            monitor::set_limits(&answer, &mut disks);
            let _ = monitor::disk_io(&answer, &answer, &disks);
            let _ = (monitor::memory_now(&answer), monitor::cpu_threads(&answer));
        }
    }

    /// Any words may be exchanged, cut short or damaged.
    #[test]
    fn no_command_line_makes_the_parser_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,6}|[,={}\\[\\]\":.-]{1,4}|[0-9]{1,25}"), 0..12),
    ) {
        let mut line = words(LIBVIRT);
        for (word, at, text) in changes {
            let word = word.get_mut(&mut line);
            let mut chars: Vec<char> = word.chars().collect();
            chars.truncate(at.index(chars.len() + 1));
            chars.extend(text.chars());
            *word = chars.into_iter().collect();
        }
        let _ = guest(TASK, &line);
    }

    #[test]
    fn no_argument_makes_the_parser_panic(option in "name|smp|m|device|drive|blockdev|netdev|nic|object|chardev|mon|qmp|machine|accel|cpu|hda", text in "\\PC{0,40}|[a-z0-9=,.{}\":-]{0,40}") {
        let _ = guest(TASK, &["qemu-kvm".to_owned(), format!("-{option}"), text]);
    }
}
