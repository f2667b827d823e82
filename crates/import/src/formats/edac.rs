//! edac-util(1) and `ras-mc-ctl --error-count`: errors of memory modules since the counts were reset.

use crate::prelude::*;
use std::collections::BTreeMap;
use whyslow_model::catalogue::MemoryModule;

pub const FORMAT: Format = Format {
    name: "edac-util",
    versions: "edac-utils 0.16 on: plain and -v; ras-mc-ctl --error-count of rasdaemon",
    shows: "which memory module has returned wrong bits since boot, and how often",
    lacks: "whether it still does: read it twice",
    programs: &[partly_read("edac-util"), partly_read("ras-mc-ctl")],
    files: &["edac-util", "ras-mc-ctl"],
    starts: |lines| lines.next_is(|line| Count::of(line).is_some() || is_header(line)),
    read,
    ..Format::NEW
};

/// `Label               	CE	UE`
fn is_header(line: &str) -> bool {
    line.split_whitespace().eq(["Label", "CE", "UE"])
}

/// The errors on a line.
struct Count {
    /// The label of the module, or the row or controller where it has none.
    module: String,
    errors: u64,
    is_corrected: bool,
}

impl Count {
    /// `mc3: csrow0: CPU_SrcID#1_Ha#1_Chan#0_DIMM#0: 118204 Corrected Errors`, `mc0: csrow2: 0 Uncorrected Errors`,
    /// `mc0: 0 Corrected Errors with no DIMM info`
    fn of(line: &str) -> Option<Self> {
        let (place, count) = line.trim().rsplit_once(": ")?;
        let place = place.strip_prefix("mc").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
        let (errors, what) = count.split_once(' ')?;
        let what = what.strip_suffix(" with no DIMM info").unwrap_or(what);
        let is_corrected = match what {
            "Corrected Errors" => true,
            "Uncorrected Errors" => false,
            _ => return None,
        };
        let parts: Vec<&str> = place.split(": ").collect();
        let module = match parts[..] {
            // Channels that have no label are called by their number.
            [controller, row, channel] if channel.strip_prefix("ch").is_some_and(|n| n.parse::<u32>().is_ok()) => {
                format!("mc{controller}/{row}/{channel}")
            }
            [_, _, label] => label.to_owned(),
            [controller, row] => format!("mc{controller}/{row}"),
            _ => format!("mc{controller}", controller = parts[0]),
        };
        Some(Self { module, errors: errors.parse().ok()?, is_corrected })
    }
}

fn read(lines: &mut Lines<'_>, _: &CaptureContext, run: &mut ToolRun) -> ReadResult {
    // By module: its line, and the corrected and uncorrected errors.
    let mut modules: BTreeMap<String, (u32, [Option<u64>; 2])> = BTreeMap::new();
    if lines.take_if(is_header).is_some() {
        let row = |text: &str| {
            let fields: Vec<&str> = text.split_whitespace().collect();
            let [label @ .., corrected, uncorrected] = &fields[..] else { return None };
            Some((label.join(" "), corrected.parse::<u64>().ok()?, uncorrected.parse::<u64>().ok()?))
        };
        while let Some(line) = lines.take_if(|text| row(text).is_some()) {
            let Some((label, corrected, uncorrected)) = row(&line.text) else { break };
            modules.insert(label, (line.number, [Some(corrected), Some(uncorrected)]));
        }
    }
    while let Some(line) = lines.take_if(|text| Count::of(text).is_some()) {
        let Some(count) = Count::of(&line.text) else { break };
        let counts = &mut modules.entry(count.module).or_insert((line.number, [None; 2])).1;
        counts[usize::from(!count.is_corrected)] = Some(count.errors);
    }
    for (module, (line, [corrected, uncorrected])) in modules {
        let row = run.row::<MemoryModule>(0.0, line, module.as_str().into());
        row.label = module.as_str().into();
        (row.corrected, row.uncorrected) = (corrected.into(), uncorrected.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn modules_by_their_labels() {
        let window = window_of(&fixture("layouts/edac-util-v.txt"));
        let modules = window.newest::<MemoryModule>();
        let count = |name: &str| modules[name].corrected.get();
        assert_eq!(count("CPU_SrcID#1_Ha#0_Chan#1_DIMM#0"), Some(88_120));
        assert_eq!((count("mc0"), modules["mc0/csrow0"].uncorrected.get()), (Some(0), Some(0)));
        assert_eq!(count("mc1/csrow0/ch1"), Some(3));
        let table = "$ ras-mc-ctl --error-count\nLabel               \tCE\tUE\nCPU_SrcID#0_MC#0_Chan#0_DIMM#0\t12\t0\n";
        let window = window_of(table);
        assert_eq!(window.the::<MemoryModule>().unwrap().corrected.get(), Some(12));
    }
}
