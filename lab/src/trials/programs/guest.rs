//! Virtual machines of QEMU, whose CPUs are emulated: the lab may be a virtual machine itself, without KVM.

use crate::error::{Context, Error, Result};
use crate::expect::EntityPattern::{Host, Named};
use crate::expect::Expect;
use crate::program::{ProgramCommand, home};
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

/// `jmp $`: computes for ever, without a kernel.
const SPIN: &[u8] = &[0xeb, 0xfe];
/// `cli; hlt; jmp $-1`: stops its CPU.
const HALT: &[u8] = &[0xfa, 0xf4, 0xeb, 0xfd];
const BOOT_SECTOR: usize = 512;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "qemu-emulated",
        what: "a guest of the host's architecture computes on an emulated CPU",
        finding: Some("virt.emulated_cpus"),
        never: &["cpu.saturated", "cpu.throttled", "virt.main_loop", "virt.cpu_pinning"],
        setup: |bed| {
            let home = home(bed)?;
            let name = format!("lab-{}", bed.range(1..=999));
            start(bed, &home, &name, SPIN, &[])?;
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
                start(bed, &home, name, SPIN, &[])?;
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
                start(bed, &home, name, SPIN, &["taskset", "-c", "0"])?;
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
            start(bed, &home, "lab-idle", HALT, &[])?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Starts a guest whose boot sector is this code, by the program `before`, if there is one.
fn start(bed: &mut Testbed, home: &Path, name: &str, code: &[u8], before: &[&str]) -> Result<u32> {
    let mut sector = code.to_vec();
    sector.resize(BOOT_SECTOR - 2, 0);
    sector.extend([0x55, 0xaa]);
    let image = home.join(format!("{name}.img"));
    fs::write(&image, sector).context(image.display())?;
    let drive = format!("file={},format=raw,if=ide,readonly=off,snapshot=on", image.display());
    let guest = format!("guest={name},debug-threads=on");
    let mut words = before.to_vec();
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
    ProgramCommand::new(home, words[0], "qemu-system-x86")?.args(&words[1..]).start(bed)
}
