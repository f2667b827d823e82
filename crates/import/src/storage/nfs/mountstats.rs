//! mountstats(8), and /proc/self/mountstats from which it computes: counts since a file system was mounted.

use super::MS;
use crate::format::{Asked, Format};
use crate::lines::Lines;
use crate::number::number;
use crate::refusal::Refusal;
use crate::run::Run;
use whyslow_model::catalogue::NfsMount;
use whyslow_proc::mountstats::{counts, mount};

/// The format.
pub const FORMAT: Format = Format {
    name: "mountstats",
    versions: "nfs-utils 1 and 2; /proc/self/mountstats",
    tells: "how long operations waited and took since the mount; of two with their times, in between",
    starts: |lines| lines.peek(0).is_some_and(|line| printed(line).is_some() || mount(line).is_some()),
    read,
};

/// `Stats for server:/export mounted on /mnt:`
fn printed(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("Stats for ")?.trim_end().strip_suffix(':')?.split_once(" mounted on ")
}

/// What all operations of a mount add up to.
#[derive(Default)]
struct Sum {
    operations: f64,
    sent_again: f64,
    queue: f64,
    round_trip: f64,
    execute: f64,
}

fn read(lines: &mut Lines<'_>, _: &Asked, run: &mut Run) -> Result<(), Refusal> {
    let mut seen = Vec::new();
    while let Some((blanks, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        let Some((server, point)) = printed(&text).or_else(|| mount(&text).map(|m| (m.device, m.point))) else { break };
        // A mount again is the next reading.
        if seen.iter().any(|p| p == point) {
            break;
        }
        seen.push(point.to_owned());
        lines.skip(blanks);
        let line = lines.number();
        lines.skip(1);
        if let Some(sum) = operations(lines)? {
            let row = run.row::<NfsMount>(0.0, line, point.into());
            row.server = server.into();
            row.operations = (sum.operations as u64).into();
            row.sent_again = (sum.sent_again as u64).into();
            row.queue_time = ((sum.queue * MS) as u64).into();
            row.round_trip_time = ((sum.round_trip * MS) as u64).into();
            row.execute_time = ((sum.execute * MS) as u64).into();
        }
    }
    Ok(())
}

/// The operations of a mount; none for a file system of another kind.
fn operations(lines: &mut Lines<'_>) -> Result<Option<Sum>, Refusal> {
    let mut sum = None;
    while let Some((_, text)) = lines.peek_past_blanks(0).map(|(blanks, text)| (blanks, text.to_owned())) {
        if printed(&text).is_some() || mount(&text).is_some() || crate::elsewhere(lines, FORMAT.name) {
            break;
        }
        while lines.peek(0).is_some_and(|line| line.trim().is_empty()) {
            lines.skip(1);
        }
        if let Some(counts) = counts(&text) {
            let Some(kind) = whyslow_proc::mountstats::operations(counts) else {
                return Err(lines.refuse("an operation, then eight counts or nine"));
            };
            let sum = sum.get_or_insert_with(Sum::default);
            sum.operations += kind.done as f64;
            sum.sent_again += kind.sent_again as f64;
            sum.queue += kind.queue_ms as f64;
            sum.round_trip += kind.round_trip_ms as f64;
            sum.execute += kind.execute_ms as f64;
        } else if is_operation(&text) {
            lines.skip(1);
            words(lines, sum.get_or_insert_with(Sum::default))?;
            continue;
        }
        lines.skip(1);
    }
    Ok(sum)
}

/// `READ:`
fn is_operation(text: &str) -> bool {
    let name = text.trim_end().strip_suffix(':').unwrap_or_default();
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// The three lines below an operation's name: counts, bytes, and mean times in milliseconds.
fn words(lines: &mut Lines<'_>, sum: &mut Sum) -> Result<(), Refusal> {
    let mut operations = None;
    while let Some(text) = lines.peek(0).filter(|line| line.starts_with(['\t', ' '])).map(str::to_owned) {
        let before = |word: &str| text.split_once(word).and_then(|(b, _)| number(b.split_whitespace().last()?));
        let after = |word: &str| text.split_once(word).and_then(|(_, a)| number(a.split_whitespace().next()?));
        if text.contains(" ops (") {
            let Some(count) = before(" ops (") else { return Err(lines.refuse("a count: 1000 ops (10%)")) };
            operations = Some(count);
            sum.operations += count;
            sum.sent_again += before(" retrans (").unwrap_or(0.0);
        } else if text.contains("RTT:") {
            let times = [after("backlog wait:"), after("RTT:"), after("total execute time:")];
            let (Some(count), [Some(queue), Some(round_trip), Some(execute)]) = (operations, times) else {
                return Err(lines.refuse("backlog wait, RTT and total execute time, below a count of operations"));
            };
            sum.queue += queue * count;
            sum.round_trip += round_trip * count;
            sum.execute += execute * count;
        }
        lines.skip(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, refusal_of, window_of};

    #[test]
    fn the_tool_and_the_file_tell_the_same() {
        for file in ["layouts/mountstats.txt", "layouts/proc-self-mountstats.txt"] {
            let window = window_of(&fixture(file));
            let row = window.the::<NfsMount>().unwrap_or_else(|| panic!("{file}"));
            assert_eq!((&*row.point, row.server.get()), ("/mnt/data", Some("filer:/export/data")), "{file}");
            assert_eq!((row.operations.get(), row.sent_again.get()), (Some(1500), Some(3)), "{file}");
            assert_eq!(row.round_trip_time.get(), Some(20_500_000_000), "{file}");
            assert_eq!(row.execute_time.get(), Some(30_600_000_000), "{file}");
        }
        let cut = fixture("layouts/proc-self-mountstats.txt").replace("4000000 100 500 600 0", "4000000");
        assert_eq!(refusal_of(&cut).line, 14);
    }
}
