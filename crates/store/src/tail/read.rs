//! Reading a tail, as far as it is whole.

use super::chunks::Chunks;
use super::{Header, LARGEST_CHUNK, MAGIC, MAGIC_OF_OLD, MAGIC_WORDS};
use crate::error::StoreError;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use zstd::stream::write::Decoder;

/// A tail that is being read, frame by frame.
pub(crate) struct TailReader {
    chunks: VecDeque<Option<Vec<u8>>>,
    decompressor: Decoder<'static, Bounded>,
    header: Header,
    lost: usize,
}

impl TailReader {
    /// Opens a tail. `None` where it is one, but was cut before its header was whole: there is nothing in it.
    ///
    /// # Errors
    /// Where it cannot be read, is no tail, is of a format this program does not know, or its header is damaged beyond repair.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let mut file = File::open(path).map_err(StoreError::io(path))?;
        let mut magic = Vec::new();
        Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(StoreError::io(path))?;
        if !MAGIC.starts_with(&magic) && !MAGIC_OF_OLD.starts_with(&magic) {
            return Err(StoreError::senseless(path, not_this_tail(&magic)));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(StoreError::io(path))?;
        let decompressor = Decoder::new(Bounded::default()).map_err(StoreError::io(path))?;
        let Chunks { chunks } = Chunks::of(&bytes, magic == MAGIC);
        let header = Header { boot: String::new(), tables: Vec::new() };
        let mut tail = Self { chunks, decompressor, header, lost: 0 };
        if tail.chunks.is_empty() {
            return Ok(None);
        }
        let damaged = || StoreError::senseless(path, "its header is damaged beyond repair");
        let header = tail.next_frame().ok_or_else(damaged)?;
        let sense = |e| StoreError::senseless(path, format!("its header makes no sense: {e}"));
        tail.header = serde_json::from_slice(&header).map_err(sense)?;
        Ok(Some(tail))
    }

    /// What the tail says of itself.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The next frame; `None` at the end, and where one is damaged: none behind it can be read.
    pub(crate) fn next_frame(&mut self) -> Option<Vec<u8>> {
        let chunk = self.chunks.pop_front()?;
        let frame = chunk.and_then(|data| {
            self.decompressor.write_all(&data).and_then(|()| self.decompressor.flush()).ok()?;
            Some(std::mem::take(&mut self.decompressor.get_mut().0))
        });
        if frame.is_none() {
            self.lost = 1 + self.chunks.len();
            self.chunks.clear();
        }
        frame
    }

    /// Gives up on what follows, because the last frame makes no sense.
    pub(crate) fn give_up(&mut self) {
        self.lost = 1 + self.chunks.len();
        self.chunks.clear();
    }

    /// How many frames could not be read, as far as they can be made out; known once the end was come to.
    pub(crate) fn lost(&self) -> usize {
        self.lost
    }
}

fn not_this_tail(magic: &[u8]) -> &'static str {
    if magic.starts_with(MAGIC_WORDS) {
        "written by a newer whyslow, in a format that this one does not know"
    } else {
        "not a recording of whyslow"
    }
}

/// What a chunk expands to, up to what a sample can be: damage cannot make it fill the memory.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LARGEST_CHUNK {
            return Err(io::Error::other("a chunk expands to more than any sample"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
