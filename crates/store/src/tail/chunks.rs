//! Splits a tail into its chunks, and restores damaged ones if possible.

use super::parity::{GROUP, MAGIC, ParityBlock, block_at, block_length, repair_bit};
use super::{LARGEST_CHUNK, ZSTD_MAGIC};
use std::collections::VecDeque;

/// Magic of a state. As the length of a chunk, it would be too large.
pub(super) const STATE_MAGIC: &[u8; 8] = b"WSSTATE\n";

/// A part of a tail other than parity.
pub(super) enum Piece {
    Chunk(Vec<u8>),
    /// A lost chunk.
    Lost,
    /// An intact state, compressed.
    State(Vec<u8>),
}

/// The pieces of a tail, in order.
#[derive(Default)]
pub(super) struct Chunks {
    pub(super) pieces: VecDeque<Piece>,
    /// Number of pieces that are chunks, and number of lost chunks.
    count: usize,
    lost: usize,
    /// True if the data at the end is incomplete.
    pub(super) is_cut: bool,
}

impl Chunks {
    fn push(&mut self, chunk: Option<Vec<u8>>) {
        self.count += 1;
        self.lost += usize::from(chunk.is_none());
        self.pieces.push_back(chunk.map_or(Piece::Lost, Piece::Chunk));
    }

    /// Returns the lengths of the chunks of the newest group if it has just become complete, with `passed` chunks
    /// before it.
    fn whole_group(&self, passed: usize) -> Option<Vec<usize>> {
        if self.lost > 0 || self.count <= passed || !self.count.is_multiple_of(GROUP) {
            return None;
        }
        let length = |piece: &Piece| if let Piece::Chunk(data) = piece { Some(data.len()) } else { None };
        let mut group: Vec<usize> = self.pieces.iter().rev().filter_map(length).take(GROUP).collect();
        group.reverse();
        Some(group)
    }
}

enum Next {
    /// An intact chunk, and its end.
    Chunk(Vec<u8>, usize),
    /// A parity block, and its end.
    Parity(usize),
    /// A state, and its end.
    State(Vec<u8>, usize),
    /// Nothing, or a truncated rest.
    End,
    Damaged,
}

/// Reads the pieces of a tail, given without its magic. All but the oldest format have parity blocks.
pub(super) fn read_chunks(bytes: &[u8], has_parity: bool) -> Chunks {
    let mut chunks = Chunks::default();
    let mut at = 0;
    loop {
        match next(bytes, at) {
            Next::Chunk(data, end) => {
                chunks.push(Some(data));
                at = end;
            }
            Next::State(data, end) => {
                chunks.pieces.push_back(Piece::State(data));
                at = end;
            }
            Next::Parity(end) => at = end,
            Next::End => {
                chunks.is_cut = at < bytes.len();
                return chunks;
            }
            Next::Damaged => return restored(bytes, has_parity),
        }
    }
}

/// Reads the chunks of a damaged tail; restores those of groups with an intact parity block.
fn restored(bytes: &[u8], has_parity: bool) -> Chunks {
    let mut chunks = Chunks::default();
    let mut at = 0;
    for block in parity_blocks(bytes) {
        let Some(start) = block.group_start().filter(|start| *start >= at) else { continue };
        let group = block.chunks(bytes);
        if start > at {
            // There is a state here, or the parity block of the preceding data is damaged.
            let is_new_stream =
                group.first().is_some_and(|chunk| chunk.as_ref().is_some_and(|c| c.starts_with(ZSTD_MAGIC)));
            read_without_parity(&mut chunks, &bytes[at..start], has_parity, is_new_stream);
            chunks.is_cut = false;
        }
        group.into_iter().for_each(|chunk| chunks.push(chunk));
        at = block.range.end;
    }
    read_without_parity(&mut chunks, &bytes[at..], has_parity, false);
    chunks
}

/// Reads chunks that have no intact parity block: repairs single flipped bits; everything else is lost. With
/// `is_new_stream`, the data that follows them begins a new stream.
fn read_without_parity(chunks: &mut Chunks, bytes: &[u8], has_parity: bool, is_new_stream: bool) {
    let mut at = 0;
    let mut passed = chunks.count;
    while at < bytes.len() {
        if let Some(group) = chunks.whole_group(passed).filter(|_| has_parity) {
            // Skips the damaged parity block of an intact group, whose chunks determine its length.
            (at, passed) = (at + block_length(&group), chunks.count);
            continue;
        }
        let (data, end) = match next(bytes, at) {
            Next::Chunk(data, end) => (Some(data), end),
            Next::Parity(end) => {
                at = end;
                continue;
            }
            Next::State(data, end) => {
                chunks.pieces.push_back(Piece::State(data));
                at = end;
                continue;
            }
            Next::End | Next::Damaged => match repaired(bytes, at) {
                Some((data, end)) => (Some(data), end),
                None => match following(bytes, at) {
                    // Only a state is lost: a new stream begins after it, between two groups.
                    Some(following) if chunks.count.is_multiple_of(GROUP) && begins_stream(bytes, following) => {
                        at = following;
                        continue;
                    }
                    Some(following) => (None, following),
                    None if chunks.count.is_multiple_of(GROUP) && is_new_stream => return,
                    // Nothing recognizable follows: the file was truncated, or the damage reaches the end.
                    None if bytes.len() - at > 8 && is_within(bytes, at) => (None, bytes.len()),
                    None => {
                        chunks.is_cut = true;
                        return;
                    }
                },
            },
        };
        chunks.push(data);
        at = end;
    }
}

