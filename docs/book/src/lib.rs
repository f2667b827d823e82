//! Generates the pages of the manual from the documents of the repository, the rules, and the catalogue of tunables.

mod finding;
pub mod links;
mod markdown;
mod tunables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};
use whyslow_diagnose::RuleBook;

/// The list of the pages, in the order of the manual.
const SUMMARY: &str = "SUMMARY.md";

/// The page that lists all findings. Their pages follow it.
const FINDINGS: &str = "docs/findings.md";

/// The page about settings. The catalogue follows it.
const SETTINGS: &str = "docs/tune.md";

/// Returns the pages of the manual by path, as mdBook reads them.
///
/// # Errors
/// Fails if a document in the summary cannot be read.
pub fn pages(repository: &Path) -> io::Result<BTreeMap<PathBuf, String>> {
    let read = |path: &Path| {
        fs::read_to_string(repository.join(path))
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
    };
    let summary = read(&Path::new("docs/book").join(SUMMARY))?;
    let mut pages = BTreeMap::new();
    for link in links::links(&summary) {
        let path = PathBuf::from(link.target);
        pages.insert(path.clone(), read(&path)?);
    }
    let findings = finding::pages(&RuleBook::built_in().rules());
    let overview = pages.get_mut(Path::new(FINDINGS)).expect("the summary lists it");
    *overview = finding::with_links(overview, findings.keys().map(String::as_str));
    pages.insert(SUMMARY.into(), with_generated(&summary, findings.keys().map(String::as_str)));
    pages.insert(tunables::PATH.into(), tunables::page());
    pages.extend(findings.into_iter().map(|(id, page)| (finding::path(&id), page)));
    let paths: Vec<PathBuf> = pages.keys().cloned().collect();
    for (path, text) in &mut pages {
        *text = links::only_to(text, path, |to| paths.iter().any(|page| page == to) || is_attachment(to));
    }
    Ok(pages)
}

/// Returns true if a linked file is copied next to the pages.
pub fn is_attachment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["svg", "png", "json"].iter().any(|kind| extension == *kind))
}

/// Adds the generated pages to the summary.
fn with_generated<'a>(summary: &str, findings: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let findings: Vec<&str> = findings.collect();
    for line in summary.lines() {
        text.push_str(line);
        text.push('\n');
        if line.contains(&format!("({FINDINGS})")) {
            for id in &findings {
                text.push_str(&format!("  - [{id}]({})\n", finding::path(id).display()));
            }
        }
        if line.contains(&format!("({SETTINGS})")) {
            text.push_str(&format!("  - [Tunables]({})\n", tunables::PATH));
        }
    }
    text
}

/// Writes the pages to the subfolder `pages` of a folder, with `book.toml` next to it. Removes old pages first.
///
/// # Errors
/// Fails if a document cannot be read, or a page cannot be written.
pub fn write(repository: &Path, folder: &Path) -> io::Result<()> {
    let pages_folder = folder.join("pages");
    if pages_folder.exists() {
        fs::remove_dir_all(&pages_folder)?;
    }
    for (path, text) in pages(repository)? {
        let attachments = links::links(&text).into_iter().map(|link| links::destination(&path, link.target));
        for attachment in attachments.filter(|to| is_attachment(to)) {
            let copy = pages_folder.join(&attachment);
            fs::create_dir_all(copy.parent().expect("a file is in a folder"))?;
            fs::copy(repository.join(&attachment), copy)?;
        }
        let file = pages_folder.join(&path);
        fs::create_dir_all(file.parent().expect("a page is in a folder"))?;
        fs::write(file, text)?;
    }
    fs::copy(repository.join("docs/book/book.toml"), folder.join("book.toml"))?;
    Ok(())
}
