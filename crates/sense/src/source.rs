//! What every source has in common.

use crate::root::Root;
use crate::source_error::SourceError;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;

/// How often a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Counters and levels: at every sample.
    EverySample,
    /// Settings and inventory, which hardly change: at the first sample, then once a minute.
    Slow,
    /// Too expensive to be always on: at every sample after [`Sampler::ask`](crate::Sampler::ask).
    OnDemand,
    /// For those that keep what they see: at every sample after [`Sampler::ask`](crate::Sampler::ask).
    Recorded,
}

/// What a source is, as the documentation lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// The kernel source it reads, such as `proc/stat`.
    pub name: &'static str,
    /// What it reports, in the words a blind spot uses: `CPU time by mode`.
    pub description: &'static str,
    /// How often it is read.
    pub schedule: Schedule,
}

impl SourceInfo {
    /// A source that is read at every sample.
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self { name, description, schedule: Schedule::EverySample }
    }

    /// The same source, read once a minute.
    pub const fn slow(self) -> Self {
        Self { schedule: Schedule::Slow, ..self }
    }

    /// The same source, read for recordings only.
    pub const fn recorded(self) -> Self {
        Self { schedule: Schedule::Recorded, ..self }
    }

    /// The same source, read on demand only.
    pub const fn on_demand(self) -> Self {
        Self { schedule: Schedule::OnDemand, ..self }
    }
}

/// One kernel source.
pub trait Source: Send {
    /// The description of the source.
    fn info(&self) -> SourceInfo;

    /// Does slow setup, such as loading BPF programs, ahead of the first sample, so that the sources of that sample are read
    /// as close together as those of later ones. [`read`](Self::read) reports what failed.
    fn prepare(&mut self, _: &Root) {}

    /// Reads into `out`, in which the tables of this source are empty.
    ///
    /// # Errors
    /// What could not be read, and why. Rows written before the error are kept.
    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError>;
}

/// A source that keeps nothing from sample to sample.
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

/// A source of things that hardly ever come or go, such as CPUs or disks, and are listed once in ten seconds.
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

/// A source that first loads something, such as a BPF object. It tries that once: what prevents loading does not go away by itself.
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
        let tree = CapturedTree::of(&[("cpus/0", "")]);
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
        let tree = CapturedTree::of(&[]);
        source.prepare(&tree.root());
        for _ in 0..2 {
            assert_eq!(tree.read(&mut source).0, Err(SourceError::Failed("no".into())));
        }
        assert_eq!(tries.load(Ordering::Relaxed), 1);
    }
}
