//! ulimit -a: limits of the shell in which it was run, as bash and dash print them.

use crate::prelude::*;
use std::collections::BTreeSet;
use whyslow_model::catalogue::Setting;

pub const FORMAT: Format = Format {
    name: "ulimit",
    versions: "ulimit -a of bash and dash",
    shows: "the limits of one shell: nothing by themselves",
    lacks: "the limits of other processes",
    programs: &[program("ulimit")],
    files: &["ulimit"],
    // A single line could belong to anything.
    starts: |lines| (0..2).all(|at| lines.peek(at).is_some_and(|line| limit(line).is_some())),
    read,
    ..Format::NEW
};

/// dash's names of limits, and bash's options for them.
const NAMES: [(&str, &str); 12] = [
    ("time(seconds)", "-t"),
    ("file(blocks)", "-f"),
    ("data(kbytes)", "-d"),
    ("stack(kbytes)", "-s"),
    ("coredump(blocks)", "-c"),
    ("memory(kbytes)", "-m"),
    ("locked memory(kbytes)", "-l"),
    ("process", "-u"),
    ("nofiles", "-n"),
    ("vmemory(kbytes)", "-v"),
    ("locks", "-x"),
    ("rtprio", "-r"),
];

/// Returns the option of a limit and its value: `open files  (-n) 20000`, `nofiles  20000`.
fn limit(line: &str) -> Option<(&str, &str)> {
    let (rest, value) = line.trim_end().rsplit_once(' ')?;
    let known = value == "unlimited" || value.bytes().all(|b| b.is_ascii_digit());
    if !known || value.is_empty() {
        return None;
    }
    if let Some((_, inside)) = rest.trim_end().rsplit_once('(') {
        let option = inside.trim_end().strip_suffix(')')?.rsplit([' ', ',']).next()?;
        if option.len() == 2 && option.starts_with('-') {
            return Some((option, value));
        }
    }
    NAMES.iter().find(|(name, _)| *name == rest.trim()).map(|(_, option)| (*option, value))
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    let mut seen = BTreeSet::new();
    // The beginning of a name, if its rest is another name.
    let is_damaged = |text: &str| NAMES.iter().any(|(name, _)| name.starts_with(text.trim()));
    while let Some(line) = lines.take_own(|text| limit(text).is_some(), is_damaged, "a limit and its value")? {
        let Some((option, value)) = limit(&line.text) else { break };
        // If an option is repeated, one of the two lines is the end of another name.
        let is_first = seen.insert(option.to_owned());
        let row = run.row::<Setting>(0.0, line.number, format!("ulimit {option}").into());
        row.value = is_first.then_some(value).into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn limits_of_both_shells_are_read() {
        for file in ["ulimit-bash.txt", "ulimit-dash.txt"] {
            let window = window_of(&fixture(file));
            let rows = window.newest::<Setting>();
            let value = |name: &str| rows.values().find(|s| &*s.name == name).and_then(|s| s.value.get());
            assert_eq!((value("ulimit -n"), value("ulimit -t")), (Some("20000"), Some("unlimited")), "{file}");
        }
    }
}
