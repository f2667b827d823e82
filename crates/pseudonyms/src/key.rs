//! The key that pseudonyms depend on.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Digits of a pseudonym. It has forty bits, so that among ten thousand names two have the same one with a probability below
/// 0.0001.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Generates pseudonyms: the same name has the same pseudonym under one key, and without the key a pseudonym does not reveal the
/// name.
#[derive(Clone)]
pub struct PseudonymKey {
    bytes: [u8; Self::LENGTH],
    mac: Hmac<Sha256>,
}

/// Hides the key.
impl fmt::Debug for PseudonymKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PseudonymKey")
    }
}

impl PseudonymKey {
    /// Length of a key, bytes.
    pub const LENGTH: usize = 32;

    /// Creates a key from these bytes, which should be random.
    pub fn new(bytes: [u8; Self::LENGTH]) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(&bytes);
        Self { bytes, mac: mac.unwrap_or_else(|_| unreachable!("HMAC accepts keys of any length")) }
    }

    /// Parses the text of a key file: 64 hexadecimal digits. Returns `None` if it is not a key.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().as_bytes();
        let mut bytes = [0; Self::LENGTH];
        if digits.len() != 2 * Self::LENGTH {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16);
            *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
        }
        Some(Self::new(bytes))
    }

    /// Returns the text of a key file.
    pub fn to_text(&self) -> String {
        hexadecimal(&self.bytes) + "\n"
    }

    /// Hashes a name for a specific use.
    pub(crate) fn hash(&self, usage: &str, name: &[u8]) -> [u8; 32] {
        let mut mac = self.mac.clone();
        mac.update(usage.as_bytes());
        mac.update(&[0]);
        mac.update(name);
        mac.finalize().into_bytes().into()
    }

    /// Returns the digits of a name's pseudonym.
    pub(crate) fn token(&self, name: &str) -> String {
        let [a, b, c, d, e, ..] = self.hash("name", name.as_bytes());
        let bits = u64::from_be_bytes([0, 0, 0, a, b, c, d, e]);
        (0..8).rev().map(|at| char::from(DIGITS[(bits >> (5 * at)) as usize & 31])).collect()
    }

    /// Returns this many hexadecimal digits, at most 64, for a name that consists of such digits.
    pub(crate) fn hexadecimal(&self, name: &str, digits: usize) -> String {
        let mut text = hexadecimal(&self.hash("hexadecimal", name.as_bytes()));
        text.truncate(digits);
        text
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_from_its_text() {
        let key = PseudonymKey::new([0xa5; 32]);
        assert_eq!(key.to_text(), format!("{}\n", "a5".repeat(32)));
        assert_eq!(PseudonymKey::parse(&key.to_text()).unwrap().token("db"), key.token("db"));
        for wrong in ["", "a5", &"a".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert!(PseudonymKey::parse(wrong).is_none(), "{wrong}");
        }
        assert_eq!(format!("{key:?}"), "PseudonymKey");
    }

    #[test]
    fn pseudonyms_depend_on_the_key_and_the_name() {
        let (a, b) = (PseudonymKey::new([1; 32]), PseudonymKey::new([2; 32]));
        assert_ne!(a.token("db"), b.token("db"));
        assert_ne!(a.token("db"), a.token("web"));
        assert!(a.token("db").len() == 8 && a.token("").bytes().all(|digit| DIGITS.contains(&digit)));
        assert_eq!(a.hexadecimal("0f", 12).len(), 12);
    }
}
