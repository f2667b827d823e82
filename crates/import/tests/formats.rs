//! The table of docs/import.md lists the formats there are, and no others.

use std::collections::BTreeSet;
use whyslow_import::FORMATS;

#[test]
fn the_table_and_the_code_agree() {
    let text = include_str!("../../../docs/import.md");
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    let first = |line: &'static str| line.split('|').nth(1).unwrap_or_default();
    let listed: BTreeSet<&str> = rows.flat_map(|line| first(line).split(',')).map(str::trim).collect();
    let known: BTreeSet<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(listed, known);
    assert_eq!(known.len(), FORMATS.len(), "a name twice");
}
