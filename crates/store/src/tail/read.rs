//! Reading a tail, as far as it is whole.

use super::{Header, LARGEST_CHUNK, MAGIC, MAGIC_WORDS};
use crate::error::StoreError;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use zstd::stream::write::Decoder;

/// A tail that is being read, frame by frame.
pub(crate) struct TailReader {
    file: BufReader<File>,
    decompressor: Decoder<'static, Bounded>,
    header: Header,
}

impl TailReader {
    /// Opens a tail. `None` where it is one, but was cut before its header was whole: there is nothing in it.
    ///
    /// # Errors
    /// Where it cannot be read, is no tail, or is of a format this program does not know.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let mut file = BufReader::new(File::open(path).map_err(StoreError::io(path))?);
        let mut magic = [0; MAGIC.len()];
        let read = read_up_to(&mut file, &mut magic).map_err(StoreError::io(path))?;
        if !MAGIC.starts_with(&magic[..read]) {
            return Err(StoreError::senseless(path, not_this_tail(&magic[..read])));
        }
        let decompressor = Decoder::new(Bounded::default()).map_err(StoreError::io(path))?;
        let mut tail = Self { file, decompressor, header: Header { boot: String::new(), tables: Vec::new() } };
        let Some(header) = tail.next_frame() else { return Ok(None) };
        let sense = |e| StoreError::senseless(path, format!("its header makes no sense: {e}"));
        tail.header = serde_json::from_slice(&header).map_err(sense)?;
        Ok(Some(tail))
    }

    /// What the tail says of itself.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The next frame; `None` at the end, and where the rest is not whole.
    pub(crate) fn next_frame(&mut self) -> Option<Vec<u8>> {
        let mut head = [0; 8];
        self.file.read_exact(&mut head).ok()?;
        let [a, b, c, d, crc @ ..] = head;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok().filter(|l| *l <= LARGEST_CHUNK)?;
        let mut data = Vec::new();
        self.file.by_ref().take(length as u64).read_to_end(&mut data).ok()?;
        if data.len() < length || crc32fast::hash(&data) != u32::from_le_bytes(crc) {
            return None;
        }
        self.decompressor.write_all(&data).and_then(|()| self.decompressor.flush()).ok()?;
        Some(std::mem::take(&mut self.decompressor.get_mut().0))
    }
}

fn read_up_to(from: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    let mut bytes = Vec::new();
    let count = from.take(into.len() as u64).read_to_end(&mut bytes)?;
    into[..count].copy_from_slice(&bytes);
    Ok(count)
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
