//! Hosts of virtual machines.

use super::*;
use whyslow_diagnose::{merge_diagnoses, virtual_machines};
use whyslow_documents::diagnosis::{Confidence, Reading};
use whyslow_model::catalogue::{
    Group, Guest, GuestCpu, GuestDisk, GuestDiskIo, GuestMemory, GuestNic, MachineInfo, Meminfo, Process, ProcessRow,
    Queue, Sharing, Thread, Vmstat,
};
use whyslow_model::key::{GuestDevice, MachineKey};

/// A guest, with percentages of the time in which its virtual CPU ran and waited, and its main loop ran.
struct Described {
    accelerator: &'static str,
    ran: u64,
    waited: u64,
    main_loop: u64,
    /// CPUs that it may run on.
    cpus: &'static str,
    thp: &'static str,
    io_thread: Option<&'static str>,
    /// Limits of its disk: requests, and bytes read, per second.
    limits: (Option<u64>, Option<u64>),
    /// Reads and writes of its disk per second, of 4 KiB each, if the monitor was available.
    made: Option<(u64, u64)>,
    cache: &'static str,
    /// Whether a thread of QEMU is always in a flush.
    flushes: bool,
}

/// A guest that computes and lacks nothing.
const BUSY: Described = Described {
    accelerator: "kvm",
    ran: 80,
    waited: 0,
    main_loop: 2,
    cpus: "0-1",
    thp: "madvise",
    io_thread: Some("io1"),
    limits: (None, None),
    made: None,
    cache: "none",
    flushes: false,
};

/// Diagnoses a host of two CPUs with KVM; the second CPU is idle.
fn host_of(guest: &Described) -> Diagnosis {
    machine(|t, s| {
        let used = (guest.ran + guest.main_loop).min(98);
        s.processor.cpu.extend([cpu(t, 0, used, 1), cpu(t, 1, 2, 1)]);
        pressure(t, s, guest.waited, 0, 0);
        s.kernel.machine.push(MachineInfo {
            architecture: "x86_64".into(),
            kvm: 1.into(),
            processors: 2.into(),
            ..MachineInfo::default()
        });
        s.memory.sharing.push(Sharing { thp_enabled: guest.thp.into(), ..Sharing::new(MachineKey) });
        let time = |percent: u64| (t * SECOND * percent / 100).into();
        let process = key(9);
        let row = ProcessRow {
            command: "qemu-system-x86".into(),
            threads: 2.into(),
            user: time(guest.ran + guest.main_loop),
            system: 0.into(),
            rss: (2u64 << 30).into(),
            read_bytes: (t * 50_000_000).into(),
            write_bytes: 0.into(),
            ..ProcessRow::new(process)
        };
        s.task.process.push(Process::from(row));
        let virtual_cpu = TaskKey { tid: 10, ..process };
        for (task, command, ran, waited) in
            [(process, "qemu-system-x86", guest.main_loop, 0), (virtual_cpu, "CPU 0/KVM", guest.ran, guest.waited)]
        {
            let thread = Thread { command: command.into(), user: time(ran), system: 0.into(), ..Thread::new(task) };
            s.task.thread.push(Thread { run_delay: time(waited), ..thread });
        }
        if guest.flushes {
            s.task.thread.push(Thread {
                command: "worker".into(),
                state: "D".into(),
                wait_channel: "blkdev_issue_flush".into(),
                ..Thread::new(TaskKey { tid: 11, ..process })
            });
        }
        s.guest.guest.push(Guest {
            name: "web1".into(),
            accelerator: guest.accelerator.into(),
            architecture: "x86_64".into(),
            cpus: 1.into(),
            memory: (4u64 << 30).into(),
            memory_backing: "anonymous".into(),
            ..Guest::new(process)
        });
        s.guest.guest_cpu.push(GuestCpu { cpus: guest.cpus.into(), ..GuestCpu::new(virtual_cpu) });
        let disk = GuestDevice { task: process, name: "disk0".into() };
        let (reads, writes) = guest.made.unwrap_or_default();
        if guest.made.is_some() {
            s.guest.guest_disk_io.push(GuestDiskIo {
                reads: (t * reads).into(),
                writes: (t * writes).into(),
                read_bytes: (t * reads * 4096).into(),
                write_bytes: (t * writes * 4096).into(),
                read_time: time(90),
                write_time: time(30),
                flush_time: 0.into(),
                ..GuestDiskIo::new(disk.clone())
            });
        }
        let (limit_operations, limit_read_bytes) = guest.limits;
        s.guest.guest_disk.push(GuestDisk {
            model: "virtio-blk-pci".into(),
            io_thread: guest.io_thread.into(),
            cache: guest.cache.into(),
            limit_operations: limit_operations.into(),
            limit_read_bytes: limit_read_bytes.into(),
            ..GuestDisk::new(disk)
        });
    })
}

