//! Start of each connection and datagram: its purpose, and a token that admits it.

use super::token::{Tag, is_tag, tag};

/// Magic number; changes with the protocol.
const MAGIC: [u8; 8] = *b"wslnet1 ";
/// Length of a greeting: magic number and purpose.
pub(super) const GREETING: usize = MAGIC.len() + 1;
/// Length of a token, which follows the greeting of a stream.
pub(super) const TOKEN_BYTES: usize = 16 + 4 + 2 + 2 + 32;

pub(super) type SessionId = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPurpose {
    /// A connection for messages.
    Control,
    /// A stream of a load.
    TestStream,
}

impl ConnectionPurpose {
    pub(super) fn greeting(self) -> [u8; GREETING] {
        let letter = match self {
            Self::Control => b'C',
            Self::TestStream => b'L',
        };
        let mut greeting = [letter; GREETING];
        greeting[..MAGIC.len()].copy_from_slice(&MAGIC);
        greeting
    }

    pub(super) fn parse(greeting: &[u8; GREETING]) -> Option<Self> {
        [Self::Control, Self::TestStream].into_iter().find(|purpose| purpose.greeting() == *greeting)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StreamId {
    pub(super) round: u32,
    pub(super) load: u16,
    pub(super) stream: u16,
}

/// A token that admits a stream: an HMAC under the session's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionToken {
    pub(super) session: SessionId,
    pub(super) id: StreamId,
    tag: Tag,
}

impl ConnectionToken {
    pub(super) fn new(session: SessionId, id: StreamId, key: &Tag) -> Self {
        Self { session, id, tag: tag(key, &[&session, &id.bytes()]) }
    }

    pub(super) fn is_valid(&self, key: &Tag) -> bool {
        is_tag(&self.tag, key, &[&self.session, &self.id.bytes()])
    }

    pub(super) fn bytes(&self) -> [u8; TOKEN_BYTES] {
        let mut bytes = [0; TOKEN_BYTES];
        bytes[..16].copy_from_slice(&self.session);
        bytes[16..24].copy_from_slice(&self.id.bytes());
        bytes[24..].copy_from_slice(&self.tag);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; TOKEN_BYTES]) -> Self {
        let (mut session, mut id, mut tag) = (SessionId::default(), [0; 8], Tag::default());
        session.copy_from_slice(&bytes[..16]);
        id.copy_from_slice(&bytes[16..24]);
        tag.copy_from_slice(&bytes[24..]);
        Self { session, id: StreamId::from_bytes(id), tag }
    }

    /// Returns the datagram that opens a UDP stream.
    pub(super) fn datagram(&self) -> Vec<u8> {
        [&ConnectionPurpose::TestStream.greeting()[..], &self.bytes()].concat()
    }

    pub(super) fn of_datagram(datagram: &[u8]) -> Option<Self> {
        let (greeting, token) = datagram.split_first_chunk::<GREETING>()?;
        let is_stream = ConnectionPurpose::parse(greeting) == Some(ConnectionPurpose::TestStream);
        is_stream.then(|| token.try_into().ok().map(Self::from_bytes)).flatten()
    }
}

impl StreamId {
    fn bytes(self) -> [u8; 8] {
        (u64::from(self.round) << 32 | u64::from(self.load) << 16 | u64::from(self.stream)).to_be_bytes()
    }

    fn from_bytes(bytes: [u8; 8]) -> Self {
        let all = u64::from_be_bytes(bytes);
        Self { round: (all >> 32) as u32, load: (all >> 16) as u16, stream: all as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Tag = [7; 32];
    const ID: StreamId = StreamId { round: 3, load: 1, stream: 127 };

    #[test]
    fn a_token_is_valid_only_for_its_key_and_stream() {
        let token = ConnectionToken::new([9; 16], ID, &KEY);
        let read = ConnectionToken::of_datagram(&token.datagram()).unwrap();
        assert_eq!(read, token);
        assert!(read.is_valid(&KEY));
        assert!(!read.is_valid(&[8; 32]));
        let moved = ConnectionToken { id: StreamId { stream: 126, ..ID }, ..token };
        assert!(!moved.is_valid(&KEY));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_valid_token_by_chance(bytes: Vec<u8>) {
            prop_assert!(ConnectionToken::of_datagram(&bytes).is_none_or(|token| !token.is_valid(&KEY)));
        }

        #[test]
        fn a_flipped_bit_invalidates_a_token(at in 0..(GREETING + TOKEN_BYTES) * 8) {
            let mut datagram = ConnectionToken::new([9; 16], ID, &KEY).datagram();
            datagram[at / 8] ^= 1 << (at % 8);
            prop_assert!(ConnectionToken::of_datagram(&datagram).is_none_or(|token| !token.is_valid(&KEY)));
        }
    }
}
