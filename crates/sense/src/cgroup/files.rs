//! The folder of one group in one hierarchy.

use super::parse;
use crate::{Miss, Root};
use whyslow_model::catalogue::Family;
use whyslow_model::value::Gauge;

/// A group's folder, and how reading it went so far.
pub(super) struct Folder<'r> {
    root: &'r Root,
    path: &'r str,
    /// Whether its files are read again soon, so that they better stay open.
    keep: bool,
    /// Whether any file could be read.
    pub(super) found: bool,
    /// The first refusal.
    pub(super) denied: Option<Miss>,
}

impl<'r> Folder<'r> {
    /// The folder at this path, relative to the root, of which files are read once in a while.
    pub(super) fn new(root: &'r Root, path: &'r str) -> Self {
        Self { root, path, keep: false, found: false, denied: None }
    }

    /// The same; its files are read at every sample.
    pub(super) fn kept(root: &'r Root, path: &'r str) -> Self {
        Self { keep: true, ..Self::new(root, path) }
    }

    /// The text of a file. A file that this kernel lacks, and a group that ends while it is read, are no errors.
    pub(super) fn text(&mut self, file: &str) -> Option<String> {
        let path = format!("{}/{file}", self.path);
        let text = if self.keep { self.root.kept_text(&path) } else { self.root.text(&path) };
        match text {
            Ok(text) => {
                self.found = true;
                Some(text)
            }
            Err(miss) => {
                if matches!(miss, Miss::NotPermitted { .. }) {
                    self.denied.get_or_insert(miss);
                }
                None
            }
        }
    }

    /// The number in a file; `None` for `max` and `-1`, which stand for no limit.
    pub(super) fn number(&mut self, file: &str) -> Option<u64> {
        self.text(file)?.trim().parse().ok()
    }

    /// The same, scaled to the base unit, as a level.
    pub(super) fn gauge(&mut self, file: &str, scale: u64) -> Gauge {
        self.number(file).map_or(Gauge::ABSENT, |n| n.saturating_mul(scale).into())
    }

    /// Fills a row from a file of `name value` lines.
    pub(super) fn fill<F: Family>(&mut self, row: &mut F, file: &str, fields: &[parse::Field]) {
        if let Some(text) = self.text(file) {
            parse::fill(row, parse::keyed(&text), fields);
        }
    }
}
