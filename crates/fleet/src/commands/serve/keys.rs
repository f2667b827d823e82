//! Keys for grouping hosts, and each host's value of a key.

use crate::cell::text;
use crate::commands::sick::{self, GroupKey};
use crate::table::INVENTORY_REACH_MS;
use crate::{Failure, Fleet, sql};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Keys that every host has.
const OF_ALL: [&str; 2] = ["kernel", "model"];

/// Returns the keys for grouping hosts: their labels first.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn keys(fleet: &Fleet) -> Result<Vec<String>, Failure> {
    let span = fleet.span().extended_back(INVENTORY_REACH_MS);
    let rows = fleet.query(&sql::labels(span))?.rows;
    let labels = rows.iter().filter_map(|row| text(row.first()?)).map(str::to_owned);
    // A label with such a name cannot be requested.
    let labels = labels.filter(|label| !OF_ALL.contains(&label.as_str()) && label != "finding" && !label.contains('/'));
    Ok(labels.chain(OF_ALL.map(str::to_owned)).collect())
}

/// A property of all hosts.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PropertyOfHosts {
    /// The key that was asked for.
    by: String,
    /// The latest value of each host that has one.
    values: BTreeMap<String, String>,
}

/// Returns each host's value of a key.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn property(fleet: &Fleet, by: &str, key: &GroupKey) -> Result<PropertyOfHosts, Failure> {
    let values = match key {
        GroupKey::Finding => BTreeMap::new(),
        GroupKey::Property { kind, name } => sick::properties(fleet, kind, name)?.into_iter().collect(),
    };
    Ok(PropertyOfHosts { by: by.to_owned(), values })
}
