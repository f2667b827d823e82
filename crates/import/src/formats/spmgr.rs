//! spmgr display of HP SecurePath: paths to each device.

use crate::prelude::*;
use whyslow_model::catalogue::Path;
use whyslow_model::key::LinkKey;

pub const FORMAT: Format = Format {
    name: "spmgr",
    versions: "SecurePath 3 and 4: spmgr display",
    shows: "the paths to each device, which of them carry load, whether it is balanced",
    lacks: "rates by path",
    programs: &[partly_read("spmgr")],
    starts: |lines| lines.next_is(|line| line.trim() == "Command: spmgr display" || is_title(line)),
    read,
    ..Format::NEW
};

/// Returns true for `  Server:  linny5    Report Created: Tue, May 10 19:10:04 2005`.
fn is_title(line: &str) -> bool {
    line.trim_start().starts_with("Server:") && line.contains("Report Created:")
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut device = String::new();
    let mut balanced = None;
    while let Some(text) = lines.peek(0).filter(|text| !is_command(text)).map(str::to_owned) {
        let fields: Vec<&str> = text.split_whitespace().collect();
        if let Some((_, rest)) = text.split_once("Load Balance:") {
            balanced = match rest.split_whitespace().next() {
                Some("On") => Some(1.0),
                Some("Off") => Some(0.0),
                _ => None,
            };
        } else if let Some(name) = of_device(&fields) {
            device = name.to_owned();
        } else if let Some((instance, adapter, state)) = path(&fields) {
            if device.is_empty() {
                return Err(lines.refuse("the line of the device before its paths: TGT/LUN, name, id, number of paths"));
            }
            let key = LinkKey { upper: device.as_str().into(), lower: instance.into() };
            let row = run.row::<Path>(0.0, lines.number(), key);
            row.state = state.to_ascii_lowercase().into();
            row.adapter = adapter.into();
            row.balanced = balanced.into();
        } else if another_output_starts(lines, FORMAT.name) {
            break;
        }
        lines.skip(1);
    }
    Ok(())
}

/// Returns the name in `0/ 3   spd   6005-08B4-...   4`: target and LUN, name, world-wide ID, number of paths.
fn of_device<'t>(fields: &[&'t str]) -> Option<&'t str> {
    let [.., name, id, count] = fields else { return None };
    let known = number(name).is_none()
        && fields.first()?.contains('/')
        && id.matches('-').count() >= 3
        && count.parse::<u32>().is_ok();
    known.then_some(*name)
}

/// Parses `hsx_mod-0-0-0-4   2300-0   no   Available`: an instance, an adapter, whether it is preferred, its state.
fn path<'t>(fields: &[&'t str]) -> Option<(&'t str, &'t str, &'t str)> {
    let [instance, adapter, preferred, state] = fields[..] else { return None };
    let known = ["Active", "Available", "Standby", "Failed", "Quiesced"].contains(&state);
    (known && matches!(preferred.to_ascii_lowercase().as_str(), "yes" | "no")).then_some((instance, adapter, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn four_paths_of_a_device() {
        let text = fixture("san-spmgr-display.txt");
        let window = window_of(&text);
        let rows = window.newest::<Path>();
        let states: Vec<_> = rows.values().map(|p| p.state.get().unwrap()).collect();
        assert_eq!(states, ["available", "standby", "standby", "active"]);
        assert!(rows.values().all(|p| &*p.path.upper == "spd" && p.balanced.get() == Some(0.0)));
        let line = text.lines().position(|l| l.contains("hsx_mod-0-0-0-4")).unwrap() as u32;
        assert_eq!(
            refusal_of(&text.lines().filter(|l| !l.contains("spd   ")).collect::<Vec<_>>().join("\n")).line,
            line
        );
    }
}
