//! Connection tracking: /proc/sys/net/netfilter/nf_conntrack_{count,max}
//! (Documentation/networking/nf_conntrack-sysctl.rst) and /proc/net/stat/nf_conntrack, a row per CPU in hexadecimal
//! (net/netfilter/nf_conntrack_standalone.c). Of the observer's own namespace.

use super::net_text;
use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Conntrack;
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Name};

pub(super) const INFO: SourceInfo = SourceInfo::new("nf_conntrack", "the connection tracking table");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let count = root.polled_number("proc/sys/net/netfilter/nf_conntrack_count");
    let count = count.ok_or_else(|| SourceError::Absent("connections are not tracked".into()))?;
    let mut row = Conntrack::new(MachineKey);
    row.count = count.into();
    row.max = root.setting_number("proc/sys/net/netfilter/nf_conntrack_max").into();
    if let Ok(text) = net_text(root, &Name::default(), "stat/nf_conntrack") {
        row.drops = sum(&text, "drop");
        row.early_drops = sum(&text, "early_drop");
        row.insert_failed = sum(&text, "insert_failed");
    }
    out.net.conntrack.push(row);
    Ok(())
}

/// The sum of a column over all CPUs; absent if there is no such column.
fn sum(text: &str, column: &str) -> Counter {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let Some(at) = header.split_ascii_whitespace().position(|name| name == column) else { return Counter::ABSENT };
    let value = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(at)?, 16).ok();
    lines.filter_map(value).fold(0, u64::saturating_add).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    fn row(files: &[(&str, &str)]) -> Result<Conntrack, SourceError> {
        let mut out = Snapshot::default();
        read(&CapturedTree::of(files).root(), &mut out)?;
        Ok(out.net.conntrack.remove(0))
    }

    #[test]
    fn columns_are_found_by_name_and_added_up_in_hexadecimal() {
        let row = row(&[
            ("proc/sys/net/netfilter/nf_conntrack_count", "12\n"),
            ("proc/sys/net/netfilter/nf_conntrack_max", "65536\n"),
            (
                "proc/net/stat/nf_conntrack",
                "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop\n\
                 0000000c 00000000 0 0 0 0 0 0 0 00000001 0000000a 00000002\n\
                 0000000c 00000000 0 0 0 0 0 0 0 00000000 00000006 00000000\n",
            ),
        ])
        .unwrap();
        assert_eq!((row.count.get(), row.max.get()), (Some(12.0), Some(65536.0)));
        assert_eq!((row.drops.get(), row.early_drops.get(), row.insert_failed.get()), (Some(16), Some(2), Some(1)));
    }

    #[test]
    fn without_the_module_it_is_absent_and_without_statistics_only_the_count_is_read() {
        assert!(matches!(row(&[]), Err(SourceError::Absent(_))));
        let row = row(&[("proc/sys/net/netfilter/nf_conntrack_count", "1\n")]).unwrap();
        assert_eq!((row.count.get(), row.drops.get()), (Some(1.0), None));
    }
}