fn of_guests(d: &Diagnosis) -> Vec<&str> {
    d.findings.iter().map(|finding| finding.id.as_str()).filter(|id| id.starts_with("virt.")).collect()
}

#[test]
fn a_guest_that_lacks_nothing_is_no_finding() {
    assert_eq!(of_guests(&host_of(&BUSY)), [""; 0]);
    // Its main loop is idle, though it would serve the disk; emulated, and with nothing to do.
    assert_eq!(of_guests(&host_of(&Described { io_thread: None, ..BUSY })), [""; 0]);
    assert_eq!(of_guests(&host_of(&Described { accelerator: "tcg", ran: 5, thp: "never", ..BUSY })), [""; 0]);
    // All CPUs that it is bound to are its own.
    assert_eq!(of_guests(&host_of(&Described { cpus: "0", ..BUSY })), [""; 0]);
}

#[test]
fn what_a_guest_lacks_is_found_on_its_host() {
    let found_on = |guest: &Described| {
        let d = host_of(guest);
        let of = d.findings.iter().find(|finding| finding.id.starts_with("virt."));
        let finding = of.unwrap_or_else(|| panic!("{:#?}", d.findings));
        assert_eq!((finding.subject.kind.as_str(), finding.subject.name.as_str()), ("guest", "web1"));
        (finding.id.clone(), finding.actions.first().map(|action| action.text.clone()).unwrap_or_default())
    };
    for (guest, id, advice) in [
        (Described { accelerator: "tcg", ..BUSY }, "virt.emulated_cpus", "-accel kvm"),
        (Described { ran: 60, waited: 40, cpus: "0", ..BUSY }, "virt.cpu_pinning", "run on more CPUs"),
        (Described { main_loop: 95, ran: 3, io_thread: None, ..BUSY }, "virt.main_loop", "iothreads"),
        (Described { thp: "never", ..BUSY }, "virt.small_pages", "transparent huge pages"),
    ] {
        let (found, text) = found_on(&guest);
        assert_eq!(found, id);
        assert!(text.contains(advice), "{id}: {text}");
    }
}

#[test]
fn a_guest_whose_writes_are_all_flushed_is_found_on_its_host() {
    let found = |guest: &Described| {
        let d = host_of(guest);
        let of_guest = |finding: &&Finding| finding.id == "disk.flush_bound" && finding.subject.kind == "guest";
        d.findings.iter().find(of_guest).map(|finding| (finding.confidence, finding.actions[0].text.clone()))
    };
    for cache in ["writethrough", "directsync"] {
        let (confidence, advice) = found(&Described { cache, flushes: true, ..BUSY }).unwrap();
        assert_eq!(confidence, Confidence::High);
        assert!(advice.starts_with("Set the cache mode of disk0 of web1 to none"), "{advice}");
        assert_eq!(found(&Described { cache, ..BUSY }), None, "it writes nothing");
    }
    // The guest itself requests these.
    assert_eq!(found(&Described { cache: "none", flushes: true, ..BUSY }), None);
}

/// The process reads 50 MB per second.
#[test]
fn a_guest_at_the_limit_of_its_disk_is_found_on_its_host() {
    let found = |guest: &Described| {
        let d = host_of(guest);
        d.findings
            .into_iter()
            .find(|finding| finding.id == "disk.throttled")
            .map(|finding| (finding.summary, finding.confidence))
    };
    let (summary, confidence) =
        found(&Described { limits: (Some(300), Some(90_000_000)), made: Some((200, 95)), ..BUSY }).unwrap();
    assert_eq!(
        (summary.as_str(), confidence),
        (
            "Guest web1 (9) is at the limit that QEMU has for disk0: 300 requests a second (98.3 % used).",
            Confidence::High
        )
    );
    let d = host_of(&Described { limits: (Some(300), None), made: Some((200, 95)), ..BUSY });
    let finding = d.findings.iter().find(|finding| finding.id == "disk.throttled").expect("a limit");
    let in_flight = finding.evidence.iter().find(|shown| shown.metric == "guest.limit_in_flight").expect("in flight");
    assert_eq!(in_flight.value, Reading::Number(1.2));
    // The process shows what the monitor does not.
    let (summary, confidence) = found(&Described { limits: (None, Some(51_000_000)), ..BUSY }).unwrap();
    assert!(summary.ends_with("disk0: 48.6 MiB/s of reads (98.0 % used)."), "{summary}");
    assert_eq!(confidence, Confidence::Medium);
    assert_eq!(found(&Described { limits: (Some(300), None), made: Some((100, 20)), ..BUSY }), None);
    assert_eq!(found(&Described { limits: (None, Some(80_000_000)), ..BUSY }), None);
    // The monitor is right: most of that did not come from its disk.
    assert_eq!(found(&Described { limits: (None, Some(51_000_000)), made: Some((20, 20)), ..BUSY }), None);
    // The number of requests is unknown.
    assert_eq!(found(&Described { limits: (Some(300), None), ..BUSY }), None);
}

