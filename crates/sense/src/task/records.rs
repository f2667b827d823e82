//! The records of all tasks, as BPF programs write them (crates/sense/bpf/task.bpf.c): one that goes through the tasks itself
//! where the kernel lets it (from Linux 6.4 on), or one that the kernel calls for each of them, which takes twice as long.

use crate::bpf::{Object, include_object};
use crate::root::Root;
use crate::source::SourceError;
use aya::Pod;
use aya::maps::{Array, MapData};
use std::fmt::Display;
use std::io::{ErrorKind, Read};

/// The program that goes through the tasks itself.
const WALK: &str = "once_task";
/// The one that is called for each.
const EACH: &str = "task";

/// As many processes are walked through in one run, which takes less than a millisecond: nothing else runs on that processor
/// meanwhile.
const SPAN: u32 = 2048;
/// After so many readings a walk that did not come to its end is tried again.
const RESTS: u64 = 60;

/// Bytes asked for at a time; the kernel gives no more than its own buffer holds.
const ROOM: usize = 256 * 1024;

/// `struct chunk`: bytes of it that were written, and those.
#[derive(Clone, Copy)]
#[repr(C)]
struct Chunk {
    length: u64,
    bytes: [u8; 16 * 1024 - 8],
}

// SAFETY: plain numbers without padding, so any bytes make one.
unsafe impl Pod for Chunk {}

/// What a reading shows.
pub(super) enum Part<'r> {
    /// What was shown so far does not count.
    Beginning,
    /// Records of some tasks.
    Records(&'r [u8]),
}

/// Has the records written.
pub(super) struct Records {
    object: Object,
    /// How many processes are walked through in one run.
    span: Array<MapData, u32>,
    /// The reading from which on a walk is tried; `None` where the kernel does not let it.
    walks_from: Option<u64>,
    readings: u64,
    /// Kept for its room, which is cleared only when it is made.
    bytes: Vec<u8>,
}

impl Records {
    /// Loads the programs.
    ///
    /// # Errors
    /// Why BPF cannot be used here.
    pub(super) fn load(root: &Root) -> Result<Self, SourceError> {
        let mut object = Object::load("task", include_object!("task"), root)?;
        let walks_from = object.load_once(WALK, root).then_some(0);
        let span = Array::try_from(object.take_map("span")?).map_err(failed)?;
        let mut records = Self { object, span, walks_from, readings: 0, bytes: Vec::new() };
        records.set_span(SPAN)?;
        Ok(records)
    }

    /// Sets how many processes are walked through in one run.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub(super) fn set_span(&mut self, processes: u32) -> Result<(), SourceError> {
        self.span.set(0, processes, 0).map_err(failed)
    }

    /// Shows the records of all tasks as they are now to `each`, those of a process and its threads together.
    ///
    /// # Errors
    /// The programs cannot be run.
    pub(super) fn read(&mut self, mut each: impl FnMut(Part<'_>)) -> Result<(), SourceError> {
        self.readings += 1;
        if self.walks_from.is_some_and(|from| from <= self.readings) {
            self.walks_from = match self.walk(&mut each) {
                Ok(true) => return Ok(()),
                Ok(false) => Some(self.readings + RESTS),
                Err(_) => None,
            };
        }
        each(Part::Beginning);
        let length = self.each()?;
        each(Part::Records(&self.bytes[..length]));
        Ok(())
    }

    /// Has a program go through the tasks, some thousand at a time: of ten thousand the records are megabytes. False where it
    /// lost its way, or a process has too many threads.
    fn walk(&mut self, each: &mut impl FnMut(Part<'_>)) -> Result<bool, SourceError> {
        loop {
            let (chunks, more) = self.run()?;
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
            each(Part::Records(&self.bytes[..length]));
            if !more {
                return Ok(true);
            }
        }
    }

    /// `struct run`: how many chunks a run of the walk wrote, and whether another is to follow.
    fn run(&mut self) -> Result<(u32, bool), SourceError> {
        let mut run = [0; 8];
        self.object.iterate(WALK)?.read_exact(&mut run).map_err(failed)?;
        let [a, b, c, d, more, ..] = run;
        Ok((u32::from_ne_bytes([a, b, c, d]), more != 0))
    }

    /// Has a program called for each task. How many bytes it wrote.
    fn each(&mut self) -> Result<usize, SourceError> {
        let mut file = self.object.iterate(EACH)?;
        let mut length = 0;
        loop {
            match file.read(room(&mut self.bytes, length, ROOM)) {
                Ok(0) => return Ok(length),
                Ok(read) => length += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }

    /// Whether the last reading was a walk.
    #[cfg(test)]
    pub(super) fn walks(&self) -> bool {
        self.walks_from.is_some_and(|from| from <= self.readings)
    }

    /// The same without walks.
    #[cfg(test)]
    pub(super) fn keep_from_walking(&mut self) {
        self.walks_from = None;
    }
}

/// Room for so many bytes behind the first.
fn room(bytes: &mut Vec<u8>, from: usize, count: usize) -> &mut [u8] {
    if bytes.len() < from + count {
        // No more than is needed: where there are ten thousand processes it is megabytes.
        bytes.reserve_exact(from + count - bytes.len());
        bytes.resize(from + count, 0);
    }
    &mut bytes[from..from + count]
}

fn failed(error: impl Display) -> SourceError {
    SourceError::Failed(format!("BPF task: {error}"))
}
