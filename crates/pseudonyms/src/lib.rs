//! Replaces the names of hosts, users, processes, files and networks that users chose by pseudonyms, so that a diagnosis can be
//! shown to others.
//!
//! Names are replaced in the diagnosed or recorded rows, by the kind of name that the catalogue gives for each column; a
//! diagnosis follows from them as before. A pseudonym is a function of only the name and a key. Names that reveal nothing about
//! the users of a machine are kept ([`known`]).

mod address;
mod documents;
mod key;
mod known;
mod log;
mod names;
mod sentence;

pub use key::PseudonymKey;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use whyslow_model::catalogue::NameKind;
use whyslow_model::rename::Renamer;
use whyslow_model::value::Name;

/// Maximum number of remembered names: a machine has a few thousand, and a recording may continue for weeks.
const MOST_REMEMBERED: usize = 100_000;

/// Kinds of names that are rarely ordinary words: sentences are searched for them.
const DISTINCTIVE: [&str; 7] = ["host", "domain", "volume", "if", "netns", "unit", "id"];

/// Replaces names by pseudonyms.
pub struct Pseudonyms {
    key: PseudonymKey,
    /// Replaced names, by kind and name, because every sample has the same ones.
    replaced: Mutex<HashMap<NameKind, HashMap<Name, Name>>>,
    /// Single names encountered so far, for which sentences are searched.
    met: Mutex<HashMap<String, MetName>>,
    /// Files with captures and their pseudonyms: sentences contain these names as given, even with spaces.
    files: Mutex<Vec<(String, String)>>,
    /// Whether all names are remembered, however many there are.
    remembers_all: bool,
}

/// A name that was encountered.
#[derive(Clone, Debug)]
struct MetName {
    pseudonym: String,
    /// Whether it is replaced in any sentence. Other names, which are more often ordinary words, are replaced only in logs.
    in_sentences: bool,
}

impl Pseudonyms {
    /// Creates pseudonyms that depend on a key.
    pub fn new(key: PseudonymKey) -> Self {
        Self { key, replaced: Mutex::default(), met: Mutex::default(), files: Mutex::default(), remembers_all: false }
    }

    /// Remembers all names for [`mapping`](Self::mapping).
    pub fn remembering_all(self) -> Self {
        Self { remembers_all: true, ..self }
    }

    /// Returns the replaced names, by pseudonym.
    pub fn mapping(&self) -> BTreeMap<String, String> {
        let kinds = lock(&self.replaced);
        let whole = kinds.iter().filter(|(kind, _)| !matches!(kind, NameKind::Text | NameKind::Log));
        let whole = whole.flat_map(|(_, names)| names).filter(|(name, new)| name != new);
        let whole: Vec<_> = whole.map(|(name, new)| (new.to_string(), name.to_string())).collect();
        let met = lock(&self.met);
        met.iter().map(|(name, met)| (met.pseudonym.clone(), name.clone())).chain(whole).collect()
    }

    /// Returns the pseudonym of a single name, prefixed with the kind of thing.
    fn alias(&self, kind: &str, name: &str) -> String {
        if name.is_empty() { String::new() } else { self.alias_of(name, Some(kind)) }
    }

    /// Returns the pseudonym of a single name, without the kind if the context shows it.
    fn alias_of(&self, name: &str, kind: Option<&str>) -> String {
        let token = self.key.token(name);
        let new = kind.map_or_else(|| token.clone(), |kind| format!("{kind}-{token}"));
        let is_distinctive = |kind: &str| DISTINCTIVE.contains(&kind) || known::interface_kind(kind) == Some(kind);
        self.note(name, &new, kind.is_some_and(is_distinctive));
        new
    }

    /// Remembers a name. If it has several pseudonyms in different places, sentences use the first in alphabetical order, so that
    /// the order of encounter does not matter.
    fn note(&self, name: &str, new: &str, in_sentences: bool) {
        let mut met = lock(&self.met);
        if met.len() >= MOST_REMEMBERED && !self.remembers_all {
            met.clear();
        }
        match met.get_mut(name) {
            Some(known) => {
                known.in_sentences |= in_sentences;
                if *new < *known.pseudonym {
                    new.clone_into(&mut known.pseudonym);
                }
            }
            None => {
                met.insert(name.to_owned(), MetName { pseudonym: new.to_owned(), in_sentences });
            }
        }
    }

    /// Returns the remembered name.
    fn met(&self, name: &str) -> Option<MetName> {
        lock(&self.met).get(name).cloned()
    }

    fn replacement(&self, kind: NameKind, name: &str) -> String {
        match kind {
            NameKind::Word | NameKind::Item | NameKind::Subject | NameKind::FindingKey => name.to_owned(),
            NameKind::Device => self.device(name),
            NameKind::Volume => self.volume(name),
            NameKind::Interface => self.interface(name),
            NameKind::InterfaceDetail => self.interface_detail(name),
            NameKind::Namespace => self.namespace(name),
            NameKind::Process => self.process(name),
            NameKind::Cgroup => self.cgroups(name),
            NameKind::Path => self.path(name),
            NameKind::Source => self.source(name),
            NameKind::Options => self.options(name),
            NameKind::Host => self.host(name),
            NameKind::Endpoint => self.endpoints(name),
            NameKind::Uuid => self.mapped_uuid(name),
            NameKind::Id => self.id(name),
            NameKind::Label => self.label(name),
            NameKind::Text => self.sentence(name),
            NameKind::Log => self.log_line(name),
        }
    }
}

impl Renamer for Pseudonyms {
    fn name(&self, kind: NameKind, name: &Name) -> Name {
        // The result for a sentence depends on the names encountered before.
        let is_fixed = !matches!(kind, NameKind::Text | NameKind::Log);
        if is_fixed && let Some(known) = lock(&self.replaced).get(&kind).and_then(|names| names.get(name)) {
            return known.clone();
        }
        let new = self.replacement(kind, name);
        let new = if *new == **name { name.clone() } else { Name::from(new) };
        if is_fixed {
            let mut replaced = lock(&self.replaced);
            let names = replaced.entry(kind).or_default();
            if names.len() >= MOST_REMEMBERED && !self.remembers_all {
                names.clear();
            }
            names.insert(name.clone(), new.clone());
        }
        new
    }

    fn subject(&self, kind: &str, name: &str) -> String {
        self.subject_name(kind, name)
    }

    fn item(&self, kind: &str, name: &str) -> String {
        self.item_name(kind, name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod testing {
    use super::{PseudonymKey, Pseudonyms};

    pub fn pseudonyms() -> Pseudonyms {
        Pseudonyms::new(PseudonymKey::new([7; PseudonymKey::LENGTH]))
    }
}
