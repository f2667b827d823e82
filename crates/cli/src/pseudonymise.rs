//! `--pseudonymise`: replaces names before anything is diagnosed, recorded or written.

use crate::atomic_file::AtomicFile;
use crate::output::Failure;
use clap::Args;
use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use whyslow_documents::baseline::Baseline;
use whyslow_import::Capture;
use whyslow_model::catalogue::{Family, Group, Interface, MachineInfo, MappedDevice, Mount, Process};
use whyslow_model::rename::Renamer;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_pseudonyms::{PseudonymKey, Pseudonyms};
use whyslow_show::json;
use whyslow_store::{Recording, StoreError};

/// Maximum size of a key file, in bytes.
const MOST_OF_KEY: u64 = 4096;
/// Families whose names appear in the text of others.
const MENTIONED: [&str; 6] = [
    Interface::INFO.name,
    MachineInfo::INFO.name,
    MappedDevice::INFO.name,
    Mount::INFO.name,
    Process::INFO.name,
    Group::INFO.name,
];
/// Length of a recording that is read to learn the names, in nanoseconds: it includes everything that is read once a
/// minute.
const MEETING_NS: i64 = 75 * 1_000_000_000;
/// File mode of keys and names, which only their owner may read.
const PRIVATE: u32 = 0o600;

/// Whether names are replaced, and by what.
#[derive(Clone, Debug, Default, Args)]
pub struct PseudonymOptions {
    /// Replace hosts, users, processes, paths and addresses by pseudonyms; the diagnosis stays the same
    #[arg(long, alias = "pseudonymize")]
    pseudonymise: bool,
    /// Key of the pseudonyms: the same in all outputs that share it; made if there is no such file [default: a new one each time]
    #[arg(long, value_name = "FILE", requires = "pseudonymise")]
    pseudonym_key: Option<PathBuf>,
    /// Write to this file which name each pseudonym stands for
    #[arg(long, value_name = "FILE", requires = "pseudonymise")]
    pseudonym_map: Option<PathBuf>,
}

impl PseudonymOptions {
    /// Returns whether names are to be replaced.
    pub fn is_given(&self) -> bool {
        self.pseudonymise
    }

    /// Returns whether pseudonyms are the same each time.
    pub fn has_key(&self) -> bool {
        self.pseudonym_key.is_some()
    }

    /// Reads or creates the key.
    ///
    /// # Errors
    /// Fails if the file is not a key, or cannot be read or written.
    pub fn begin(&self) -> Result<PseudonymSession, Failure> {
        if !self.pseudonymise {
            return Ok(PseudonymSession::default());
        }
        let names = Pseudonyms::new(self.pseudonym_key.as_deref().map_or_else(new_key, key_in)?);
        let map = self.pseudonym_map.as_ref().map(|path| MapFile::begin(path.clone())).transpose()?;
        let names = if map.is_some() { names.remembering_all() } else { names };
        Ok(PseudonymSession { names: Some(Arc::new(names)), map: Mutex::new(map) })
    }
}

fn new_key() -> Result<PseudonymKey, Failure> {
    let mut bytes = [0; PseudonymKey::LENGTH];
    getrandom::fill(&mut bytes).map_err(|e| Failure::usage(format!("cannot make a key for pseudonyms: {e}")))?;
    Ok(PseudonymKey::new(bytes))
}

/// Reads the key from a file, or creates a new one and writes it there.
fn key_in(path: &Path) -> Result<PseudonymKey, Failure> {
    let failed = |what: &str, e: &io::Error| Failure::usage(format!("cannot {what} the key {}: {e}", path.display()));
    let mut text = String::new();
    match File::open(path).and_then(|file| file.take(MOST_OF_KEY).read_to_string(&mut text)) {
        Ok(_) => PseudonymKey::parse(&text).ok_or_else(|| {
            Failure::usage(format!(
                "{}: not a key of 64 hexadecimal digits; name a file that does not exist to have one made",
                path.display()
            ))
        }),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let key = new_key()?;
            let file = File::options().write(true).create_new(true).mode(PRIVATE).open(path);
            let written =
                file.and_then(|mut file| file.write_all(key.to_text().as_bytes()).and_then(|()| file.sync_all()));
            written.map_err(|e| failed("write", &e))?;
            Ok(key)
        }
        Err(e) => Err(failed("read", &e)),
    }
}

