//! Extracts: a span of a recording in one piece, to be read elsewhere as a recording of its own.
//!
//! ```text
//! extract = "whyslow extract 1\n", part...
//! part    = when its first sample was taken (nanoseconds since 1970, 8 bytes, little-endian), length (8 bytes), tail
//! ```

use super::inventory::{COMPLETE_NS, of_inventory};
use super::windows::VALID_NS;
use super::{Families, Recording, TimeRange};
use crate::error::StoreError;
use crate::folder::Folder;
use crate::frame::FrameEncoder;
use crate::permissions::create_file;
use crate::tail::{TailHeader, TailPart, TailReader, TailWriter};
use std::io::{self, Write};
use std::path::Path;
use whyslow_model::snapshot::Snapshot;

/// Magic of an extract. The format's number changes only when an older version would misread it.
const MAGIC: &[u8] = b"whyslow extract 1\n";
/// Maximum decompressed size of all parts. An hour of a machine with ten thousand processes has a third of it.
const MOST_UNPACKED: usize = 512 << 20;
/// Maximum number of parts. A segment is ten minutes long, or shorter after reboots and steps of the clock.
const MOST_PARTS: usize = 1000;

/// Extract of a span of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extract {
    /// In one piece, from which [`unpack`] makes a recording.
    Bytes(Vec<u8>),
    /// Nothing was recorded then.
    Nothing,
    /// The extract would exceed the limit.
    TooLarge,
}

impl Recording {
    /// Extracts the samples of a span, in at most `most` bytes, with the earlier rows that were still valid at its
    /// beginning, and with the inventory and its changes of the two hours before.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn extract(&self, span: &TimeRange, most: usize) -> Result<Extract, StoreError> {
        let start = span.start().saturating_sub(VALID_NS);
        let before = start.saturating_sub(COMPLETE_NS)..=start.saturating_sub(1);
        let with_valid = start..=*span.end();
        let mut extract = MAGIC.to_vec();
        let mut is_empty = true;
        let mut boots: Vec<&str> = Vec::new();
        for segment in &self.segments {
            if boots.last() != Some(&segment.boot.as_str()) {
                boots.push(&segment.boot);
            }
            // The tail's header only has to tell boots apart. The boot ID is not passed on: like names, it may be
            // confidential.
            let mut part = ExtractPart::new(boots.len().to_string());
            for slice in self.slices(segment, &before)? {
                let samples = self.read(segment, &slice, &of_inventory)?.into_iter();
                let has_rows = |s: &Snapshot| !s.kernel.inventory.is_empty() || !s.kernel.change.is_empty();
                self.add_to(&mut part, samples.filter(has_rows))?;
            }
            for slice in self.slices(segment, &with_valid)? {
                let samples = self.read(segment, &slice, ALL)?;
                is_empty &= !samples.iter().any(|sample| span.contains(&sample.wall_ns));
                self.add_to(&mut part, samples)?;
                if extract.len() + part.length() > most {
                    return Ok(Extract::TooLarge);
                }
            }
            part.append_to(&mut extract);
        }
        Ok(if is_empty { Extract::Nothing } else { Extract::Bytes(extract) })
    }

    fn add_to(&self, part: &mut ExtractPart, samples: impl IntoIterator<Item = Snapshot>) -> Result<(), StoreError> {
        samples.into_iter().try_for_each(|sample| part.add(sample)).map_err(StoreError::io(self.folder.path()))
    }
}

const ALL: &Families<'_> = &|_: &str| true;

/// Part of an extract: the samples of one segment.
struct ExtractPart {
    boot: String,
    encoder: FrameEncoder,
    /// Time of the first sample, and all samples; `None` before the first.
    tail: Option<(i64, TailWriter<Vec<u8>>)>,
}

impl ExtractPart {
    fn new(boot: String) -> Self {
        Self { boot, encoder: FrameEncoder::default(), tail: None }
    }

    fn add(&mut self, sample: Snapshot) -> io::Result<()> {
        if self.tail.is_none() {
            self.tail = Some((sample.wall_ns, TailWriter::without_states(Vec::new(), &TailHeader::new(&self.boot))?));
        }
        let frame = self.encoder.encode(sample);
        self.tail.as_mut().map_or(Ok(()), |(_, tail)| tail.append(&frame))
    }

    fn length(&self) -> usize {
        self.tail.as_ref().map_or(0, |(_, tail)| usize::try_from(tail.length()).unwrap_or(usize::MAX))
    }

    fn append_to(self, extract: &mut Vec<u8>) {
        let Some((start, tail)) = self.tail else { return };
        let tail = tail.into_inner();
        extract.extend(start.to_le_bytes());
        extract.extend((tail.len() as u64).to_le_bytes());
        extract.extend(tail);
    }
}

/// Creates a recording from an extract, which is untrusted, in an empty folder.
///
/// # Errors
/// Fails if the bytes are not an extract, are incomplete, or decompress to more than an hour can have, or if a file
/// cannot be
/// written.
pub fn unpack(extract: &[u8], folder: &Path) -> Result<(), StoreError> {
    unpack_at_most(MOST_UNPACKED, extract, folder)
}

fn unpack_at_most(most: usize, extract: &[u8], folder: &Path) -> Result<(), StoreError> {
    let invalid = |what: &str| StoreError::invalid(folder, format!("the extract of a recording {what}"));
    let mut rest = extract.strip_prefix(MAGIC).ok_or_else(|| invalid("is of an unknown version"))?;
    let folder = Folder::open(folder)?;
    let mut left = most;
    for _ in 0..MOST_PARTS {
        if rest.is_empty() {
            return Ok(());
        }
        let (start, tail);
        (start, tail, rest) = next_part(rest).ok_or_else(|| invalid("is incomplete"))?;
        let path = folder.tail(start);
        create_file(&path).and_then(|mut file| file.write_all(tail)).map_err(StoreError::io(&path))?;
        let Some(mut reader) = TailReader::open(&path)? else { return Err(invalid("is incomplete")) };
        while let Some(part) = reader.next_part() {
            let (TailPart::Frame(frame) | TailPart::State(frame)) = part;
            left = left.checked_sub(frame.len()).ok_or_else(|| invalid("decompresses to more than it should"))?;
        }
        if reader.lost() > 0 || reader.is_cut() {
            return Err(invalid("is damaged"));
        }
    }
    Err(invalid("has too many parts"))
}

/// Returns the start and the tail of the first part, and the bytes after it.
fn next_part(bytes: &[u8]) -> Option<(i64, &[u8], &[u8])> {
    let (start, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (tail, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((i64::from_le_bytes(*start), tail, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decompression_bomb_is_refused() {
        let mut tail = TailWriter::new(Vec::new(), &TailHeader::new("b00t")).unwrap();
        (0..10).for_each(|_| tail.append(&[0; 100_000]).unwrap());
        let mut bomb = MAGIC.to_vec();
        ExtractPart { tail: Some((1, tail)), ..ExtractPart::new(String::new()) }.append_to(&mut bomb);
        let unpacked = |most: usize| unpack_at_most(most, &bomb, whyslow_testing::folder().path());
        assert!(bomb.len() < 50_000);
        assert!(unpacked(999_999).unwrap_err().to_string().ends_with("decompresses to more than it should"));
        unpacked(1_000_000).unwrap();
    }
}
