//! The newest part of a recording: an append-only file that survives a kill and a power failure.
//!
//! ```text
//! file  = "whyslow tail 3\n", (chunk, parity or state)...
//! chunk = length (4 bytes, little-endian), CRC-32 of the data (4 bytes), data
//! state = "WSSTATE\n", length (4 bytes), inverted CRC-32 of the data (4 bytes), data
//! ```
//!
//! The data of all chunks is one zstd stream, flushed at the end of each chunk. The first chunk is the header, as JSON;
//! each of the others is a frame. A truncated file is valid up to its first incomplete chunk. Every 32 chunks are
//! followed by a parity block that can restore damaged ones ([`parity`]). About once a minute, after a parity block,
//! there is a state: everything that the next frame is relative to, compressed separately, after which the stream
//! begins anew. Readers resume there after damage that parity cannot repair, and skip it otherwise. Frames between the
//! damage and the state are lost, and counted.

mod chunks;
mod parity;
mod read;
mod write;

pub(crate) use read::{TailPart, TailReader};
pub(crate) use write::TailWriter;

use crate::schema::{Table, tables};
use serde::{Deserialize, Serialize};

/// Magic of a tail. The format's number changes only when an older version would misread it.
const MAGIC: &[u8] = b"whyslow tail 3\n";
/// Magic of the previous format, without states.
const STATELESS_MAGIC: &[u8] = b"whyslow tail 2\n";
/// Magic of the first format, without states or parity.
const OLD_MAGIC: &[u8] = b"whyslow tail 1\n";
/// Common prefix of the magic of all formats.
pub(crate) const MAGIC_PREFIX: &[u8] = b"whyslow tail ";
/// Maximum length of a chunk; a larger one is damage.
const LARGEST_CHUNK: usize = 256 << 20;

