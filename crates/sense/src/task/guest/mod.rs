//! Virtual machines of QEMU.

mod monitor;
mod settings;
mod statistics;

#[cfg(test)]
pub(crate) use settings::tests::{add_guest, monitored_guest};
pub(super) use settings::{INFO as SETTINGS, read as read_settings};
pub(super) use statistics::{INFO as STATISTICS, read as read_statistics};

use super::stat::Stat;
use crate::root::Root;
use std::fs::{self, File};
use std::io::Read;
use whyslow_model::key::TaskKey;
use whyslow_proc::qemu::{self, GuestConfig};

/// Maximum bytes of a command line; the longest describe a hundred disks.
const LONGEST: u64 = 256 << 10;

/// A QEMU process that runs a virtual machine.
struct QemuProcess {
    task: TaskKey,
    config: GuestConfig,
    /// File descriptors and their targets; empty if they may not be read.
    files: Vec<(u32, String)>,
}

/// Lists the QEMU processes that are running.
fn processes(root: &Root) -> impl Iterator<Item = QemuProcess> {
    let pids = root.list("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let of = move |pid: u32| {
        let command = root.word(&format!("proc/{pid}/comm"))?;
        // A process that ends meanwhile is no longer a guest.
        QemuProcess::read(root, pid).filter(|_| qemu::may_be_qemu(&command))
    };
    pids.filter_map(of)
}

impl QemuProcess {
    fn read(root: &Root, pid: u32) -> Option<Self> {
        let stat = fs::read(root.at(format!("proc/{pid}/stat"))).ok()?;
        let task = TaskKey { pid, tid: pid, start: Stat::parse(&stat)?.0.start };
        let config = qemu::guest(task, &command_line(root, pid)?)?;
        let folder = format!("proc/{pid}/fd");
        let file = |fd: &String| Some((fd.parse().ok()?, root.link(&format!("{folder}/{fd}"))?));
        let mut files: Vec<(u32, String)> = root.list(&folder).iter().filter_map(file).collect();
        files.sort_unstable();
        Some(Self { task, config, files })
    }
}

fn command_line(root: &Root, pid: u32) -> Option<Vec<String>> {
    let mut bytes = Vec::new();
    let file = File::open(root.at(format!("proc/{pid}/cmdline"))).ok()?;
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}
