//! Trials with failing SCSI disks (scsi_debug: drivers/scsi/scsi_debug.c).

use super::{device, reader};
use crate::error::{Error, Result};
use crate::expect::EntityPattern::Named;
use crate::expect::Expect;
use crate::testbed::Testbed;
use crate::trial::Trial;
use crate::vm::{VmSpec, background, modules, shell};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "scsi.medium_error",
        what: "a disk cannot read some sectors, which a program reads again and again",
        finding: Some("disk.errors"),
        never: &["disk.saturated", "disk.hung", "disk.path_degraded", "fs.errors"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let start = bed.range(4_000..=60_000);
            let disk = scsi_disk(&format!("opts=2 medium_error_start={start} medium_error_count=10"))?;
            let read = format!(
                "while :; do dd if=/dev/{} of=/dev/null bs=4k skip={} count=4 iflag=direct; sleep 0.2; done",
                disk.name,
                start / 8
            );
            background(bed, &read)?;
            Ok(disk.expect())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "scsi.timeouts",
        what: "every few commands one is not answered, is aborted after a second, and sent again",
        finding: Some("disk.errors"),
        never: &["disk.saturated", "disk.path_degraded", "fs.errors"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = scsi_disk("")?;
            disk.set("timeout", "1")?;
            disk.set("eh_timeout", "1")?;
            driver(&format!("every_nth={} opts=0x4", bed.range(40..=80)))?;
            reader(&disk.name, 4096).with("rate", 40 * 4096).start(bed)?;
            Ok(disk.expect())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "scsi.offline",
        what: "a disk answers no command at all: aborts and resets change nothing, and the kernel takes it offline",
        finding: Some("disk.errors"),
        never: &["disk.saturated", "disk.path_degraded", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = scsi_disk("")?;
            disk.set("timeout", "1")?;
            disk.set("eh_timeout", "1")?;
            driver("every_nth=-1 opts=0x4")?;
            let read = format!(
                "while :; do dd if=/dev/{} of=/dev/null bs=4k count=1 iflag=direct; sleep 0.2; done",
                disk.name
            );
            background(bed, &read)?;
            // The disk hangs until it is offline.
            shell(&format!(
                "for i in $(seq 120); do grep -q offline /sys/block/{}/device/state && exit 0; sleep 0.5; done; exit 1",
                disk.name
            ))?;
            Ok(disk.expect())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "scsi.transport_error",
        what: "some commands of a disk end with a transport error, and are sent again",
        finding: Some("disk.errors"),
        never: &["disk.saturated", "disk.hung", "fs.errors"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = scsi_disk("")?;
            driver(&format!("every_nth={} opts=0x10", bed.range(20..=40)))?;
            let read = format!("while :; do dd if=/dev/{} of=/dev/null bs=4k count=200 iflag=direct; done", disk.name);
            background(bed, &read)?;
            Ok(disk.expect())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "scsi.misaligned",
        what: "a partition starts in the middle of a block of 4 KiB, and a program writes whole blocks to it",
        finding: Some("disk.misaligned"),
        never: &["disk.errors", "disk.hung", "fs.errors"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let part = write_to_partition(bed, 63)?;
            Ok(Expect::subject([device(&part), Named("partition", part)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "scsi.recovering",
        what: "a disk answers no command, and the kernel's error handler is still at aborts and resets",
        finding: Some("disk.hung"),
        never: &["disk.saturated", "disk.path_degraded", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = scsi_disk("")?;
            disk.set("timeout", "2")?;
            disk.set("eh_timeout", "30")?;
            driver("every_nth=-1 opts=0x4")?;
            let read = format!(
                "while :; do dd if=/dev/{} of=/dev/null bs=4k count=1 iflag=direct; sleep 0.2; done",
                disk.name
            );
            background(bed, &read)?;
            shell(
                "for i in $(seq 60); do grep -qs recovery /sys/class/scsi_host/host*/state && exit 0; sleep 0.5; done; exit 1",
            )?;
            Ok(disk.expect())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "scsi-aligned",
        what: "a partition starts at a block of 4 KiB, and a program writes whole blocks to it",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            write_to_partition(bed, 64)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "scsi-paced",
        what: "a program reads a tenth of what a SCSI disk could deliver",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = scsi_disk("ndelay=500000")?;
            reader(&disk.name, 16 << 10).with("rate", 100 * (16 << 10)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "scsi-unsupported",
        what: "programs ask a disk for what it does not have, and are refused",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = scsi_disk("lbpu=0 lbpws=0")?;
            let ask =
                format!("while :; do sg_vpd -p 0xc9 /dev/{0}; sg_logs -p 0x33 /dev/{0}; sleep 0.5; done", disk.name);
            background(bed, &ask)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Starts a program that writes blocks of 4 KiB to a partition that starts at this sector of 512 bytes, on a disk with
/// physical blocks of 4 KiB. Returns the partition's name.
fn write_to_partition(bed: &mut Testbed, start: u32) -> Result<String> {
    let disk = scsi_disk("physblk_exp=3 ndelay=2000000")?;
    let part = format!("{}1", disk.name);
    shell(&format!("addpart /dev/{} 1 {start} 120000", disk.name))?;
    // udev probes a disk again whenever a program that could write to it closes it.
    let write = format!(
        "while exec 3>/dev/{part}; do for _ in $(seq 100); do dd if=/dev/zero bs=4k count=50 oflag=direct >&3; sleep 0.5; done; done"
    );
    background(bed, &write)?;
    Ok(part)
}

/// A scsi_debug disk.
pub struct ScsiDisk {
    /// Device name, such as `sda`.
    pub name: String,
    /// SCSI address, such as `0:0:0:0`.
    pub address: String,
}

impl ScsiDisk {
    /// Sets an attribute of the SCSI device.
    pub fn set(&self, attribute: &str, value: &str) -> Result<()> {
        shell(&format!("echo {value} >/sys/block/{}/device/{attribute}", self.name)).map(drop)
    }

    /// Expects the finding to be about this disk.
    fn expect(&self) -> Expect {
        let part = |kind: &'static str| Named(kind, self.address.clone());
        Expect::subject([device(&self.name), part("device"), part("disk"), part("part"), part("target"), part("drive")])
    }
}

/// Sets parameters of the running driver, such as `every_nth=20 opts=0x4`.
fn driver(parameters: &str) -> Result<()> {
    for (name, value) in parameters.split(' ').filter_map(|parameter| parameter.split_once('=')) {
        shell(&format!("echo {value} >/sys/bus/pseudo/drivers/scsi_debug/{name}"))?;
    }
    Ok(())
}

/// Returns the disks that the driver sets up with these parameters.
pub fn scsi_disks(parameters: &str) -> Result<Vec<ScsiDisk>> {
    modules(&["sd_mod", &format!("scsi_debug dev_size_mb=64 {parameters}")])?;
    // They are probed in the background.
    let list = shell("for i in $(seq 50); do lsscsi | grep -q /dev/sd && break; sleep 0.1; done; sleep 1; lsscsi")?;
    let disk = |line: &str| {
        let address = line.strip_prefix('[')?.split(']').next()?;
        let name = line.split_whitespace().last()?.strip_prefix("/dev/")?;
        Some(ScsiDisk { name: name.to_owned(), address: address.to_owned() })
    };
    Ok(list.lines().filter_map(disk).collect())
}

fn scsi_disk(parameters: &str) -> Result<ScsiDisk> {
    let missing = || Error::failed("scsi_debug made no disk");
    scsi_disks(parameters)?.into_iter().next().ok_or_else(missing)
}
