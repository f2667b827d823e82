//! Connection tracking: /proc/sys/net/netfilter/nf_conntrack_{count,max}
//! (Documentation/networking/nf_conntrack-sysctl.rst) and /proc/net/stat/nf_conntrack, a row per processor in
//! hexadecimal (net/netfilter/nf_conntrack_standalone.c). Of the observer's own namespace.

use super::net_text;
use crate::Root;
use crate::source::{Miss, Source};
use whyslow_model::catalogue::Conntrack;
use whyslow_model::key::Machine;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Name};

/// Reads the connection tracking table's level and losses.
pub(crate) struct Connections;

impl Source for Connections {
    fn name(&self) -> &'static str {
        "nf_conntrack"
    }

    fn tells(&self) -> &'static str {
        "the connection tracking table"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let count = root.kept_number("proc/sys/net/netfilter/nf_conntrack_count");
        let count = count.ok_or_else(|| Miss::Absent("connection tracking is not in use".into()))?;
        let mut row = Conntrack::new(Machine);
        row.count = count.into();
        row.max = root.setting_number("proc/sys/net/netfilter/nf_conntrack_max").map(Into::into).unwrap_or_default();
        if let Ok(text) = net_text(root, &Name::default(), "stat/nf_conntrack") {
            row.drops = sum(&text, "drop");
            row.early_drops = sum(&text, "early_drop");
            row.insert_failed = sum(&text, "insert_failed");
        }
        out.net.conntrack.push(row);
        Ok(())
    }
}

/// The sum of a column over all processors; absent where there is no such column.
fn sum(text: &str, column: &str) -> Counter {
    let mut lines = text.lines();
    let Some(at) = lines.next().and_then(|names| names.split_ascii_whitespace().position(|n| n == column)) else {
        return Counter::ABSENT;
    };
    let value = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(at)?, 16).ok();
    lines.filter_map(value).fold(0, u64::saturating_add).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tests::captured;

    fn read(files: &[(&str, &str)]) -> Result<Conntrack, Miss> {
        let tree = captured(files);
        let mut out = Snapshot::default();
        Connections.read(&Root::captured(tree.path()), &mut out)?;
        Ok(out.net.conntrack.remove(0))
    }

    #[test]
    fn columns_are_found_by_name_and_added_up_in_hexadecimal() {
        let row = read(&[
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
    fn without_the_module_it_is_absent() {
        assert!(matches!(read(&[]), Err(Miss::Absent(_))));
    }

    #[test]
    fn without_statistics_the_level_is_still_told() {
        let row = read(&[("proc/sys/net/netfilter/nf_conntrack_count", "1\n")]).unwrap();
        assert_eq!((row.count.get(), row.drops.get()), (Some(1.0), None));
    }
}
