//! Reads a tail up to its end, or up to damage.

use super::chunks::read_chunks;
use super::{LARGEST_CHUNK, MAGIC, MAGIC_PREFIX, OLD_MAGIC, TailHeader};
use crate::error::StoreError;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use zstd::stream::write::Decoder;

/// Reads a tail frame by frame.
pub(crate) struct TailReader {
    chunks: VecDeque<Option<Vec<u8>>>,
    decompressor: Decoder<'static, BoundedBuffer>,
    header: TailHeader,
    lost: usize,
}

impl TailReader {
    /// Opens a tail. `None` if it was truncated within its header, so that there is nothing in it.
    ///
    /// # Errors
    /// The file cannot be read, is not a tail, is of a newer format, or its header is damaged beyond repair.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let mut file = File::open(path).map_err(StoreError::io(path))?;
        let mut magic = Vec::new();
        Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(StoreError::io(path))?;
        if !MAGIC.starts_with(&magic) && !OLD_MAGIC.starts_with(&magic) {
            return Err(StoreError::invalid(path, wrong_magic(&magic)));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(StoreError::io(path))?;
        let decompressor = Decoder::new(BoundedBuffer::default()).map_err(StoreError::io(path))?;
        let chunks = read_chunks(&bytes, magic == MAGIC);
        let header = TailHeader { boot: String::new(), tables: Vec::new() };
        let mut tail = Self { chunks, decompressor, header, lost: 0 };
        if tail.chunks.is_empty() {
            return Ok(None);
        }
        let damaged = || StoreError::invalid(path, "the header is damaged beyond repair");
        let header = tail.next_frame().ok_or_else(damaged)?;
        let invalid = |e| StoreError::invalid(path, format!("invalid header: {e}"));
        tail.header = serde_json::from_slice(&header).map_err(invalid)?;
        Ok(Some(tail))
    }

    pub(crate) fn header(&self) -> &TailHeader {
        &self.header
    }

    /// The next frame; `None` at the end, and at a damaged frame, after which no other can be decompressed.
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

    /// Counts the last frame and all that follow as lost, because the last one was invalid.
    pub(crate) fn give_up(&mut self) {
        self.lost = 1 + self.chunks.len();
        self.chunks.clear();
    }

    /// How many frames could not be read, as far as that can be determined. Known at the end.
    pub(crate) fn lost(&self) -> usize {
        self.lost
    }
}

fn wrong_magic(magic: &[u8]) -> &'static str {
    if magic.starts_with(MAGIC_PREFIX) {
        "written by a newer whyslow, in a format this version does not know"
    } else {
        "not a recording of whyslow"
    }
}

/// Limits what a chunk may decompress to, so that damage cannot exhaust memory.
#[derive(Default)]
struct BoundedBuffer(Vec<u8>);

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LARGEST_CHUNK {
            return Err(io::Error::other("a chunk decompresses to more than a sample can be"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
