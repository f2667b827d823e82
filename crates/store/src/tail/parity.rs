//! Parity blocks, which restore damaged chunks.
//!
//! All chunks of a tail are one compressed stream: without one of them, none of the following can be decompressed. Each
//! group of chunks is therefore followed by their lengths and checksums, and the XOR of every eighth. Up to eight
//! consecutive chunks, a few sectors of a disk, can be restored, unless the parity block is damaged too. A single
//! flipped bit is found by the checksum alone.

use std::ops::Range;

/// Magic of a parity block. As a chunk's length, it would be too large.
pub(super) const MAGIC: &[u8; 8] = b"WSPARITY";
/// Chunks in a group.
pub(super) const GROUP: usize = 32;
/// Number of lanes: chunks this far apart share a parity.
const LANES: usize = 8;
/// Bytes before the data: magic, length, checksum.
const HEAD: usize = 16;

/// Parity of the group being written.
#[derive(Default)]
pub(super) struct GroupParity {
    chunks: Vec<(u32, u32)>,
    lanes: [Vec<u8>; LANES],
}

impl GroupParity {
    pub(super) fn add(&mut self, data: &[u8], crc: u32) {
        xor(&mut self.lanes[self.chunks.len() % LANES], data);
        self.chunks.push((data.len() as u32, crc));
    }

    /// Returns the group's parity block, once it has all its chunks.
    pub(super) fn take_block(&mut self) -> Option<Vec<u8>> {
        if self.chunks.len() < GROUP {
            return None;
        }
        let mut data = Vec::new();
        for (length, crc) in self.chunks.drain(..) {
            data.extend(length.to_le_bytes());
            data.extend(crc.to_le_bytes());
        }
        for lane in &mut self.lanes {
            data.extend((lane.len() as u32).to_le_bytes());
            data.append(lane);
        }
        Some(block_of(MAGIC, &data))
    }

    /// Returns whether the group is complete, or has not begun.
    pub(super) fn is_between_groups(&self) -> bool {
        self.chunks.is_empty() || self.chunks.len() >= GROUP
    }
}

/// Returns the length of the parity block of a group whose chunks have these lengths.
pub(super) fn block_length(chunks: &[usize]) -> usize {
    let lane = |lane| chunks.iter().skip(lane).step_by(LANES).max().copied().unwrap_or(0);
    HEAD + chunks.len() * 8 + (0..LANES).map(|number| 4 + lane(number)).sum::<usize>()
}

/// Creates a block other than a chunk: magic, length, checksum and data.
pub(super) fn block_of(magic: &[u8; 8], data: &[u8]) -> Vec<u8> {
    let mut block = magic.to_vec();
    block.extend((data.len() as u32).to_le_bytes());
    block.extend(checksum(data).to_le_bytes());
    block.extend(data);
    block
}

/// Returns the data of such a block, and its end; `None` if no block starts here, or it is damaged.
pub(super) fn block_at<'a>(bytes: &'a [u8], at: usize, magic: &[u8; 8]) -> Option<(&'a [u8], usize)> {
    let head = bytes.get(at..at.checked_add(HEAD)?)?.strip_prefix(magic)?;
    let end = (at + HEAD).checked_add(number(head)? as usize)?;
    let data = bytes.get(at + HEAD..end)?;
    (checksum(data) == number(&head[4..])?).then_some((data, end))
}

/// Computes an inverted CRC-32, so that a block with a damaged magic does not look like a chunk.
fn checksum(data: &[u8]) -> u32 {
    !crc32fast::hash(data)
}

fn xor(into: &mut Vec<u8>, data: &[u8]) {
    if into.len() < data.len() {
        into.resize(data.len(), 0);
    }
    into.iter_mut().zip(data).for_each(|(to, byte)| *to ^= byte);
}

/// A parity block that was read.
pub(super) struct ParityBlock<'a> {
    /// Its bytes in the file, including the head.
    pub(super) range: Range<usize>,
    chunks: Vec<(usize, u32)>,
    lanes: Vec<&'a [u8]>,
}

