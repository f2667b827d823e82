//! Hosts of virtual machines.

use super::*;
use whyslow_model::catalogue::{Guest, GuestCpu, GuestDisk, MachineInfo, Process, ProcessRow, Sharing, Thread};
use whyslow_model::key::GuestDevice;

/// A guest, with percentages of the time in which its virtual CPU ran and waited, and its main loop ran.
struct Described {
    accelerator: &'static str,
    ran: u64,
    waited: u64,
    main_loop: u64,
    /// The CPUs that it may run on.
    cpus: &'static str,
    thp: &'static str,
    io_thread: Option<&'static str>,
}

/// One that computes, and lacks nothing.
const BUSY: Described = Described {
    accelerator: "kvm",
    ran: 80,
    waited: 0,
    main_loop: 2,
    cpus: "0-1",
    thp: "madvise",
    io_thread: Some("io1"),
};

/// A host of two CPUs with KVM; the second CPU is idle.
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
        s.guest.guest_disk.push(GuestDisk {
            model: "virtio-blk-pci".into(),
            io_thread: guest.io_thread.into(),
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
