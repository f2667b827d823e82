//! The records of all tasks, as BPF programs write them (crates/sense/bpf/task.bpf.c): one that goes through the tasks itself
//! where the kernel lets it (from Linux 6.7 on), or one that the kernel calls for each of them, which takes twice as long.

use crate::bpf::{Object, include_object};
use crate::root::Root;
use crate::source::Miss;
use aya::Pod;
use aya::maps::Array;
use std::fmt::Display;
use std::io::{ErrorKind, Read};

/// The program that goes through the tasks itself.
const WALK: &str = "once_task";
/// The one that is called for each.
const EACH: &str = "task";

/// After so many readings a walk for which there were too many tasks is tried again.
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

/// Has the records written.
pub(super) struct Records {
    object: Object,
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
    pub(super) fn load(root: &Root) -> Result<Self, Miss> {
        let mut object = Object::load("task", include_object!("task"), root)?;
        let walks_from = object.load_once(WALK, root).then_some(0);
        Ok(Self { object, walks_from, readings: 0, bytes: Vec::new() })
    }

    /// The records of all tasks as they are now.
    ///
    /// # Errors
    /// The programs cannot be run.
    pub(super) fn read(&mut self) -> Result<&[u8], Miss> {
        self.readings += 1;
        if self.walks_from.is_some_and(|from| from <= self.readings) {
            self.walks_from = match self.walk() {
                Ok(0) => Some(self.readings + RESTS),
                Ok(length) => return Ok(&self.bytes[..length]),
                Err(_) => None,
            };
        }
        let length = self.each()?;
        Ok(&self.bytes[..length])
    }

    /// Has a program go through the tasks. How many bytes it wrote; none where it was too many tasks.
    fn walk(&mut self) -> Result<usize, Miss> {
        let mut chunks = [0; 4];
        self.object.iterate(WALK)?.read_exact(&mut chunks).map_err(failed)?;
        let chunks = u32::from_ne_bytes(chunks);
        let map: Array<_, Chunk> = Array::try_from(self.object.map("chunks")?).map_err(failed)?;
        let mut length = 0;
        for at in 0..chunks {
            let chunk = map.get(&at, 0).map_err(failed)?;
            let written = &chunk.bytes[..(chunk.length as usize).min(chunk.bytes.len())];
            room(&mut self.bytes, length, written.len()).copy_from_slice(written);
            length += written.len();
        }
        Ok(length)
    }

    /// Has a program called for each task. How many bytes it wrote.
    fn each(&mut self) -> Result<usize, Miss> {
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

    /// Whether a walk is tried, or would be after a rest.
    #[cfg(test)]
    pub(super) fn walks(&self) -> bool {
        self.walks_from.is_some()
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
        bytes.resize(from + count, 0);
    }
    &mut bytes[from..from + count]
}

fn failed(error: impl Display) -> Miss {
    Miss::Failed(format!("BPF task: {error}"))
}
