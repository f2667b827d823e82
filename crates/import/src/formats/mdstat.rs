//! /proc/mdstat: software RAID arrays, their members, and a check or rebuild in progress
//! (Documentation/admin-guide/md.rst).

use crate::prelude::*;
use whyslow_model::catalogue::{Array, Layer};
use whyslow_model::key::LinkKey;

pub const FORMAT: Format = Format {
    name: "mdstat",
    versions: "/proc/mdstat since 2.4, or its line on the progress of a check or rebuild alone",
    shows: "degraded arrays; a check or rebuild; the members of each array",
    lacks: "rates of the members",
    files: &["mdstat"],
    starts: |lines| {
        lines.next_is(|line| line.starts_with("Personalities :") || array(line).is_some())
            || lone_progress(lines).is_some()
    },
    read,
    ..Format::NEW
};

/// Personalities of md, including their names in old kernels.
const LEVELS: [&str; 9] = ["raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "linear", "multipath", "faulty"];

/// Parses `md0 : active raid1 sdc1[2] sda1[0]`.
fn array(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(" : ")?;
    (name.starts_with("md") && (rest.starts_with("active") || rest.starts_with("inactive")))
        .then_some((name.trim(), rest))
}

/// Placeholder for the array of a line that was quoted without its name.
const UNNAMED: &str = "md";

/// Returns a lone `      [>....................]  check =  3.4% (66412416/1953382464) finish=1612.9min speed=19496K/sec`, and
/// the number of its lines.
fn lone_progress(lines: &mut Lines<'_>) -> Option<(String, usize)> {
    let is_bar = |bar: &str| !bar.is_empty() && bar.bytes().all(|b| b"=>.".contains(&b));
    let line = lines.peek(0)?.trim_start();
    let begins = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).is_some_and(|(bar, _)| is_bar(bar));
    let line = line.to_owned();
    if !begins || !line.contains("% (") {
        return None;
    }
    let is_whole = |text: &str| text.contains(" finish=") && text.ends_with("K/sec");
    if is_whole(&line) {
        return Some((line, 1));
    }
    let joined = format!("{line} {}", lines.peek(1)?.trim_start());
    is_whole(&joined).then_some((joined, 2))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if let Some((text, count)) = lone_progress(lines) {
        progress(&text.split_whitespace().collect::<Vec<_>>(), run.row(0.0, lines.number(), UNNAMED.into()));
        lines.skip(count);
        return Ok(());
    }
    lines.take_if(|line| line.starts_with("Personalities :"));
    while let Some(line) =
        lines.take_past_blanks_if(|text| text.starts_with("unused devices:") || array(text).is_some())
    {
        let Some((name, rest)) = array(&line.text) else { break };
        // All lines up to the next array belong to this one, however they are wrapped.
        let mut text = rest.to_owned();
        while let Some(next) = lines.take_if(|next| {
            !next.trim().is_empty() && array(next).is_none() && !next.starts_with("unused") && !is_command(next)
        }) {
            text.push(' ');
            text.push_str(next.text.trim());
        }
        record(run, line.number, name, &text);
    }
    Ok(())
}

fn record(run: &mut ToolRun, line: u32, name: &str, text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.iter().filter_map(|w| member(w)).for_each(|member| record_member(run, line, name, member));
    let failed: Vec<&str> = words.iter().filter(|word| word.contains("](F)")).filter_map(|w| member(w)).collect();
    let row = run.row::<Array>(0.0, line, name.into());
    record_failed(row, &failed);
    row.state = words.first().copied().unwrap_or_default().into();
    if let Some(level) = words.iter().find(|word| LEVELS.contains(word)) {
        row.level = (*level).into();
    }
    if let Some((all, working)) = words.iter().find_map(|w| member_counts(w)) {
        row.members = all.into();
        row.degraded = (all - working).max(0.0).into();
    }
    row.action = "idle".into();
    progress(&words, row);
}

/// Records the action of the array and its progress.
fn progress(words: &[&str], row: &mut Array) {
    for (at, word) in words.iter().enumerate() {
        if ["check", "resync", "recovery", "repair", "reshape"].contains(word) && words.get(at + 1) == Some(&"=") {
            row.action = (*word).into();
            row.sync_done = words.get(at + 2).and_then(|w| number(w.strip_suffix('%')?)).map(|p| p / 100.0).into();
        }
        if let Some(speed) = word.strip_prefix("speed=").and_then(|s| number(s.strip_suffix("K/sec")?)) {
            row.sync_speed = (speed * KIB).into();
        }
    }
}

/// Records the failed members, if any.
pub fn record_failed<S: AsRef<str>>(row: &mut Array, failed: &[S]) {
    if !failed.is_empty() {
        let names: Vec<&str> = failed.iter().map(AsRef::as_ref).collect();
        row.failed_members = names.join(", ").as_str().into();
    }
}

/// Records a member of an array, and the disk that contains it if it is a partition.
pub fn record_member(run: &mut ToolRun, line: u32, array: &str, member: &str) {
    let link = LinkKey { upper: array.into(), lower: member.into() };
    run.row::<Layer>(0.0, line, link).kind = "md".into();
    if let Some(disk) = disk_of(member) {
        let link = LinkKey { upper: member.into(), lower: disk.into() };
        run.row::<Layer>(0.0, line, link).kind = "partition".into();
    }
}

/// Returns the device of a member: `sdc1[2]`, `sdb[1](F)`.
fn member(word: &str) -> Option<&str> {
    let (device, rest) = word.split_once('[')?;
    let numbered = rest.split(']').next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (!device.is_empty() && numbered).then_some(device)
}

/// Returns the disk of a partition: `sda` for `sda1`, if names of its kind have the number right after the letters.
fn disk_of(member: &str) -> Option<&str> {
    let disk = member.trim_end_matches(|c: char| c.is_ascii_digit());
    let lettered = ["sd", "hd", "vd", "xvd"].iter().any(|family| disk.starts_with(family));
    (lettered && disk.len() < member.len()).then_some(disk)
}

/// Returns the numbers of configured and working members in `[3/2]`.
fn member_counts(word: &str) -> Option<(f64, f64)> {
    let (all, working) = word.strip_prefix('[')?.strip_suffix(']')?.split_once('/')?;
    Some((number(all)?, number(working)?))
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
    fn the_progress_of_a_check_alone() {
        let line =
            "    [=>...................]  check =  6.5% (65044480/1000072192) finish=412.6min speed=37760K/sec\n";
        let array = crate::testing::row_of::<Array>(line);
        assert_eq!(
            (array.action.get(), array.sync_done.get(), array.degraded.get()),
            (Some("check"), Some(0.065), None)
        );
        assert_eq!(array.sync_speed.get(), Some(37_760.0 * 1024.0));
    }

    #[test]
    fn a_failed_member_is_reported() {
        let window = window_of("md0 : active raid1 sdb[2](F) sda[0]\n      31744 blocks super 1.2 [2/1] [U_]\n");
        let array = window.the::<Array>().unwrap();
        assert_eq!((array.degraded.get(), array.failed_members.get()), (Some(1.0), Some("sdb")));
    }
}
