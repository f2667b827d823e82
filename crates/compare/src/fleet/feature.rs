//! Features of hosts.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// Something of a host by which it can differ from others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
pub struct Feature {
    /// Whether it was changed to this shortly before the host became sick; of a healthy host, at any time looked at.
    pub is_change: bool,
    /// The inventory's kind: `kernel`, `package`, `sysctl` …
    #[serde(serialize_with = "text")]
    #[schemars(with = "String")]
    pub kind: Arc<str>,
    /// What of that kind.
    #[serde(serialize_with = "text")]
    #[schemars(with = "String")]
    pub name: Arc<str>,
    /// Its value; of a change `old → new`. `None`: the host has none, though it is known what it has of this kind.
    #[serde(serialize_with = "optional_text")]
    #[schemars(with = "Option<String>")]
    pub value: Option<Arc<str>>,
}

fn text<S: Serializer>(text: &Arc<str>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text)
}

fn optional_text<S: Serializer>(text: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(to)
}

/// Kinds of features, the likelier cause first where hosts alone cannot decide: those with more privileges, and with
/// effect on the whole machine, come first.
const KINDS: [&str; 11] =
    ["kernel", "driver", "firmware", "tuning", "sysctl", "disk", "limit", "unit", "package", "machine", "label"];

impl Feature {
    /// Creates a feature from an item in a host's inventory.
    pub fn new(kind: &str, name: &str, value: &str) -> Self {
        Self { is_change: false, kind: kind.into(), name: name.into(), value: Some(value.into()) }
    }

    /// Creates a feature from a change of a host.
    pub fn change(kind: &str, name: &str, old: Option<&str>, new: Option<&str>) -> Self {
        let value = format!("{} → {}", old.unwrap_or("none"), new.unwrap_or("none"));
        Self { is_change: true, kind: kind.into(), name: name.into(), value: Some(value.into()) }
    }

    /// Returns the sort key among features of the same hosts: changes first, then by kind.
    pub(crate) fn rank(&self) -> (bool, usize, bool, &Self) {
        let kind = KINDS.iter().position(|kind| *kind == &*self.kind).unwrap_or(KINDS.len() - 1);
        (!self.is_change, kind, self.value.is_none(), self)
    }

    pub(crate) fn is_label(&self, name: &str) -> bool {
        !self.is_change && &*self.kind == "label" && &*self.name == name
    }
}

/// Formats the feature for a sentence. The text comes from hosts: escape it before display.
impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_change, kind, name, value } = self;
        let separator = if &**kind == "sysctl" || &**kind == "label" { " = " } else { " " };
        let kind = if &**kind == "label" { "" } else { &**kind };
        let space = if kind.is_empty() { "" } else { " " };
        match value {
            _ if *is_change && kind == "unit" => write!(f, "restart of unit {name}"),
            Some(value) if *is_change => write!(f, "change of {kind}{space}{name} ({value})"),
            Some(value) => write!(f, "{kind}{space}{name}{separator}{value}"),
            None => write!(f, "no {kind}{space}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_named_as_a_sentence_does() {
        let none = Feature { value: None, ..Feature::new("package", "irqbalance", "") };
        let named = [
            Feature::new("kernel", "release", "6.8.0-45"),
            Feature::new("sysctl", "vm.swappiness", "60"),
            Feature::new("label", "rack", "r7"),
            Feature::change("package", "openssl", Some("3.0.1"), Some("3.0.2")),
            Feature::change("unit", "nginx.service", None, None),
            none,
        ]
        .map(|feature| feature.to_string());
        let expected = [
            "kernel release 6.8.0-45",
            "sysctl vm.swappiness = 60",
            "rack = r7",
            "change of package openssl (3.0.1 → 3.0.2)",
            "restart of unit nginx.service",
            "no package irqbalance",
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn what_was_changed_is_likelier_than_what_is_there() {
        let mut features = [
            Feature::new("package", "a", "1"),
            Feature::new("kernel", "release", "6.8"),
            Feature::change("package", "b", Some("1"), Some("2")),
            Feature::new("label", "role", "db"),
        ];
        features.sort_by(|a, b| a.rank().cmp(&b.rank()));
        assert_eq!(features.map(|feature| feature.name.to_string()), ["b", "release", "a", "role"]);
    }
}
