//! Connection tracking: /proc/sys/net/netfilter/nf_conntrack_{count,max}
//! (Documentation/networking/nf_conntrack-sysctl.rst) and /proc/net/stat/nf_conntrack, a row per CPU in hexadecimal
//! (net/netfilter/nf_conntrack_standalone.c). Each network namespace has a table of its own.

use super::namespaces::Namespaces;
use super::net_text;
use crate::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::sync::Arc;
use whyslow_model::catalogue::{Conntrack, NamespaceConntrack};
use whyslow_model::key::{MachineKey, NetKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Name};

const COUNT: &str = "proc/sys/net/netfilter/nf_conntrack_count";
const MAX: &str = "proc/sys/net/netfilter/nf_conntrack_max";

pub(super) struct ConnectionTracking(pub(super) Arc<Namespaces>);

impl Source for ConnectionTracking {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("nf_conntrack", "the connection tracking table")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        self.0.each(root, |namespace| {
            if namespace.is_empty() {
                out.net.conntrack.extend(own(root));
            } else {
                out.net.namespace_conntrack.extend(of_namespace(root, namespace));
            }
            Ok(())
        })?;
        let is_tracked = !(out.net.conntrack.is_empty() && out.net.namespace_conntrack.is_empty());
        if is_tracked { Ok(()) } else { Err(SourceError::Absent("connections are not tracked".into())) }
    }
}

/// Reads the observer's own table.
fn own(root: &Root) -> Option<Conntrack> {
    let count = root.polled_number(COUNT)?;
    let mut row = Conntrack::new(MachineKey);
    row.count = count.into();
    row.max = root.setting_number(MAX).into();
    if let Ok(text) = net_text(root, &Name::default(), "stat/nf_conntrack") {
        row.drops = sum(&text, "drop");
        row.early_drops = sum(&text, "early_drop");
        row.insert_failed = sum(&text, "insert_failed");
    }
    Some(row)
}

/// Reads the table of the thread's namespace. Does not keep the file open, because that would keep the namespace alive.
pub(crate) fn of_namespace(root: &Root, namespace: &Name) -> Option<NamespaceConntrack> {
    let count = root.number(COUNT).filter(|count| *count > 0)?;
    let mut row = NamespaceConntrack::new(NetKey { ns: namespace.clone(), name: "nf_conntrack".into() });
    row.count = count.into();
    row.max = root.number(MAX).into();
    if let Ok(text) = net_text(root, namespace, "stat/nf_conntrack") {
        row.drops = sum(&text, "drop");
    }
    Some(row)
}

/// Sums a column over all CPUs; absent if there is no such column.
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

    const STATISTICS: &str = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop\n\
        0000000c 00000000 0 0 0 0 0 0 0 00000001 0000000a 00000002\n\
        0000000c 00000000 0 0 0 0 0 0 0 00000000 00000006 00000000\n";

    fn row(files: &[(&str, &str)]) -> Result<Conntrack, SourceError> {
        let (outcome, mut out) = CapturedTree::with_files(files).read(&mut ConnectionTracking(Arc::default()));
        outcome.map(|()| out.net.conntrack.remove(0))
    }

    #[test]
    fn columns_are_found_by_name_and_added_up_in_hexadecimal() {
        let row = row(&[(COUNT, "12\n"), (MAX, "65536\n"), ("proc/net/stat/nf_conntrack", STATISTICS)]).unwrap();
        assert_eq!((row.count.get(), row.max.get()), (Some(12.0), Some(65536.0)));
        assert_eq!((row.drops.get(), row.early_drops.get(), row.insert_failed.get()), (Some(16), Some(2), Some(1)));
    }

    #[test]
    fn without_the_module_it_is_absent_and_without_statistics_only_the_count_is_read() {
        assert!(matches!(row(&[]), Err(SourceError::Absent(_))));
        let row = row(&[(COUNT, "1\n")]).unwrap();
        assert_eq!((row.count.get(), row.drops.get()), (Some(1.0), None));
    }

    #[test]
    fn a_namespace_that_tracks_nothing_has_no_row() {
        let tree = |count: &str| {
            let files = [(COUNT, count), (MAX, "65536\n"), ("proc/net/stat/nf_conntrack", STATISTICS)];
            of_namespace(&CapturedTree::with_files(&files).root(), &"shop".into())
        };
        assert_eq!(tree("0\n"), None);
        let row = tree("12\n").unwrap();
        assert_eq!(&*row.namespace.ns, "shop");
        assert_eq!((row.count.get(), row.max.get(), row.drops.get()), (Some(12.0), Some(65536.0), Some(16)));
    }
}
