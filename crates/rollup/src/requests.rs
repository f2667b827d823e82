//! Signed requests for a span of a host's own recording, and the answers, as stored in a fleet's store.
//!
//! ```text
//! v1/requests/HOST/KEY.json    one for each key: a new request replaces the last
//! v1/raw/HOST/ID.extract       the answer to a request
//! ```
//!
//! The host knows whose requests it answers, and so their paths: it lists nothing, and there cannot be many of them. The object
//! at such a path can still be anything, since others may write to the store: only content that the key has signed counts.

mod answer;
mod key;
mod request;
#[cfg(test)]
mod tests;

pub use answer::{LONGEST_ANSWER, RecordingAnswer};
pub use key::{PublicKey, SigningKey};
pub use request::{LONGEST_REQUEST, LONGEST_SPAN_MS, RecordingRequest};

use crate::{PlaceError, VERSION, host_in_path};
use std::fmt;

/// Folder of the requests.
pub const REQUESTS: &str = "requests";
/// Folder of the answers.
pub const ANSWERS: &str = "raw";

/// Returns the path of the request to a host that a key has signed.
///
/// # Errors
/// Fails if the name of the host cannot be part of a path.
pub fn request_path(host: &str, key: &PublicKey) -> Result<String, PlaceError> {
    Ok(format!("{VERSION}/{REQUESTS}/{}/{key}.json", host_in_path(host)?))
}

/// Returns the path of the answer to a request.
///
/// # Errors
/// Fails if the name of the host cannot be part of a path.
pub fn answer_path(request: &RecordingRequest) -> Result<String, PlaceError> {
    Ok(format!("{VERSION}/{ANSWERS}/{}/{}.extract", host_in_path(&request.host)?, request.id))
}

/// An invalid key, request or answer, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError(String);

impl RequestError {
    fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RequestError {}
