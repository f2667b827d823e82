//! Ed25519 keys (RFC 8032) in PEM files, as created by `openssl genpkey -algorithm ed25519` (RFC 8410).

use super::RequestError;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use std::fmt;

/// Prefix of an Ed25519 public key in DER (RFC 8410, section 4); the 32 bytes of the key follow.
const PUBLIC_KEY: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Key that signs requests.
#[derive(Debug)]
pub struct SigningKey {
    pair: Ed25519KeyPair,
    /// The public half, with which hosts verify signatures.
    pub public: PublicKey,
}

impl SigningKey {
    /// Parses the private key of a PEM file.
    ///
    /// # Errors
    /// Fails if the file has no private Ed25519 key.
    pub fn parse(pem: &[u8]) -> Result<Self, RequestError> {
        let pair = PrivatePkcs8KeyDer::from_pem_slice(pem).ok().and_then(|der| {
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).ok()?;
            let public = PublicKey(pair.public_key().as_ref().try_into().ok()?);
            Some(Self { pair, public })
        });
        pair.ok_or_else(|| {
            RequestError::new("no private Ed25519 key in PEM: 'openssl genpkey -algorithm ed25519 -out FILE' makes one")
        })
    }

    pub(crate) fn sign(&self, message: &[u8]) -> String {
        hex(self.pair.sign(message).as_ref())
    }
}

/// Key that verifies the signature of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Parses all public keys of a PEM file.
    ///
    /// # Errors
    /// Fails if the file has no key, or one of another kind.
    pub fn parse_all(pem: &[u8]) -> Result<Vec<Self>, RequestError> {
        let of_der = |der: &[u8]| der.strip_prefix(&PUBLIC_KEY)?.try_into().ok().map(Self);
        let keys = SubjectPublicKeyInfoDer::pem_slice_iter(pem).map(|der| der.ok().and_then(|der| of_der(&der)));
        let keys: Option<Vec<Self>> = keys.collect();
        keys.filter(|keys| !keys.is_empty()).ok_or_else(|| {
            RequestError::new(
                "no public Ed25519 key in PEM: 'openssl pkey -in KEY -pubout -out FILE' writes that of a private key",
            )
        })
    }

    pub(crate) fn has_signed(&self, message: &[u8], signature: &str) -> bool {
        let signature = bytes(signature).unwrap_or_default();
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, &signature).is_ok()
    }
}

/// Formats the key as a name in a path.
impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
