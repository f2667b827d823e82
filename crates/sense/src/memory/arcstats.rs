//! The cache of ZFS (module/zfs/arc.c of OpenZFS: arcstats).

use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Arc;
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("proc/spl/kstat/zfs/arcstats", "the cache of ZFS against its limits");

/// Reads the cache's size. A machine without ZFS has none.
pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let Ok(text) = root.polled_text("proc/spl/kstat/zfs/arcstats") else { return Ok(()) };
    let mut arc = Arc::new(MachineKey);
    for line in text.lines() {
        // Name, type, and value.
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(_), Some(Ok(value))) = (words.next(), words.next(), words.next().map(str::parse::<u64>))
        else {
            continue;
        };
        match name {
            "size" => arc.size = value.into(),
            "c_max" => arc.size_max = value.into(),
            "arc_meta_used" => arc.metadata = value.into(),
            "arc_meta_limit" => arc.metadata_max = value.into(),
            "dnode_size" => arc.dnodes = value.into(),
            "arc_dnode_limit" => arc.dnodes_max = value.into(),
            "arc_prune" => arc.prunes = value.into(),
            _ => {}
        }
    }
    if arc != Arc::new(MachineKey) {
        out.memory.arc.push(arc);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn levels_and_limits_are_read() {
        let text = "9 1 0x01 98 26656 8273 912\nname                            type data\nsize                            4    33606348736\n\
                    c_max                           4    33623781376\ndnode_size                      4    2893117440\n\
                    arc_dnode_limit                 4    2521783603\narc_prune                       4    7\n";
        let mut out = Snapshot::default();
        read(&CapturedTree::with_files(&[("proc/spl/kstat/zfs/arcstats", text)]).root(), &mut out).unwrap();
        let arc = &out.memory.arc[0];
        assert_eq!((arc.size.get(), arc.size_max.get()), (Some(33_606_348_736.0), Some(33_623_781_376.0)));
        assert_eq!(
            (arc.dnodes.get(), arc.dnodes_max.get(), arc.prunes.get()),
            (Some(2_893_117_440.0), Some(2_521_783_603.0), Some(7))
        );
        assert_eq!((arc.metadata.get(), arc.metadata_max.get()), (None, None));
    }

    #[test]
    fn a_machine_without_zfs_has_none() {
        let mut out = Snapshot::default();
        assert_eq!(read(&CapturedTree::with_files(&[]).root(), &mut out), Ok(()));
        assert!(out.memory.arc.is_empty());
    }
}
