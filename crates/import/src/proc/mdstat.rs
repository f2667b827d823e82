//! /proc/mdstat: software RAID arrays, their members, and a check or rebuild that goes on (Documentation/admin-guide/md.rst).

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::{Array, Layer};
use whyslow_model::key::Pair;

/// The format.
pub const FORMAT: Format = Format {
    name: "mdstat",
    versions: "/proc/mdstat since 2.4",
    tells: "arrays with members missing; a check or rebuild; which disk is a member of which array",
    starts,
    read,
};

fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(|line| line.starts_with("Personalities :") || array(line).is_some())
}

/// `md0 : active raid1 sdc1[2] sda1[0]`
fn array(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(" : ")?;
    (name.starts_with("md") && (rest.starts_with("active") || rest.starts_with("inactive")))
        .then_some((name.trim(), rest))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    if lines.peek(0).is_some_and(|line| line.starts_with("Personalities :")) {
        lines.skip(1);
    }
    while let Some((blanks, text)) = lines.peek_past_blanks(0) {
        if text.starts_with("unused devices:") {
            lines.skip(blanks + 1);
            break;
        }
        let Some((name, rest)) = array(text).map(|(name, rest)| (name.to_owned(), rest.to_owned())) else { break };
        lines.skip(blanks);
        let line = lines.number();
        lines.skip(1);
        one(lines, run, line, &name, rest);
    }
    Ok(())
}

/// One array: the lines up to the next array or the end are about it, however they are wrapped.
fn one(lines: &mut Lines<'_>, run: &mut Run, line: u32, name: &str, first: String) {
    let mut text = first;
    while let Some(next) = lines.peek(0) {
        let ours = !next.trim().is_empty() && array(next).is_none() && !next.starts_with("unused");
        if !ours || crate::command_of(next).is_some() {
            break;
        }
        text.push(' ');
        text.push_str(next.trim());
        lines.skip(1);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    for member in words.iter().filter_map(|w| member(w)) {
        let link = Pair { upper: name.into(), lower: member.into() };
        run.row::<Layer>(0.0, line, link).kind = "md".into();
        if let Some(disk) = disk_of(member) {
            let link = Pair { upper: member.into(), lower: disk.into() };
            run.row::<Layer>(0.0, line, link).kind = "partition".into();
        }
    }
    let row = run.row::<Array>(0.0, line, name.into());
    row.state = words.first().copied().unwrap_or_default().into();
    if let Some(level) = words.iter().find(|w| w.starts_with("raid") || **w == "linear") {
        row.level = (*level).into();
    }
    if let Some((all, work)) = words.iter().find_map(|w| counts(w)) {
        row.members = all.into();
        row.degraded = (all - work).max(0.0).into();
    }
    row.action = "idle".into();
    for (at, word) in words.iter().enumerate() {
        if ["check", "resync", "recovery", "repair", "reshape"].contains(word) && words.get(at + 1) == Some(&"=") {
            row.action = (*word).into();
            row.sync_done = words.get(at + 2).and_then(|w| number(w.strip_suffix('%')?)).map(|p| p / 100.0).into();
        }
        if let Some(speed) = word.strip_prefix("speed=").and_then(|s| number(s.strip_suffix("K/sec")?)) {
            row.sync_speed = (speed * 1024.0).into();
        }
    }
}

/// `sdc1[2]`, `sdb[1](F)`: the device of a member.
fn member(word: &str) -> Option<&str> {
    let (device, rest) = word.split_once('[')?;
    let numbered = rest.split(']').next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (!device.is_empty() && numbered).then_some(device)
}

/// `sda1` is a partition of `sda`, in the families of names that put the number right behind the letters.
fn disk_of(member: &str) -> Option<&str> {
    let disk = member.trim_end_matches(|c: char| c.is_ascii_digit());
    let lettered = ["sd", "hd", "vd", "xvd"].iter().any(|family| disk.starts_with(family));
    (lettered && disk.len() < member.len()).then_some(disk)
}

/// `[3/2]`: members wanted and working.
fn counts(word: &str) -> Option<(f64, f64)> {
    let (all, work) = word.strip_prefix('[')?.strip_suffix(']')?.split_once('/')?;
    Some((number(all)?, number(work)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn a_check_over_wrapped_lines() {
        let window = window_of(&fixture("cases/004-raid6-resync-4k-requests/mdstat.txt"));
        let array = window.the::<Array>().unwrap();
        assert_eq!((array.level.get(), array.action.get()), (Some("raid6"), Some("check")));
        assert_eq!((array.members.get(), array.degraded.get()), (Some(36.0), Some(0.0)));
        assert_eq!(array.sync_speed.get(), Some(38_329.0 * 1024.0));
        // Each member is a partition of its own disk.
        assert_eq!(window.newest::<Layer>().len(), 72);
    }

    #[test]
    fn a_member_that_failed() {
        let window = window_of("md0 : active raid1 sdb[2](F) sda[0]\n      31744 blocks super 1.2 [2/1] [U_]\n");
        assert_eq!(window.the::<Array>().unwrap().degraded.get(), Some(1.0));
    }
}
