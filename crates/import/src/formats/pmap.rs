//! pmap(1), and /proc/PID/smaps_rollup: memory that a process maps, and the part of it that is in RAM.

use crate::prelude::*;
use whyslow_model::catalogue::Process;

pub const FORMAT: Format = Format {
    name: "pmap",
    versions: "procps 2 to 4: plain and -x; rows of it; /proc/PID/smaps_rollup",
    shows: "with -x and in smaps_rollup, how much memory of a process is in RAM; nothing by itself",
    lacks: "whether it grows; without -x only addresses: they are no memory in use",
    programs: &[program("pmap")],
    files: &["pmap"],
    starts: |lines| lines.next_is(is_rollup) || title(lines).is_some() || lines.next_is(is_mapping),
    read,
    ..Format::NEW
};

/// Parses `812:   /usr/sbin/mysqld`, above a mapping or the header of -x.
fn title(lines: &mut Lines<'_>) -> Option<(u32, String)> {
    let (pid, command) = lines.peek(0)?.split_once(':')?;
    let pid = pid.parse().ok()?;
    let command = command.split_whitespace().next()?;
    let command = command.rsplit('/').next().unwrap_or(command).to_owned();
    let follows = lines.peek(1).is_some_and(|next| next.starts_with("Address ") || is_mapping(next));
    follows.then_some((pid, command))
}

/// Returns true for a mapping: `000055801f0a7000    188K r---- bash`, and with -x `000055801f0a7000     188     188       0
/// r---- bash`.
fn is_mapping(line: &str) -> bool {
    const ADDRESS: [usize; 2] = [8, 16];
    let fields: Vec<&str> = line.split_whitespace().collect();
    let address =
        fields.first().is_some_and(|a| ADDRESS.contains(&a.len()) && a.bytes().all(|b| b.is_ascii_hexdigit()));
    let size = fields.get(1).is_some_and(|size| number(size.strip_suffix('K').unwrap_or(size)).is_some());
    let is_mode = |f: &str| f.len() == 5 && f.bytes().zip(*b"rwxsR").all(|(b, own)| b == b'-' || b == own || b == b'p');
    address && size && [2, 4].iter().any(|at| fields.get(*at).is_some_and(|field| is_mode(field)))
}

/// Returns true for `55801f0a7000-7ffd2f23b000 ---p 00000000 00:00 0                          [rollup]`.
fn is_rollup(line: &str) -> bool {
    line.trim_end().ends_with("[rollup]") && line.split_whitespace().nth(1) == Some("---p")
}

/// Placeholder for a process that is not named.
const UNNAMED: &str = "process";

fn read(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    if lines.next_is(is_rollup) {
        return rollup(lines, context, run);
    }
    let titled = title(lines);
    lines.skip(usize::from(titled.is_some()));
    let begin = lines.number();
    let mut resident = None;
    while let Some(line) =
        lines.take_if(|text| is_mapping(text) || text.starts_with("Address ") || text.starts_with("----"))
    {
        lines.reuse(line);
    }
    if let Some(line) = lines.take_if(|text| text.starts_with("total ")) {
        // `total kB            5264    4260    1244`: size, resident, dirty.
        let numbers: Vec<f64> = line.text.split_whitespace().filter_map(number).collect();
        resident = if let [_, resident, _] = numbers[..] { Some(resident) } else { None };
    }
    if let Some(((pid, command), resident)) = titled.zip(resident) {
        let row = run.row::<Process>(0.0, begin, process(pid));
        row.command = command.as_str().into();
        row.rss = (resident * KIB).into();
    } else {
        let why = "sizes of address ranges do not tell how much memory is in use";
        run.note("pmap", why, "give the whole output of pmap -x PID");
    }
    Ok(())
}

fn rollup(lines: &mut Lines<'_>, context: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let begin = lines.number();
    lines.skip(1);
    let path = context.command().into_iter().flat_map(|c| c.operands()).find_map(|o| o.strip_prefix("/proc/"));
    let pid = path.and_then(|rest| rest.split('/').next()?.parse().ok());
    let mut amounts = Vec::new();
    while let Some(line) = lines.take_if(|text| text.ends_with(" kB") && text.contains(':')) {
        let (name, amount) = line.text.split_once(':').unwrap_or_default();
        amounts.extend(number(amount.trim_end_matches("kB").trim()).map(|kib| (name.to_owned(), kib * KIB)));
    }
    let get = |wanted: &str| amounts.iter().find(|(name, _)| name == wanted).map(|(_, bytes)| *bytes);
    let Some(pid) = pid else {
        run.note("smaps_rollup", "it does not name its process", "include the command line");
        return Ok(());
    };
    let row = run.row::<Process>(0.0, begin, process(pid));
    row.command = UNNAMED.into();
    (row.rss, row.swap) = (get("Rss").into(), get("Swap").into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, read_text, window_of};

    #[test]
    fn what_is_in_memory_is_the_total_of_its_column() {
        let window = window_of(&fixture("pmap-x.txt"));
        let row = window.the::<Process>().unwrap();
        assert_eq!((row.command.get(), row.rss.get()), (Some("sleep"), Some(1920.0 * KIB)));
    }

    #[test]
    fn a_rollup_needs_its_command_line() {
        let window = window_of(&fixture("proc-smaps-rollup.txt"));
        let row = window.the::<Process>().unwrap();
        assert_eq!(row.rss.get(), Some(1920.0 * KIB));
    }

    #[test]
    fn ranges_of_addresses_are_no_memory() {
        let text = "pmap also shows\n000000000c016000 2600K rwx-- worker\n00007ea54b197000 1048576K rwx--   [ anon ]\nIs it a leak?\n";
        let captures = read_text(text).unwrap();
        assert!(captures.iter().all(|c| c.window.newest::<Process>().is_empty()));
        assert!(!is_mapping("deadbeef 12 r5 5") && is_mapping("00400000 192600K r-x-- x"));
    }
}
