//! /sys/block/*/device/*_cnt: commands that a SCSI disk completed, failed and did not answer in time (drivers/scsi/scsi_sysfs.c,
//! show_iostat_counterbits). The kernel logs commands that it aborts and retries only if SCSI logging is enabled.

use super::device;
use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::ScsiDisk;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("sys/block/scsi", "commands of SCSI disks that failed or timed out");

pub(super) fn list(root: &Root) -> Vec<String> {
    let is_scsi = |disk: &String| root.at(format!("sys/block/{disk}/device/iodone_cnt")).exists();
    device::disks(root).into_iter().filter(is_scsi).collect()
}

pub(super) fn read(disks: &[String], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    out.block.scsi.extend(disks.iter().map(|disk| {
        let count = |file: &str| -> Counter {
            let word = root.polled_word(&format!("sys/block/{disk}/device/{file}"));
            word.and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).into()
        };
        ScsiDisk {
            completed: count("iodone_cnt"),
            failed: count("ioerr_cnt"),
            timeouts: count("iotmo_cnt"),
            ..ScsiDisk::new(device::kernel_name(disk).into())
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
        let tree = CapturedTree::of(&[
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
        assert_eq!((sdb.completed.get(), sdb.timeouts.get()), (Some(0xffff_ffff), None));
    }
}
