//! The running end of a recording: an append-only file that survives a kill and a power cut.
//!
//! ```text
//! file  = "whyslow tail 2\n", (chunk or parity)...
//! chunk = length (4 bytes, little-endian), CRC-32 of the data (4 bytes), data
//! ```
//!
//! The data of all chunks is one zstd stream, flushed at the end of each chunk. The first chunk holds the header, as JSON;
//! each of the others one frame. A file that was cut is good up to the first chunk that is not whole. Behind every 32 chunks stands
//! what damaged ones are made whole with ([`parity`]); where that is not enough all behind them is lost, and counted.

mod chunks;
mod parity;
mod read;
mod write;

pub(crate) use read::TailReader;
pub(crate) use write::TailWriter;

use crate::schema::{Table, tables};
use serde::{Deserialize, Serialize};

/// The first bytes of a tail. The number is that of the format: it changes only where an old program would be misled.
const MAGIC: &[u8] = b"whyslow tail 2\n";
/// Those of the tails before, which have no parity.
const MAGIC_OF_OLD: &[u8] = b"whyslow tail 1\n";
/// What all tails begin with, whatever their format.
pub(crate) const MAGIC_WORDS: &[u8] = b"whyslow tail ";
/// No sample is larger; a length beyond it is damage.
const LARGEST_CHUNK: usize = 256 << 20;

/// What a tail says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The kernel's name for this boot (/proc/sys/kernel/random/boot_id): the time since boot counts within it only.
    pub(crate) boot: String,
    /// The tables that frames number.
    pub(crate) tables: Vec<Table>,
}

impl Header {
    /// A tail of today's catalogue.
    pub(crate) fn new(boot: &str) -> Self {
        Self { boot: boot.to_owned(), tables: tables() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Frames that compress as real ones do: mostly what was there before.
    fn frames() -> Vec<Vec<u8>> {
        let frame = |n: u32| (0..300).map(|at: u32| if at % 7 == n % 7 { (at * n) as u8 } else { at as u8 }).collect();
        (0..100).map(frame).collect()
    }

    /// Small, so that four thousand cuts are soon read.
    fn header() -> Header {
        Header { boot: "b00t".into(), tables: Vec::new() }
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
    fn a_flipped_bit_costs_nothing_wherever_it_is() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (path, whole) = written(dir.path());
        for bit in (MAGIC.len() * 8..whole.len() * 8).step_by(61) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            assert!(read(&path) == Some(frames()), "bit {bit} of {}", whole.len() * 8);
        }
    }

    #[test]
    fn a_sector_that_is_lost_costs_nothing_where_its_parity_is_whole() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (path, whole) = written(dir.path());
        let blocks: Vec<_> = (0..whole.len()).filter_map(|at| Some(parity::Block::at(&whole, at)?.place)).collect();
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
            assert!(there.len() + reader.lost() <= 100, "zeros at {at}: more than there were");
            assert!(there.len() == 100 || reader.lost() > 0 || end == whole.len(), "zeros at {at}: said");
        }
    }

    #[test]
    fn cut_at_any_byte_all_frames_before_the_cut_are_there() {
        // In memory where there is such a file system: four thousand files are written.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
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
