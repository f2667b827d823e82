//! The dashboard and the alerts use only metrics that are exported by default.

use crate::judgement::tests::{diagnosis, finding};
use crate::{FindingSeries, PushFigures, Selection, exporter_families};
use std::collections::BTreeSet;
use whyslow_documents::diagnosis::{Confidence, Culprit, Finding, Verdict};

const DASHBOARD: &str = include_str!("../../../dashboards/whyslow.json");
const ALERTS: &str = include_str!("../../../dashboards/whyslow.rules.yml");

fn exported() -> BTreeSet<String> {
    let selection = Selection::parse(&[Selection::DEFAULT.to_owned()], None, Selection::MOST_SERIES).unwrap();
    let culprits = vec![Culprit { name: "backup.sh".into(), share: 0.5, ..Culprit::default() }];
    let found = Finding { culprits, ..finding("disk.saturated", "sdb", None, 0.6, Confidence::High) };
    let (judged, _) = FindingSeries::default().families(&diagnosis(Verdict::Bottleneck, vec![found]), 0.0);
    let own = exporter_families("0.1.0", &[PushFigures::default()], 0, 0);
    let families = judged.into_iter().chain(own).map(|family| family.name);
    selection.metric_names().chain(families).collect()
}

fn used(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(|c| !is_part(c)).filter(|word| word.starts_with("whyslow_")).collect()
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_that_exist() {
    let exported = exported();
    for (file, text) in [("whyslow.json", DASHBOARD), ("whyslow.rules.yml", ALERTS)] {
        let used = used(text);
        assert!(used.len() > 5, "{file}: {used:?}");
        let unknown: Vec<_> = used.iter().filter(|name| !exported.contains(**name)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}