/// Adds a disk that is busy all the time with this many reads per second, of this many milliseconds each.
fn with_busy_disk(t: u64, s: &mut Snapshot, disk: &str, reads: u64, milliseconds: u64) {
    two_cpus(t, s, 2, 1);
    pressure(t, s, 0, 0, 60);
    let time = t * reads * milliseconds * SECOND / 1000;
    s.block.disk.push(Disk {
        reads: (t * reads).into(),
        read_bytes: (t * reads * 4096).into(),
        read_time: time.into(),
        writes: 0.into(),
        write_bytes: 0.into(),
        write_time: 0.into(),
        busy_time: (t * SECOND * 99 / 100).into(),
        weighted_time: time.into(),
        ..Disk::new(disk.into())
    });
}

#[test]
fn what_is_found_on_a_host_explains_what_is_found_in_its_guests() {
    let host = window(|t, s| {
        with_busy_disk(t, s, "sdb", 100, 60);
        s.guest.guest.push(Guest { name: "db".into(), ..Guest::new(key(9)) });
        let disk = GuestDevice { task: key(9), name: "disk0".into() };
        let long = "0123456789-DB-DATA-AND-MORE";
        s.guest.guest_disk.push(GuestDisk { host_device: "sdb".into(), serial: long.into(), ..GuestDisk::new(disk) });
    });
    let guest = |serial: &str| {
        window(|t, s| {
            with_busy_disk(t, s, "vda", 60, 70);
            s.block.queue.push(Queue { serial: serial.into(), ..Queue::new("vda".into()) });
        })
    };
    let merged = |guest: &Window| {
        let captures = [("guest.tar".to_owned(), guest), ("host.tar".to_owned(), &host)];
        let parts = captures.iter().map(|(name, window)| (name.clone(), diagnose(window, Origin::Import, &RULES)));
        merge_diagnoses(parts.collect(), virtual_machines(&captures), &RULES).unwrap()
    };
    // virtio passes on the first 20 characters.
    let d = merged(&guest("0123456789-DB-DATA-A"));
    let [disk] = &d.virtual_disks[..] else { panic!("{:?}", d.virtual_disks) };
    assert_eq!(
        (disk.guest.as_str(), disk.name.as_str(), disk.known_by.as_str()),
        ("db", "disk0", "serial number 0123456789-DB-DATA-A")
    );
    assert_eq!((disk.disk.name.as_str(), disk.device.name.as_str()), ("vda", "sdb"));
    assert_eq!((disk.requests, disk.device_requests), (Some(60.0), Some(100.0)));
    assert_eq!((disk.wait, disk.device_wait), (Some(0.07), Some(0.06)));
    let first = &d.findings[0];
    assert_eq!(
        (first.subject.name.as_str(), first.subject.capture.as_deref()),
        ("sdb", Some("host.tar")),
        "{:#?}",
        d.findings
    );
    let in_guest = d.findings.iter().find(|finding| finding.subject.name == "vda").unwrap();
    assert_eq!(in_guest.explained_by.as_ref(), Some(&first.key()));
    assert!(first.explains.contains(&in_guest.key()));
    let d = merged(&guest("ANOTHER"));
    assert_eq!(d.virtual_disks, []);
    assert!(
        d.findings
            .iter()
            .filter(|finding| finding.subject.kind == "device")
            .all(|finding| finding.explained_by.is_none())
    );
}

