//! /sys/block/*/device/*_cnt: commands that a SCSI disk completed, failed and did not answer in time (drivers/scsi/scsi_sysfs.c,
//! show_iostat_counterbits), commands in flight, and whether the error handler is active on its adapter. The kernel logs commands
//! that it aborts and retries only if SCSI logging is enabled.

use super::{device, queue};
use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::ScsiDisk;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("sys/block/scsi", "commands of SCSI disks that failed or timed out");

pub(super) struct Listed {
    /// Name in sysfs.
    name: String,
    /// File that contains the state of its adapter.
    adapter_state: Option<String>,
}

pub(super) fn list(root: &Root) -> Vec<Listed> {
    let is_scsi = |disk: &String| root.at(format!("sys/block/{disk}/device/iodone_cnt")).exists();
    let listed = |name: String| {
        let target = root.link(&format!("sys/block/{name}/device"));
        let host = target.as_deref().and_then(queue::scsi_address).and_then(|address| address.split(':').next());
        Listed { adapter_state: host.map(|host| format!("sys/class/scsi_host/host{host}/state")), name }
    };
    device::disks(root).into_iter().filter(is_scsi).map(listed).collect()
}

pub(super) fn read(disks: &[Listed], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    out.block.scsi.extend(disks.iter().map(|disk| {
        let count = |file: &str| -> Counter {
            let word = root.polled_word(&format!("sys/block/{}/device/{file}", disk.name));
            word.and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).into()
        };
        let state = disk.adapter_state.as_ref().and_then(|file| root.polled_word(file));
        ScsiDisk {
            completed: count("iodone_cnt"),
            failed: count("ioerr_cnt"),
            timeouts: count("iotmo_cnt"),
            // Not derived from the counts: before Linux 6.2, commands that timed out are never counted as done; since then, they
            // are at once.
            in_flight: root.polled_number(&format!("sys/block/{}/device/device_busy", disk.name)).into(),
            // "recovery", "cancel/recovery" or "deleted/recovery" (scsi_sysfs.c: shost_states).
            recovering: state.map(|state| f64::from(u8::from(state.ends_with("recovery")))).into(),
            ..ScsiDisk::new(device::kernel_name(&disk.name).into())
        }
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn counts_are_hexadecimal_and_only_scsi_disks_have_them() {
        let tree = CapturedTree::with_files(&[
            ("sys/block/sda/device/device_busy", "1\n"),
            ("sys/block/sda/device/iodone_cnt", "0x1f\n"),
            ("sys/block/sda/device/ioerr_cnt", "0x2\n"),
            ("sys/block/sda/device/iotmo_cnt", "0xa\n"),
            // Older kernels do not count commands that timed out.
            ("sys/block/sdb/device/iodone_cnt", "0xffffffff\n"),
            ("sys/block/vda/size", "2048\n"),
        ]);
        let mut out = Snapshot::default();
        let root = tree.root();
        assert_eq!(read(&list(&root), &root, &mut out), Ok(()));
        let [sda, sdb] = &out.block.scsi[..] else { panic!("{:?}", out.block.scsi) };
        assert_eq!((sda.completed.get(), sda.failed.get(), sda.timeouts.get()), (Some(31), Some(2), Some(10)));
        assert_eq!(sda.in_flight.get(), Some(1.0));
        assert_eq!((sdb.completed.get(), sdb.timeouts.get()), (Some(0xffff_ffff), None));
    }
}
