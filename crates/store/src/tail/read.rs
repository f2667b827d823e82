//! Reads a tail.

use super::chunks::{Chunks, Piece, read_chunks};
use super::{LARGEST_CHUNK, MAGIC, MAGIC_PREFIX, OLD_MAGIC, STATELESS_MAGIC, TailHeader, ZSTD_MAGIC};
use crate::error::StoreError;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use zstd::stream::write::Decoder;

/// Part of a tail after its header.
pub(crate) enum TailPart {
    /// The next sample.
    Frame(Vec<u8>),
    /// After damage, the state that the next frame is relative to.
    State(Vec<u8>),
}

/// Reads a tail frame by frame.
pub(crate) struct TailReader {
    chunks: Chunks,
    /// `None` from damage until the next state.
    decompressor: Option<Decompressor>,
    header: TailHeader,
    lost: usize,
    /// True if the last piece was a state, even a damaged one.
    is_after_state: bool,
}

type Decompressor = Decoder<'static, BoundedBuffer>;

impl TailReader {
    /// Opens a tail. Returns `None` if it was truncated within its header, so that it has no content.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a tail, is of a newer format, or its header is damaged beyond repair.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let mut file = File::open(path).map_err(StoreError::io(path))?;
        let mut magic = Vec::new();
        Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(StoreError::io(path))?;
        if ![MAGIC, STATELESS_MAGIC, OLD_MAGIC].iter().any(|known| known.starts_with(&magic)) {
            return Err(StoreError::invalid(path, wrong_magic(&magic)));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(StoreError::io(path))?;
        let chunks = read_chunks(&bytes, magic != OLD_MAGIC);
        let header = TailHeader { boot: String::new(), tables: Vec::new() };
        let mut tail = Self { chunks, decompressor: decompressor().ok(), header, lost: 0, is_after_state: true };
        if tail.chunks.pieces.is_empty() {
            return Ok(None);
        }
        let damaged = || StoreError::invalid(path, "the header is damaged beyond repair");
        let header = match tail.chunks.pieces.pop_front() {
            Some(Piece::Chunk(chunk)) => tail.decompressed(&chunk).ok_or_else(damaged)?,
            _ => return Err(damaged()),
        };
        let invalid = |e| StoreError::invalid(path, format!("invalid header: {e}"));
        tail.header = serde_json::from_slice(&header).map_err(invalid)?;
        Ok(Some(tail))
    }

    pub(crate) fn header(&self) -> &TailHeader {
        &self.header
    }

    /// Returns the next part; `None` at the end. After damage, that is the next state.
    pub(crate) fn next_part(&mut self) -> Option<TailPart> {
        loop {
            let piece = self.chunks.pieces.pop_front()?;
            let is_after_state = std::mem::replace(&mut self.is_after_state, matches!(piece, Piece::State(_)));
            match piece {
                // If a stream begins without a state, an unknown number of frames is missing.
                Piece::Chunk(chunk) if chunk.starts_with(ZSTD_MAGIC) && !is_after_state => self.reject(),
                Piece::Chunk(chunk) if self.decompressor.is_some() => {
                    if let Some(frame) = self.decompressed(&chunk) {
                        return Some(TailPart::Frame(frame));
                    }
                    self.reject();
                }
                Piece::Chunk(_) | Piece::Lost => self.reject(),
                Piece::State(state) if self.decompressor.is_none() => {
                    self.decompressor = decompressor().ok();
                    if let Some(state) = self.decompressed(&state) {
                        return Some(TailPart::State(state));
                    }
                    self.decompressor = None;
                }
                Piece::State(_) => {}
            }
        }
    }

    fn decompressed(&mut self, chunk: &[u8]) -> Option<Vec<u8>> {
        if chunk.starts_with(ZSTD_MAGIC) {
            self.decompressor = decompressor().ok();
        }
        let decompressor = self.decompressor.as_mut()?;
        decompressor.write_all(chunk).and_then(|()| decompressor.flush()).ok()?;
        Some(std::mem::take(&mut decompressor.get_mut().0))
    }

    /// Counts the last frame as lost, because it was invalid, and those that follow until the next state.
    pub(crate) fn reject(&mut self) {
        self.decompressor = None;
        self.lost += 1;
    }

    /// Skips the frames after an invalid state, too.
    pub(crate) fn reject_state(&mut self) {
        self.decompressor = None;
    }

    /// Returns whether the data at its end is incomplete: the recorder was killed, or the file truncated.
    pub(crate) fn is_cut(&self) -> bool {
        self.chunks.is_cut
    }

    /// Returns the number of frames that could not be read, as far as that can be determined. Final only at the end.
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

fn decompressor() -> io::Result<Decompressor> {
    Decoder::new(BoundedBuffer::default())
}

/// Limits the decompressed size of a chunk, so that damage cannot exhaust memory.
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
