//! The chunks of a tail out of its bytes, damaged ones made whole where that is possible.

use super::LARGEST_CHUNK;
use super::parity::{Block, GROUP, MAGIC, block_length, mend_bit};
use std::collections::VecDeque;

/// What is in a tail, in order.
#[derive(Default)]
pub(super) struct Chunks {
    /// `None` for one that is lost.
    pub(super) chunks: VecDeque<Option<Vec<u8>>>,
}

/// How the bytes at a place go on.
enum Next {
    /// A whole chunk, and where it ends.
    Chunk(Vec<u8>, usize),
    /// A block of parity, and where it ends.
    Parity(usize),
    /// What is left was cut, or there is nothing.
    End,
    Damaged,
}

impl Chunks {
    /// Those of a tail without its magic, which has parity unless it is an old one.
    pub(super) fn of(bytes: &[u8], has_parity: bool) -> Self {
        let mut all = Self::default();
        let mut at = 0;
        loop {
            match next(bytes, at) {
                Next::Chunk(data, end) => {
                    all.chunks.push_back(Some(data));
                    at = end;
                }
                Next::Parity(end) => at = end,
                Next::End => return all,
                Next::Damaged => return Self::mended(bytes, has_parity),
            }
        }
    }

    /// The same of a damaged one: what has a block of parity is made whole by it.
    fn mended(bytes: &[u8], has_parity: bool) -> Self {
        let mut all = Self::default();
        let mut at = 0;
        for block in blocks(bytes) {
            let Some(start) = block.group_start().filter(|start| *start >= at) else { continue };
            if start > at {
                // Its own block of parity is damaged.
                all.walk(&bytes[at..start], has_parity);
            }
            all.chunks.extend(block.chunks(bytes));
            at = block.place.end;
        }
        all.walk(&bytes[at..], has_parity);
        all
    }

    /// Takes what has no parity: a flipped bit is mended, all else is lost.
    fn walk(&mut self, bytes: &[u8], has_parity: bool) {
        let mut at = 0;
        let mut passed = self.chunks.len();
        while at < bytes.len() {
            let count = self.chunks.len();
            if has_parity && count > passed && count.is_multiple_of(GROUP) && self.chunks.iter().all(Option::is_some) {
                // Here stands the parity of a group that is whole without it, and tells how long it is.
                let group: Vec<usize> = self.chunks.iter().skip(count - GROUP).flatten().map(Vec::len).collect();
                (at, passed) = (at + block_length(&group), count);
                continue;
            }
            let (data, end) = match next(bytes, at) {
                Next::Chunk(data, end) => (Some(data), end),
                Next::Parity(end) => {
                    at = end;
                    continue;
                }
                Next::End | Next::Damaged => match mended(bytes, at) {
                    Some((data, end)) => (Some(data), end),
                    None => match following(bytes, at) {
                        Some(following) => (None, following),
                        // Nothing more is to be made out: it was cut, or the damage goes to the end.
                        None if bytes.len() - at > 8 && is_within(bytes, at) => (None, bytes.len()),
                        None => return,
                    },
                },
            };
            self.chunks.push_back(data);
            at = end;
        }
    }
}

fn head(bytes: &[u8], at: usize) -> Option<(usize, u32)> {
    let [a, b, c, d, crc @ ..] = *bytes.get(at..)?.first_chunk::<8>()?;
    Some((u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes(crc)))
}

fn next(bytes: &[u8], at: usize) -> Next {
    let Some((length, crc)) = head(bytes, at) else { return Next::End };
    if bytes[at..].starts_with(MAGIC) {
        return match Block::at(bytes, at) {
            Some(block) => Next::Parity(block.place.end),
            // One that is cut has nothing behind it; its group is whole.
            None if blocks(&bytes[at..]).next().is_none() && following(bytes, at).is_none() => Next::End,
            None => Next::Damaged,
        };
    }
    match data(bytes, at, length) {
        Some(data) if length > 0 && crc32fast::hash(data) == crc => Next::Chunk(data.to_vec(), at + 8 + length),
        Some(_) => Next::Damaged,
        // It goes on beyond the end: it was cut, unless more can be made out behind it.
        None if mended(bytes, at).is_none() && following(bytes, at).is_none() => Next::End,
        None => Next::Damaged,
    }
}

fn data(bytes: &[u8], at: usize, length: usize) -> Option<&[u8]> {
    bytes.get(at + 8..(at + 8).checked_add(length).filter(|_| length <= LARGEST_CHUNK)?)
}

fn is_within(bytes: &[u8], at: usize) -> bool {
    head(bytes, at).is_some_and(|(length, _)| data(bytes, at, length).is_some())
}

/// A chunk with one bit flipped back: of its data or checksum, or of its length.
fn mended(bytes: &[u8], at: usize) -> Option<(Vec<u8>, usize)> {
    let (length, crc) = head(bytes, at)?;
    for bit in 0..32 {
        let length = length ^ (1 << bit);
        if let Some(data) = data(bytes, at, length).filter(|data| !data.is_empty() && crc32fast::hash(data) == crc) {
            return Some((data.to_vec(), at + 8 + length));
        }
    }
    let mut data = data(bytes, at, length)?.to_vec();
    (length > 0 && mend_bit(&mut data, crc)).then(|| (data, at + 8 + length))
}

/// Where the next whole chunk or block of parity begins behind a damaged one.
fn following(bytes: &[u8], at: usize) -> Option<usize> {
    let is_whole = |at: &usize| {
        let chunk = || {
            let (length, crc) = head(bytes, *at)?;
            data(bytes, *at, length).filter(|data| !data.is_empty() && crc32fast::hash(data) == crc)
        };
        bytes[*at..].starts_with(MAGIC) && Block::at(bytes, *at).is_some() || chunk().is_some()
    };
    (at + 1..bytes.len()).find(is_whole)
}

/// The blocks of parity that are whole.
fn blocks(bytes: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let places = bytes.windows(MAGIC.len()).enumerate().filter(|(_, window)| window == MAGIC);
    places.filter_map(|(at, _)| Block::at(bytes, at))
}
