//! Splits a tail into its chunks, and restores damaged ones if possible.

use super::LARGEST_CHUNK;
use super::parity::{GROUP, MAGIC, ParityBlock, block_length, repair_bit};
use std::collections::VecDeque;

/// In order; `None` for a chunk that is lost.
type Chunks = VecDeque<Option<Vec<u8>>>;

enum Next {
    /// An intact chunk, and where it ends.
    Chunk(Vec<u8>, usize),
    /// A parity block, and where it ends.
    Parity(usize),
    /// Nothing, or a truncated rest.
    End,
    Damaged,
}

/// The chunks of a tail, given without its magic. All but the oldest format have parity blocks.
pub(super) fn read_chunks(bytes: &[u8], has_parity: bool) -> Chunks {
    let mut chunks = Chunks::new();
    let mut at = 0;
    loop {
        match next(bytes, at) {
            Next::Chunk(data, end) => {
                chunks.push_back(Some(data));
                at = end;
            }
            Next::Parity(end) => at = end,
            Next::End => return chunks,
            Next::Damaged => return restored(bytes, has_parity),
        }
    }
}

/// The chunks of a damaged tail: those of groups with an intact parity block are restored.
fn restored(bytes: &[u8], has_parity: bool) -> Chunks {
    let mut chunks = Chunks::new();
    let mut at = 0;
    for block in parity_blocks(bytes) {
        let Some(start) = block.group_start().filter(|start| *start >= at) else { continue };
        if start > at {
            // The parity block of what comes before is damaged.
            read_without_parity(&mut chunks, &bytes[at..start], has_parity);
        }
        chunks.extend(block.chunks(bytes));
        at = block.range.end;
    }
    read_without_parity(&mut chunks, &bytes[at..], has_parity);
    chunks
}

/// Reads chunks that have no intact parity block: single flipped bits are repaired, everything else is lost.
fn read_without_parity(chunks: &mut Chunks, bytes: &[u8], has_parity: bool) {
    let mut at = 0;
    let mut passed = chunks.len();
    while at < bytes.len() {
        let count = chunks.len();
        if has_parity && count > passed && count.is_multiple_of(GROUP) && chunks.iter().all(Option::is_some) {
            // Skip the damaged parity block of an intact group, whose chunks tell its length.
            let group: Vec<usize> = chunks.iter().skip(count - GROUP).flatten().map(Vec::len).collect();
            (at, passed) = (at + block_length(&group), count);
            continue;
        }
        let (data, end) = match next(bytes, at) {
            Next::Chunk(data, end) => (Some(data), end),
            Next::Parity(end) => {
                at = end;
                continue;
            }
            Next::End | Next::Damaged => match repaired(bytes, at) {
                Some((data, end)) => (Some(data), end),
                None => match following(bytes, at) {
                    Some(following) => (None, following),
                    // Nothing recognizable follows: it was truncated, or the damage reaches the end.
                    None if bytes.len() - at > 8 && is_within(bytes, at) => (None, bytes.len()),
                    None => return,
                },
            },
        };
        chunks.push_back(data);
        at = end;
    }
}

fn head(bytes: &[u8], at: usize) -> Option<(usize, u32)> {
    let [a, b, c, d, crc @ ..] = *bytes.get(at..)?.first_chunk::<8>()?;
    Some((u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes(crc)))
}

fn next(bytes: &[u8], at: usize) -> Next {
    let Some((length, crc)) = head(bytes, at) else { return Next::End };
    if bytes[at..].starts_with(MAGIC) {
        return match ParityBlock::at(bytes, at) {
            Some(block) => Next::Parity(block.range.end),
            // A truncated block has nothing after it; its group is intact.
            None if parity_blocks(&bytes[at..]).next().is_none() && following(bytes, at).is_none() => Next::End,
            None => Next::Damaged,
        };
    }
    match data(bytes, at, length) {
        Some(data) if length > 0 && crc32fast::hash(data) == crc => Next::Chunk(data.to_vec(), at + 8 + length),
        Some(_) => Next::Damaged,
        // It extends beyond the end: truncated, unless something recognizable follows.
        None if repaired(bytes, at).is_none() && following(bytes, at).is_none() => Next::End,
        None => Next::Damaged,
    }
}

fn data(bytes: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    bytes.get(at + 8..(at + 8).checked_add(length).filter(|_| length <= LARGEST_CHUNK)?)
}

fn is_within(bytes: &[u8], at: usize) -> bool {
    head(bytes, at).is_some_and(|(length, _)| data(bytes, at, length).is_some())
}

/// A chunk with one bit flipped back, in its data, checksum or length.
fn repaired(bytes: &[u8], at: usize) -> Option<(Vec<u8>, usize)> {
    let (length, crc) = head(bytes, at)?;
    for bit in 0..32 {
        let length = length ^ (1 << bit);
        if let Some(data) = data(bytes, at, length).filter(|data| !data.is_empty() && crc32fast::hash(data) == crc) {
            return Some((data.to_vec(), at + 8 + length));
        }
    }
    let mut data = data(bytes, at, length)?.to_vec();
    (length > 0 && repair_bit(&mut data, crc)).then(|| (data, at + 8 + length))
}

/// Where the next intact chunk or parity block starts after a damaged one.
fn following(bytes: &[u8], at: usize) -> Option<usize> {
    let is_intact = |at: &usize| {
        let chunk = || {
            let (length, crc) = head(bytes, *at)?;
            data(bytes, *at, length).filter(|data| !data.is_empty() && crc32fast::hash(data) == crc)
        };
        bytes[*at..].starts_with(MAGIC) && ParityBlock::at(bytes, *at).is_some() || chunk().is_some()
    };
    (at + 1..bytes.len()).find(is_intact)
}

/// The intact parity blocks.
fn parity_blocks(bytes: &[u8]) -> impl Iterator<Item = ParityBlock<'_>> {
    let places = bytes.windows(MAGIC.len()).enumerate().filter(|(_, window)| window == MAGIC);
    places.filter_map(|(at, _)| ParityBlock::at(bytes, at))
}
