//! Log of the data that queries left out because they are not valid or not compacted yet.

use crate::Span;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// Rows of a host that do not count, for one reason.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LeftOut {
    /// The host whose file it is.
    pub host: String,
    /// Why.
    pub reason: String,
    /// How many files have such rows, or are left out as a whole.
    pub files: u64,
    /// How many rows; of files that are left out as a whole they are not counted.
    pub rows: u64,
}

/// Log of the data that the queries of a question left out.
#[derive(Debug, Default)]
pub(crate) struct LeftOutLog {
    /// For each file, the number of left-out rows by reason; keyed by path, so that a file that is read twice counts
    /// once.
    files: Mutex<BTreeMap<String, FileLog>>,
    /// Tables and spans whose files were already examined.
    listed: Mutex<HashSet<(&'static str, Span)>>,
}

#[derive(Debug)]
struct FileLog {
    host: String,
    reasons: BTreeMap<String, u64>,
}

impl LeftOutLog {
    /// Logs the rows left out of a file, by reason.
    pub(crate) fn rows(&self, path: &str, host: &str, reasons: impl IntoIterator<Item = (String, u64)>) {
        let reasons: BTreeMap<String, u64> = reasons.into_iter().collect();
        if reasons.is_empty() {
            return;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(path.to_owned(), FileLog { host: host.to_owned(), reasons });
    }

    /// Logs that a whole file was left out.
    pub(crate) fn file(&self, path: &str, host: &str, reason: String) {
        self.rows(path, host, [(reason, 0)]);
    }

    /// Marks the files of a table and span as examined; returns false if they already were.
    pub(crate) fn begins(&self, table: &'static str, span: Span) -> bool {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).insert((table, span))
    }

    /// Returns all entries, grouped by host and reason.
    pub(crate) fn all(&self) -> Vec<LeftOut> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
        for log in files.values() {
            for (reason, rows) in &log.reasons {
                let (files, sum) = all.entry((&log.host, reason)).or_default();
                *files += 1;
                *sum += rows;
            }
        }
        let entry = |((host, reason), (files, rows)): ((&str, &str), (u64, u64))| LeftOut {
            host: host.to_owned(),
            reason: reason.to_owned(),
            files,
            rows,
        };
        all.into_iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_read_twice_counts_once() {
        let log = LeftOutLog::default();
        for _ in 0..2 {
            log.rows("a/1", "web", [("of another host".to_owned(), 3)]);
        }
        log.rows("a/2", "web", [("of another host".to_owned(), 4)]);
        log.file("a/3", "web", "cannot be read".into());
        log.rows("a/4", "db", []);
        let all = log.all();
        let seen: Vec<_> = all.iter().map(|out| (out.reason.as_str(), out.files, out.rows)).collect();
        assert_eq!(seen, [("cannot be read", 1, 0), ("of another host", 2, 7)]);
    }
}
