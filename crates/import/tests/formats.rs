//! Everything about formats that stands outside their files is derived from their declarations.
//! WHYSLOW_UPDATE_DOCS=1 writes the table of docs/import.md.

use std::collections::BTreeSet;
use std::fmt::Write;
use whyslow_import::FORMATS;

const BEGIN: &str =
    "<!-- formats: written by `WHYSLOW_UPDATE_DOCS=1 cargo test -p whyslow-import --test formats` -->\n";
const END: &str = "<!-- end of formats -->\n";

fn table() -> String {
    let mut table =
        String::from("| format | versions | what it shows alone | what it does not show |\n|---|---|---|---|\n");
    for format in FORMATS {
        let info = format.info();
        let _ = writeln!(table, "| {} | {} | {} | {} |", info.name, info.versions, info.shows, info.lacks);
    }
    table
}

#[test]
fn the_table_in_the_documentation_is_derived_from_the_declarations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/import.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the beginning of the table is marked");
    let (written, after) = rest.split_once(END).expect("the end of the table is marked");
    if std::env::var_os("WHYSLOW_UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
    } else {
        assert_eq!(written, table(), "update it: WHYSLOW_UPDATE_DOCS=1 cargo test -p whyslow-import --test formats");
    }
}

#[test]
fn names_are_unique_and_every_declaration_is_complete() {
    let names: BTreeSet<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names.len(), FORMATS.len());
    for format in FORMATS {
        for text in [format.name, format.versions, format.shows, format.lacks] {
            assert!(!text.is_empty() && !text.contains(['|', '\n']), "{}: {text:?}", format.name);
        }
    }
}
