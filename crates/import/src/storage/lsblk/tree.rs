//! The tree: cells may be blank, so that where a word stands tells its column.

use super::Device;
use crate::lines::Lines;
use crate::refusal::Refusal;
use std::collections::BTreeMap;

/// Column names that one of must be there, besides NAME.
const KNOWN: [&str; 6] = ["MAJ:MIN", "FSTYPE", "TYPE", "SIZE", "ROTA", "HCTL"];
/// What the branches are drawn with.
const BRANCHES: [char; 8] = ['├', '└', '│', '─', '|', '`', '-', ' '];

/// A word and where it stands, in characters.
#[derive(Clone, Debug, PartialEq)]
struct Word {
    text: String,
    from: usize,
    to: usize,
}

fn words(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut open = false;
    for (at, c) in line.chars().enumerate() {
        if c.is_whitespace() {
            open = false;
            continue;
        }
        match words.last_mut().filter(|_| open) {
            Some(word) => {
                word.text.push(c);
                word.to = at + 1;
            }
            None => words.push(Word { text: c.into(), from: at, to: at + 1 }),
        }
        open = true;
    }
    words
}

/// Whether a header of lsblk is next.
pub fn starts(lines: &mut Lines<'_>) -> bool {
    lines.peek(0).is_some_and(is_header)
}

fn is_header(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let upper = |word: &&str| word.bytes().all(|b| b.is_ascii_uppercase() || b":-%".contains(&b));
    words.first() == Some(&"NAME") && words.iter().all(upper) && words.iter().any(|word| KNOWN.contains(word))
}

/// Takes the tree that comes next.
///
/// # Errors
/// A word that stands below no column's name.
pub fn read(lines: &mut Lines<'_>) -> Result<Vec<Device>, Refusal> {
    let header = words(&lines.take().map(|line| line.text).unwrap_or_default());
    let mut devices: Vec<Device> = Vec::new();
    // The names on the way to the device before, by how far they are indented.
    let mut way: Vec<(usize, String)> = Vec::new();
    while let Some(text) = lines.peek(0).map(str::to_owned) {
        let indent = text.chars().take_while(|c| BRANCHES.contains(c)).count();
        let blank = text.chars().take(indent).all(char::is_whitespace);
        // Further mount points stand alone below the first.
        if blank && indent > 0 {
            let Some(device) = devices.last_mut() else { break };
            let point = text.trim();
            if !point.starts_with('/') && point != "[SWAP]" {
                break;
            }
            device.columns.entry("MOUNTPOINTS".into()).or_default().push_str(&format!("\n{point}"));
            lines.skip(1);
            continue;
        }
        if text.trim().is_empty() || (indent == 0 && crate::elsewhere(lines, super::FORMAT.name)) {
            break;
        }
        let Some(columns) = cells(&header, &text, indent) else {
            return Err(lines.refuse("words that stand below the names of their columns"));
        };
        let mut device = Device { line: lines.number(), parent: None, columns };
        way.retain(|(depth, _)| *depth < indent);
        device.parent = way.last().map(|(_, name)| name.clone());
        way.push((indent, device.name().to_owned()));
        devices.push(device);
        lines.skip(1);
    }
    Ok(devices)
}

/// The cells of a row by column. A cell is aligned with its heading on one side, so that it stands below it in part; a
/// word below none goes on the cell before it.
fn cells(header: &[Word], text: &str, indent: usize) -> Option<BTreeMap<String, String>> {
    let mut cells: BTreeMap<String, String> = BTreeMap::new();
    let row: String = text.chars().enumerate().map(|(at, c)| if at < indent { ' ' } else { c }).collect();
    let mut column = 0;
    for (nth, word) in words(&row).iter().enumerate() {
        let below = |h: &Word| word.from < h.to && h.from < word.to;
        let at = if nth == 0 { Some(0) } else { (column..header.len()).find(|at| below(&header[*at])) };
        match at {
            Some(at) if nth == 0 || at > column || below(&header[column]) => {
                column = at;
                let cell = cells.entry(header[at].text.clone()).or_default();
                if !cell.is_empty() {
                    cell.push(' ');
                }
                cell.push_str(&word.text);
            }
            // Texts of several words stand in these columns only.
            _ if ["MODEL", "LABEL", "PARTLABEL", "MOUNTPOINT", "MOUNTPOINTS", "VENDOR"]
                .contains(&header[column].text.as_str()) =>
            {
                let cell = cells.get_mut(&header[column].text)?;
                cell.push(' ');
                cell.push_str(&word.text);
            }
            _ => return None,
        }
    }
    Some(cells)
}