#[test]
fn a_limit_on_the_host_is_judged_by_what_the_guest_counted() {
    // Printed once, as by virsh blkdeviotune.
    let host = Window::new(vec![{
        let mut s = Snapshot { boot_ns: 1, ..Snapshot::default() };
        s.kernel.machine.push(MachineInfo { name: "kvm1".into(), ..MachineInfo::default() });
        s.guest.guest.push(Guest { name: "db".into(), ..Guest::new(key(9)) });
        let disk = GuestDevice { task: key(9), name: "vda".into() };
        s.guest.guest_disk.push(GuestDisk { limit_operations: 100u64.into(), ..GuestDisk::new(disk) });
        s
    }]);
    let found_at = |reads: u64, name: &str| {
        let guest = window(|t, s| {
            with_busy_disk(t, s, "vda", reads, 60);
            s.kernel.machine.push(MachineInfo { name: name.into(), ..MachineInfo::default() });
        });
        let captures = [("guest.txt".to_owned(), &guest), ("host.txt".to_owned(), &host)];
        let parts = captures.iter().map(|(name, window)| (name.clone(), diagnose(window, Origin::Import, &RULES)));
        let d = merge_diagnoses(parts.collect(), virtual_machines(&captures), &RULES).unwrap();
        let limit = found(&d, "disk.throttled").map(Finding::key);
        assert!(limit.is_none() || d.findings[0].id == "disk.throttled", "{:#?}", d.findings);
        limit
    };
    assert_eq!(found_at(99, "db").as_deref(), Some("disk.throttled@db[9] in host.txt"));
    assert_eq!(found_at(40, "db"), None, "it is not reached");
    assert_eq!(found_at(99, "web"), None, "another guest");
}

/// Returns a guest called `name` that loses a third of its time to steal.
fn robbed(name: &str) -> Window {
    window(|t, s| {
        let time = |percent: u64| (t * SECOND * percent / 100).into();
        s.processor.cpu.push(Cpu { user: time(60), idle: time(5), steal: time(35), ..Cpu::new(0) });
        s.kernel.machine.push(MachineInfo { name: name.into(), ..MachineInfo::default() });
        pressure(t, s, 99, 0, 0);
    })
}

/// Returns the host of the guests `db` and `web`, called `kvm1`: its CPUs are full, and a quota throttles `web`.
fn robbing() -> Window {
    window(|t, s| {
        two_cpus(t, s, 99, 1);
        pressure(t, s, 98, 0, 0);
        s.kernel.machine.push(MachineInfo { name: "kvm1".into(), ..MachineInfo::default() });
        for (pid, name) in [(9, "db"), (10, "web")] {
            let busy = (t * 970 * MS).into();
            let row =
                ProcessRow { command: "qemu-kvm".into(), user: busy, system: 0.into(), ..ProcessRow::new(key(pid)) };
            s.task.process.push(ProcessRow { run_delay: (t * 700 * MS).into(), ..row }.into());
            s.guest.guest.push(Guest { name: name.into(), ..Guest::new(key(pid)) });
        }
        s.cgroup.group.push(Group {
            version: "v2".into(),
            quota: 100_000_000.into(),
            period: 100_000_000.into(),
            periods: (t * 10).into(),
            throttled_periods: (t * 9).into(),
            throttled_time: (t * 800 * MS).into(),
            cpu_usage: (t * SECOND).into(),
            ..Group::new("/machine.slice/machine-qemu\\x2d2\\x2dweb.scope".into())
        });
    })
}

#[test]
fn what_keeps_a_guest_waiting_on_its_host_explains_its_steal() {
    let host = robbing();
    let cause_for = |name: &str| {
        let guest = robbed(name);
        let captures = [("guest.txt".to_owned(), &guest), ("host.txt".to_owned(), &host)];
        let parts = captures.iter().map(|(name, window)| (name.clone(), diagnose(window, Origin::Import, &RULES)));
        let d = merge_diagnoses(parts.collect(), virtual_machines(&captures), &RULES).unwrap();
        let steal = found(&d, "cpu.steal").expect("steal");
        assert_eq!(steal.subject.capture.as_deref(), Some("guest.txt"));
        steal.explained_by.clone().map(|key| key.split('@').next().unwrap_or_default().to_owned())
    };
    assert_eq!(cause_for("db.example.net").as_deref(), Some("cpu.saturated"));
    assert_eq!(cause_for("web").as_deref(), Some("cpu.throttled"), "its quota is nearer than how busy the host is");
    assert_eq!(cause_for("elsewhere"), None, "a guest of another host");
}

