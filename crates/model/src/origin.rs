//! Origin of rows: files and lines, in a Window over the output of other tools.

use crate::catalogue::{Family, NameKind};
use crate::rename::{RenamedKeys, Renamer};
use crate::value::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Consecutive lines of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    /// The file, as named on the command line.
    pub file: Name,
    /// Its first line, counted from 1.
    pub first: u32,
    /// Its last line.
    pub last: u32,
}

impl SourceLocation {
    /// Formats its lines alone: `4-7`.
    pub fn lines(&self) -> String {
        if self.last > self.first { format!("{}-{}", self.first, self.last) } else { self.first.to_string() }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.lines())
    }
}

/// Number of locations that are listed for a whole family.
const FIRST: usize = 8;

/// Locations from which the rows of each entity were read.
#[derive(Clone, Debug, Default)]
pub struct Origins(BTreeMap<&'static str, FamilyLocations>);

/// The locations of one family.
#[derive(Clone, Debug, Default)]
struct FamilyLocations {
    of_entity: BTreeMap<String, BTreeSet<SourceLocation>>,
    first: BTreeSet<SourceLocation>,
}

impl Origins {
    /// Records that rows of this entity are at this location.
    pub fn note<F: Family>(&mut self, key: &F::Key, place: SourceLocation) {
        let places = self.0.entry(F::INFO.name).or_default();
        places.first.insert(place.clone());
        if places.first.len() > FIRST {
            places.first.pop_last();
        }
        places.of_entity.entry(key.to_string()).or_default().insert(place);
    }

    /// Returns the locations of the rows of this family and key; if there are none, the first few locations of the
    /// family.
    pub fn locations(&self, family: &str, key: &str) -> BTreeSet<&SourceLocation> {
        let Some(places) = self.0.get(family) else { return BTreeSet::new() };
        places.of_entity.get(key).unwrap_or(&places.first).iter().collect()
    }

    /// Replaces file names, and the keys of the entities. A key that `keys` lacks keeps its old text, which is never shown:
    /// only keys of rows are looked up.
    pub(crate) fn renamed(self, renamer: &dyn Renamer, keys: &RenamedKeys) -> Self {
        let place = |place: SourceLocation| SourceLocation { file: renamer.name(NameKind::Path, &place.file), ..place };
        let family = |(family, locations): (&'static str, FamilyLocations)| {
            let new = |key: String| keys.get(family).and_then(|keys| keys.get(&key)).cloned().unwrap_or(key);
            let entities = locations.of_entity.into_iter();
            let locations = FamilyLocations {
                of_entity: entities.map(|(key, all)| (new(key), all.into_iter().map(place).collect())).collect(),
                first: locations.first.into_iter().map(place).collect(),
            };
            (family, locations)
        };
        Self(self.0.into_iter().map(family).collect())
    }

    /// Returns whether rows of a family were read.
    pub fn has(&self, family: &str) -> bool {
        self.0.contains_key(family)
    }

    /// Returns whether no location is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Disk;

    #[test]
    fn an_entity_is_found_where_it_stands_and_others_are_not() {
        let mut origins = Origins::default();
        let place = |first, last| SourceLocation { file: "a.txt".into(), first, last };
        origins.note::<Disk>(&"sda".into(), place(3, 9));
        origins.note::<Disk>(&"sdb".into(), place(4, 4));
        let drawn = |key| origins.locations("disk", key).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(drawn("sda"), ["a.txt:3-9"]);
        assert_eq!(drawn("all of them"), ["a.txt:3-9", "a.txt:4"]);
        assert!(origins.locations("queue", "sda").is_empty());
    }
}
