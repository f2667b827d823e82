//! Trials with disks emulated by QEMU: with an unreadable sector (docs/devel/blkdebug.rst of QEMU), and NVMe with two
//! paths.

use super::{device, reader};
use crate::error::{Error, Result};
use crate::expect::EntityPattern::Named;
use crate::expect::Expect;
use crate::testbed::Testbed;
use crate::trial::Trial;
use crate::vm::{VmSpec, background, modules, shell};

/// A disk of 64 MiB that reads as zeros, except for one sector.
///
/// The raw format on top causes the event that triggers the error.
const DAMAGED: &str = "driver=raw,node-name=damaged,file.driver=blkdebug,file.image.driver=null-co,file.image.size=67108864,\
                       file.image.read-zeroes=on,file.inject-error.0.event=read_aio,file.inject-error.0.errno=5,\
                       file.inject-error.0.sector=1000,file.inject-error.0.once=off";

const SERIAL: &str = "WSLAB";

const VIRTIO: VmSpec = VmSpec {
    qemu: &["-blockdev", DAMAGED, "-device", "virtio-blk-pci,drive=damaged,serial=WSLAB,addr=0x1c"],
    ..VmSpec::PLAIN
};
const NVME: VmSpec =
    VmSpec { qemu: &["-blockdev", DAMAGED, "-device", "nvme,drive=damaged,serial=WSLAB"], ..VmSpec::PLAIN };
const ATA: VmSpec = VmSpec {
    qemu: &["-blockdev", DAMAGED, "-device", "ahci,id=ahci", "-device", "ide-hd,drive=damaged,bus=ahci.0,serial=WSLAB"],
    ..VmSpec::PLAIN
};
/// Two controllers of one subsystem.
const TWO_PATHS: VmSpec = VmSpec {
    qemu: &[
        "-blockdev",
        "driver=null-co,node-name=shared,size=67108864,read-zeroes=on,latency-ns=500000",
        "-device",
        "nvme-subsys,id=subsystem,nqn=wslab",
        "-device",
        "nvme,id=nvme-a,serial=WSLAB,subsys=subsystem",
        "-device",
        "nvme,id=nvme-b,serial=WSLAB,subsys=subsystem",
        "-device",
        "nvme-ns,drive=shared,bus=nvme-a,nsid=1,shared=on",
    ],
    ..VmSpec::PLAIN
};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "virtio.medium_error",
        what: "a virtio disk cannot read a sector, which a program reads again and again",
        vm: Some(&VIRTIO),
        setup: |bed| read_the_damaged_sector(bed, "virtio_blk"),
        ..MEDIUM_ERROR
    },
    Trial {
        name: "nvme.medium_error",
        what: "an NVMe disk cannot read a sector, which a program reads again and again",
        vm: Some(&NVME),
        setup: |bed| read_the_damaged_sector(bed, "nvme"),
        ..MEDIUM_ERROR
    },
    Trial {
        name: "ata.medium_error",
        what: "a SATA disk cannot read a sector, which a program reads again and again",
        vm: Some(&ATA),
        setup: |bed| read_the_damaged_sector(bed, "ahci"),
        ..MEDIUM_ERROR
    },
    Trial {
        name: "nvme-paced",
        what: "a program reads at a moderate rate from an NVMe disk with two paths",
        vm: Some(&TWO_PATHS),
        setup: |bed| {
            modules(&["nvme"])?;
            let name = disk()?;
            reader(&name, 16 << 10).with("rate", 50 * (16 << 10)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

const MEDIUM_ERROR: Trial = Trial {
    finding: Some("disk.errors"),
    never: &["disk.saturated", "disk.hung", "disk.path_degraded", "fs.errors"],
    ..Trial::IDLE
};

fn read_the_damaged_sector(bed: &mut Testbed, driver: &str) -> Result<Expect> {
    modules(&[driver, "sd_mod"])?;
    let name = disk()?;
    // Without this read failing, there is nothing to find.
    shell(&format!("! dd if=/dev/{name} of=/dev/null bs=4k skip=125 count=1 iflag=direct"))?;
    let read =
        format!("while :; do dd if=/dev/{name} of=/dev/null bs=4k skip=125 count=1 iflag=direct; sleep 0.5; done");
    background(bed, &read)?;
    // A disk with an address on a SCSI bus is named by that address.
    let address = shell(&format!("basename $(readlink -f /sys/block/{name}/device)"))?.trim().to_owned();
    let part = |kind: &'static str| Named(kind, address.clone());
    Ok(Expect::subject([device(&name), part("device"), part("drive")]))
}

/// Returns the disk with the lab's serial number.
fn disk() -> Result<String> {
    let found = shell(&format!(
        "for i in $(seq 50); do for d in /sys/block/*; do
            [ -b /dev/${{d##*/}} ] || continue
            cat $d/serial $d/device/serial $d/device/vpd_pg80 2>/dev/null | grep -aq {SERIAL} && basename $d && exit 0
        done; sleep 0.1; done"
    ))?;
    Some(found.trim().to_owned())
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Error::failed("the disk did not appear"))
}