/// Magic of a zstd frame (RFC 8878), and thus of a chunk that begins a new stream. As the header of a block, it would
/// declare one that is too large.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Returns whether a state can follow so many frames: only between groups, which include the header.
pub(crate) fn takes_state_after(frames: usize) -> bool {
    frames > 0 && (1 + frames).is_multiple_of(parity::GROUP)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TailHeader {
    /// /proc/sys/kernel/random/boot_id: times since boot are comparable only within a boot.
    pub(crate) boot: String,
    /// Tables, which frames refer to by index.
    pub(crate) tables: Vec<Table>,
}

impl TailHeader {
    /// Creates a header with the tables of this version's catalogue.
    pub(crate) fn new(boot: &str) -> Self {
        Self { boot: boot.to_owned(), tables: tables() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Creates frames that compress like real ones: mostly repetitions.
    fn frames() -> Vec<Vec<u8>> {
        let frame = |n: u32| (0..300).map(|at: u32| if at % 7 == n % 7 { (at * n) as u8 } else { at as u8 }).collect();
        (0..100).map(frame).collect()
    }

    /// Creates a small header, so that four thousand truncated files are read quickly.
    fn header() -> TailHeader {
        TailHeader { boot: "b00t".into(), tables: Vec::new() }
    }

    fn read(path: &Path) -> Option<Vec<Vec<u8>>> {
        let mut reader = TailReader::open(path).unwrap()?;
        assert_eq!(reader.header(), &header());
        Some(frames_of(&mut reader))
    }

    fn frames_of(reader: &mut TailReader) -> Vec<Vec<u8>> {
        let parts = std::iter::from_fn(|| reader.next_part());
        let frame = |part| if let TailPart::Frame(frame) = part { Some(frame) } else { None };
        parts.filter_map(frame).collect()
    }

    const STATE: &[u8] = b"all that the next frame is relative to";

    /// Writes a tail of 100 frames with a state after the sixty-third.
    fn written(dir: &Path) -> (std::path::PathBuf, Vec<u8>) {
        let path = dir.join("1.tail");
        let mut writer = TailWriter::create(&path, &header()).unwrap();
        for (number, frame) in frames().iter().enumerate() {
            writer.append(frame).unwrap();
            if takes_state_after(number + 1) && number > 31 && number < 64 {
                writer.append_state(STATE).unwrap();
            }
        }
        let whole = fs::read(&path).unwrap();
        (path, whole)
    }

    #[test]
    fn a_flipped_bit_anywhere_loses_nothing() {
        let dir = whyslow_testing::memory_folder();
        let (path, whole) = written(dir.path());
        for bit in (MAGIC.len() * 8..whole.len() * 8).step_by(61) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            assert!(read(&path) == Some(frames()), "bit {bit} of {}", whole.len() * 8);
        }
    }

    #[test]
    fn a_lost_sector_is_restored_if_its_parity_is_intact() {
        let dir = whyslow_testing::memory_folder();
        let (path, whole) = written(dir.path());
        let blocks: Vec<_> =
            (0..whole.len()).filter_map(|at| Some(parity::ParityBlock::at(&whole, at)?.range)).collect();
        assert_eq!(blocks.len(), 3);
        let last = blocks[2].end;
        let state = (0..whole.len()).find(|at| whole[*at..].starts_with(chunks::STATE_MAGIC)).unwrap();
        for at in (MAGIC.len()..whole.len()).step_by(101) {
            let mut damaged = whole.clone();
            let end = (at + 200).min(whole.len());
            damaged[at..end].fill(0);
            fs::write(&path, damaged).unwrap();
            let mut reader = TailReader::open(&path).unwrap().unwrap();
            let mut resumed = None;
            let mut there: Vec<Vec<u8>> = Vec::new();
            while let Some(part) = reader.next_part() {
                match part {
                    TailPart::Frame(frame) => there.push(frame),
                    TailPart::State(state) => {
                        assert_eq!(state, STATE);
                        resumed = Some(there.len());
                    }
                }
            }
            // The data after the state is read regardless of earlier losses.
            let (before, after) = there.split_at(resumed.unwrap_or(there.len()));
            assert!(frames().starts_with(before), "zeros at {at}");
            assert!(resumed.is_none() || frames()[63..].starts_with(after), "zeros at {at}");
            assert!(
                there.len() == 100
                    || end > last
                    || blocks.iter().any(|b| at < b.start && b.start < end)
                    || at < state + 100 && state < end,
                "zeros at {at}: {}",
                there.len()
            );
            assert!(there.len() + reader.lost() <= 100, "zeros at {at}: more than were written");
            assert!(
                there.len() == 100 || reader.lost() > 0 || end == whole.len(),
                "zeros at {at}: not reported as lost"
            );
        }
    }

    #[test]
    fn frames_after_a_state_are_read_whatever_was_lost_before() {
        let dir = whyslow_testing::memory_folder();
        let (path, whole) = written(dir.path());
        let state = (0..whole.len()).find(|at| whole[*at..].starts_with(chunks::STATE_MAGIC)).unwrap();
        let mut damaged = whole.clone();
        // From about the tenth frame to just before the state: no parity survives.
        damaged[whole.len() / 8..state].fill(0);
        fs::write(&path, damaged).unwrap();
        let mut reader = TailReader::open(&path).unwrap().unwrap();
        let there = frames_of(&mut reader);
        assert!(there.ends_with(&frames()[63..]), "{} frames", there.len());
        assert!(there.len() > 37 && frames().starts_with(&there[..there.len() - 37]), "{} frames", there.len());
        assert!(reader.lost() > 0);
        // If the number of missing frames is unknown, no frames are invented.
        let mut damaged = whole.clone();
        damaged[state..state + 20].fill(0);
        fs::write(&path, damaged).unwrap();
        assert!(frames().starts_with(&read(&path).unwrap()));
    }

    #[test]
    fn it_is_known_whether_the_last_chunk_is_complete() {
        let dir = whyslow_testing::memory_folder();
        let (path, whole) = written(dir.path());
        let is_cut = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            TailReader::open(&path).unwrap().unwrap().is_cut()
        };
        assert!(!is_cut(&whole));
        assert!(is_cut(&whole[..whole.len() - 1]));
    }

    #[test]
    fn a_truncated_tail_has_all_complete_frames() {
        let dir = whyslow_testing::memory_folder();
        let path = dir.path().join("1.tail");
        let mut writer = TailWriter::create(&path, &header()).unwrap();
        let mut ends = Vec::new();
        for frame in frames() {
            writer.append(&frame).unwrap();
            ends.push(usize::try_from(writer.length()).unwrap());
        }
        let whole = fs::read(&path).unwrap();
        assert_eq!(ends.last(), Some(&whole.len()));
        for cut in whole.len() - 4096..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let there = ends.iter().filter(|end| **end <= cut).count();
            assert!(read(&path).unwrap_or_default() == frames()[..there], "cut at {cut}");
        }
    }
}