/// Returns whether the chunk that starts here begins a new stream.
fn begins_stream(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 8..).is_some_and(|data| data.starts_with(ZSTD_MAGIC))
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
            // Nothing follows a truncated block; its group is intact.
            None if parity_blocks(&bytes[at..]).next().is_none() && following(bytes, at).is_none() => Next::End,
            None => Next::Damaged,
        };
    }
    if bytes[at..].starts_with(STATE_MAGIC) {
        return match block_at(bytes, at, STATE_MAGIC) {
            Some((data, end)) => Next::State(data.to_vec(), end),
            None => {
                match state_with_flipped_head(bytes, at).or_else(|| Some((Vec::new(), damaged_state(bytes, at)?))) {
                    Some((state, end)) => Next::State(state, end),
                    None if following(bytes, at).is_none() => Next::End,
                    None => Next::Damaged,
                }
            }
        };
    }
    if let Some((state, end)) = state_with_flipped_head(bytes, at) {
        return Next::State(state, end);
    }
    match data(bytes, at, length) {
        Some(data) if length > 0 && crc32fast::hash(data) == crc => Next::Chunk(data.to_vec(), at + 8 + length),
        Some(_) => Next::Damaged,
        // The chunk extends beyond the end: truncated, unless something recognizable follows.
        None if repaired(bytes, at).is_none() && following(bytes, at).is_none() => Next::End,
        None => Next::Damaged,
    }
}

/// Returns the end of a state with damaged data, if an intact chunk begins there.
fn damaged_state(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at + STATE_MAGIC.len()..)?.first_chunk::<4>()?;
    let end = (at + 16).checked_add(u32::from_le_bytes(*length) as usize)?;
    let (length, crc) = head(bytes, end)?;
    data(bytes, end, length).filter(|data| begins_stream(bytes, end) && crc32fast::hash(data) == crc).map(|_| end)
}

/// Reads a state with a flipped bit before its data.
fn state_with_flipped_head(bytes: &[u8], at: usize) -> Option<(Vec<u8>, usize)> {
    let start = bytes.get(at..at + 16)?;
    let differences: u32 = start.iter().zip(STATE_MAGIC).map(|(a, b)| (a ^ b).count_ones()).sum();
    if differences > 1 {
        return None;
    }
    (0..128).find_map(|bit| {
        let mut head = start.to_vec();
        head[bit / 8] ^= 1 << (bit % 8);
        let length = u32::from_le_bytes(*head.get(8..)?.first_chunk::<4>()?) as usize;
        let data = data(bytes, at + 8, length)?;
        (block_at(&[&head[..], data].concat(), 0, STATE_MAGIC)?.1 > 0).then(|| (data.to_vec(), at + 16 + length))
    })
}

fn data(bytes: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    bytes.get(at + 8..(at + 8).checked_add(length).filter(|_| length <= LARGEST_CHUNK)?)
}

fn is_within(bytes: &[u8], at: usize) -> bool {
    head(bytes, at).is_some_and(|(length, _)| data(bytes, at, length).is_some())
}

/// Returns a chunk after flipping back one bit in its data, checksum or length.
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

/// Returns the position of the next intact chunk or parity block after a damaged one.
fn following(bytes: &[u8], at: usize) -> Option<usize> {
    let is_intact = |at: &usize| {
        let chunk = || {
            let (length, crc) = head(bytes, *at)?;
            data(bytes, *at, length).filter(|data| !data.is_empty() && crc32fast::hash(data) == crc)
        };
        let is_parity = || bytes[*at..].starts_with(MAGIC) && ParityBlock::at(bytes, *at).is_some();
        let is_state = || bytes[*at..].starts_with(STATE_MAGIC) && block_at(bytes, *at, STATE_MAGIC).is_some();
        is_parity() || is_state() || chunk().is_some()
    };
    (at + 1..bytes.len()).find(is_intact)
}

/// Returns the intact parity blocks.
fn parity_blocks(bytes: &[u8]) -> impl Iterator<Item = ParityBlock<'_>> {
    let places = bytes.windows(MAGIC.len()).enumerate().filter(|(_, window)| window == MAGIC);
    places.filter_map(|(at, _)| ParityBlock::at(bytes, at))
}