/// Output file for the names behind the pseudonyms.
struct MapFile {
    path: PathBuf,
    draft: AtomicFile,
    file: File,
}

impl MapFile {
    /// Begins the file before anything is measured, so that an unusable name is reported at once.
    fn begin(path: PathBuf) -> Result<Self, Failure> {
        let begun = AtomicFile::begin(&path);
        let begun = begun
            .and_then(|(draft, file)| file.set_permissions(Permissions::from_mode(PRIVATE)).map(|()| (draft, file)));
        match begun {
            Ok((draft, file)) => Ok(Self { path, draft, file }),
            Err(e) => Err(unwritable(&path, &e)),
        }
    }

    fn write(mut self, names: &Pseudonyms) -> Result<(), Failure> {
        let text = json::pretty(&names.mapping());
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.draft.finish());
        written.map_err(|e| unwritable(&self.path, &e))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {error}", path.display()))
}

/// Replaces names, if requested.
#[derive(Default)]
pub struct PseudonymSession {
    names: Option<Arc<Pseudonyms>>,
    map: Mutex<Option<MapFile>>,
}

/// Function that replaces the names in a sample.
pub type SampleRenamer = Box<dyn Fn(&mut Snapshot) + Send + Sync>;

impl PseudonymSession {
    /// Returns whether names are replaced.
    pub fn is_on(&self) -> bool {
        self.names.is_some()
    }

    /// Returns the function that replaces the names in samples; `None` if names are kept.
    pub fn sample_renamer(&self) -> Option<SampleRenamer> {
        let names = Arc::clone(self.names.as_ref()?);
        Some(Box::new(move |sample: &mut Snapshot| sample.rename(&*names)))
    }

    /// Replaces the names in a window.
    pub fn window(&self, window: Window) -> Window {
        match &self.names {
            Some(names) => window.renamed(&**names),
            None => window,
        }
    }

    /// Replaces the names in captures.
    pub fn captures(&self, captures: Vec<Capture>) -> Vec<Capture> {
        let Some(names) = &self.names else { return captures };
        let renamed = |capture: Capture| Capture {
            files: capture.files.iter().map(|file| names.file(file)).collect(),
            host: capture.host.map(|host| names.host_name(&host)),
            settings: capture.settings.iter().map(|(name, value)| (names.label(name), names.label(value))).collect(),
            window: capture.window.renamed(&**names),
        };
        captures.into_iter().map(renamed).collect()
    }

    /// Returns the recording with names replaced as it is read.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn recording(&self, recording: Recording) -> Result<Recording, StoreError> {
        let Some(names) = &self.names else { return Ok(recording) };
        let recording = recording.renamed_by(Arc::clone(names) as Arc<dyn Renamer>);
        // Texts that are read separately mention names of other families.
        let all = recording.span();
        let start = *all.start()..=all.start().saturating_add(MEETING_NS).min(*all.end());
        let end = all.end().saturating_sub(MEETING_NS).max(*all.start())..=*all.end();
        for span in [start, end] {
            recording.each_sample(&span, &|family: &str| MENTIONED.contains(&family), |_| true)?;
        }
        Ok(recording)
    }

    /// Replaces the names in a baseline.
    pub fn baseline(&self, mut baseline: Baseline) -> Baseline {
        if let Some(names) = &self.names {
            names.baseline(&mut baseline);
        }
        baseline
    }

    /// Replaces a file, folder, baseline or period of the command line that a document repeats.
    pub fn argument(&self, text: &str) -> String {
        self.names.as_ref().map_or_else(|| text.to_owned(), |names| names.argument(text))
    }

    /// Replaces the name of a host.
    pub fn host(&self, name: &str) -> String {
        self.names.as_ref().map_or_else(|| name.to_owned(), |names| names.host_name(name))
    }

    /// Replaces the folder in a message about its files.
    pub fn message_about(&self, folder: &Path, message: &str) -> String {
        let folder = folder.display().to_string();
        if self.is_on() { message.replace(&folder, &self.argument(&folder)) } else { message.to_owned() }
    }

    /// Writes the names behind the pseudonyms so far, if requested.
    pub fn finish(&self) -> Result<(), Failure> {
        let map = self.map.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (map, &self.names) {
            (Some(map), Some(names)) => map.write(names),
            _ => Ok(()),
        }
    }
}
