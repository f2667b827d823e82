//! What makes damaged chunks whole again.
//!
//! All chunks of a tail are one stream, in which each is told by those before it: where one is lost, so is all that follows.
//! Behind each group of chunks therefore stand their lengths and checksums, and the XOR of every eighth. Up to eight chunks in a
//! row, some sectors of a disk, can be put together again, unless what stands behind them is damaged too. A single flipped bit can be found by the checksum alone.

use std::ops::Range;

/// What a block of parity begins with; as the length of a chunk it would be too large.
pub(super) const MAGIC: &[u8; 8] = b"WSPARITY";
/// Chunks in a group.
pub(super) const GROUP: usize = 32;
/// Chunks that stand so far apart share a parity.
const LANES: usize = 8;
/// Bytes before the data: the magic, their length, and their checksum.
const HEAD: usize = 16;

/// The parity of the group that is being written.
#[derive(Default)]
pub(super) struct Parity {
    chunks: Vec<(u32, u32)>,
    lanes: [Vec<u8>; LANES],
}

impl Parity {
    /// Takes a chunk's data into account.
    pub(super) fn add(&mut self, data: &[u8], crc: u32) {
        xor(&mut self.lanes[self.chunks.len() % LANES], data);
        self.chunks.push((data.len() as u32, crc));
    }

    /// The block that ends a group, where it has all its chunks.
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
        let mut block = MAGIC.to_vec();
        block.extend((data.len() as u32).to_le_bytes());
        block.extend(checksum(&data).to_le_bytes());
        block.append(&mut data);
        Some(block)
    }
}

/// Bytes of the block behind a group whose chunks are so long.
pub(super) fn block_length(chunks: &[usize]) -> usize {
    let lane = |lane| chunks.iter().skip(lane).step_by(LANES).max().copied().unwrap_or(0);
    HEAD + chunks.len() * 8 + (0..LANES).map(|number| 4 + lane(number)).sum::<usize>()
}

/// Inverted, so that what is left of a block whose magic is damaged is no chunk.
fn checksum(data: &[u8]) -> u32 {
    !crc32fast::hash(data)
}

fn xor(into: &mut Vec<u8>, data: &[u8]) {
    if into.len() < data.len() {
        into.resize(data.len(), 0);
    }
    into.iter_mut().zip(data).for_each(|(to, byte)| *to ^= byte);
}

/// A block of parity as it was read.
pub(super) struct Block<'a> {
    /// Where it stands, its head included.
    pub(super) place: Range<usize>,
    chunks: Vec<(usize, u32)>,
    lanes: Vec<&'a [u8]>,
}

impl<'a> Block<'a> {
    /// The block that begins here; `None` where there is none, or it is damaged.
    pub(super) fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
        let head = bytes.get(at..at.checked_add(HEAD)?)?.strip_prefix(MAGIC)?;
        let length = number(head)? as usize;
        let data = bytes.get(at + HEAD..(at + HEAD).checked_add(length)?)?;
        if checksum(data) != number(&head[4..])? {
            return None;
        }
        let (table, mut rest) = data.split_at_checked(GROUP * 8)?;
        let chunks: Option<Vec<(usize, u32)>> =
            table.chunks(8).map(|entry| Some((number(entry)? as usize, number(&entry[4..])?))).collect();
        let mut lanes = Vec::new();
        for _ in 0..LANES {
            let lane;
            (lane, rest) = rest.get(4..)?.split_at_checked(number(rest)? as usize)?;
            lanes.push(lane);
        }
        Some(Self { place: at..at + HEAD + length, chunks: chunks?, lanes })
    }

    /// Where its group begins; `None` where the tail does not go back so far.
    pub(super) fn group_start(&self) -> Option<usize> {
        let bytes: usize = self.chunks.iter().map(|(length, _)| length + 8).sum();
        self.place.start.checked_sub(bytes)
    }

    /// The data of its group's chunks; `None` for those that cannot be made whole.
    pub(super) fn chunks(&self, bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut at = self.group_start().unwrap_or(0);
        let read = |(length, crc): &(usize, u32)| {
            at += length + 8;
            let mut data = bytes.get(at - length..at)?.to_vec();
            (crc32fast::hash(&data) == *crc || mend_bit(&mut data, *crc)).then_some(data)
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

/// Flips the one bit back without which the data do not fit their checksum. False where there is no such bit. CRC-32 is
/// linear: what a flipped bit does to it depends on nothing but how far it stands from the end.
pub(super) fn mend_bit(data: &mut [u8], crc: u32) -> bool {
    let difference = crc32fast::hash(data) ^ crc;
    if difference.count_ones() == 1 {
        // It is the checksum that was damaged.
        return true;
    }
    let table = table();
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

/// What a byte does to the checksum (CRC-32 of ISO 3309, reflected).
fn table() -> [u32; 256] {
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
            assert!(mend_bit(&mut data, crc) && data == whole, "bit {bit}");
        }
        assert!(mend_bit(&mut whole.clone(), crc ^ 1 << 9));
        let mut other = whole.clone();
        other[10..20].fill(0);
        assert!(!mend_bit(&mut other, crc));
    }
}
