//! Answers of a host.

use super::{RecordingRequest, RequestError};
use serde::{Deserialize, Serialize};

/// Maximum size of an answer, in bytes: an hour at one sample per second takes 5 to 15 MB.
pub const LONGEST_ANSWER: u64 = 64 << 20;
const SCHEMA: &str = "whyslow.fleet.raw_answer/1";
/// Maximum length of the first line. A longer line is invalid.
const LONGEST_LINE: usize = 8192;

/// Answer to a request. In a file, it is a line of JSON, followed by the extract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingAnswer {
    /// An extract of the recording.
    Extract(Vec<u8>),
    /// The reason for a refusal.
    Refused(String),
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    request: RecordingRequest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl RecordingAnswer {
    /// Serialises the answer as a file.
    pub fn into_file(self, request: &RecordingRequest) -> Vec<u8> {
        let (refused, extract) = match self {
            Self::Extract(extract) => (None, extract),
            Self::Refused(why) => (Some(why), Vec::new()),
        };
        let head = Head { schema: SCHEMA.to_owned(), request: request.clone(), refused };
        let mut file = serde_json::to_vec(&head).unwrap_or_default();
        file.push(b'\n');
        file.extend(extract);
        file
    }

    /// Parses an answer to a request. The file may contain anything.
    ///
    /// # Errors
    /// Fails if the file is not an answer, or answers another request.
    pub fn parse(file: &[u8], request: &RecordingRequest) -> Result<Self, RequestError> {
        let line = file.iter().take(LONGEST_LINE).position(|byte| *byte == b'\n');
        let (head, rest) = file.split_at(line.ok_or_else(|| RequestError::new("it is not an answer"))?);
        let head: Head = serde_json::from_slice(head).map_err(|_| RequestError::new("it is not an answer"))?;
        if head.schema != SCHEMA {
            return Err(RequestError::new(format!("{} is not known here", head.schema)));
        }
        if head.request != *request {
            return Err(RequestError::new("it answers another request"));
        }
        Ok(head.refused.map_or_else(|| Self::Extract(rest[1..].to_vec()), Self::Refused))
    }
}
