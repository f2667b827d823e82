//! The interface that every source implements.

use crate::root::Root;
use crate::source_error::SourceError;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;

/// Rule that decides when a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At every sample: counters and levels.
    EverySample,
    /// At the first sample, then once a minute: settings and inventory, which hardly change.
    Slow,
    /// At every sample after [`Sampler::ask`](crate::Sampler::ask): too expensive to be always on.
    OnDemand,
    /// At every sample after [`Sampler::ask`](crate::Sampler::ask): for recorders, which keep the rows.
    Recorded,
}

/// Description of a source for the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// The kernel source it reads, such as `proc/stat`.
    pub name: &'static str,
    /// The information it reports, in the words that a blind spot uses: `CPU time by mode`.
    pub description: &'static str,
    /// When it is read.
    pub schedule: Schedule,
}

impl SourceInfo {
    /// Describes a source that is read at every sample.
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self { name, description, schedule: Schedule::EverySample }
    }

    /// Reads the source once a minute instead.
    pub const fn slow(self) -> Self {
        Self { schedule: Schedule::Slow, ..self }
    }

    /// Reads the source only for recordings instead.
    pub const fn recorded(self) -> Self {
        Self { schedule: Schedule::Recorded, ..self }
    }

    /// Reads the source only on demand instead.
    pub const fn on_demand(self) -> Self {
        Self { schedule: Schedule::OnDemand, ..self }
    }
}

/// One kernel source.
pub trait Source: Send {
    /// Returns the description of the source.
    fn info(&self) -> SourceInfo;

    /// Does slow setup, such as loading BPF programs, ahead of the first sample, so that the sources of that sample are read
    /// as close together as those of later ones. [`read`](Self::read) reports failures.
    fn prepare(&mut self, _: &Root) {}

    /// Reads into `out`, in which the tables of this source are empty.
    ///
    /// # Errors
    /// Fails if the source, or a part of it, cannot be read. Rows written before the error are kept.
    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError>;
}

/// A source that keeps no state between samples.
struct Stateless {
    info: SourceInfo,
    read: fn(&Root, &mut Snapshot) -> Result<(), SourceError>,
}

impl Source for Stateless {
    fn info(&self) -> SourceInfo {
        self.info
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        (self.read)(root, out)
    }
}

pub(crate) fn stateless(
    info: SourceInfo,
    read: fn(&Root, &mut Snapshot) -> Result<(), SourceError>,
) -> Box<dyn Source> {
    Box::new(Stateless { info, read })
}

/// A source that lists things such as CPUs or disks, which rarely appear or disappear. It lists them again every ten seconds.
struct Listed<T> {
    info: SourceInfo,
    list: fn(&Root) -> Vec<T>,
    listed: Option<(Instant, Vec<T>)>,
    read: fn(&[T], &Root, &mut Snapshot) -> Result<(), SourceError>,
}

const LIST_TTL: Duration = Duration::from_secs(10);

impl<T: Send> Source for Listed<T> {
    fn info(&self) -> SourceInfo {
        self.info
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let valid = self.listed.take().filter(|(at, _)| at.elapsed() < LIST_TTL);
        let (_, list) = self.listed.insert(valid.unwrap_or_else(|| (Instant::now(), (self.list)(root))));
        (self.read)(list, root, out)
    }
}

pub(crate) fn listed<T: Send + 'static>(
    info: SourceInfo,
    list: fn(&Root) -> Vec<T>,
    read: fn(&[T], &Root, &mut Snapshot) -> Result<(), SourceError>,
) -> Box<dyn Source> {
    Box::new(Listed { info, list, listed: None, read })
}

/// A source that must load something first, such as a BPF object. It tries once: a failure to load does not go away by itself.
struct Loaded<T, L, R> {
    info: SourceInfo,
    load: L,
    loaded: Option<Result<T, SourceError>>,
    read: R,
}

impl<T, L, R> Source for Loaded<T, L, R>
where
    T: Send,
    L: Fn(&Root) -> Result<T, SourceError> + Send,
    R: Fn(&mut T, &Root, &mut Snapshot) -> Result<(), SourceError> + Send,
{
    fn info(&self) -> SourceInfo {
        self.info
    }

    fn prepare(&mut self, root: &Root) {
        self.loaded.get_or_insert_with(|| (self.load)(root));
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        match self.loaded.get_or_insert_with(|| (self.load)(root)) {
            Ok(loaded) => (self.read)(loaded, root, out),
            Err(error) => Err(error.clone()),
        }
    }
}

pub(crate) fn loaded<T: Send + 'static>(
    info: SourceInfo,
    load: impl Fn(&Root) -> Result<T, SourceError> + Send + 'static,
    read: impl Fn(&mut T, &Root, &mut Snapshot) -> Result<(), SourceError> + Send + 'static,
) -> Box<dyn Source> {
    Box::new(Loaded { info, load, loaded: None, read })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;
    use std::sync::atomic::{AtomicU32, Ordering};

    const INFO: SourceInfo = SourceInfo::new("x", "y");

    #[test]
    fn things_are_listed_again_after_ten_seconds() {
        let tree = CapturedTree::with_files(&[("cpus/0", "")]);
        let read = |list: &[String], _: &Root, _: &mut Snapshot| Err(SourceError::Failed(list.join(" ")));
        let mut source = Listed { info: INFO, list: |root| root.list("cpus"), listed: None, read };
        let found = |names: &str| Err(SourceError::Failed(names.into()));
        assert_eq!(tree.read(&mut source).0, found("0"));
        tree.write("cpus/1", "");
        assert_eq!(tree.read(&mut source).0, found("0"));
        source.listed = source.listed.map(|(at, list)| (at - LIST_TTL, list));
        assert_eq!(tree.read(&mut source).0, found("0 1"));
    }

    #[test]
    fn what_cannot_be_loaded_is_reported_at_each_reading_and_not_tried_again() {
        let tries = AtomicU32::new(0);
        let load = |_: &Root| -> Result<(), SourceError> {
            tries.fetch_add(1, Ordering::Relaxed);
            Err(SourceError::Failed("no".into()))
        };
        let read = |(): &mut (), _: &Root, _: &mut Snapshot| Ok(());
        let mut source = Loaded { info: INFO, load, loaded: None, read };
        let tree = CapturedTree::with_files(&[]);
        source.prepare(&tree.root());
        for _ in 0..2 {
            assert_eq!(tree.read(&mut source).0, Err(SourceError::Failed("no".into())));
        }
        assert_eq!(tries.load(Ordering::Relaxed), 1);
    }
}
