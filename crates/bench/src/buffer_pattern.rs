//! Patterns of written data, and checks of data read back.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferPattern {
    /// Incompressible data; each write differs from the one before, so that no device can deduplicate it.
    Random,
    /// The block's offset as 64-bit little-endian words: fio's `verify_pattern=%o`.
    Offsets,
}

/// Smallest unit in which devices deduplicate: one word in each differs from write to write.
const STEP: usize = 4096;
const WORD: usize = size_of::<u64>();

impl BufferPattern {
    /// Fills a buffer before its first write.
    pub(crate) fn prepare(self, buffer: &mut [u8], seed: u64) {
        if self == Self::Random {
            SmallRng::seed_from_u64(seed).fill_bytes(buffer);
        }
    }

    /// Makes a prepared buffer ready for write number `serial`.
    pub(crate) fn stamp(self, block: &mut [u8], offset: u64, serial: u64) {
        match self {
            Self::Offsets => {
                for word in block.chunks_mut(WORD) {
                    word.copy_from_slice(&offset.to_le_bytes()[..word.len()]);
                }
            }
            Self::Random => {
                let mark = (offset ^ serial.rotate_left(40)).to_le_bytes();
                for place in block.chunks_mut(STEP) {
                    let length = WORD.min(place.len());
                    place[..length].copy_from_slice(&mark[..length]);
                }
            }
        }
    }

    /// Returns the position where a block read at `offset` first differs from the written data; `None` if it does not
    /// differ or if that is unknown.
    pub(crate) fn difference(self, block: &[u8], offset: u64) -> Option<usize> {
        if self == Self::Random {
            return None;
        }
        let expected = offset.to_le_bytes();
        block.chunks(WORD).position(|word| *word != expected[..word.len()]).map(|word| word * WORD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_bit_of_an_offset_pattern_is_found() {
        let mut block = vec![0; 4096];
        BufferPattern::Offsets.stamp(&mut block, 0x1234_5000, 0);
        assert_eq!(block[..3], [0x00, 0x50, 0x34]);
        assert_eq!(BufferPattern::Offsets.difference(&block, 0x1234_5000), None);
        assert_eq!(BufferPattern::Offsets.difference(&block, 0x1234_4000), Some(0));
        block[4001] ^= 4;
        assert_eq!(BufferPattern::Offsets.difference(&block, 0x1234_5000), Some(4000));
    }

    #[test]
    fn random_blocks_differ_from_write_to_write() {
        let mut block = vec![0; 16_384];
        BufferPattern::Random.prepare(&mut block, 1);
        let ones: u32 = block.iter().map(|b| b.count_ones()).sum();
        assert!((60_000..71_000).contains(&ones), "{ones} of 131072 bits");
        BufferPattern::Random.stamp(&mut block, 0, 1);
        let first = block.clone();
        BufferPattern::Random.stamp(&mut block, 0, 2);
        assert!(first.chunks(STEP).zip(block.chunks(STEP)).all(|(a, b)| a != b));
    }
}
