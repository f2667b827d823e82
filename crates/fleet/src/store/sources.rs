//! What a compacted file was made of: its metadata `whyslow.sources`.

use datafusion::parquet::file::metadata::{FileMetaData, KeyValue};
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use whyslow_rollup::{Hour, INCOMING, Place};

/// The key of the metadata.
const KEY: &str = "whyslow.sources";

/// A host's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The name of the file.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What tells it from another with this name ([`tag`]).
    pub tag: String,
    /// Whether the host had finished the hour: it does not write this file again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub complete: bool,
    /// Why it was left out as a whole, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The files that a compacted file was made of, one a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources(BTreeMap<String, Source>);

impl Sources {
    /// Those of a compacted file; none if it does not say so.
    pub fn of(metadata: &FileMetaData) -> Self {
        let entries = metadata.key_value_metadata().into_iter().flatten();
        let json = entries.filter(|entry| entry.key == KEY).find_map(|entry| entry.value.as_deref());
        let sources: Vec<Source> = json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        Self(sources.into_iter().map(|source| (source.name.clone(), source)).collect())
    }

    /// The metadata that says so.
    pub fn metadata(&self) -> KeyValue {
        let sources: Vec<&Source> = self.0.values().collect();
        KeyValue::new(KEY.to_owned(), serde_json::to_string(&sources).unwrap_or_default())
    }

    /// The entry of exactly this file.
    pub fn same(&self, meta: &ObjectMeta) -> Option<&Source> {
        let source = self.0.get(meta.location.filename()?)?;
        (source.size == meta.size && source.tag == tag(meta)).then_some(source)
    }

    /// Takes a file in, in place of an earlier one with its name.
    pub fn insert(&mut self, source: Source) {
        self.0.insert(source.name.clone(), source);
    }

    /// The hosts.
    pub fn hosts(&self, hour: Hour) -> impl Iterator<Item = String> {
        let folder = Place::folder(INCOMING, "minute", hour);
        self.0.keys().filter_map(move |name| Some(Place::parse(&format!("{folder}/{name}"))?.host()?.to_owned()))
    }
}

/// What tells a file from an earlier one with the same name and size.
pub fn tag(meta: &ObjectMeta) -> String {
    meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339())
}
