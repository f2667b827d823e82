//! Trials with remote disks over iSCSI and NVMe/TCP: their targets are the kernel's own (drivers/target/iscsi,
//! drivers/nvme/target), behind a link in a separate network namespace.

use super::{device, null_disks, reader};
use crate::error::{Error, Result};
use crate::expect::EntityPattern::{self, Process};
use crate::expect::Expect;
use crate::testbed::Testbed;
use crate::trial::Trial;
use crate::vm::{VmSpec, modules, shell};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "iscsi.slow",
        what: "each packet from an iSCSI target takes long, and the disk behind it seems slow",
        setup: |bed| {
            let disk = iscsi()?;
            delay(bed, &disk)
        },
        ..SLOW
    },
    Trial {
        name: "iscsi.gone",
        what: "an iSCSI target is not reached any more, and a program waits for its disk",
        setup: |bed| {
            let disk = iscsi()?;
            cut(bed, &disk)
        },
        ..GONE
    },
    Trial {
        name: "iscsi-paced",
        what: "a program reads at a moderate rate from a disk of an iSCSI target",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = iscsi()?;
            read_at_ease(bed, &disk)
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nvme_tcp.slow",
        what: "each packet from an NVMe target takes long, and the disk behind it seems slow",
        setup: |bed| {
            let disk = nvme_over_tcp(1)?;
            delay(bed, &disk)
        },
        ..SLOW
    },
    Trial {
        name: "nvme_tcp.gone",
        what: "an NVMe target is not reached any more, and a program waits for its disk",
        setup: |bed| {
            let disk = nvme_over_tcp(1)?;
            cut(bed, &disk)
        },
        ..GONE
    },
    Trial {
        name: "nvme_tcp.path_failed",
        what: "one of the two ways to an NVMe target is lost, and the kernel takes the other",
        finding: Some("disk.path_degraded"),
        never: &["disk.hung", "disk.saturated", "disk.slow_device", "disk.errors"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = nvme_over_tcp(2)?;
            reader(&disk, 16 << 10).with("rate", 50 * (16 << 10)).start(bed)?;
            shell("sleep 1; ip -n wslab-far link set veth1 down; sleep 20")?;
            Ok(Expect::subject([device(&disk)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nvme_tcp-two-paths",
        what: "a program reads at a moderate rate from a disk of an NVMe target to which two ways lead",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = nvme_over_tcp(2)?;
            read_at_ease(bed, &disk)
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nvme_tcp-paced",
        what: "a program reads at a moderate rate from a disk of an NVMe target",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let disk = nvme_over_tcp(1)?;
            read_at_ease(bed, &disk)
        },
        ..Trial::IDLE
    },
];

const SLOW: Trial = Trial {
    finding: Some("disk.slow_device"),
    never: &["disk.hung", "disk.errors", "net.loss"],
    vm: Some(&VmSpec::PLAIN),
    ..Trial::IDLE
};

const GONE: Trial = Trial {
    finding: Some("disk.hung"),
    never: &["disk.saturated", "disk.slow_device", "fs.errors"],
    vm: Some(&VmSpec::PLAIN),
    ..Trial::IDLE
};

fn read_at_ease(bed: &mut Testbed, disk: &str) -> Result<Expect> {
    reader(disk, 16 << 10).with("rate", 50 * (16 << 10)).start(bed)?;
    Ok(Expect::healthy())
}

/// Delays the packets that the target sends, while programs read.
fn delay(bed: &mut Testbed, disk: &str) -> Result<Expect> {
    modules(&["sch_netem"])?;
    shell(&format!("ip netns exec wslab-far tc qdisc add dev veth1 root netem delay {}ms", bed.range(60..=120)))?;
    let read = reader(disk, 16 << 10).with("jobs", 4).start(bed)?;
    Ok(Expect::subject(names(disk)).culprit([Process(read.pid)]))
}

/// Takes the link down while programs read, until the kernel has noticed it.
fn cut(bed: &mut Testbed, disk: &str) -> Result<Expect> {
    let read = reader(disk, 16 << 10).with("jobs", 2).start(bed)?;
    shell("sleep 1; ip -n wslab-far link set veth1 down; sleep 20")?;
    Ok(Expect::subject(names(disk)).culprit([Process(read.pid)]))
}

/// Returns the disk and, for NVMe, its only path (drivers/nvme/host/multipath.c).
fn names(disk: &str) -> [EntityPattern; 2] {
    let path =
        disk.rsplit_once('n').map_or(disk.to_owned(), |(controller, namespace)| format!("{controller}c0n{namespace}"));
    [device(disk), device(&path)]
}

/// Creates a disk with a latency of 300 us, and the links to the namespace of its target.
fn links(count: u32) -> Result<()> {
    null_disks(128, &[300])?;
    shell("ip netns add wslab-far; ip -n wslab-far link set lo up")?;
    for link in 1..=count {
        shell(&format!(
            "ip link add wslab{link} type veth peer name veth{link} netns wslab-far
            ip addr add 10.218.{link}.1/24 dev wslab{link}; ip link set wslab{link} up
            ip -n wslab-far addr add 10.218.{link}.2/24 dev veth{link}; ip -n wslab-far link set veth{link} up"
        ))?;
    }
    Ok(())
}

/// Waits for a disk to appear, and returns its name.
fn appeared(pattern: &str) -> Result<String> {
    let found = shell(&format!(
        "for i in $(seq 100); do for disk in /sys/block/{pattern}; do
            if [ -b /dev/${{disk##*/}} ]; then echo ${{disk##*/}}; exit 0; fi
        done; sleep 0.1; done"
    ))?;
    let name = found.trim().to_owned();
    if name.is_empty() { Err(Error::failed("the disk of the target did not appear")) } else { Ok(name) }
}

/// Attaches the disk through iSCSI, and returns its name.
fn iscsi() -> Result<String> {
    links(1)?;
    modules(&["target_core_mod", "target_core_iblock", "iscsi_target_mod", "iscsi_tcp", "sd_mod"])?;
    // `ip netns exec` would hide configfs.
    shell(
        "target=/sys/kernel/config/target; core=$target/core/iblock_0/lun; name=iqn.2026-11.example.lab:lun
        mkdir -p $core; echo udev_path=/dev/nullb0 >$core/control; echo 1 >$core/enable
        portal=$target/iscsi/$name/tpgt_1
        mkdir -p $target/iscsi/$name; mkdir $portal
        nsenter --net=/run/netns/wslab-far mkdir $portal/np/10.218.1.2:3260
        mkdir $portal/lun/lun_0; ln -s $core $portal/lun/lun_0/port
        echo 0 >$portal/attrib/authentication; echo 1 >$portal/attrib/generate_node_acls
        echo 0 >$portal/attrib/demo_mode_write_protect; echo 1 >$portal/enable
        echo InitiatorName=iqn.2026-11.example.lab:guest >/etc/iscsi/initiatorname.iscsi
        # Where systemd runs, it keeps the socket of the daemon.
        systemctl stop iscsid.socket iscsid.service 2>/dev/null || true
        mkdir -p /run/lock/iscsi; iscsid >&2; sleep 1
        iscsiadm -m discovery -t sendtargets -p 10.218.1.2 >&2
        # What waits for the disk at the end of the trial can be killed after this time.
        iscsiadm -m node -T $name -o update -n node.session.timeo.replacement_timeout -v 90 >&2
        iscsiadm -m node -T $name -p 10.218.1.2 --login >&2",
    )?;
    appeared("sd*")
}

/// Attaches the disk through NVMe/TCP, with one path for each link, and returns its name.
fn nvme_over_tcp(paths: u32) -> Result<String> {
    links(paths)?;
    modules(&["nvmet", "nvmet_tcp", "nvme_tcp"])?;
    shell(
        "target=/sys/kernel/config/nvmet/subsystems/nqn.2026-11.example.lab:disk
        mkdir $target; echo 1 >$target/attr_allow_any_host; mkdir $target/namespaces/1
        echo /dev/nullb0 >$target/namespaces/1/device_path; echo 1 >$target/namespaces/1/enable",
    )?;
    for path in 1..=paths {
        shell(&format!(
            "name=nqn.2026-11.example.lab:disk; port=/sys/kernel/config/nvmet/ports/{path}
            mkdir $port; echo tcp >$port/addr_trtype; echo ipv4 >$port/addr_adrfam
            echo 10.218.{path}.2 >$port/addr_traddr; echo 4420 >$port/addr_trsvcid
            nsenter --net=/run/netns/wslab-far ln -s /sys/kernel/config/nvmet/subsystems/$name $port/subsystems/$name
            echo \"transport=tcp,traddr=10.218.{path}.2,trsvcid=4420,nqn=$name,keep_alive_tmo=5,ctrl_loss_tmo=90\" >/dev/nvme-fabrics"
        ))?;
    }
    appeared("nvme*n*")
}
