//! Trials with multipath, LVM, and delays of the device mapper.

use super::scsi::scsi_disks;
use super::{device, null_disks, reader};
use crate::error::Result;
use crate::expect::EntityPattern::{self, Named, Process};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;
use crate::trial::Trial;
use crate::vm::{VmSpec, background, modules, shell};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "multipath.failed",
        what: "one of two paths to a disk is gone, and its reader goes on by the other",
        finding: Some("disk.path_degraded"),
        never: &["disk.saturated", "disk.hung", "disk.slow_device", "task.blocked"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let path = multipath_with_reader(bed)?;
            shell(&format!("echo offline >/sys/block/{path}/device/state"))?;
            Ok(Expect::subject(["dm-0", "mp", "/dev/mapper/mp"].map(device)))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "multipath.flapping",
        what: "one of two paths to a disk goes and comes back every two seconds",
        finding: Some("disk.path_degraded"),
        never: &["disk.saturated", "disk.hung", "disk.slow_device", "task.blocked"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let path = multipath_with_reader(bed)?;
            let flap = format!(
                "while :; do echo offline >/sys/block/{path}/device/state; sleep 1
                echo running >/sys/block/{path}/device/state
                dmsetup message mp 0 reinstate_path $(cat /sys/block/{path}/dev); sleep 1; done"
            );
            background(bed, &flap)?;
            Ok(Expect::subject(["dm-0", "mp", "/dev/mapper/mp"].map(device)))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "multipath.slow_path",
        what: "one of two paths to a disk takes three hundred times as long as the other",
        finding: Some("disk.slow_device"),
        never: &["disk.saturated", "disk.hung", "disk.path_degraded"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(64, &[1_000, 300_000])?;
            multipath_over(&["nullb0", "nullb1"])?;
            reader("dm-0", 16 << 10).with("jobs", 4).start(bed)?;
            Ok(Expect::subject(["nullb1", "dm-0"].map(device)))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "multipath-paced",
        what: "two paths to a disk share what a program reads",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            multipath_with_reader(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "dm.slow_leg",
        what: "a volume delays each request, while its disk is fast",
        finding: Some("disk.slow_device"),
        never: &["disk.saturated", "disk.hung", "disk.errors"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[0])?;
            modules(&["dm_delay"])?;
            let delay = bed.range(150..=400);
            table("slow", &format!("delay /dev/nullb0 0 {delay}"), "nullb0")?;
            let read = reader("dm-0", 4096).start(bed)?;
            Ok(Expect::subject([device("dm-0"), device("slow")]).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "crypt.slow_disk",
        what: "the disk below an encrypted volume is slow",
        finding: Some("disk.slow_device"),
        never: &["disk.saturated", "disk.hung", "disk.errors", "cpu.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(128, &[bed.range(150..=300) * 1000])?;
            encrypted()?;
            let read = reader("dm-0", 16 << 10).start(bed)?;
            Ok(Expect::subject(["nullb0", "dm-0", "secret"].map(device)).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "crypt-paced",
        what: "a program reads at a moderate rate from an encrypted volume",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(128, &[500])?;
            encrypted()?;
            reader("dm-0", 16 << 10).with("rate", 30 * (16 << 10)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "dm.suspended",
        what: "a volume is suspended, and its reader waits",
        finding: Some("disk.suspended"),
        never: &["disk.hung", "disk.saturated", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[0])?;
            table("vol", "linear /dev/nullb0 0", "nullb0")?;
            reader("dm-0", 4096).with("rate", 100 * 4096).start(bed)?;
            shell("dmsetup suspend --noflush vol")?;
            // The reader cannot end before the volume is resumed.
            bed.defer(|| drop(shell("dmsetup resume vol")));
            Ok(Expect::subject([Named("volume", "vol".into()), device("dm-0")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "dm-resumed",
        what: "a volume was suspended for two seconds, and is read at a moderate rate again",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[500])?;
            table("vol", "linear /dev/nullb0 0", "nullb0")?;
            reader("dm-0", 4096).with("rate", 100 * 4096).start(bed)?;
            shell("dmsetup suspend --noflush vol; sleep 2; dmsetup resume vol; sleep 1")?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "lvm.thin_full",
        what: "a thin pool is nearly full, and a program goes on writing to its volume until it is",
        finding: Some("fs.full"),
        never: &["disk.errors", "disk.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            thin_pool()?;
            shell("dd if=/dev/zero of=/dev/mapper/vg-thin bs=1M count=120 oflag=direct")?;
            background(
                bed,
                "while :; do dd if=/dev/zero of=/dev/mapper/vg-thin bs=64k seek=2000 count=400 oflag=direct; sleep 1; done",
            )?;
            Ok(Expect::subject(pool()))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "thin-half",
        what: "a thin pool is half full, and a program writes over what its volume has",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            thin_pool()?;
            shell("dd if=/dev/zero of=/dev/mapper/vg-thin bs=1M count=60 oflag=direct")?;
            background(
                bed,
                "while :; do dd if=/dev/zero of=/dev/mapper/vg-thin bs=64k count=20 oflag=direct; sleep 1; done",
            )?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "lvm.snapshot",
        what: "a program flushes each record on a volume that has a snapshot, which first copies each chunk on a slow disk",
        finding: Some("disk.flush_bound"),
        never: &["disk.hung", "disk.errors", "fs.full"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            volume_with_snapshot(5_000)?;
            let append = LoadCommand::new("append").with("path", "/srv/log").with("size", 4096).start(bed)?;
            let [a, b, c, d] = ["nullb0", "dm-0", "dm-1", "dm-2"].map(device);
            Ok(Expect::subject([a, b, c, d, Process(append.pid)]).culprit([Process(append.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "snapshot-paced",
        what: "a program flushes a record every 200 ms on a volume that has a snapshot, on a fast disk",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            volume_with_snapshot(100)?;
            LoadCommand::new("append").with("path", "/srv/log").with("size", 4096).with("every-ms", 200).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "lvm.raid_degraded",
        what: "one of the two disks of a mirrored volume is gone, and a program goes on reading",
        finding: Some("disk.raid_degraded"),
        never: &["disk.hung", "disk.saturated", "disk.slow_device", "fs.full"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            modules(&["dm_raid"])?;
            null_disks(256, &[0, 0])?;
            volumes(&["nullb0", "nullb1"], "lvcreate -q -y -Wn -Zn --type raid1 -m 1 --nosync -n mirror -L 200M vg")?;
            shell(
                "dmsetup message vg-mirror 0 idle || true
                dmsetup wipe_table --force vg-mirror_rimage_1; dd if=/dev/zero of=/dev/vg/mirror bs=64k count=16 oflag=direct || true",
            )?;
            LoadCommand::new("read")
                .with("path", "/dev/vg/mirror")
                .with("size", 16 << 10)
                .flag("direct")
                .with("rate", 50 * (16 << 10))
                .start(bed)?;
            Ok(Expect::subject([Named("array", "vg-mirror".into())]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "lvm.striped_slow_disk",
        what: "one of the two disks of a striped volume takes a hundred times as long as the other",
        finding: Some("disk.slow_device"),
        never: &["disk.saturated", "disk.hung", "disk.errors"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[2_000, 200_000])?;
            striped()?;
            let read = reader("dm-0", 16 << 10).with("jobs", 4).start(bed)?;
            Ok(Expect::subject([device("nullb1")]).culprit([Process(read.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "lvm-striped",
        what: "a program reads at a moderate rate from a volume that is striped over two disks",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[500, 500])?;
            striped()?;
            reader("dm-0", 256 << 10).with("rate", 40 * (256 << 10)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Creates the multipath device `mp`, `dm-0`, over two paths to one scsi_debug disk, from which a program reads at a
/// moderate rate. Returns the name of the second path.
fn multipath_with_reader(bed: &mut Testbed) -> Result<String> {
    let disks = scsi_disks("add_host=2 vpd_use_hostno=0 max_luns=1 ndelay=500000")?;
    let names: Vec<&str> = disks.iter().map(|disk| &*disk.name).collect();
    multipath_over(&names)?;
    reader("dm-0", 16 << 10).with("rate", 200 * (16 << 10)).start(bed)?;
    Ok(names.last().map_or(String::new(), |name| (*name).to_owned()))
}

fn multipath_over(paths: &[&str]) -> Result<()> {
    modules(&["dm_multipath", "dm_round_robin"])?;
    let listed: String = paths.iter().map(|path| format!(" /dev/{path} 1")).collect();
    table("mp", &format!("multipath 0 0 1 1 round-robin 0 {} 1{listed}", paths.len()), paths[0])
}

/// Creates the encrypted volume `secret`, `dm-0`, on `nullb0`.
fn encrypted() -> Result<()> {
    modules(&["dm_crypt"])?;
    // Newer kernels have it built in.
    shell("modprobe -q aes_generic || true")?;
    let key = "0123456789abcdef".repeat(4);
    table("secret", &format!("crypt aes-xts-plain64 {key} 0 /dev/nullb0 0"), "nullb0")
}

/// Creates a device-mapper device that is as large as a disk.
fn table(name: &str, target: &str, disk: &str) -> Result<()> {
    modules(&["dm_mod"])?;
    shell(&format!(
        "dmsetup create {name} --table \"0 $(blockdev --getsz /dev/{disk}) {target}\"; dmsetup mknodes
        [ -b /dev/dm-0 ]"
    ))
    .map(drop)
}

/// Creates the volume group `vg` on these disks, and runs a script that creates volumes in it. LVM must be configured
/// to accept null_blk disks.
fn volumes(disks: &[&str], script: &str) -> Result<()> {
    modules(&["dm_mod", "dm_snapshot", "dm_thin_pool"])?;
    let listed: String = disks.iter().map(|disk| format!(" /dev/{disk}")).collect();
    shell(&format!(
        "echo 'devices/types = [ \"nullb\", 16 ]' >/etc/lvm/lvmlocal.conf
        vgcreate -q -y vg{listed}; {script}; vgmknodes"
    ))
    .map(drop)
}

/// Creates a volume, `dm-0`, that is striped over `nullb0` and `nullb1`.
fn striped() -> Result<()> {
    volumes(&["nullb0", "nullb1"], "lvcreate -q -y -Wn -Zn -i 2 -I 64k -n striped -L 300M vg")
}

/// Creates an ext4 at /srv, on a volume that has a snapshot, on a disk with this latency.
fn volume_with_snapshot(latency_us: u64) -> Result<()> {
    null_disks(600, &[latency_us])?;
    volumes(
        &["nullb0"],
        "lvcreate -q -y -Wn -Zn -n origin -L 300M vg; mkfs.ext4 -q /dev/vg/origin
        lvcreate -q -y -s -n snap -L 200M vg/origin; mkdir -p /srv; mount -t ext4 /dev/vg/origin /srv",
    )
}

/// Creates a thin pool of 128 MiB with a volume of 1 GiB, with the names that LVM uses: lvcreate itself needs udev to
/// zero a volume of a pool.
fn thin_pool() -> Result<()> {
    null_disks(128, &[0, 0])?;
    modules(&["dm_mod", "dm_thin_pool"])?;
    shell(
        "dmsetup create vg-pool-tpool --table '0 262144 thin-pool /dev/nullb1 /dev/nullb0 128 0'; dmsetup mknodes
        dmsetup message vg-pool-tpool 0 'create_thin 0'
        dmsetup create vg-thin --table '0 2097152 thin /dev/mapper/vg-pool-tpool 0'; dmsetup mknodes",
    )
    .map(drop)
}

fn pool() -> Vec<EntityPattern> {
    ["vg-pool", "vg/pool", "vg-pool-tpool"].map(|name| Named("volume", name.into())).into()
}
