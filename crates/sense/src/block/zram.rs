//! /sys/block/zram*: compressed memory used as a disk (Documentation/admin-guide/blockdev/zram.rst).

use super::device;
use crate::text::chosen;
use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::Zram;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo = SourceInfo::new("sys/block/zram", "compressed memory used as disks").slow();

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let names = device::disks(root).into_iter().filter(|name| name.starts_with("zram"));
    out.block.zram.extend(names.filter_map(|name| zram(root, &name)));
    Ok(())
}

/// Reads a device. Returns `None` if it is not set up.
fn zram(root: &Root, name: &str) -> Option<Zram> {
    let word = |file: &str| root.word(&format!("sys/block/{name}/{file}"));
    word("initstate").filter(|state| state == "1")?;
    // orig_data_size compr_data_size mem_used_total mem_limit ...
    let statistics = word("mm_stat").unwrap_or_default();
    let number = |at: usize| statistics.split_ascii_whitespace().nth(at)?.parse::<u64>().ok();
    Some(Zram {
        algorithm: word("comp_algorithm").as_deref().map(|text| chosen(text).unwrap_or(text)).into(),
        stored: number(0).into(),
        memory: number(2).into(),
        memory_limit: number(3).into(),
        ..Zram::new(name.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn only_devices_that_are_set_up_are_read() {
        let tree = CapturedTree::with_files(&[
            ("sys/block/zram0/initstate", "1\n"),
            ("sys/block/zram0/comp_algorithm", "lzo-rle lzo [zstd] \n"),
            ("sys/block/zram0/mm_stat", "    8192      120    12288  1048576    12288        0        0        0\n"),
            ("sys/block/zram1/initstate", "0\n"),
            ("sys/block/zram2/initstate", "1\n"),
            ("sys/block/zram2/mm_stat", "x\n"),
        ]);
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let [first, second] = &out.block.zram[..] else { panic!("{:?}", out.block.zram) };
        assert_eq!(first.algorithm.get(), Some("zstd"));
        assert_eq!((first.stored.get(), first.memory.get()), (Some(8192.0), Some(12288.0)));
        assert_eq!(first.memory_limit.get(), Some(1_048_576.0));
        assert_eq!((&*second.device, second.stored.get(), second.algorithm.get()), ("zram2", None, None));
    }
}
