//! Answers signed requests for spans of the recording.

use crate::destination::ShipError;
use crate::shipper::{OpenFn, Shipper, unreadable};
use std::fmt;
use std::sync::atomic::AtomicBool;
use whyslow_rollup::{
    LONGEST_ANSWER, LONGEST_REQUEST, PublicKey, RecordingAnswer, RecordingRequest, answer_path, request_path,
};
use whyslow_store::Extract;

const MS: i64 = 1_000_000;
/// Maximum size of the first line of an answer, bytes.
const HEAD: u64 = 8192;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawAnswer {
    /// The request.
    pub request: RecordingRequest,
    /// Size of the answer, bytes.
    pub bytes: u64,
    /// The reason for a refusal, if no part of the recording was delivered.
    pub refused: Option<String>,
}

impl Shipper {
    /// Also answers requests that one of these keys has signed.
    pub fn answering(mut self, raw_keys: Vec<PublicKey>) -> Self {
        self.raw_keys = raw_keys;
        self
    }

    /// Answers the requests that are valid at `now`, nanoseconds since 1970, each once. Raising `stop` ends it.
    ///
    /// # Errors
    /// Returns for each key the reason why its request was not answered.
    pub fn answer(&mut self, open: &OpenFn<'_>, now: i64, stop: &AtomicBool) -> Vec<Result<RawAnswer, ShipError>> {
        let keys = self.raw_keys.clone();
        keys.iter().filter_map(|key| self.answer_to(key, open, now.div_euclid(MS), stop).transpose()).collect()
    }

    fn answer_to(
        &mut self,
        key: &PublicKey,
        open: &OpenFn<'_>,
        now_ms: i64,
        stop: &AtomicBool,
    ) -> Result<Option<RawAnswer>, ShipError> {
        let failed = |path: &str, what: &dyn fmt::Display| ShipError::new(format!("{path}: {what}"));
        let path = request_path(&self.host, key).map_err(|error| ShipError::new(error.to_string()))?;
        let Some(file) = self.destination.get(&path, LONGEST_REQUEST, stop)? else { return Ok(None) };
        let request = RecordingRequest::verified(&file, key, &self.host).map_err(|error| failed(&path, &error))?;
        if !request.is_valid_at(now_ms) || self.state.answered.contains_key(&request.id) {
            return Ok(None);
        }
        let answer = extract(&request, open)?;
        let refused = if let RecordingAnswer::Refused(why) = &answer { Some(why.clone()) } else { None };
        let file = answer.into_file(&request);
        let bytes = file.len() as u64;
        let path = answer_path(&request).map_err(|error| ShipError::new(error.to_string()))?;
        self.destination.put(&path, file, stop)?;
        self.state.answered.retain(|_, expires_ms| *expires_ms > now_ms);
        self.state.answered.insert(request.id.clone(), request.expires_ms);
        self.file.write(&self.state)?;
        Ok(Some(RawAnswer { request, bytes, refused }))
    }
}

fn extract(request: &RecordingRequest, open: &OpenFn<'_>) -> Result<RecordingAnswer, ShipError> {
    let recording = open()?;
    let ns = |ms: i64| ms.saturating_mul(MS);
    let span = ns(request.from_ms)..=ns(request.to_ms).saturating_sub(1);
    let most = usize::try_from(LONGEST_ANSWER - HEAD).unwrap_or(usize::MAX);
    Ok(match recording.extract(&span, most).map_err(unreadable)? {
        Extract::Bytes(bytes) => RecordingAnswer::Extract(bytes),
        Extract::Nothing => RecordingAnswer::Refused("nothing was recorded then".into()),
        Extract::TooLarge => RecordingAnswer::Refused(format!(
            "that takes more than {} MiB: ask for a shorter span",
            LONGEST_ANSWER >> 20
        )),
    })
}
