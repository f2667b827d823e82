//! What a connection, or a datagram, begins with: who comes, and for what.

use super::token::{Tag, is_tag, tag};

/// What all begin with. The number goes up when what follows changes.
pub(super) const MAGIC: [u8; 8] = *b"wslnet1 ";
/// Magic and kind.
pub(super) const GREETING: usize = MAGIC.len() + 1;
/// What follows the greeting of a line of a session.
pub(super) const PASS: usize = 16 + 4 + 2 + 2 + 32;

/// Number of a session, told to the one who opened it.
pub(super) type SessionId = [u8; 16];

/// For what a connection was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Messages.
    Control,
    /// A line of a load.
    Line,
}

impl Purpose {
    const fn letter(self) -> u8 {
        match self {
            Self::Control => b'C',
            Self::Line => b'L',
        }
    }

    /// What a connection of this purpose begins with.
    pub(super) fn greeting(self) -> [u8; GREETING] {
        let mut greeting = [self.letter(); GREETING];
        greeting[..MAGIC.len()].copy_from_slice(&MAGIC);
        greeting
    }

    /// None where it is no greeting.
    pub(super) fn of(greeting: &[u8; GREETING]) -> Option<Self> {
        [Self::Control, Self::Line].into_iter().find(|purpose| purpose.greeting() == *greeting)
    }
}

/// Which line of which load: of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) round: u32,
    pub(super) load: u16,
    pub(super) line: u16,
}

/// What lets a line in: shows that it belongs to the session, to whoever knows the session's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) session: SessionId,
    pub(super) place: Place,
    tag: Tag,
}

impl Pass {
    pub(super) fn new(session: SessionId, place: Place, key: &Tag) -> Self {
        Self { session, place, tag: tag(key, &[&session, &place.bytes()]) }
    }

    pub(super) fn is_valid(&self, key: &Tag) -> bool {
        is_tag(&self.tag, key, &[&self.session, &self.place.bytes()])
    }

    pub(super) fn bytes(&self) -> [u8; PASS] {
        let mut bytes = [0; PASS];
        bytes[..16].copy_from_slice(&self.session);
        bytes[16..24].copy_from_slice(&self.place.bytes());
        bytes[24..].copy_from_slice(&self.tag);
        bytes
    }

    pub(super) fn of(bytes: &[u8; PASS]) -> Self {
        let (mut session, mut tag) = (SessionId::default(), Tag::default());
        session.copy_from_slice(&bytes[..16]);
        tag.copy_from_slice(&bytes[24..]);
        let mut place = [0; 8];
        place.copy_from_slice(&bytes[16..24]);
        Self { session, place: Place::of(place), tag }
    }

    /// The datagram that opens a line of UDP.
    pub(super) fn datagram(&self) -> Vec<u8> {
        [&Purpose::Line.greeting()[..], &self.bytes()].concat()
    }

    /// What such a datagram holds; none where it is another.
    pub(super) fn of_datagram(datagram: &[u8]) -> Option<Self> {
        let (greeting, pass) = datagram.split_first_chunk::<GREETING>()?;
        let line = Purpose::of(greeting) == Some(Purpose::Line);
        line.then(|| pass.try_into().ok().map(Self::of)).flatten()
    }
}

impl Place {
    fn bytes(self) -> [u8; 8] {
        (u64::from(self.round) << 32 | u64::from(self.load) << 16 | u64::from(self.line)).to_be_bytes()
    }

    fn of(bytes: [u8; 8]) -> Self {
        let all = u64::from_be_bytes(bytes);
        Self { round: (all >> 32) as u32, load: (all >> 16) as u16, line: all as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: Tag = [7; 32];
    const PLACE: Place = Place { round: 3, load: 1, line: 127 };

    #[test]
    fn a_pass_comes_through_and_is_of_its_key_and_place_only() {
        let pass = Pass::new([9; 16], PLACE, &KEY);
        let read = Pass::of_datagram(&pass.datagram()).unwrap();
        assert_eq!(read, pass);
        assert!(read.is_valid(&KEY));
        assert!(!read.is_valid(&[8; 32]));
        let moved = Pass { place: Place { line: 126, ..PLACE }, ..pass };
        assert!(!moved.is_valid(&KEY));
    }

    proptest! {
        #[test]
        fn no_bytes_are_a_pass_that_was_not_given(bytes: Vec<u8>) {
            prop_assert!(Pass::of_datagram(&bytes).is_none_or(|pass| !pass.is_valid(&KEY)));
        }

        #[test]
        fn a_changed_bit_is_seen(at in 0..(GREETING + PASS) * 8) {
            let mut datagram = Pass::new([9; 16], PLACE, &KEY).datagram();
            datagram[at / 8] ^= 1 << (at % 8);
            prop_assert!(Pass::of_datagram(&datagram).is_none_or(|pass| !pass.is_valid(&KEY)));
        }
    }
}
