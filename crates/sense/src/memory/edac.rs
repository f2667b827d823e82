//! /sys/devices/system/edac/mc: errors by memory module (Documentation/ABI/testing/sysfs-devices-edac).

use crate::text::numbered;
use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::MemoryModule;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

const PATH: &str = "sys/devices/system/edac/mc";

pub(super) const INFO: SourceInfo = SourceInfo::new(PATH, "errors of memory modules");

/// Lists modules: `mc0/dimm3`; drivers that do not know the modules have chip-select rows instead (`mc0/csrow1`).
pub(super) fn modules(root: &Root) -> Vec<String> {
    let within = |controller: &str, prefix: &str| -> Vec<String> {
        let names = root.list(&format!("{PATH}/{controller}"));
        let own = names.iter().filter(|name| numbered(name, prefix).is_some());
        own.map(|name| format!("{controller}/{name}")).collect()
    };
    let controllers = root.list(PATH).into_iter().filter(|name| numbered(name, "mc").is_some());
    let modules = controllers.flat_map(|controller| {
        // A driver reports ranks if it does not know which of them share a module.
        let kinds = ["dimm", "rank", "csrow"].into_iter().map(|prefix| within(&controller, prefix));
        kinds.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
    });
    modules.collect()
}

pub(super) fn read(modules: &[String], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    for module in modules {
        let name = module.rsplit('/').next().unwrap_or_default();
        // The names of a module's files contain its kind; those of a chip-select row do not.
        let kind = match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "csrow" => "",
            _ => "dimm_",
        };
        let count = |what: &str| root.polled_number(&format!("{PATH}/{module}/{kind}{what}_count"));
        let label = root.setting(&format!("{PATH}/{module}/dimm_label")).filter(|label| !label.is_empty());
        let row = MemoryModule::new(Name::from(module.as_str()));
        out.memory.memory_module.push(MemoryModule {
            label: label.into(),
            corrected: count("ce").into(),
            uncorrected: count("ue").into(),
            ..row
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::listed;
    use crate::testing::CapturedTree;

    #[test]
    fn modules_are_read_with_their_labels_and_rows_where_there_are_none() {
        let tree = CapturedTree::with_files(&[
            ("sys/devices/system/edac/mc/mc0/dimm0/dimm_ce_count", "17\n"),
            ("sys/devices/system/edac/mc/mc0/dimm0/dimm_ue_count", "0\n"),
            ("sys/devices/system/edac/mc/mc0/dimm0/dimm_label", "CPU_SrcID#0_Ha#0_Chan#1_DIMM#0\n"),
            ("sys/devices/system/edac/mc/mc0/csrow0/ce_count", "17\n"),
            ("sys/devices/system/edac/mc/mc1/csrow2/ce_count", "3\n"),
        ]);
        let (outcome, out) = tree.read(&mut *listed(INFO, modules, read));
        let seen: Vec<_> =
            out.memory.memory_module.iter().map(|m| (&*m.module, m.label.get(), m.corrected.get())).collect();
        assert_eq!(outcome, Ok(()));
        assert_eq!(
            seen,
            [("mc0/dimm0", Some("CPU_SrcID#0_Ha#0_Chan#1_DIMM#0"), Some(17)), ("mc1/csrow2", None, Some(3))]
        );
        assert_eq!(out.memory.memory_module[1].uncorrected.get(), None);
    }
}
