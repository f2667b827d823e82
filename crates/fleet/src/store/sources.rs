//! Source files of a compacted file, stored in its metadata as `whyslow.sources`.

use datafusion::parquet::file::metadata::{FileMetaData, KeyValue};
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use whyslow_rollup::{Hour, INCOMING, Place};

/// Metadata key.
const KEY: &str = "whyslow.sources";

/// A host's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// File name.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Distinguishes the file from an earlier one with the same name ([`tag`]).
    pub tag: String,
    /// Whether the host had finished the hour and will not write this file again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub complete: bool,
    /// Reason why the whole file was left out, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Source files of a compacted file, one per host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<String, SourceFile>);

impl Sources {
    /// Reads the sources from a file's metadata; empty if there are none.
    pub fn from_metadata(metadata: &FileMetaData) -> Self {
        let entries = metadata.key_value_metadata().into_iter().flatten();
        let json = entries.filter(|entry| entry.key == KEY).find_map(|entry| entry.value.as_deref());
        let sources: Vec<SourceFile> = json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        Self(sources.into_iter().map(|source| (source.name.clone(), source)).collect())
    }

    /// Returns the metadata entry for these sources.
    pub fn metadata(&self) -> KeyValue {
        let sources: Vec<&SourceFile> = self.0.values().collect();
        KeyValue::new(KEY.to_owned(), serde_json::to_string(&sources).unwrap_or_default())
    }

    /// Returns the entry for exactly this version of a file.
    pub fn same(&self, meta: &ObjectMeta) -> Option<&SourceFile> {
        let source = self.0.get(meta.location.filename()?)?;
        (source.size == meta.size && source.tag == tag(meta)).then_some(source)
    }

    /// Adds a file, replacing an earlier one with the same name.
    pub fn insert(&mut self, source: SourceFile) {
        self.0.insert(source.name.clone(), source);
    }

    /// Returns the hosts whose files could be read.
    pub fn hosts(&self, hour: Hour) -> impl Iterator<Item = String> {
        let folder = Place::folder(INCOMING, "minute", hour);
        let read = self.0.values().filter(|source| source.left_out.is_none());
        read.filter_map(move |source| Some(Place::parse(&format!("{folder}/{}", source.name))?.host()?.to_owned()))
    }
}

/// Distinguishes a file from an earlier one with the same name and size: its entity tag, or else the second in which it
/// was written. A store may format either differently in a listing and for a single object: with or without quotes,
/// with or without fractional seconds.
pub fn tag(meta: &ObjectMeta) -> String {
    let tag = meta.e_tag.as_deref().unwrap_or_default().trim_matches('"');
    if tag.is_empty() { meta.last_modified.timestamp().to_string() } else { tag.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::path::Path;

    #[test]
    fn a_file_has_one_tag_however_the_store_writes_it() {
        let tagged = |e_tag: Option<&str>, modified: &str| {
            let last_modified = modified.parse().unwrap();
            tag(&ObjectMeta {
                location: Path::from("x"),
                last_modified,
                size: 1,
                e_tag: e_tag.map(Into::into),
                version: None,
            })
        };
        let second = "2026-11-26T16:00:00Z";
        assert_eq!(tagged(Some("\"ab\""), second), tagged(Some("ab"), second));
        assert_eq!(tagged(None, "2026-11-26T16:00:00.25Z"), tagged(Some(""), second));
        assert_ne!(tagged(None, "2026-11-26T16:00:01Z"), tagged(None, second));
    }
}
