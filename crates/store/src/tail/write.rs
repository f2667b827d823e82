//! Appending to a tail.

use super::parity::Parity;
use super::{Header, MAGIC};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use zstd::stream::write::Encoder;
use zstd::zstd_safe::CParameter;

/// The fastest: a tail stands for ten minutes, and level 3 is only a twentieth smaller.
const LEVEL: i32 = 1;
/// How far back a repetition is looked for (2^18 bytes): further back is no better at this level.
const WINDOW_LOG: u32 = 18;
/// The table of what was there before (2^14 places, 64 KiB). Once a second it comes from memory, not from a cache: a larger one
/// costs more than it finds.
const HASH_LOG: u32 = 14;

/// A tail that is being written.
pub(crate) struct TailWriter {
    file: File,
    compressor: Encoder<'static, Vec<u8>>,
    parity: Parity,
    /// Bytes in the file.
    length: u64,
}

impl TailWriter {
    /// Begins a tail, which must not be there yet.
    pub(crate) fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(MAGIC)?;
        let mut compressor = Encoder::new(Vec::new(), LEVEL)?;
        compressor.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        compressor.set_parameter(CParameter::HashLog(HASH_LOG))?;
        let mut tail = Self { file, compressor, parity: Parity::default(), length: MAGIC.len() as u64 };
        tail.append(&serde_json::to_vec(header)?)?;
        Ok(tail)
    }

    /// Adds one chunk, which the device need not have yet. After an error the tail is good up to the chunk before, and
    /// nothing can be added to it any more.
    pub(crate) fn append(&mut self, frame: &[u8]) -> io::Result<()> {
        self.compressor.write_all(frame)?;
        self.compressor.flush()?;
        let data = std::mem::take(self.compressor.get_mut());
        let length = u32::try_from(data.len()).map_err(|_| io::Error::other("a sample of 4 GiB"))?;
        let crc = crc32fast::hash(&data);
        // The parity of a group comes with the chunk behind it.
        let mut chunk = self.parity.take_block().unwrap_or_default();
        self.parity.add(&data, crc);
        chunk.extend_from_slice(&length.to_le_bytes());
        chunk.extend_from_slice(&crc.to_le_bytes());
        chunk.extend_from_slice(&data);
        self.file.write_all(&chunk)?;
        self.length += chunk.len() as u64;
        Ok(())
    }

    /// The file, to be flushed.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Bytes in the file.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}
