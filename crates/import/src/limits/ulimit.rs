//! ulimit -a: the limits of the shell it was typed into, as bash and dash print them.

use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::Setting;

/// The format.
pub const FORMAT: Format = Format {
    name: "ulimit",
    versions: "ulimit -a of bash and dash",
    tells: "the limits of that shell, which other processes may not share: nothing by themselves",
    starts: |lines| is_limits(lines),
    read,
};

/// The words dash names a limit with, and the option bash prints beside it.
const WORDS: [(&str, &str); 12] = [
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

/// The option of a limit and its value: `open files  (-n) 20000`, `nofiles  20000`.
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
    WORDS.iter().find(|(words, _)| *words == rest.trim_end()).map(|(_, option)| (*option, value))
}

/// One line alone could be anything's.
fn is_limits(lines: &mut Lines<'_>) -> bool {
    (0..2).all(|at| lines.peek(at).is_some_and(|line| limit(line).is_some()))
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    while let Some((option, value)) = lines.peek(0).and_then(limit).map(|(o, v)| (o.to_owned(), v.to_owned())) {
        let line = lines.number();
        run.row::<Setting>(0.0, line, format!("ulimit {option}").into()).value = value.into();
        lines.skip(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, window_of};

    #[test]
    fn both_shells() {
        for file in ["ulimit-bash.txt", "ulimit-dash.txt"] {
            let window = window_of(&fixture(file));
            let rows = window.newest::<Setting>();
            let value = |name: &str| rows.values().find(|s| &*s.name == name).and_then(|s| s.value.get());
            assert_eq!((value("ulimit -n"), value("ulimit -t")), (Some("20000"), Some("unlimited")), "{file}");
        }
    }
}
