//! The records of all tasks from BPF (crates/sense/bpf/task.bpf.c): from a program that walks the tasks itself (from Linux 6.4
//! on), or from one that the kernel calls for each task, which takes twice as long.

use crate::bpf::{Object, c_struct, from_bytes, include_object};
use crate::root::Root;
use crate::source_error::SourceError;
use aya::maps::Array;
use std::fmt::Display;
use std::io::{ErrorKind, Read};

/// The program that walks the tasks.
const WALK: &str = "once_task";
/// The program that the kernel calls for each task.
const EACH: &str = "task";

/// Processes per run. A run takes less than a millisecond, during which nothing else runs on that CPU.
const BATCH: u32 = 2048;
/// A failed walk is tried again after this many samples.
const RETRY_AFTER: u64 = 60;

/// Bytes per read; the kernel returns no more than its own buffer holds.
const READ_SIZE: usize = 256 * 1024;

c_struct! {
    /// `struct chunk`.
    struct Chunk {
        /// Bytes used.
        length: u64,
        bytes: [u8; 16 * 1024 - 8],
    }

    /// `struct run`.
    struct WalkRun {
        /// How many chunks it wrote.
        chunks: u32,
        /// 1 if another run follows.
        more: u32,
    }
}

pub(super) enum RecordPart<'r> {
    /// Discard the parts so far.
    Beginning,
    Records(&'r [u8]),
}

pub(super) struct Records {
    object: Object,
    root: Root,
    /// True if [`EACH`] is loaded: the kernel does not support walks, or a walk has failed.
    has_each: bool,
    /// The sample from which on walks are tried; `None` if the kernel does not support them.
    walks_from: Option<u64>,
    readings: u64,
    /// Reused, as clearing new memory takes time.
    bytes: Vec<u8>,
}

impl Records {
    pub(super) fn load(root: &Root) -> Result<Self, SourceError> {
        let mut object = Object::load("task", include_object!("task"), root)?;
        let walks_from = object.load_iterator(WALK, root).is_ok().then_some(0);
        let root = root.clone();
        let mut records = Self { object, root, has_each: false, walks_from, readings: 0, bytes: Vec::new() };
        if records.walks_from.is_none() {
            records.load_each()?;
        }
        records.set_batch_size(BATCH)?;
        Ok(records)
    }

    pub(super) fn set_batch_size(&mut self, processes: u32) -> Result<(), SourceError> {
        self.object.set_element("batch_size", 0, processes)
    }

    /// Calls `each` with the current records of all tasks; those of a process and its threads are passed together.
    pub(super) fn read(&mut self, mut each: impl FnMut(RecordPart<'_>)) -> Result<(), SourceError> {
        self.readings += 1;
        if self.walks_from.is_some_and(|from| from <= self.readings) {
            self.walks_from = match self.walk(&mut each) {
                Ok(true) => return Ok(()),
                Ok(false) => Some(self.readings + RETRY_AFTER),
                Err(_) => None,
            };
        }
        each(RecordPart::Beginning);
        let length = self.each()?;
        each(RecordPart::Records(&self.bytes[..length]));
        Ok(())
    }

    /// Walks the tasks, some thousand at a time, because the records of ten thousand take megabytes. Returns false if the walk
    /// failed or a process has too many threads.
    fn walk(&mut self, each: &mut impl FnMut(RecordPart<'_>)) -> Result<bool, SourceError> {
        loop {
            let WalkRun { chunks, more } = self.run()?;
            let map: Array<_, Chunk> = Array::try_from(self.object.map("chunks")?).map_err(failed)?;
            let mut length = 0;
            for at in 0..chunks {
                let chunk = map.get(&at, 0).map_err(failed)?;
                let written = &chunk.bytes[..(chunk.length as usize).min(chunk.bytes.len())];
                room(&mut self.bytes, length, written.len()).copy_from_slice(written);
                length += written.len();
            }
            if chunks == 0 {
                return Ok(false);
            }
            each(RecordPart::Records(&self.bytes[..length]));
            if more == 0 {
                return Ok(true);
            }
        }
    }

    fn run(&mut self) -> Result<WalkRun, SourceError> {
        let mut run = [0; size_of::<WalkRun>()];
        self.object.iterate(WALK)?.read_exact(&mut run).map_err(failed)?;
        from_bytes(&run).ok_or_else(|| failed("a run without outcome"))
    }

    fn load_each(&mut self) -> Result<(), SourceError> {
        if !self.has_each {
            self.object.load_iterator(EACH, &self.root)?;
            self.has_each = true;
        }
        Ok(())
    }

    /// Runs the program that the kernel calls for each task. Returns the number of bytes it wrote.
    fn each(&mut self) -> Result<usize, SourceError> {
        self.load_each()?;
        let mut file = self.object.iterate(EACH)?;
        let mut length = 0;
        loop {
            match file.read(room(&mut self.bytes, length, READ_SIZE)) {
                Ok(0) => return Ok(length),
                Ok(read) => length += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }

    /// Whether the last sample was a walk.
    #[cfg(test)]
    pub(super) fn walks(&self) -> bool {
        self.walks_from.is_some_and(|from| from <= self.readings)
    }

    #[cfg(test)]
    pub(super) fn disable_walks(&mut self) {
        self.walks_from = None;
    }
}

/// Returns `count` bytes at `from`; extends the buffer if necessary.
fn room(bytes: &mut Vec<u8>, from: usize, count: usize) -> &mut [u8] {
    if bytes.len() < from + count {
        // Reserves exactly, because with ten thousand processes the buffer takes megabytes.
        bytes.reserve_exact(from + count - bytes.len());
        bytes.resize(from + count, 0);
    }
    &mut bytes[from..from + count]
}

fn failed(error: impl Display) -> SourceError {
    SourceError::Failed(format!("BPF task: {error}"))
}
