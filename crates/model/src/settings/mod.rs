//! Settings and options by name: as a text in one field of a row, and what differs between two sets of them.

mod words;

pub use words::{are_titles_of_runs, names_change, tell_a_change};

use crate::value::State;
use std::collections::{BTreeMap, BTreeSet};

/// Name of the setting that a title states: `MTU 9000`, `after the change`.
pub const TITLE: &str = "title";
/// Name of the setting that is an I/O scheduler.
pub const SCHEDULER: &str = "scheduler";
/// Value of a setting that only the other one of two sets has.
pub const UNSTATED: &str = "";

/// Separator of settings in a text.
const SEPARATOR: &str = ", ";
/// Maximum length of a value in bytes; a longer one is text rather than a setting.
const LONGEST: usize = 200;

/// Values by name; unknown ones are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Sets a value, if it is known and can be written as text. Later values take precedence.
    pub fn set(&mut self, name: impl Into<String>, value: Option<impl Into<String>>) {
        let value = value.map(Into::into).filter(|value: &String| value.len() <= LONGEST && !value.contains(SEPARATOR));
        self.0.extend(value.filter(|value| !value.is_empty()).map(|value| (name.into(), value)));
    }

    /// Returns the values by name.
    pub fn by_name(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Returns the settings as text, which [`in_text`] reads: `iodepth=32, rw=read`. Unknown if there are none.
    pub fn to_state(&self) -> State {
        let all: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if all.is_empty() { State::default() } else { all.join(SEPARATOR).as_str().into() }
    }
}

impl FromIterator<(String, String)> for Settings {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(all: T) -> Self {
        Self(all.into_iter().collect())
    }
}

impl From<Settings> for BTreeMap<String, String> {
    fn from(settings: Settings) -> Self {
        settings.0
    }
}

/// Iterates over the names and values in a text of [`Settings::to_state`].
pub fn in_text(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(SEPARATOR).filter_map(|setting| setting.split_once('='))
}

/// A setting that differs between two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingChange<'s> {
    /// Its name.
    pub name: &'s str,
    /// Its value before; [`UNSTATED`] if it has none.
    pub before: &'s str,
    /// Its value after; [`UNSTATED`] if it has none.
    pub after: &'s str,
}

/// Returns the settings that differ, in order of their names.
pub fn changes<'s>(
    before: &'s BTreeMap<String, String>,
    after: &'s BTreeMap<String, String>,
) -> Vec<SettingChange<'s>> {
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).map(String::as_str).collect();
    let value = |of: &'s BTreeMap<String, String>, name| of.get(name).map_or(UNSTATED, String::as_str);
    let all =
        names.into_iter().map(|name| SettingChange { name, before: value(before, name), after: value(after, name) });
    all.filter(|change| change.before != change.after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_missing() {
        let mut options = Settings::default();
        options.set("iodepth", Some("32"));
        options.set("direct", None::<&str>);
        options.set("rw", Some(""));
        assert_eq!(options.to_state().get(), Some("iodepth=32"));
        assert_eq!(Settings::default().to_state().get(), None);
    }

    #[test]
    fn a_text_is_read_back() {
        let mut settings = Settings::default();
        settings.set(TITLE, Some("MTU = 9000"));
        settings.set("list", Some("a, b"));
        settings.set("vm.dirty_ratio", Some("10"));
        let state = settings.to_state();
        let read: Vec<_> = in_text(state.get().unwrap()).collect();
        assert_eq!(read, [(TITLE, "MTU = 9000"), ("vm.dirty_ratio", "10")]);
        assert_eq!(in_text("").count(), 0);
    }

    #[test]
    fn a_setting_that_one_lacks_is_a_change() {
        let of =
            |all: &[(&str, &str)]| all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (before, after) = (of(&[("a", "1"), ("b", "2")]), of(&[("a", "1"), ("b", "3"), ("c", "4")]));
        let b = SettingChange { name: "b", before: "2", after: "3" };
        let c = SettingChange { name: "c", before: UNSTATED, after: "4" };
        assert_eq!(changes(&before, &after), [b, c]);
    }
}
