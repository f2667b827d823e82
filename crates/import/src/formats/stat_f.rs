//! `stat -f` (coreutils): blocks and inodes of a file system (statfs(2)).

use crate::prelude::*;
use whyslow_model::catalogue::Mount;

pub const FORMAT: Format = Format {
    name: "stat -f",
    versions: "coreutils 5 on",
    shows: "a file system without space or inodes",
    lacks: "its device",
    programs: &[partly_read("stat")],
    starts: |lines| {
        lines.next_is(|line| file(line).is_some()) && lines.peek(1).is_some_and(|line| line.contains("Namelen: "))
    },
    read,
    ..Format::NEW
};

/// Parses `  File: "/var"`, or without quotes.
fn file(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix("File: ")?;
    Some(name.trim_matches(['"', '\'', '‘', '’'])).filter(|name| !name.is_empty())
}

/// Returns the number after a word: `Blocks: Total: 25767898   Free: 16662498   Available: 15347682`
fn after(line: &str, word: &str) -> Option<f64> {
    number(line.split_once(word)?.1.split_whitespace().next()?)
}

fn read(lines: &mut Lines<'_>, _: OutputContext<'_>, run: &mut ToolRun) -> ReadResult {
    /// Maximum number of lines below the name.
    const MOST: usize = 5;
    let Some(first) = lines.take() else { return Ok(()) };
    let Some(name) = file(&first.text) else { return Ok(()) };
    let mut block = None;
    let is_own = |text: &str| {
        let text = text.trim_start();
        ["ID: ", "Block size: ", "Blocks: ", "Inodes: "].iter().any(|title| text.starts_with(title))
    };
    for _ in 0..MOST {
        let Some(line) = lines.take_if(is_own) else { break };
        let text = line.text.trim_start();
        let row = run.row::<Mount>(0.0, line.number, name.into());
        if text.starts_with("ID: ") {
            let kind =
                text.split_once("Type: ").map(|(_, kind)| kind.trim()).filter(|kind| !kind.starts_with("UNKNOWN"));
            row.kind = kind.into();
        } else if text.starts_with("Block size: ") {
            block = after(text, "Fundamental block size: ").or(after(text, "Block size: "));
        } else if text.starts_with("Blocks: ") {
            let bytes = |word: &str| Some(after(text, word)? * block?);
            row.size = bytes("Total: ").into();
            row.free = bytes("Free: ").into();
            row.available = bytes("Available: ").into();
        } else {
            row.inodes = after(text, "Total: ").into();
            row.inodes_free = after(text, "Free: ").into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fixture, row_of};

    #[test]
    fn blocks_and_inodes() {
        let row = row_of::<Mount>(&fixture("layouts/stat-f.txt"));
        assert_eq!((&*row.point, row.inodes.get(), row.inodes_free.get()), ("/srv/mail", Some(6_553_600.0), Some(0.0)));
        assert_eq!(row.size.get(), Some(25_767_898.0 * 4096.0));
        assert_eq!(row.available.get(), Some(15_347_682.0 * 4096.0));
    }
}
