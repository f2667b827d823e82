//! Trials with QEMU virtual machines whose CPUs are emulated, because the lab may itself run in a virtual machine
//! without KVM.

use crate::disk::{DiskSpec, SimulatedDisk};
use crate::error::{Context, Error, Result};
use crate::expect::EntityPattern::{Host, Named};
use crate::expect::Expect;
use crate::program::{ProgramCommand, home};
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Duration;

/// Boot code `jmp $`: computes forever, without a kernel.
const SPIN: &[u8] = &[0xeb, 0xfe];
/// Boot code that reads the first sector of the first IDE disk again and again, and halts its CPU until the disk's
/// interrupt (14) arrives.
#[rustfmt::skip]
const READ: &[u8] = &[
    // cli; ds, es and ss = 0; sp = 0x7c00
    0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, 0x8e, 0xd0, 0xbc, 0x00, 0x7c,
    // Interrupt 0x76 = 0:7c60, the handler below
    0xc7, 0x06, 0xd8, 0x01, 0x60, 0x7c, 0xa3, 0xda, 0x01,
    // Both interrupt controllers let it through, and the disk raises it
    0xe4, 0xa1, 0x24, 0xbf, 0xe6, 0xa1, 0xe4, 0x21, 0x24, 0xfb, 0xe6, 0x21, 0xba, 0xf6, 0x03, 0x30, 0xc0, 0xee,
    // again: [0x7b00] = 0; LBA, one sector, number 0; the command 0x20, READ SECTORS
    0xc6, 0x06, 0x00, 0x7b, 0x00, 0xba, 0xf6, 0x01, 0xb0, 0xe0, 0xee, 0xba, 0xf2, 0x01, 0xb0, 0x01, 0xee,
    0x30, 0xc0, 0x42, 0xee, 0x42, 0xee, 0x42, 0xee, 0xba, 0xf7, 0x01, 0xb0, 0x20, 0xee,
    // wait: cli; until [0x7b00] is set: sti; hlt; jmp wait
    0xfa, 0x80, 0x3e, 0x00, 0x7b, 0x00, 0x75, 0x04, 0xfb, 0xf4, 0xeb, 0xf4,
    // 256 words from the disk to 0:8000; jmp again
    0xba, 0xf0, 0x01, 0xb9, 0x00, 0x01, 0xbf, 0x00, 0x80, 0xfc, 0xf3, 0x6d, 0xeb, 0xc7,
    // The handler: reads the status, sets [0x7b00], and ends the interrupt at both controllers
    0x50, 0x52, 0xba, 0xf7, 0x01, 0xec, 0xc6, 0x06, 0x00, 0x7b, 0x01, 0xb0, 0x20, 0xe6, 0xa0, 0xe6, 0x20, 0x5a, 0x58, 0xcf,
];
/// Boot code that writes the second sector in the same way (0x30, WRITE SECTORS): the disk requests the words (DRQ),
/// and interrupts when it has written them.
#[rustfmt::skip]
const WRITE: &[u8] = &[
    0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, 0x8e, 0xd0, 0xbc, 0x00, 0x7c,
    // Interrupt 0x76 = 0:7c65, the handler below
    0xc7, 0x06, 0xd8, 0x01, 0x65, 0x7c, 0xa3, 0xda, 0x01,
    0xe4, 0xa1, 0x24, 0xbf, 0xe6, 0xa1, 0xe4, 0x21, 0x24, 0xfb, 0xe6, 0x21, 0xba, 0xf6, 0x03, 0x30, 0xc0, 0xee,
    // again: [0x7b00] = 0; LBA, one sector, number 1; the command
    0xc6, 0x06, 0x00, 0x7b, 0x00, 0xba, 0xf6, 0x01, 0xb0, 0xe0, 0xee, 0xba, 0xf2, 0x01, 0xb0, 0x01, 0xee,
    0x42, 0xee, 0x30, 0xc0, 0x42, 0xee, 0x42, 0xee, 0xba, 0xf7, 0x01, 0xb0, 0x30, 0xee,
    // Until DRQ: read the status; 256 words from 0:8000
    0xec, 0xa8, 0x08, 0x74, 0xfb, 0xba, 0xf0, 0x01, 0xb9, 0x00, 0x01, 0xbe, 0x00, 0x80, 0xfc, 0xf3, 0x6f,
    // wait: cli; until [0x7b00] is set: sti; hlt; jmp wait; jmp again
    0xfa, 0x80, 0x3e, 0x00, 0x7b, 0x00, 0x75, 0x04, 0xfb, 0xf4, 0xeb, 0xf4, 0xeb, 0xc2,
    0x50, 0x52, 0xba, 0xf7, 0x01, 0xec, 0xc6, 0x06, 0x00, 0x7b, 0x01, 0xb0, 0x20, 0xe6, 0xa0, 0xe6, 0x20, 0x5a, 0x58, 0xcf,
];
/// Boot code `cli; hlt; jmp $-1`: halts its CPU.
const HALT: &[u8] = &[0xfa, 0xf4, 0xeb, 0xfd];
const BOOT_SECTOR: usize = 512;
const IMAGE: usize = 1 << 20;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "qemu-emulated",
        what: "a guest of the host's architecture computes on an emulated CPU",
        finding: Some("virt.emulated_cpus"),
        never: &["cpu.saturated", "cpu.throttled", "virt.main_loop", "virt.cpu_pinning"],
        setup: |bed| {
            let home = home(bed)?;
            let name = format!("lab-{}", bed.range(1..=999));
            start(bed, &home, &name, SPIN, &Given::default())?;
            Ok(Expect::subject([Named("guest", name.clone())]).culprit([Named("process", format!("guest {name}"))]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "qemu-overcommit",
        what: "guests have more virtual CPUs with work than there are CPUs",
        finding: Some("cpu.saturated"),
        never: &["cpu.single_thread", "cpu.throttled", "virt.cpu_pinning", "virt.main_loop"],
        setup: |bed| {
            let home = home(bed)?;
            let guests = 2 * available_parallelism()?.get() + bed.range(1..=2);
            let names: Vec<String> = (0..guests).map(|number| format!("lab-{number}")).collect();
            for name in &names {
                start(bed, &home, name, SPIN, &Given::default())?;
            }
            let culprits: Vec<_> = names.iter().map(|name| Named("process", format!("guest {name}"))).collect();
            Ok(Expect::subject([Host]).culprit(culprits))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "qemu-pinned",
        what: "two guests that compute are bound to the same CPU, and another is idle",
        finding: Some("virt.cpu_pinning"),
        never: &["cpu.saturated", "cpu.throttled", "virt.main_loop"],
        setup: |bed| {
            if available_parallelism()?.get() < 2 {
                return Err(Error::Missing("a second CPU".into()));
            }
            let home = home(bed)?;
            let names = ["lab-a", "lab-b"];
            for name in names {
                start(bed, &home, name, SPIN, &Given { before: &["taskset", "-c", "0"], ..Given::default() })?;
            }
            Ok(Expect::subject(names.map(|name| Named("guest", name.into()))))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "qemu-idle",
        what: "an emulated guest has nothing to do",
        setup: |bed| {
            let home = home(bed)?;
            start(bed, &home, "lab-idle", HALT, &Given::default())?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "qemu-disk-limit",
        what: "a guest reads as fast as QEMU lets it, far below what the disk can do; others may talk to its monitor",
        finding: Some("disk.throttled"),
        never: &["disk.saturated", "disk.slow_device", "cpu.saturated", "virt.main_loop"],
        setup: |bed| {
            let home = home(bed)?;
            let name = format!("lab-{}", bed.range(1..=999));
            let limit = format!(",throttling.iops-{}={}", ["total", "read"][bed.range(0..=1)], bed.range(30..=300));
            start(bed, &home, &name, READ, &Given { drive: &limit, has_monitor: true, ..Given::default() })?;
            Ok(Expect::subject([Named("guest", name.clone())]).culprit([Named("process", format!("guest {name}"))]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "qemu-flushed",
        what: "a guest writes to a disk whose cache mode has QEMU flush each write, on one that is slow to flush",
        finding: Some("disk.flush_bound"),
        never: &["disk.throttled", "disk.saturated", "cpu.saturated", "virt.main_loop"],
        setup: |bed| {
            let spec = DiskSpec {
                flush: Duration::from_millis(bed.range(5..=20)),
                ..DiskSpec::new(Duration::from_micros(300), 16)
            };
            let mut disk = SimulatedDisk::new(bed, 256 << 20, spec)?;
            let home = disk.device.ext4(bed, "images", &[])?;
            fs::set_permissions(&home, Permissions::from_mode(0o777)).context(home.display())?;
            disk.enable_delays()?;
            let name = format!("lab-{}", bed.range(1..=999));
            let cache = [",cache=writethrough", ",cache=directsync"][bed.range(0..=1)];
            start(bed, &home, &name, WRITE, &Given { drive: cache, ..Given::default() })?;
            Ok(Expect::subject([Named("guest", name.clone())]).culprit([Named("process", format!("guest {name}"))]))
        },
        ..Trial::IDLE
    },
];

/// Configuration of a guest, other than its boot sector.
#[derive(Default)]
struct Given<'a> {
    /// Program that starts it, with arguments.
    before: &'a [&'a str],
    /// Further options of its disk.
    drive: &'a str,
    /// Whether it has a monitor that others may connect to.
    has_monitor: bool,
}

/// Starts a guest with this code as its boot sector.
fn start(bed: &mut Testbed, home: &Path, name: &str, code: &[u8], given: &Given<'_>) -> Result<u32> {
    let mut sector = code.to_vec();
    sector.resize(BOOT_SECTOR - 2, 0);
    sector.extend([0x55, 0xaa]);
    sector.resize(IMAGE, 0);
    let image = home.join(format!("{name}.img"));
    fs::write(&image, sector).context(image.display())?;
    // QEMU runs as another user.
    fs::set_permissions(&image, Permissions::from_mode(0o666)).context(image.display())?;
    let drive = format!("file={},format=raw,if=ide,readonly=off{}", image.display(), given.drive);
    let guest = format!("guest={name},debug-threads=on");
    let monitor = format!("unix:{},server=on,wait=off", home.join(format!("{name}.sock")).display());
    let mut words = given.before.to_vec();
    words.extend([
        "qemu-system-x86_64",
        "-name",
        &guest,
        "-accel",
        "tcg",
        "-m",
        "32",
        "-nodefaults",
        "-display",
        "none",
        "-drive",
        &drive,
    ]);
    if given.has_monitor {
        words.extend(["-qmp", &monitor]);
    }
    ProgramCommand::new(home, words[0], "qemu-system-x86")?.args(&words[1..]).start(bed)
}
