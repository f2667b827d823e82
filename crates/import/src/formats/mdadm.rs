//! mdadm(8) --detail: the state of a software RAID array and its members (Detail.c).

use super::mdstat::{record_failed, record_member};
use crate::prelude::*;
use whyslow_model::catalogue::Array;
use whyslow_model::value::State;

pub const FORMAT: Format = Format {
    name: "mdadm",
    versions: "mdadm 2 to 4: --detail, or its line on the state alone",
    shows: "degraded arrays; a check or rebuild; the members of each array",
    lacks: "the speed of a rebuild; rates of the members",
    programs: &[partly_read("mdadm")],
    files: &["mdadm"],
    starts: |lines| {
        lines.next_is(|line| array(line).is_some()) && lines.peek(1).is_some_and(|line| field(line).is_some())
            || lines.next_is(is_lone_state)
    },
    read,
    ..Format::NEW
};

/// Actions of md, by the words of the state.
const ACTIONS: [(&str, &str); 5] = [
    ("recovering", "recover"),
    ("resyncing", "resync"),
    ("reshaping", "reshape"),
    ("checking", "check"),
    ("repairing", "repair"),
];

/// Parses `/dev/md0:`.
fn array(line: &str) -> Option<&str> {
    let name = line.trim_end().strip_prefix("/dev/")?.strip_suffix(':')?;
    name.starts_with("md").then(|| name.strip_prefix("md/").unwrap_or(name))
}

/// Parses `     Raid Level : raid1`.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" : ")?;
    Some((name.trim(), value.trim()))
}

/// Placeholder for the array of a state that was quoted without it.
const UNNAMED: &str = "md";

/// Returns true for `             State : clean, degraded, recovering`.
fn is_lone_state(line: &str) -> bool {
    const STATES: [&str; 9] =
        ["clean", "active", "inactive", "degraded", "recovering", "resyncing", "checking", "reshaping", "FAILED"];
    let is_state = |word: &str| STATES.contains(&word.trim());
    field(line).is_some_and(|(name, value)| name == "State" && value.split(',').all(is_state))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if let Some(line) = lines.take_if(is_lone_state) {
        let (_, value) = field(&line.text).unwrap_or_default();
        let row = run.row::<Array>(0.0, line.number, UNNAMED.into());
        row.state = value.split(',').next().unwrap_or(value).trim().into();
        let action = ACTIONS.iter().find(|(word, _)| value.contains(word)).map(|(_, action)| *action);
        row.action = action.unwrap_or("idle").into();
        // At least one member is missing.
        row.degraded = f64::from(u8::from(value.contains("degraded") || value.contains("FAILED"))).into();
        return Ok(());
    }
    let Some(title) = lines.take() else { return Ok(()) };
    let Some(name) = array(&title.text) else { return Ok(()) };
    let mut active = None;
    let mut failed: Vec<String> = Vec::new();
    run.row::<Array>(0.0, title.number, name.into());
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        let text = text.to_owned();
        if let Some((key, value)) = field(&text) {
            let row = run.row::<Array>(0.0, 0, name.into());
            match key {
                "Raid Level" => row.level = value.into(),
                "Raid Devices" => row.members = number(value).into(),
                "Active Devices" => active = number(value),
                "State" => {
                    row.state = value.split(',').next().unwrap_or(value).trim().into();
                    // A list that continues was cut.
                    let action = ACTIONS.iter().find(|(word, _)| value.contains(word)).map(|(_, action)| *action);
                    row.action = action.or((!value.ends_with(',')).then_some("idle")).into();
                }
                "Rebuild Status" | "Resync Status" | "Reshape Status" | "Check Status" => {
                    row.sync_done = value.split('%').next().and_then(number).map(|percent| percent / 100.0).into();
                    // The state shows which action runs, unless it was cut.
                    if row.action.get() == Some("idle") {
                        row.action = State::default();
                    }
                }
                _ => {}
            }
        } else if let Some(member) = member(&text) {
            record_member(run, lines.number() + blanks as u32, name, member);
            if text.contains(" faulty ") {
                failed.push(member.to_owned());
            }
        } else if !text.trim_start().starts_with("Number") && !text.trim_end().ends_with("removed") {
            break;
        }
        lines.skip(blanks + 1);
    }
    let row = run.row::<Array>(0.0, 0, name.into());
    record_failed(row, &failed);
    row.degraded = row.members.get().zip(active).map(|(all, active)| (all - active).max(0.0)).into();
    Ok(())
}

/// Returns the device in `0  8  1  0  active sync  /dev/sda1`.
fn member(line: &str) -> Option<&str> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let numbered = fields.len() > 4 && fields[..3].iter().all(|f| f.bytes().all(|b| b.is_ascii_digit()));
    fields.last().filter(|_| numbered)?.strip_prefix("/dev/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of, window_of};
    use whyslow_model::catalogue::Layer;

    #[test]
    fn an_array_being_rebuilt() {
        let window = window_of(&fixture("layouts/mdadm-detail.txt"));
        let array = window.the::<Array>().unwrap();
        assert_eq!(
            (array.level.get(), array.state.get(), array.action.get()),
            (Some("raid5"), Some("active"), Some("recover"))
        );
        assert_eq!(
            (array.members.get(), array.degraded.get(), array.sync_done.get()),
            (Some(3.0), Some(1.0), Some(0.37))
        );
        // Each member is a partition of its own disk.
        assert_eq!(window.newest::<Layer>().len(), 6);
    }

    #[test]
    fn a_faulty_member() {
        let text = "/dev/md0:\n     Raid Level : raid1\n   Raid Devices : 2\n Active Devices : 1\n          State : clean, degraded\n\n    \
            Number   Major   Minor   RaidDevice State\n       0       8        1        0      active sync   /dev/sda1\n       \
            -       0        0        1      removed\n\n       1       8       17        -      faulty   /dev/sdb1\n";
        let window = window_of(text);
        let array = window.the::<Array>().unwrap();
        assert_eq!((array.degraded.get(), array.failed_members.get()), (Some(1.0), Some("sdb1")));
    }

    #[test]
    fn a_state_that_was_quoted_alone() {
        let of = |state: &str| row_of::<Array>(&format!("It says\n             State : {state}\n")).degraded.get();
        assert_eq!((of("clean, degraded"), of("active, checking")), (Some(1.0), Some(0.0)));
        assert!(!is_lone_state("State : of the art"));
    }

    #[test]
    fn a_whole_array_is_not_degraded() {
        let text = fixture("layouts/mdadm-detail.txt");
        let text =
            text.replace("Active Devices : 2", "Active Devices : 3").replace("active, degraded, recovering", "clean");
        let text = text.replace("    Rebuild Status : 37% complete\n", "");
        let array = row_of::<Array>(&text);
        assert_eq!((array.degraded.get(), array.action.get()), (Some(0.0), Some("idle")));
    }
}
