//! NFS trials: this machine is both server and client.

use super::null_disks;
use crate::error::Result;
use crate::expect::EntityPattern::Named;
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;
use crate::trial::Trial;
use crate::vm::{VmSpec, background, modules, shell};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "nfs.slow",
        what: "an NFS server answers late: each packet on the way takes long",
        finding: Some("nfs.slow"),
        never: &["net.loss", "disk.hung"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            export(200, "hard")?;
            modules(&["sch_netem"])?;
            shell("tc qdisc add dev lo root netem delay 100ms")?;
            LoadCommand::new("append").with("path", "/mnt/log").with("size", 4096).start(bed)?;
            Ok(expect())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nfs.gone",
        what: "an NFS server has stopped, and a program waits for it",
        finding: Some("nfs.slow"),
        never: &["net.loss", "disk.hung", "disk.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            export(200, "hard,timeo=50,retrans=1")?;
            background(bed, "while :; do dd if=/dev/zero of=/mnt/file bs=64k count=10 oflag=direct; done")?;
            shell("sleep 1; rpc.nfsd 0; sleep 8")?;
            Ok(expect())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nfs-back",
        what: "an NFS server had stopped for a while, and answers again: the log has both",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            export(200, "hard,timeo=20,retrans=1")?;
            append_at_ease(bed)?;
            // A server that starts for the first time waits for clients to reclaim their locks.
            shell("sleep 1; rpc.nfsd 0; sleep 8")?;
            shell(SERVE)?;
            shell("sleep 20")?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "nfs-paced",
        what: "a program flushes a record every 200 ms on an NFS mount that answers at once",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            export(200, "hard")?;
            append_at_ease(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

/// Starts the server, with grace and lease times of 10 s (rpc.nfsd(8)).
const SERVE: &str = "rpc.nfsd -G 10 -L 10 4";

fn append_at_ease(bed: &mut Testbed) -> Result<()> {
    LoadCommand::new("append").with("path", "/mnt/log").with("size", 4096).with("every-ms", 200).start(bed).map(drop)
}

fn expect() -> Expect {
    // The kernel's log names the server, not the mount.
    let mount = |name: &str| Named("mount", name.into());
    Expect::subject([mount("/mnt"), mount("127.0.0.1"), Named("nfs", "/mnt".into())])
}

/// Exports a file system on a disk with this latency, and mounts it at /mnt.
fn export(latency_us: u64, options: &str) -> Result<()> {
    null_disks(256, &[latency_us])?;
    modules(&["nfsd", "nfs"])?;
    shell(&format!(
        "mkfs.ext4 -q /dev/nullb0; mkdir -p /srv; mount /dev/nullb0 /srv
        mkdir -p /run/rpc_pipefs /var/lib/nfs/v4recovery /run/sendsigs.omit.d
        mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
        mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
        rpcinfo >/dev/null 2>&1 || rpcbind -w; echo '/srv 127.0.0.1(rw,sync,no_root_squash,insecure,fsid=0)' >/etc/exports
        exportfs -ra; {SERVE}; rpc.mountd
        mount -t nfs -o vers=4.2,{options} 127.0.0.1:/ /mnt"
    ))
    .map(drop)
}
