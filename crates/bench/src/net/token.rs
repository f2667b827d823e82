//! What only those who may use a server know, and how they show that they do without telling it.

use crate::error::{Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::io;

/// A shared secret. Never on the wire: both ends answer the other's challenge with HMAC-SHA-256 (RFC 2104).
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Random bytes that are used once.
pub(super) type Nonce = [u8; 32];
/// HMAC-SHA-256 of something.
pub(super) type Tag = [u8; 32];

/// A shorter one could be guessed by trying, by whoever saw a challenge answered.
const SHORTEST: usize = 16;
const LONGEST: usize = 1024;

impl Token {
    /// One that nobody knows yet: 128 random bits in hexadecimal.
    ///
    /// # Errors
    /// Where the kernel gives no random bytes.
    pub fn random() -> Result<Self> {
        let nonce = nonce().map_err(|e| Error::new(format!("no random bytes for a token: {e}")))?;
        Ok(Self(nonce[..16].iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// One that was agreed on; space around it is not part of it.
    ///
    /// # Errors
    /// Where it is too short to be a secret.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(Error::new(format!("a token has {SHORTEST} to {LONGEST} characters, this has {}", text.len())));
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret, for whoever is to be told.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What shows, in this role, that one knows the token.
    pub(super) fn proof(&self, role: Role, server: &Nonce, client: &Nonce) -> Tag {
        tag(self.0.as_bytes(), &[role.label(), server, client])
    }

    /// Whether another has shown it. Takes the same time whatever differs.
    pub(super) fn is_proof(&self, proof: &[u8], role: Role, server: &Nonce, client: &Nonce) -> bool {
        is_tag(proof, self.0.as_bytes(), &[role.label(), server, client])
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// For what a proof is. One for one thing is none for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
    /// The key of a session, which both ends know and never send.
    Session,
}

impl Role {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Client => b"whyslow net 1 client",
            Self::Server => b"whyslow net 1 server",
            Self::Session => b"whyslow net 1 session",
        }
    }
}

/// Random bytes.
pub(super) fn nonce() -> io::Result<Nonce> {
    let mut nonce = Nonce::default();
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    Ok(nonce)
}

/// The tag of some parts under a key. Parts have set lengths, so that none can be taken for another.
pub(super) fn tag(key: &[u8], parts: &[&[u8]]) -> Tag {
    mac(key, parts).finalize().into_bytes().into()
}

/// Whether this is that tag. Takes the same time whatever differs.
pub(super) fn is_tag(claimed: &[u8], key: &[u8], parts: &[&[u8]]) -> bool {
    mac(key, parts).verify_slice(claimed).is_ok()
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    // HMAC takes keys of any length, so that there is nothing to refuse.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!("HMAC has no wrong key lengths"));
    parts.iter().for_each(|part| mac.update(part));
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_that_of_rfc_4231() {
        // Test case 2.
        let hex: String =
            tag(b"Jefe", &[b"what do ya want ", b"for nothing?"]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_proof_is_of_one_token_one_role_and_one_pair_of_nonces() {
        let (token, other) = (Token::new("sixteen letters.").unwrap(), Token::random().unwrap());
        let (a, b) = (nonce().unwrap(), nonce().unwrap());
        let proof = token.proof(Role::Client, &a, &b);
        assert!(token.is_proof(&proof, Role::Client, &a, &b));
        assert!(!token.is_proof(&proof, Role::Server, &a, &b));
        assert!(!token.is_proof(&proof, Role::Client, &b, &a));
        assert!(!other.is_proof(&proof, Role::Client, &a, &b));
        assert!(!token.is_proof(&proof[..31], Role::Client, &a, &b));
        assert!(!token.is_proof(&[], Role::Client, &a, &b));
    }

    #[test]
    fn a_token_is_long_enough_and_not_told_by_accident() {
        assert!(Token::new("  too short  ").is_err());
        assert_eq!(Token::new(" sixteen letters.\n").unwrap().reveal(), "sixteen letters.");
        let random = Token::random().unwrap();
        assert_eq!(random.reveal().len(), 32);
        assert!(!format!("{random:?}").contains(random.reveal()));
    }
}
