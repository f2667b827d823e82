//! What mkfs.xfs(8) and xfs_info(8) print: how a file system was made, and where its log lies.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Setting;

/// The format.
pub const FORMAT: Format = Format {
    name: "mkfs.xfs",
    versions: "mkfs.xfs and xfs_info, all",
    tells: "how a file system was made: its stripe, and whether its log lies on a device of its own; nothing by itself",
    starts: |lines| lines.peek(0).is_some_and(|line| line.starts_with("meta-data=")),
    read,
};

/// What is said of each part, as `name=value` behind the part's own.
const PARTS: [&str; 5] = ["meta-data", "data", "naming", "log", "realtime"];
/// What bears on how fast it is.
const TOLD: [&str; 5] = ["sectsz", "bsize", "sunit", "swidth", "blocks"];

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let (mut system, mut part) = (String::new(), "");
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let Some((name, rest)) = text.split_once('=') else { break };
        let named = PARTS.iter().find(|part| **part == name.trim());
        if named.is_none() && !name.trim().is_empty() {
            break;
        }
        let place = rest.split_whitespace().next().unwrap_or_default().trim_start_matches("/dev/");
        let line = lines.number();
        let mut set = |what: &str, value: &str, system: &str| {
            run.row::<Setting>(0.0, line, format!("xfs {system} {what}").into()).value = value.into();
        };
        if let Some(named) = named {
            part = named;
            if part == "meta-data" {
                system = place.to_owned();
            } else if part == "log" {
                set("log", place, &system);
            }
        }
        for (key, value) in rest.split([' ', ',']).filter_map(|word| word.split_once('=')) {
            if TOLD.contains(&key) {
                set(&format!("{part}.{key}"), value, &system);
            }
        }
        lines.skip(1);
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
