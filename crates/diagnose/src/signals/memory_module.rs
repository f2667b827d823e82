//! Memory modules with error correction.

use crate::signal::{Entity, signals};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::MemoryModule;
use whyslow_model::window::{Change, Window};

signals! { m: Change<'_, MemoryModule>;
    "module.corrected" "count" "errors that were corrected, in the window", "Δdimm_ce_count", "/sys/devices/system/edac/mc", normal (near 0.0) => m.grown(|m| m.corrected);
    "module.uncorrected" "count" "errors that could not be corrected, in the window", "Δdimm_ue_count", "/sys/devices/system/edac/mc", normal (near 0.0) => m.grown(|m| m.uncorrected);
    "module.corrected_total" "count" "errors that were corrected since boot", "dimm_ce_count", "/sys/devices/system/edac/mc", normal (near 10.0 as "a few a year") => m.last().corrected.get().map(|count| count as f64);
    "module.uncorrected_total" "count" "errors that could not be corrected since boot", "dimm_ue_count", "/sys/devices/system/edac/mc", normal (near 0.0) => m.last().uncorrected.get().map(|count| count as f64);
}

/// Returns every module, named by the label of its slot where it has one.
pub fn entities(window: &Window) -> Vec<Entity> {
    let named = |module: &Change<'_, MemoryModule>| {
        let label = module.last().label.get().unwrap_or(module.key());
        Entity::from_subject(Subject::new("memory_module", label.to_owned()), module)
    };
    window.changes::<MemoryModule>().iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    #[test]
    fn errors_of_the_window_are_those_that_were_added() {
        let found = entities(&window([0, 10], |t, s| {
            s.memory.memory_module = vec![MemoryModule {
                label: "DIMM_A1".into(),
                corrected: (1000 + 5 * t).into(),
                uncorrected: 1.into(),
                ..MemoryModule::new("mc0/dimm0".into())
            }];
        }));
        assert_eq!(found[0].subject.name, "DIMM_A1");
        let signals = ["module.corrected", "module.uncorrected", "module.corrected_total", "module.uncorrected_total"];
        assert_eq!(signals.map(|name| found[0].number(name)), [Some(50.0), Some(0.0), Some(1050.0), Some(1.0)]);
    }
}
