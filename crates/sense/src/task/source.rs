//! All processes and threads: by a BPF iterator, in one read, where it can be had; else by their files.

use super::iterator::TaskIterator;
use super::proc_reader::Files;
use crate::root::Root;
use crate::source::{Miss, Source};
use whyslow_model::snapshot::Snapshot;

/// Reads every process, and every thread of those that have several.
#[derive(Default)]
pub(super) struct Tasks {
    way: Option<Way>,
}

/// How they are read. Nothing but cost depends on it, and the few metrics that say so in the catalogue: falling back is
/// no blind spot.
enum Way {
    Iterator(Box<TaskIterator>),
    Files(Files),
}

impl Way {
    fn choose(root: &Root) -> Self {
        TaskIterator::load(root).map_or_else(|_| Self::Files(Files::default()), |it| Self::Iterator(Box::new(it)))
    }
}

impl Source for Tasks {
    fn name(&self) -> &'static str {
        "tasks"
    }

    fn tells(&self) -> &'static str {
        "what processes and threads do, and wait for"
    }

    fn prepare(&mut self, root: &Root) {
        self.way.get_or_insert_with(|| Way::choose(root));
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        match self.way.get_or_insert_with(|| Way::choose(root)) {
            Way::Iterator(iterator) => iterator.read(root, out),
            Way::Files(files) => files.read(root, out),
        }
    }
}
