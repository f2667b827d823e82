//! Appends to a tail.

use super::chunks::STATE_MAGIC;
use super::parity::{GroupParity, block_of};
use super::{MAGIC, STATELESS_MAGIC, TailHeader};
use crate::permissions::create_file;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use zstd::stream::write::Encoder;
use zstd::zstd_safe::CParameter;

/// Fastest level: a tail lives for ten minutes, and level 3 makes it only a twentieth smaller.
const ZSTD_LEVEL: i32 = 1;
/// Window for repetitions, 2^18 bytes: a larger one gains nothing at this level.
const WINDOW_LOG: u32 = 18;
/// Size of the hash table: 2^14 entries, 64 KiB. Used once a second, it is never in the CPU's cache: a larger one costs
/// more than it gains.
const HASH_LOG: u32 = 14;

pub(crate) struct TailWriter<W = File> {
    sink: W,
    compressor: Encoder<'static, Vec<u8>>,
    parity: GroupParity,
    length: u64,
}

impl TailWriter {
    /// Creates a tail; the file must not exist yet.
    pub(crate) fn create(path: &Path, header: &TailHeader) -> io::Result<Self> {
        Self::new(create_file(path)?, header)
    }

    pub(crate) fn file(&self) -> &File {
        &self.sink
    }
}

impl<W: Write> TailWriter<W> {
    /// Starts a tail.
    pub(crate) fn new(sink: W, header: &TailHeader) -> io::Result<Self> {
        Self::of_format(MAGIC, sink, header)
    }

    /// Starts a tail without states, which versions that do not know states can read.
    pub(crate) fn without_states(sink: W, header: &TailHeader) -> io::Result<Self> {
        Self::of_format(STATELESS_MAGIC, sink, header)
    }

    fn of_format(magic: &[u8], mut sink: W, header: &TailHeader) -> io::Result<Self> {
        sink.write_all(magic)?;
        let length = magic.len() as u64;
        let mut tail = Self { sink, compressor: compressor()?, parity: GroupParity::default(), length };
        tail.append(&serde_json::to_vec(header)?)?;
        Ok(tail)
    }

    /// Appends one chunk, without waiting for the device. After an error the tail is valid up to the previous chunk,
    /// and nothing more can be appended.
    pub(crate) fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        self.compressor.write_all(frame)?;
        self.compressor.flush()?;
        let data = std::mem::take(self.compressor.get_mut());
        let length = u32::try_from(data.len()).map_err(|_| io::Error::other("the sample is larger than 4 GiB"))?;
        let crc = crc32fast::hash(&data);
        // A group's parity block is written with the next chunk.
        let mut chunk = self.parity.take_block().unwrap_or_default();
        self.parity.add(&data, crc);
        chunk.extend_from_slice(&length.to_le_bytes());
        chunk.extend_from_slice(&crc.to_le_bytes());
        chunk.extend_from_slice(&data);
        self.sink.write_all(&chunk)?;
        self.length += chunk.len() as u64;
        Ok(())
    }

    /// Appends the state that the next frame is relative to, and begins a new stream, but only between groups. Errors
    /// are those of [`append`](Self::append).
    pub(crate) fn append_state(&mut self, state: &[u8]) -> io::Result<()> {
        if !self.parity.is_between_groups() {
            return Ok(());
        }
        let mut compressed = compressor()?;
        compressed.write_all(state)?;
        let mut blocks = self.parity.take_block().unwrap_or_default();
        blocks.append(&mut block_of(STATE_MAGIC, &compressed.finish()?));
        self.sink.write_all(&blocks)?;
        self.length += blocks.len() as u64;
        self.compressor = compressor()?;
        Ok(())
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn into_inner(self) -> W {
        self.sink
    }
}

fn compressor() -> io::Result<Encoder<'static, Vec<u8>>> {
    let mut compressor = Encoder::new(Vec::new(), ZSTD_LEVEL)?;
    compressor.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
    compressor.set_parameter(CParameter::HashLog(HASH_LOG))?;
    Ok(compressor)
}