/// Diagnoses a guest with 8 GiB that swaps. `balloon` is the size of its balloon, in MiB.
fn squeezed(balloon: u64) -> Diagnosis {
    const MIB: u64 = 1 << 20;
    machine(|t, s| {
        two_cpus(t, s, 20, 5);
        pressure(t, s, 0, 40, 30);
        s.memory.meminfo.push(Meminfo {
            mem_total: ((8192 * MIB) as f64).into(),
            mem_available: ((300 * MIB) as f64).into(),
            ..Meminfo::new(MachineKey)
        });
        s.memory.vmstat.push(Vmstat {
            balloon_inflate: (balloon * MIB / 4096).into(),
            balloon_deflate: 0.into(),
            pswpin: (t * 2000).into(),
            pswpout: (t * 2000).into(),
            ..Vmstat::new(MachineKey)
        });
    })
}

#[test]
fn memory_that_the_hypervisor_took_back_is_missed() {
    let d = squeezed(4096);
    assert_eq!(d.findings[0].id, "virt.balloon", "{:#?}", d.findings);
    assert_eq!(found(&d, "mem.thrashing").expect("it swaps").explained_by, Some(d.findings[0].key()));
    let d = squeezed(64);
    assert_eq!((d.findings[0].id.as_str(), found(&d, "virt.balloon")), ("mem.thrashing", None));
}

#[test]
fn an_emulated_disk_is_the_limit_of_its_guest() {
    let with = |model: &str, driver: &str| {
        machine(|t, s| {
            two_cpus(t, s, 2, 5);
            pressure(t, s, 0, 0, 90);
            s.block.disk.push(disk(t, "sda", 900, 4096, 4.0));
            s.block.queue.push(Queue { model: model.into(), driver: driver.into(), ..Queue::new("sda".into()) });
        })
    };
    let d = with("QEMU HARDDISK", "ata_piix");
    assert_eq!(first(&d), ("virt.emulated_device", "sda"));
    assert_eq!(found(&with("QEMU HARDDISK", "virtio_scsi"), "virt.emulated_device"), None);
    assert_eq!(found(&with("WDC WD40EFRX", "ahci"), "virt.emulated_device"), None);
}

/// Diagnoses a guest of two CPUs whose card has this many queue pairs, each with a thread; the first is busy for this percentage
/// of the time. `is_of_kernel`: as before 6.4, they are kernel threads.
fn sending(queues: u64, busy: u64, is_of_kernel: bool) -> Diagnosis {
    machine(|t, s| {
        s.processor.cpu.extend([cpu(t, 0, 10, 1), cpu(t, 1, 2, busy), cpu(t, 2, 5, 1), cpu(t, 3, 5, 1)]);
        pressure(t, s, 0, 0, 0);
        let process = key(9);
        let time = |percent: u64| (t * SECOND * percent / 100).into();
        let row = ProcessRow {
            command: "qemu-kvm".into(),
            threads: 4.into(),
            user: time(40),
            system: 0.into(),
            ..ProcessRow::new(process)
        };
        s.task.process.push(row.into());
        for queue in 0..queues as u32 {
            let busy = if queue == 0 { busy } else { 1 };
            let row = ProcessRow {
                command: "vhost-9".into(),
                user: 0.into(),
                system: time(busy),
                kernel_thread: 1.into(),
                ..ProcessRow::new(key(20 + queue))
            };
            let thread = Thread {
                command: "vhost-9".into(),
                user: 0.into(),
                system: time(busy),
                ..Thread::new(TaskKey { tid: 20 + queue, ..process })
            };
            if is_of_kernel {
                s.task.process.push(row.into());
            } else {
                s.task.thread.push(thread);
            }
        }
        s.guest.guest.push(Guest {
            name: "web1".into(),
            accelerator: "kvm".into(),
            cpus: 2.into(),
            ..Guest::new(process)
        });
        let card = GuestDevice { task: process, name: "net0".into() };
        s.guest.guest_nic.push(GuestNic {
            model: "virtio-net-pci".into(),
            vhost: 1.into(),
            queues: queues.into(),
            ..GuestNic::new(card)
        });
    })
}

