//! Locations of profiles: built in, the machine's own, and tuned's.

use crate::machine::Machine;
use std::cell::Cell;
use std::io::Read;
use whyslow_documents::tune::ProfileInfo;
use whyslow_model::suggest::unknown;

/// The built-in profiles, by name.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/profiles.rs"));

/// Folders of profiles, relative to the root; a profile in a later one hides that of an earlier one.
const FOLDERS: [&str; 5] =
    ["usr/lib/tuned", "usr/lib/tuned/profiles", "etc/tuned", "etc/tuned/profiles", "etc/whyslow/profiles"];

/// A profile's file.
pub(super) struct ProfileFile {
    /// Its path, or `built in/NAME`.
    pub(super) place: String,
    pub(super) text: String,
}

/// Finds the file of a profile among those that were not read yet; returns `Ok(None)` if all of that name were.
pub(super) fn find(
    machine: &Machine,
    budget: &ReadBudget,
    name: &str,
    read: &[String],
) -> Result<Option<ProfileFile>, String> {
    let mut was_read = false;
    let is_plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    let files = FOLDERS.iter().rev().filter(|_| is_plain).map(|folder| format!("{folder}/{name}/tuned.conf"));
    for path in files {
        if read.contains(&path) {
            was_read = true;
        } else if machine.root().at(&path).exists() {
            let text = budget.text(machine, &path)?;
            return Ok(Some(ProfileFile { place: path, text }));
        }
    }
    let place = format!("built in/{name}");
    match BUILT_IN.iter().find(|(own, _)| *own == name) {
        _ if read.contains(&place) => Ok(None),
        Some((_, text)) => Ok(Some(ProfileFile { place, text: (*text).to_owned() })),
        None if was_read => Ok(None),
        None => {
            let known = list(machine).into_iter().map(|profile| profile.name);
            Err(unknown("profile", name, "whyslow tune profiles", known))
        }
    }
}

/// Lists every profile by name, each with the location that it would be read from.
pub(super) fn list(machine: &Machine) -> Vec<ProfileInfo> {
    let mut names: Vec<String> = BUILT_IN.iter().map(|(name, _)| (*name).to_owned()).collect();
    for folder in FOLDERS {
        let here = machine.root().list(folder);
        names
            .extend(here.into_iter().filter(|name| machine.root().at(format!("{folder}/{name}/tuned.conf")).is_file()));
    }
    names.sort();
    names.dedup();
    let info = |name: String| {
        let found = find(machine, &ReadBudget::default(), &name, &[]).ok()??;
        let sections = super::conf::parse(&found.text).ok()?;
        let mut main = sections.into_iter().find(|section| section.name == super::MAIN).unwrap_or_default();
        Some(ProfileInfo { summary: main.take("summary").unwrap_or_default(), place: found.place, name })
    };
    names.into_iter().filter_map(info).collect()
}

/// Limit for all files together, bytes: about ten times the size of 300,000 lines.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes of regular files that may still be read: the author of a profile may name any file in it. Errors do not repeat the
/// content of such a file.
pub(super) struct ReadBudget(Cell<u64>);

impl Default for ReadBudget {
    fn default() -> Self {
        Self(Cell::new(MOST_BYTES))
    }
}

impl ReadBudget {
    /// Reads a file, by its path from the root.
    pub(super) fn text(&self, machine: &Machine, path: &str) -> Result<String, String> {
        let failed = |e: std::io::Error| format!("/{path}: {e}");
        let file = whyslow_trusted::open(&machine.root().at(path)).map_err(failed)?;
        let left = self.0.get();
        let mut bytes = Vec::new();
        file.take(left + 1).read_to_end(&mut bytes).map_err(failed)?;
        let read = bytes.len() as u64;
        if read > left {
            return Err(format!("/{path}: too large: profiles take {} MiB together at most", MOST_BYTES >> 20));
        }
        self.0.set(left - read);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
