//! Hosts that can be viewed.

use super::live_host::LiveHost;
use super::recorded_host::RecordedHost;
use crate::live::cannot_start;
use crate::output::Failure;
use crate::pseudonymise::PseudonymSession;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use whyslow_diagnose::RuleBook;
use whyslow_documents::overview::{Overview, SCHEMA};
use whyslow_store::{Recording, lower_priority};

/// The live machine and recordings.
pub struct Hosts {
    /// Live machine, unless only recordings are served.
    pub live: Option<Arc<LiveHost>>,
    /// Rules for judging all hosts.
    pub book: Arc<RuleBook>,
    /// Folders in which to look for recordings.
    roots: Vec<PathBuf>,
    names: Arc<PseudonymSession>,
    recorded: Mutex<Vec<Arc<RecordedHost>>>,
    /// Number of the next recording that is found.
    next: AtomicUsize,
    /// Wakes the thread that looks for new recordings and judges them.
    looked_at: SyncSender<()>,
}

impl Hosts {
    /// Creates the hosts from the live machine and the recordings in these folders. Also returns the channel that wakes
    /// the survey.
    pub fn new(
        live: Option<Arc<LiveHost>>,
        roots: Vec<PathBuf>,
        book: Arc<RuleBook>,
        names: Arc<PseudonymSession>,
    ) -> (Arc<Self>, Receiver<()>) {
        let (looked_at, looks) = sync_channel(1);
        let (recorded, next) = (Mutex::default(), AtomicUsize::new(0));
        let hosts = Self { live, book, roots, names, recorded, next, looked_at };
        hosts.find_recordings();
        (Arc::new(hosts), looks)
    }

    /// Returns the recordings found so far.
    pub fn recordings(&self) -> Vec<Arc<RecordedHost>> {
        self.recorded().clone()
    }

    /// Returns the recording with this id.
    pub fn recording(&self, id: &str) -> Option<Arc<RecordedHost>> {
        self.recorded().iter().find(|host| host.overview().id == id).cloned()
    }

    /// Returns one line per host. The information about recordings may be a minute old.
    pub fn overview(&self) -> Overview {
        // If the thread is already awake, it looks at all of them anyway.
        let _ = self.looked_at.try_send(());
        let live = self.live.iter().map(|live| live.overview());
        let recorded = self.recordings();
        let recorded = recorded.iter().map(|host| host.overview());
        Overview {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hosts: live.chain(recorded).collect(),
        }
    }

    /// Starts to survey all recordings in a thread of low priority: at once, and again whenever the overview is
    /// requested.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn start_survey(self: &Arc<Self>, looks: Receiver<()>) -> Result<(), Failure> {
        let hosts = self.clone();
        let survey = move || {
            lower_priority();
            hosts.survey();
            while looks.recv().is_ok() {
                hosts.survey();
            }
        };
        std::thread::Builder::new().name("survey".into()).spawn(survey).map(drop).map_err(cannot_start)
    }

    fn survey(&self) {
        self.find_recordings();
        let due: Vec<Arc<RecordedHost>> = self.recordings().into_iter().filter(|host| host.is_due()).collect();
        // Show first what is quickly available.
        due.iter().for_each(|host| host.glance());
        due.iter().for_each(|host| host.survey(&self.book));
    }

    /// Finds new and removed recordings; those that stay keep their ids.
    fn find_recordings(&self) {
        let found: Vec<PathBuf> = self.roots.iter().flat_map(|root| recordings_in(root)).collect();
        let mut recorded = self.recorded();
        recorded.retain(|host| found.iter().any(|folder| folder == host.folder()));
        for folder in found {
            if !recorded.iter().any(|host| host.folder() == folder) {
                let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
                recorded.push(Arc::new(RecordedHost::new(id, folder, self.names.clone())));
            }
        }
    }

    fn recorded(&self) -> MutexGuard<'_, Vec<Arc<RecordedHost>>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the recordings in a folder: itself, or those in its subfolders by name.
pub fn recordings_in(root: &Path) -> Vec<PathBuf> {
    if Recording::is_in(root) {
        return vec![root.to_owned()];
    }
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| Recording::is_in(path)).collect();
    found.sort();
    found
}
