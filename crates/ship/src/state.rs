//! State of the deliveries to a store: one small file in the recording's folder.

use crate::destination::ShipError;
use crate::due::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use whyslow_rollup::Hour;

/// Name of the folder within the recording's folder.
const FOLDER: &str = "ship";
/// Maximum size; a longer file is not ours.
const LONGEST: u64 = 16 << 20;

/// State of the deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The store, and the host's name in it.
    pub(crate) store: String,
    pub(crate) host: String,
    /// Hours that the recording has or had.
    #[serde(with = "by_hour")]
    pub(crate) hours: BTreeMap<Hour, Delivered>,
    /// Answered requests for spans of the recording, with the end of their validity, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) answered: BTreeMap<String, i64>,
}

/// The delivered part of an hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delivered {
    /// The delivered segments of the recording; empty if nothing was delivered.
    pub(crate) segments: Vec<Span>,
    /// Whether no more rows were expected.
    pub(crate) complete: bool,
}

/// Serializes hours as text, for the keys of a JSON object: `2026-11-26T16`.
mod by_hour {
    use super::{BTreeMap, Delivered, Hour};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        hours: &BTreeMap<Hour, Delivered>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let named = |(hour, delivered): (&Hour, _)| (format!("{}T{:02}", hour.day, hour.hour), delivered);
        hours.iter().map(named).collect::<BTreeMap<String, &Delivered>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Hour, Delivered>, D::Error> {
        let named = BTreeMap::<String, Delivered>::deserialize(deserializer)?;
        Ok(named.into_iter().filter_map(|(name, delivered)| Some((hour(&name)?, delivered))).collect())
    }

    fn hour(name: &str) -> Option<Hour> {
        let (day, hour) = name.split_once('T')?;
        Some(Hour { day: day.parse().ok()?, hour: hour.parse().ok().filter(|hour| (0..24).contains(hour))? })
    }
}

/// The state file, locked against other shippers.
pub(crate) struct StateFile {
    path: PathBuf,
    /// The lock, held as long as this exists.
    _lock: File,
}

impl StateFile {
    /// Opens the file for a store and reads it. Ignores a file that is damaged or about another store; its hours are then
    /// delivered again.
    ///
    /// # Errors
    /// Fails if another shipper is active there, or the folder is not writable.
    pub(crate) fn open(recording: &Path, store: &str, host: &str) -> Result<(Self, State), ShipError> {
        let folder = recording.join(FOLDER);
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |error: io::Error| {
                ShipError::new(format!("cannot write {path}, which records what was delivered: {error}"))
            }
        };
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(&folder)(error)),
            _ => {}
        }
        let hash = crc32fast::hash(format!("{store}\0{host}").as_bytes());
        let path = folder.join(format!("{hash:08x}.json"));
        let lock_path = folder.join(format!("{hash:08x}.lock"));
        let mut options = File::options();
        let lock = options.write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW).open(&lock_path);
        let lock = lock.map_err(failed(&lock_path))?;
        // SAFETY: flock takes a descriptor, which `lock` keeps open, and touches no memory of ours.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(ShipError::new(format!(
                "another whyslow is already shipping {} to {store}",
                recording.display()
            )));
        }
        let new = State { store: store.to_owned(), host: host.to_owned(), ..State::default() };
        let known = read(&path).filter(|known| known.store == new.store && known.host == new.host);
        Ok((Self { path, _lock: lock }, known.unwrap_or(new)))
    }

    /// Writes the file. If the write is lost, hours are delivered once more.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) fn write(&self, state: &State) -> Result<(), ShipError> {
        let draft = self.path.with_extension("part");
        let text = serde_json::to_vec(state).map_err(io::Error::from);
        let written = text.and_then(|text| fs::write(&draft, text)).and_then(|()| fs::rename(&draft, &self.path));
        written.map_err(|error| ShipError::new(format!("cannot write {}: {error}", self.path.display())))
    }
}

fn read(path: &Path) -> Option<State> {
    let mut text = Vec::new();
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn state() -> State {
        let delivered = Delivered { segments: vec![(1, 2), (3, 4)], complete: true };
        let hours = [(Hour { day: date(2026, 11, 26), hour: 7 }, delivered)];
        State { store: "/s".into(), host: "h".into(), hours: hours.into(), answered: [("id".into(), 7)].into() }
    }

    #[test]
    fn it_is_read_back_by_the_same_store_and_host() {
        let folder = whyslow_testing::folder();
        let (file, new) = StateFile::open(folder.path(), "/s", "h").unwrap();
        assert_eq!(new, State { store: "/s".into(), host: "h".into(), ..State::default() });
        file.write(&state()).unwrap();
        let error = StateFile::open(folder.path(), "/s", "h").map(drop).unwrap_err().to_string();
        assert!(error.contains("already"), "{error}");
        drop(file);
        assert_eq!(StateFile::open(folder.path(), "/s", "h").unwrap().1, state());
        assert_eq!(StateFile::open(folder.path(), "/s", "other").unwrap().1.hours.len(), 0);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = whyslow_testing::folder();
        let (file, new) = StateFile::open(folder.path(), "/s", "h").unwrap();
        for text in ["", "{", "[]", r#"{"store":"/s","host":"h","hours":{"2026-11-26T16":1}}"#] {
            fs::write(&file.path, text).unwrap();
            assert_eq!(read(&file.path), None, "{text}");
        }
        fs::write(&file.path, r#"{"store":"/s","host":"h","hours":{"2026-11-26T99":{"segments":[],"complete":true}}}"#)
            .unwrap();
        assert_eq!(read(&file.path), Some(new), "an hour that is none is left out");
    }
}
