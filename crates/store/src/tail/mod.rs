//! The running end of a recording: an append-only file that survives a kill and a power cut.
//!
//! ```text
//! file  = "whyslow tail 2\n", (chunk or parity)...
//! chunk = length (4 bytes, little-endian), CRC-32 of the data (4 bytes), data
//! ```
//!
//! The data of all chunks is one zstd stream, flushed at the end of each chunk. The first chunk is the header, as JSON; each of
//! the others is a frame. A truncated file is good up to its first incomplete chunk. After every 32 chunks there is a parity block
//! that can restore damaged ones ([`parity`]); if that is not enough, everything after the damage is lost, and counted.

mod chunks;
mod parity;
mod read;
mod write;

pub(crate) use read::TailReader;
pub(crate) use write::TailWriter;

use crate::schema::{Table, tables};
use serde::{Deserialize, Serialize};

/// The first bytes of a tail. The format's number changes only when an older version would misread it.
const MAGIC: &[u8] = b"whyslow tail 2\n";
/// The previous format, without parity.
const OLD_MAGIC: &[u8] = b"whyslow tail 1\n";
/// How a tail of any format begins.
pub(crate) const MAGIC_PREFIX: &[u8] = b"whyslow tail ";
/// A chunk cannot be longer, so a larger length is damage.
const LARGEST_CHUNK: usize = 256 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TailHeader {
    /// /proc/sys/kernel/random/boot_id: times since boot compare only within a boot.
    pub(crate) boot: String,
    /// Frames refer to them by index.
    pub(crate) tables: Vec<Table>,
}

impl TailHeader {
    /// With the tables of this version's catalogue.
    pub(crate) fn new(boot: &str) -> Self {
        Self { boot: boot.to_owned(), tables: tables() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Frames that compress like real ones: mostly repetitions.
    fn frames() -> Vec<Vec<u8>> {
        let frame = |n: u32| (0..300).map(|at: u32| if at % 7 == n % 7 { (at * n) as u8 } else { at as u8 }).collect();
        (0..100).map(frame).collect()
    }

    /// Small, so that four thousand truncated files are read quickly.
    fn header() -> TailHeader {
        TailHeader { boot: "b00t".into(), tables: Vec::new() }
    }

    fn read(path: &Path) -> Option<Vec<Vec<u8>>> {
        let mut reader = TailReader::open(path).unwrap()?;
        assert_eq!(reader.header(), &header());
        Some(std::iter::from_fn(|| reader.next_frame()).collect())
    }

    /// A tail of 100 frames, and where each chunk ends.
    fn written(dir: &Path) -> (std::path::PathBuf, Vec<u8>) {
        let path = dir.join("1.tail");
        let mut writer = TailWriter::create(&path, &header()).unwrap();
        frames().iter().for_each(|frame| writer.append(frame).unwrap());
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
        for at in (MAGIC.len()..whole.len()).step_by(101) {
            let mut damaged = whole.clone();
            let end = (at + 200).min(whole.len());
            damaged[at..end].fill(0);
            fs::write(&path, damaged).unwrap();
            let mut reader = TailReader::open(&path).unwrap().unwrap();
            let there: Vec<_> = std::iter::from_fn(|| reader.next_frame()).collect();
            assert!(frames().starts_with(&there), "zeros at {at}");
            assert!(
                there.len() == 100 || end > last || blocks.iter().any(|b| at < b.start && b.start < end),
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
