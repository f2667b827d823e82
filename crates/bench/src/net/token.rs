//! Shared secret of a server and its clients, and proofs of knowing it.

use crate::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::io;

/// A shared secret. Never sent: both ends answer a challenge with HMAC-SHA-256 (RFC 2104).
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

pub(super) type Nonce = [u8; 32];
/// An HMAC-SHA-256.
pub(super) type Tag = [u8; 32];

/// Minimum length: shorter tokens could be found by brute force from a recorded handshake.
const SHORTEST: usize = 16;
const LONGEST: usize = 1024;

impl Token {
    /// Creates a token of 128 random bits in hexadecimal.
    ///
    /// # Errors
    /// Fails if the kernel returns no random bytes.
    pub fn random() -> Result<Self> {
        let nonce = nonce().map_err(|e| Error::new(format!("cannot get random bytes for a token: {e}")))?;
        Ok(Self(nonce[..16].iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Creates a token from text; removes surrounding white space.
    ///
    /// # Errors
    /// Fails if the text is too short or too long.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(Error::new(format!(
                "the token must have {SHORTEST} to {LONGEST} characters, not {}",
                text.len()
            )));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns a proof of knowing the token.
    pub(super) fn proof(&self, role: ProofKind, server: &Nonce, client: &Nonce) -> Tag {
        tag(self.0.as_bytes(), &[role.label(), server, client])
    }

    /// Verifies a proof in constant time.
    pub(super) fn is_proof(&self, proof: &[u8], role: ProofKind, server: &Nonce, client: &Nonce) -> bool {
        is_tag(proof, self.0.as_bytes(), &[role.label(), server, client])
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Purpose of a proof; it is valid for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProofKind {
    Client,
    Server,
    /// The key of a session; never sent.
    Session,
}

impl ProofKind {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Client => b"whyslow net 1 client",
            Self::Server => b"whyslow net 1 server",
            Self::Session => b"whyslow net 1 session",
        }
    }
}

pub(super) fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    Ok(nonce)
}

/// Computes a tag. The parts have fixed lengths, so their concatenation is unambiguous.
pub(super) fn tag(key: &[u8], parts: &[&[u8]]) -> Tag {
    mac(key, parts).finalize().into_bytes().into()
}

/// Verifies a tag in constant time.
pub(super) fn is_tag(claimed: &[u8], key: &[u8], parts: &[&[u8]]) -> bool {
    mac(key, parts).verify_slice(claimed).is_ok()
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC accepts keys of any length"));
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_match_rfc_4231() {
        // Test case 2.
        let hex: String =
            tag(b"Jefe", &[b"what do ya want ", b"for nothing?"]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_proof_is_valid_for_one_token_one_purpose_and_one_pair_of_nonces() {
        let (token, other) = (Token::new("sixteen letters.").unwrap(), Token::random().unwrap());
        let (a, b) = (nonce().unwrap(), nonce().unwrap());
        let proof = token.proof(ProofKind::Client, &a, &b);
        assert!(token.is_proof(&proof, ProofKind::Client, &a, &b));
        assert!(!token.is_proof(&proof, ProofKind::Server, &a, &b));
        assert!(!token.is_proof(&proof, ProofKind::Client, &b, &a));
        assert!(!other.is_proof(&proof, ProofKind::Client, &a, &b));
        assert!(!token.is_proof(&proof[..31], ProofKind::Client, &a, &b));
        assert!(!token.is_proof(&[], ProofKind::Client, &a, &b));
    }

    #[test]
    fn a_token_is_long_enough_and_not_printed_by_debug() {
        let refusal = Token::new("  too short  ").unwrap_err().to_string();
        assert_eq!(refusal, "the token must have 16 to 1024 characters, not 9");
        assert_eq!(Token::new(" sixteen letters.\n").unwrap().reveal(), "sixteen letters.");
        let random = Token::random().unwrap();
        assert_eq!(random.reveal().len(), 32);
        assert!(!format!("{random:?}").contains(random.reveal()));
    }
}