#[test]
fn one_thread_for_all_packets_of_a_guest_is_found_on_its_host() {
    for is_of_kernel in [true, false] {
        let d = sending(1, 96, is_of_kernel);
        assert_eq!(
            (d.findings[0].id.as_str(), d.findings[0].subject.name.as_str()),
            ("virt.single_queue", "web1"),
            "{:#?}",
            d.findings
        );
        assert!(d.findings[0].actions[0].text.contains("queues='2'"), "{:?}", d.findings[0].actions);
        assert_eq!(of_guests(&sending(2, 96, is_of_kernel)), [""; 0], "it has as many as it can use");
        assert_eq!(of_guests(&sending(1, 40, is_of_kernel)), [""; 0], "the thread has time to spare");
    }
}

/// Diagnoses a host of 8 GiB that swaps, with guests of these sizes in GiB.
fn overcommitted(guests: &[u64], waits: u64) -> Diagnosis {
    machine(|t, s| {
        two_cpus(t, s, 20, 5);
        pressure(t, s, 0, waits, waits / 2);
        s.memory.meminfo.push(Meminfo {
            mem_total: ((8u64 << 30) as f64).into(),
            mem_available: ((300u64 << 20) as f64).into(),
            ..Meminfo::new(MachineKey)
        });
        let swapped = if waits > 0 { t * 2000 } else { 0 };
        s.memory.vmstat.push(Vmstat { pswpin: swapped.into(), pswpout: swapped.into(), ..Vmstat::new(MachineKey) });
        for (pid, gib) in (9..).zip(guests) {
            let row = ProcessRow { command: "qemu-kvm".into(), rss: (gib << 29).into(), ..ProcessRow::new(key(pid)) };
            s.task.process.push(row.into());
            s.guest.guest.push(Guest {
                name: format!("g{pid}").as_str().into(),
                memory: (gib << 30).into(),
                ..Guest::new(key(pid))
            });
        }
    })
}

#[test]
fn guests_with_more_memory_than_there_is_are_found_where_they_use_it() {
    let d = overcommitted(&[4, 6], 40);
    assert_eq!(d.findings[0].id, "virt.memory_overcommit", "{:#?}", d.findings);
    assert_eq!(d.findings[0].culprits[0].name, "guest g10");
    assert_eq!(found(&d, "mem.thrashing").expect("it swaps").explained_by, Some(d.findings[0].key()));
    assert_eq!(overcommitted(&[2, 3], 40).findings[0].id, "mem.thrashing");
    assert_eq!(found(&overcommitted(&[4, 6], 0), "virt.memory_overcommit"), None, "they do not use it");
}

/// Diagnoses a guest of 16 GiB whose balloon leaves it half of that, with this many MiB usable, that reads this many MiB per
/// second from its swap space.
fn ballooned(usable: u64, swapped: u64) -> Diagnosis {
    machine(|t, s| {
        pressure(t, s, 0, 0, 0);
        let (guest, balloon) = (key(9), 8 << 30);
        s.guest.guest.push(Guest {
            name: "crm".into(),
            memory: (16u64 << 30).into(),
            memory_now: balloon.into(),
            ..Guest::new(guest)
        });
        s.guest.guest_memory.push(GuestMemory {
            usable: (usable << 20).into(),
            swapped_in: ((t * swapped) << 20).into(),
            ..GuestMemory::new(guest)
        });
    })
}

#[test]
fn a_balloon_is_too_large_if_the_guest_swaps_behind_it() {
    let d = ballooned(200, 6);
    assert_eq!(
        (found(&d, "virt.balloon").map(|f| f.confidence), &*d.findings[0].subject.name),
        (Some(Confidence::High), "crm")
    );
    assert_eq!(found(&ballooned(200, 0), "virt.balloon"), None, "what it has is enough");
    assert_eq!(found(&ballooned(4000, 6), "virt.balloon"), None, "it swaps with half of its memory to spare");
}

#[test]
fn a_guest_that_virsh_and_the_list_of_processes_show_is_counted_once() {
    let d = machine(|t, s| {
        pressure(t, s, 0, 40, 0);
        s.memory.meminfo.push(Meminfo {
            mem_total: (10u64 << 30).into(),
            mem_available: (1u64 << 29).into(),
            ..Meminfo::default()
        });
        let named = |pid: u32| Guest { name: "crm".into(), memory: (6u64 << 30).into(), ..Guest::new(key(pid)) };
        s.guest.guest.extend([named(9), named(1 << 30)]);
        let row = ProcessRow { command: "qemu-kvm".into(), rss: (6u64 << 30).into(), ..ProcessRow::new(key(9)) };
        s.task.process.push(Process::from(row));
    });
    assert_eq!(found(&d, "virt.memory_overcommit"), None, "6 GiB of 10, not 12");
}
