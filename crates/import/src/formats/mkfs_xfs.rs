//! mkfs.xfs(8) and xfs_info(8): parameters of a file system, and the location of its log.

use crate::prelude::*;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Setting;

pub const FORMAT: Format = Format {
    name: "mkfs.xfs",
    versions: "mkfs.xfs and xfs_info, all",
    shows: "how a file system was made: its stripe, and whether its log is on a device of its own; nothing by itself",
    lacks: "rates",
    programs: &[partly_read("mkfs.xfs"), partly_read("xfs_info")],
    files: &["xfs_info"],
    starts: |lines| lines.next_is(|line| line.starts_with("meta-data=")),
    read,
    ..Format::NEW
};

/// Sections, which are followed by `name=value` pairs, and the values in them that affect performance.
const SECTIONS: [(&str, &[&str]); 5] = [
    ("meta-data", &["sectsz"]),
    ("data", &["bsize", "blocks", "sunit", "swidth"]),
    ("naming", &["bsize"]),
    ("log", &["bsize", "blocks", "sectsz", "sunit"]),
    ("realtime", &["blocks"]),
];

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut system = String::new();
    let mut section: (&str, &[&str]) = ("", &[]);
    // A repeated name belongs to a section whose beginning was lost.
    let mut seen = BTreeSet::new();
    let begins = |name: &str| SECTIONS.into_iter().find(|(section, _)| *section == name.trim());
    while let Some(line) = lines
        .take_if(|text| text.split_once('=').is_some_and(|(name, _)| name.trim().is_empty() || begins(name).is_some()))
    {
        let Some((name, rest)) = line.text.split_once('=') else { break };
        // The next line was joined to it.
        let rest = rest.split_once(" =").map_or(rest, |(own, _)| own);
        let place = rest.split_whitespace().next().unwrap_or_default().trim_start_matches("/dev/");
        let mut set = |what: &str, value: &str, system: &str| {
            run.row::<Setting>(0.0, line.number, format!("xfs {system} {what}").into()).value = value.into();
        };
        if let Some(named) = begins(name) {
            section = named;
            match section.0 {
                "meta-data" => system = place.to_owned(),
                "log" => set("log", place, &system),
                _ => {}
            }
        }
        for (key, value) in rest.split([' ', ',']).filter_map(|word| word.split_once('=')) {
            if section.1.contains(&key) && seen.insert((section.0, key.to_owned())) {
                set(&format!("{}.{key}", section.0), value, &system);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn a_log_on_a_device_of_its_own() {
        let window = window_of(&fixture("san-mkfs-xfs-extlog.txt"));
        let rows = window.newest::<Setting>();
        let value = |name: &str| rows.values().find(|s| &*s.name == name).and_then(|s| s.value.get());
        assert_eq!((value("xfs sdj1 log"), value("xfs sdj1 log.blocks")), (Some("sdk1"), Some("10000")));
        assert_eq!(value("xfs sdj1 data.sunit"), Some("0"));
    }
}