impl<'a> ParityBlock<'a> {
    /// Reads the block that starts here; `None` if there is none, or it is damaged.
    pub(super) fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
        let (data, end) = block_at(bytes, at, MAGIC)?;
        let (table, mut rest) = data.split_at_checked(GROUP * 8)?;
        let chunks: Option<Vec<(usize, u32)>> =
            table.chunks(8).map(|entry| Some((number(entry)? as usize, number(&entry[4..])?))).collect();
        let mut lanes = Vec::new();
        for _ in 0..LANES {
            let lane;
            (lane, rest) = rest.get(4..)?.split_at_checked(number(rest)? as usize)?;
            lanes.push(lane);
        }
        Some(Self { range: at..end, chunks: chunks?, lanes })
    }

    /// Returns the start of its group; `None` if that is before the start of the file.
    pub(super) fn group_start(&self) -> Option<usize> {
        let bytes: usize = self.chunks.iter().map(|(length, _)| length + 8).sum();
        self.range.start.checked_sub(bytes)
    }

    /// Returns the data of its group's chunks; `None` for those that cannot be restored.
    pub(super) fn chunks(&self, bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut at = self.group_start().unwrap_or(0);
        let read = |(length, crc): &(usize, u32)| {
            at += length + 8;
            let mut data = bytes.get(at - length..at)?.to_vec();
            (crc32fast::hash(&data) == *crc || repair_bit(&mut data, *crc)).then_some(data)
        };
        let mut chunks: Vec<Option<Vec<u8>>> = self.chunks.iter().map(read).collect();
        for lane in 0..LANES {
            let missing: Vec<usize> = (lane..GROUP).step_by(LANES).filter(|chunk| chunks[*chunk].is_none()).collect();
            if let [missing] = missing[..] {
                let mut data = self.lanes[lane].to_vec();
                (lane..GROUP)
                    .step_by(LANES)
                    .filter_map(|other| chunks[other].as_ref())
                    .for_each(|other| xor(&mut data, other));
                let (length, crc) = self.chunks[missing];
                data.truncate(length);
                chunks[missing] = (crc32fast::hash(&data) == crc).then_some(data);
            }
        }
        chunks
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Flips back the single bit that makes the data match its checksum; returns false if there is no such bit. CRC-32 is
/// linear, so the effect of a flipped bit depends only on its distance from the end.
pub(super) fn repair_bit(data: &mut [u8], crc: u32) -> bool {
    let difference = crc32fast::hash(data) ^ crc;
    if difference.count_ones() == 1 {
        // Only the checksum itself was damaged.
        return true;
    }
    let table = crc_table();
    let mut effects: [u32; 8] = std::array::from_fn(|bit| table[1 << bit]);
    for byte in data.iter_mut().rev() {
        if let Some(bit) = effects.iter().position(|effect| *effect == difference) {
            *byte ^= 1 << bit;
            return true;
        }
        effects.iter_mut().for_each(|effect| *effect = (*effect >> 8) ^ table[(*effect & 0xff) as usize]);
    }
    false
}

/// Returns the effect of each byte on the checksum (CRC-32 of ISO 3309, reflected).
fn crc_table() -> [u32; 256] {
    std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_is_found() {
        let whole: Vec<u8> = (0..300_u32).map(|n| (n * 7) as u8).collect();
        let crc = crc32fast::hash(&whole);
        for bit in 0..whole.len() * 8 {
            let mut data = whole.clone();
            data[bit / 8] ^= 1 << (bit % 8);
            assert!(repair_bit(&mut data, crc) && data == whole, "bit {bit}");
        }
        assert!(repair_bit(&mut whole.clone(), crc ^ 1 << 9));
        let mut other = whole.clone();
        other[10..20].fill(0);
        assert!(!repair_bit(&mut other, crc));
    }
}
