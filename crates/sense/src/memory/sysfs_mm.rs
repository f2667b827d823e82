//! Transparent huge pages and page sharing: /sys/kernel/mm/{transparent_hugepage,ksm}.
//! Documentation/admin-guide/mm/transhuge.rst and ksm.rst.

use crate::text::chosen;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Sharing;
use whyslow_model::key::Machine;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Counter, Gauge, State};

/// Reads the settings of transparent huge pages, and what KSM does.
pub(super) struct PageSharing;

impl Source for PageSharing {
    fn name(&self) -> &'static str {
        "sys/kernel/mm"
    }

    fn tells(&self) -> &'static str {
        "transparent huge pages and page sharing (KSM)"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let thp = |file: &str| {
            let text = root.setting(&format!("sys/kernel/mm/transparent_hugepage/{file}"));
            text.as_deref().and_then(chosen).map(State::from).unwrap_or_default()
        };
        let ksm = |file: &str| root.kept_number(&format!("sys/kernel/mm/ksm/{file}"));
        let pages = |file: &str| ksm(file).map(Gauge::from).unwrap_or_default();
        let row = Sharing {
            host: Machine,
            thp_enabled: thp("enabled"),
            thp_defrag: thp("defrag"),
            ksm_run: pages("run"),
            ksm_pages_shared: pages("pages_shared"),
            ksm_pages_sharing: pages("pages_sharing"),
            ksm_full_scans: ksm("full_scans").map(Counter::from).unwrap_or_default(),
        };
        if row.thp_enabled.get().is_none() && row.ksm_run.get().is_none() {
            return Err(Miss::Absent("kernel without transparent huge pages and page sharing".into()));
        }
        out.memory.sharing.push(row);
        Ok(())
    }
}
