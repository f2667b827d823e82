//! Tests that the manual has every document, and that no link in documents and pages is broken.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use whyslow_book::links::{Link, anchor, destination, headings, links};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Collects all documents of the repository, by their path in it.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    const NOT_OURS: [&str; 4] = ["target", "node_modules", ".git", "fixtures"];
    for entry in fs::read_dir(repository().join(folder)).unwrap().map(Result::unwrap) {
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if !NOT_OURS.iter().any(|name| path.ends_with(name)) {
                documents(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn has_anchor(text: &str, link: &Link<'_>) -> bool {
    link.anchor.is_none_or(|wanted| headings(text).any(|heading| anchor(heading) == wanted))
}

#[test]
fn links_of_documents_lead_to_files_and_headings_that_exist() {
    let mut all = Vec::new();
    documents(Path::new(""), &mut all);
    assert!(all.len() > 30, "{all:?}");
    let mut broken = Vec::new();
    // The summary's links are relative to the manual's root.
    for document in all.iter().filter(|path| !path.ends_with("docs/book/SUMMARY.md")) {
        let text = fs::read_to_string(repository().join(document)).unwrap();
        for link in links(&text) {
            let target = repository().join(destination(document, link.target));
            let is_good = target.exists()
                && (link.anchor.is_none() || has_anchor(&fs::read_to_string(&target).unwrap_or_default(), &link));
            if !is_good {
                broken.push(format!("{}: {}", document.display(), link.target));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_document_in_docs_is_in_the_manual() {
    let pages = whyslow_book::pages(&repository()).unwrap();
    let mut all = Vec::new();
    documents(Path::new("docs"), &mut all);
    let missing: Vec<&PathBuf> =
        all.iter().filter(|path| !path.starts_with("docs/book") && !pages.contains_key(*path)).collect();
    assert_eq!(missing, <[&PathBuf; 0]>::default());
}

#[test]
fn links_of_the_manual_lead_to_its_pages_and_the_summary_lists_them_all() {
    let pages = whyslow_book::pages(&repository()).unwrap();
    let mut broken = Vec::new();
    for (path, text) in &pages {
        for link in links(text) {
            let to = destination(path, link.target);
            let is_file = whyslow_book::is_attachment(&to) && repository().join(&to).is_file();
            if !is_file && !pages.get(&to).is_some_and(|text| has_anchor(text, &link)) {
                broken.push(format!("{}: {}#{}", path.display(), link.target, link.anchor.unwrap_or_default()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let summary = &pages[Path::new("SUMMARY.md")];
    let listed: BTreeSet<PathBuf> = links(summary).iter().map(|link| PathBuf::from(link.target)).collect();
    let all: BTreeSet<PathBuf> = pages.keys().filter(|path| !path.ends_with("SUMMARY.md")).cloned().collect();
    assert_eq!(listed, all);
}

#[test]
fn a_finding_has_a_page_with_its_evidence_what_to_do_and_what_it_is_confused_with() {
    let pages = whyslow_book::pages(&repository()).unwrap();
    let page = &pages[Path::new("docs/findings/disk.saturated.md")];
    for part in [
        "# disk.saturated\n",
        "disk.busy > 0.8",
        "| `disk.queue` (",
        "less than what the device serves at once",
        "Lower the I/O priority of &lt;culprit&gt;",
        "### What looks alike",
        "[disk.flush_bound](disk.flush_bound.md)",
        "Documentation/admin-guide/iostats.rst",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(pages[Path::new("docs/findings.md")].contains("| [disk.saturated](findings/disk.saturated.md) |"));
    assert!(pages[Path::new("docs/tunables.md")].contains("## vm.swappiness\n"));
}

#[test]
fn the_pages_are_written_for_mdbook() {
    let folder = whyslow_testing::folder();
    whyslow_book::write(&repository(), folder.path()).unwrap();
    for file in ["book.toml", "pages/SUMMARY.md", "pages/README.md", "pages/docs/findings/cpu.saturated.md"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
}
