//! Requests to a host.

use super::key::hex;
use super::{PublicKey, RequestError, SigningKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

/// Maximum size of a request, in bytes.
pub const LONGEST_REQUEST: u64 = 4096;
/// Maximum length of a requested span, in milliseconds.
pub const LONGEST_SPAN_MS: i64 = 3_600_000;
/// Maximum time for which a request is valid, in milliseconds.
const LONGEST_VALID_MS: i64 = 24 * 3_600_000;
/// Tolerated difference between clocks, in milliseconds.
const SKEW_MS: i64 = 5 * 60_000;
const SCHEMA: &str = "whyslow.fleet.raw_request/1";
/// Prefix of the signed message, so that nothing else signed with the key can pass for a request.
const DOMAIN: &[u8] = b"whyslow raw request 1\n";
/// Length of an identifier, in bytes.
const ID: usize = 16;

/// A request to a host for a span of its recording. Times are milliseconds since 1970.
///
/// In a file, it is the signature in hexadecimal, a line feed, and the signed JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingRequest {
    schema: String,
    /// Random identifier in hexadecimal, repeated in the answer.
    pub id: String,
    /// The name under which the host ships its data.
    pub host: String,
    /// Start of the span.
    pub from_ms: i64,
    /// End of the span.
    pub to_ms: i64,
    /// Time of the request.
    pub asked_ms: i64,
    /// Time from which no answer is wanted.
    pub expires_ms: i64,
}

impl RecordingRequest {
    /// Creates a request to a host for a span. `asked_ms` is the current time; an answer is wanted for `valid_ms`.
    ///
    /// # Errors
    /// Fails if the span is longer than an hour, the time is longer than a day, or there are no random numbers.
    pub fn new(host: &str, (from_ms, to_ms): (i64, i64), asked_ms: i64, valid_ms: i64) -> Result<Self, RequestError> {
        let mut id = [0; ID];
        SystemRandom::new().fill(&mut id).map_err(|_| RequestError::new("the kernel provides no random numbers"))?;
        let expires_ms = asked_ms.saturating_add(valid_ms);
        let (schema, host) = (SCHEMA.to_owned(), host.to_owned());
        let request = Self { schema, id: hex(&id), host, from_ms, to_ms, asked_ms, expires_ms };
        request.check_times()?;
        Ok(request)
    }

    /// Serialises and signs the request as a file.
    pub fn signed(&self, key: &SigningKey) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        [key.sign(&[DOMAIN, &json].concat()).as_bytes(), b"\n", &json].concat()
    }

    /// Parses a request, if this key has signed it, it is to this host, and it can be answered.
    ///
    /// # Errors
    /// Fails if one of these does not hold.
    pub fn verified(file: &[u8], key: &PublicKey, host: &str) -> Result<Self, RequestError> {
        let invalid = || RequestError::new("the key has not signed it");
        let line = file.iter().position(|byte| *byte == b'\n').ok_or_else(invalid)?;
        let (signature, json) = (&file[..line], &file[line + 1..]);
        let signature = std::str::from_utf8(signature).map_err(|_| invalid())?;
        if !key.has_signed(&[DOMAIN, json].concat(), signature) {
            return Err(invalid());
        }
        let request: Self = serde_json::from_slice(json).map_err(|error| RequestError::new(error.to_string()))?;
        if request.schema != SCHEMA {
            return Err(RequestError::new(format!("{} is not known here", request.schema)));
        }
        if request.host != host {
            return Err(RequestError::new("it is for another host"));
        }
        let is_id = |id: &str| id.len() == 2 * ID && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_id(&request.id) {
            return Err(RequestError::new("its identifier is invalid"));
        }
        request.check_times()?;
        Ok(request)
    }

    /// Returns true if an answer is wanted at this time.
    pub fn is_valid_at(&self, now_ms: i64) -> bool {
        (self.asked_ms.saturating_sub(SKEW_MS)..self.expires_ms).contains(&now_ms)
    }

    fn check_times(&self) -> Result<(), RequestError> {
        let span = self.to_ms.saturating_sub(self.from_ms);
        if !(1..=LONGEST_SPAN_MS).contains(&span) {
            return Err(RequestError::new("at most an hour of a recording can be asked for"));
        }
        let valid = self.expires_ms.saturating_sub(self.asked_ms);
        if !(1..=LONGEST_VALID_MS).contains(&valid) {
            return Err(RequestError::new("a request is valid for a day at most"));
        }
        Ok(())
    }
}
