//! Tests of valid and forged requests and answers.

use super::{LONGEST_REQUEST, PublicKey, RecordingAnswer, RecordingRequest, SigningKey, answer_path, request_path};

const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIBaxh+/2vCZYJ1Afsu2y1nkwJVLlazOV91lksLRthQXk
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAvCf21zzpaqLPrC9wxSmfHuL3Zxwxr93Ghk6DRi706ZE=
-----END PUBLIC KEY-----
";
const OTHER_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA/eJAUp3xHccpMlMQhNK/QttdPBc/jD3IWRt+kRd1F0Y=
-----END PUBLIC KEY-----
";
/// A key for X25519, which cannot sign.
const OTHER_KIND: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VuAyEAxGcw3/ItHBTU2luhYoO/EpjEZEQ1pb2vsZQDnS/r5R8=
-----END PUBLIC KEY-----
";
const ASKED: i64 = 1_764_126_000_000;
const MINUTE: i64 = 60_000;

fn key() -> SigningKey {
    SigningKey::parse(PRIVATE.as_bytes()).unwrap()
}

fn request() -> RecordingRequest {
    RecordingRequest::new("db-17", (ASKED - 40 * MINUTE, ASKED - 20 * MINUTE), ASKED, 10 * MINUTE).unwrap()
}

fn verified(file: &[u8]) -> Result<RecordingRequest, String> {
    RecordingRequest::verified(file, &key().public, "db-17").map_err(|error| error.to_string())
}

/// Builds a signed request with a part of its JSON replaced.
fn signed_with(from: &str, to: &str) -> Vec<u8> {
    let json = serde_json::to_string(&request()).unwrap();
    let changed = json.replace(from, to);
    assert_ne!(changed, json, "{from}");
    let request: serde_json::Result<RecordingRequest> = serde_json::from_str(&changed);
    match request {
        Ok(request) => request.signed(&key()),
        Err(_) => {
            [key().sign(format!("whyslow raw request 1\n{changed}").as_bytes()).as_bytes(), b"\n", changed.as_bytes()]
                .concat()
        }
    }
}

#[test]
fn a_request_is_read_as_it_was_signed() {
    let request = request();
    let file = request.signed(&key());
    assert!(file.len() as u64 <= LONGEST_REQUEST);
    assert_eq!(verified(&file), Ok(request.clone()));
    assert_eq!(key().public, PublicKey::parse_all(PUBLIC.as_bytes()).unwrap()[0]);
    let valid = [-6, -4, 0, 9, 10].map(|minute| request.is_valid_at(ASKED + minute * MINUTE));
    assert_eq!(valid, [false, true, true, true, false]);
}

#[test]
fn what_the_key_has_not_signed_for_this_host_is_refused() {
    let file = request().signed(&key());
    let other = PublicKey::parse_all(OTHER_PUBLIC.as_bytes()).unwrap()[0];
    assert!(RecordingRequest::verified(&file, &other, "db-17").is_err());
    assert!(
        RecordingRequest::verified(&file, &key().public, "db-18").unwrap_err().to_string().contains("another host")
    );
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        assert!(verified(&damaged).is_err(), "byte {at}");
        assert!(verified(&file[..at]).is_err(), "the first {at} bytes");
    }
    // The same JSON, signed for another purpose.
    let json = &file[file.iter().position(|byte| *byte == b'\n').unwrap() + 1..];
    assert!(verified(&[key().sign(json).as_bytes(), b"\n", json].concat()).is_err());
}

#[test]
fn what_is_signed_and_cannot_be_answered_is_refused() {
    assert_ne!(request().id, request().id, "identifiers are random");
    for (from, to, why) in [
        ("raw_request/1", "raw_request/2", "not known here"),
        (&format!("\"to_ms\":{}", ASKED - 20 * MINUTE)[..], "\"to_ms\":0", "at most an hour"),
        (&format!("\"from_ms\":{}", ASKED - 40 * MINUTE), "\"from_ms\":-9223372036854775808", "at most an hour"),
        (&format!("\"expires_ms\":{}", ASKED + 10 * MINUTE), "\"expires_ms\":9223372036854775807", "for a day at most"),
        ("\"id\":\"", "\"id\":\"../", "identifier"),
        ("\"host\":", "\"guest\":", "missing field"),
    ] {
        let refused = verified(&signed_with(from, to)).unwrap_err();
        assert!(refused.contains(why), "{to}: {refused}");
    }
}

#[test]
fn only_keys_of_this_kind_are_taken() {
    let both = [PUBLIC, OTHER_PUBLIC].concat();
    assert_eq!(PublicKey::parse_all(both.as_bytes()).unwrap().len(), 2);
    for wrong in ["", "x", PRIVATE, OTHER_KIND, &[PUBLIC, OTHER_KIND].concat()] {
        let error = PublicKey::parse_all(wrong.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("openssl pkey"), "{error}");
    }
    for wrong in ["", PUBLIC, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        let error = SigningKey::parse(wrong.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("openssl genpkey"), "{error}");
    }
}

#[test]
fn paths_stay_within_their_folder() {
    let path = request_path("../x", &key().public).unwrap();
    assert!(path.starts_with("v1/requests/%2E.%2Fx/bc27f6d7"), "{path}");
    assert_eq!(path.matches('/').count(), 3);
    let path = answer_path(&request()).unwrap();
    assert!(path.starts_with("v1/raw/db-17/") && path.ends_with(".extract"), "{path}");
}

#[test]
fn an_answer_is_to_its_request() {
    let request = request();
    for answer in
        [RecordingAnswer::Extract(b"\nbytes".to_vec()), RecordingAnswer::Refused("nothing was recorded then".into())]
    {
        let file = answer.clone().into_file(&request);
        assert_eq!(RecordingAnswer::parse(&file, &request), Ok(answer));
        assert!(RecordingAnswer::parse(&file, &self::request()).unwrap_err().to_string().contains("another request"));
    }
    for wrong in [&b""[..], b"\n", b"{}\n", b"whyslow extract 1\n", &[b' '; 10_000]] {
        assert!(RecordingAnswer::parse(wrong, &request).is_err());
    }
}
