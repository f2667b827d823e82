//! edac-util(1) and `ras-mc-ctl --error-count`: errors of memory modules since the counters were reset.

use crate::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::MemoryModule;

pub const FORMAT: Format = Format {
    name: "edac-util",
    versions: "edac-utils 0.16 on: plain and -v; ras-mc-ctl --error-count of rasdaemon",
    shows: "which memory module has returned wrong bits since boot, and how often",
    lacks: "whether it still does: read it twice",
    programs: &[partly_read("edac-util"), partly_read("ras-mc-ctl")],
    files: &["edac-util", "ras-mc-ctl"],
    starts: |lines| lines.next_is(|line| Count::parse(line).is_some() || is_header(line)),
    read,
    ..Format::NEW
};

/// Returns true for `Label CE UE`, with tabs between them.
fn is_header(line: &str) -> bool {
    line.split_whitespace().eq(["Label", "CE", "UE"])
}

/// Errors on a line.
struct Count {
    /// Controller and row of modules; without the row, the errors of an unknown row.
    row: String,
    /// Module, if the line is about one: its label, or its channel if it has none.
    module: Option<String>,
    errors: u64,
    is_corrected: bool,
}

impl Count {
    /// Parses `mc3: csrow0: CPU_SrcID#1_Ha#1_Chan#0_DIMM#0: 118204 Corrected Errors`, `mc0: csrow2: 0 Uncorrected Errors`,
    /// `mc0: 0 Corrected Errors with no DIMM info`.
    fn parse(line: &str) -> Option<Self> {
        let (place, count) = line.trim().rsplit_once(": ")?;
        place.strip_prefix("mc").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
        let (errors, what) = count.split_once(' ')?;
        let what = what.strip_suffix(" with no DIMM info").unwrap_or(what);
        let is_corrected = match what {
            "Corrected Errors" => true,
            "Uncorrected Errors" => false,
            _ => return None,
        };
        let parts: Vec<&str> = place.split(": ").collect();
        // Text that was joined to a row is not a label.
        let is_plain = |part: &&str| !part.is_empty() && !part.contains([':', '\t']);
        (parts.len() <= 3 && parts.iter().all(is_plain)).then_some(())?;
        let row = parts.iter().take(2).copied().collect::<Vec<_>>().join("/");
        let is_channel = |name: &str| name.strip_prefix("ch").is_some_and(|number| number.parse::<u32>().is_ok());
        let module =
            parts.get(2).map(|name| if is_channel(name) { format!("{row}/{name}") } else { (*name).to_owned() });
        Some(Self { row, module, errors: errors.parse().ok()?, is_corrected })
    }
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    // By module or row of modules: its line, and its corrected and uncorrected errors.
    let mut modules: BTreeMap<String, (u32, [Option<u64>; 2])> = BTreeMap::new();
    if lines.take_if(is_header).is_some() {
        let row = |text: &str| {
            let fields: Vec<&str> = text.split_whitespace().collect();
            let [label @ .., corrected, uncorrected] = &fields[..] else { return None };
            label
                .first()
                .filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()) && word.contains(['#', '_']))?;
            Some((label.join(" "), corrected.parse::<u64>().ok()?, uncorrected.parse::<u64>().ok()?))
        };
        while let Some(line) = lines.take_if(|text| row(text).is_some()) {
            let Some((label, corrected, uncorrected)) = row(&line.text) else { break };
            modules.insert(label, (line.number, [Some(corrected), Some(uncorrected)]));
        }
    }
    // Uncorrected errors are counted by row: if a row has none, neither do its modules.
    let mut whole_rows: BTreeSet<String> = BTreeSet::new();
    while let Some(line) = lines.take_if(|text| Count::parse(text).is_some()) {
        let Some(count) = Count::parse(&line.text) else { break };
        if !count.is_corrected && count.module.is_none() && count.errors == 0 {
            whole_rows.insert(count.row.clone());
        }
        let uncorrected = whole_rows.contains(&count.row).then_some(0);
        let name = match count.module {
            Some(module) => module,
            None if count.errors > 0 => count.row,
            None => continue,
        };
        let counts = &mut modules.entry(name).or_insert((line.number, [None, uncorrected])).1;
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
        assert_eq!(modules["CPU_SrcID#1_Ha#0_Chan#1_DIMM#0"].uncorrected.get(), Some(0));
        assert_eq!((count("mc1/csrow0/ch1"), modules.len()), (Some(3), 4));
        let table = "$ ras-mc-ctl --error-count\nLabel               \tCE\tUE\nCPU_SrcID#0_MC#0_Chan#0_DIMM#0\t12\t0\n";
        let window = window_of(table);
        assert_eq!(window.the::<MemoryModule>().unwrap().corrected.get(), Some(12));
    }
}
