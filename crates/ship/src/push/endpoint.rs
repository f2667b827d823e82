//! Receivers of batches, and the requests to them.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use ureq::http::Uri;
use ureq::http::header::{AUTHORIZATION, RETRY_AFTER};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, http::Response};

/// Time limit for a request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes to read of an answer.
const MOST_OF_ANSWER: u64 = 64 << 10;
/// Maximum number of characters of an answer to quote in a message.
const MOST_WORDS: usize = 200;

/// Value of the `Authorization` header. It is read again for each request, so that it can be changed while the program runs.
#[derive(Clone)]
pub enum Credentials {
    /// The first line of this file.
    File(PathBuf),
    /// This text, from the environment.
    Value(String),
}

/// Never prints the text itself.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Value(_) => f.write_str("Value(...)"),
        }
    }
}

impl Credentials {
    fn read(&self) -> Result<String, String> {
        let text = match self {
            Self::Value(value) => value.clone(),
            Self::File(path) => {
                std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?
            }
        };
        let line = text.lines().next().unwrap_or_default().trim();
        if line.is_empty() || !line.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err("the credentials are not one line of text, such as 'Bearer TOKEN'".into());
        }
        Ok(line.to_owned())
    }
}

/// A receiver of batches.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: String,
    headers: &'static [(&'static str, &'static str)],
    credentials: Option<Credentials>,
    complaint: fn(&[u8]) -> Option<String>,
    is_local: bool,
}

/// An address that batches cannot be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointError(String);

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    /// Creates a receiver at an address. `complaint` finds in the answer to an accepted batch what was not accepted.
    ///
    /// # Errors
    /// Fails if the address is invalid, contains a password, or would send credentials over the network in the clear, or if the
    /// credentials cannot be read.
    pub fn new(
        url: &str,
        headers: &'static [(&'static str, &'static str)],
        credentials: Option<Credentials>,
        complaint: fn(&[u8]) -> Option<String>,
    ) -> Result<Self, EndpointError> {
        let wrong = |why: &str| EndpointError(format!("{}: {why}", without_secrets(url)));
        let uri: Uri = url.parse().map_err(|_| wrong("not an address such as https://host/path"))?;
        let host = uri.host().unwrap_or_default();
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("must begin with http:// or https://")),
        };
        if host.is_empty() {
            return Err(wrong("names no host"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong(
                "no password in an address, which every user of the machine can see: put it into a file",
            ));
        }
        let is_local = is_this_machine(host);
        if let Some(credentials) = &credentials {
            if !is_secure && !is_local {
                return Err(wrong("credentials would be sent in the clear: use https://"));
            }
            credentials.read().map_err(EndpointError)?;
        }
        Ok(Self { url: url.trim_end_matches('/').to_owned(), headers, credentials, complaint, is_local })
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Removes what could be secret from an address: user, password and query.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => url.to_owned(),
    }
}

/// Outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The batch was accepted; with a complaint, only in part.
    Accepted { complaint: Option<String> },
    /// The batch will never be accepted.
    Refused(String),
    /// The batch can be accepted later, after a delay that the receiver may have specified.
    Later { why: String, after: Option<Duration> },
}

/// Sends requests to an endpoint.
pub(crate) struct Sender {
    endpoint: Endpoint,
    agent: Agent,
}

impl Sender {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect would carry the credentials to another host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("whyslow/", env!("CARGO_PKG_VERSION")));
        if endpoint.is_local {
            config = config.proxy(None);
        }
        if endpoint.url.starts_with("https") {
            config = config.tls_config(tls());
        }
        Self { endpoint, agent: config.build().into() }
    }

    /// Returns the address, for messages.
    pub(crate) fn address(&self) -> String {
        without_secrets(&self.endpoint.url)
    }

    pub(crate) fn send(&self, path: &str, body: &[u8]) -> Outcome {
        let later = |why: String| Outcome::Later { why, after: None };
        let mut request = self.agent.post(format!("{}{path}", self.endpoint.url));
        for (name, value) in self.endpoint.headers {
            request = request.header(*name, *value);
        }
        match self.endpoint.credentials.as_ref().map(Credentials::read) {
            Some(Ok(credentials)) => request = request.header(AUTHORIZATION, credentials),
            // The file may be back at the next attempt.
            Some(Err(why)) => return later(why),
            None => {}
        }
        // The client resolves names in a thread, and panics if it cannot start one.
        let probe = std::thread::Builder::new().name("probe".into()).spawn(|| {});
        if let Err(e) = probe.map(|thread| drop(thread.join())) {
            return later(format!(
                "cannot start a thread: {e}; raise the limit on tasks (pids.max, TasksMax=, ulimit -u)"
            ));
        }
        match request.send(body) {
            Ok(response) => self.outcome(response),
            Err(error) => later(error.to_string()),
        }
    }

    fn outcome(&self, mut response: Response<Body>) -> Outcome {
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = response.body_mut().with_config().limit(MOST_OF_ANSWER).read_to_vec().unwrap_or_default();
        if status.is_success() {
            return Outcome::Accepted { complaint: (self.endpoint.complaint)(&body) };
        }
        let words: String = String::from_utf8_lossy(&body).trim().chars().take(MOST_WORDS).collect();
        let why = if words.is_empty() { format!("status {status}") } else { format!("status {status}: {words}") };
        if status.is_server_error() || status.as_u16() == 429 {
            Outcome::Later { why, after: after.map(Duration::from_secs) }
        } else {
            Outcome::Refused(why)
        }
    }
}

/// Returns a configuration with the certificates of the system and cryptography by ring.
fn tls() -> TlsConfig {
    // Unreadable certificates are left out. Without any, a connection fails and says so.
    let roots = rustls_native_certs::load_native_certs().certs;
    let roots: RootCerts = roots.iter().map(|root| Certificate::from_der(root).to_owned()).into();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    TlsConfig::builder().root_certs(roots).unversioned_rustls_crypto_provider(provider).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str, credentials: Option<&str>) -> Result<Endpoint, String> {
        let credentials = credentials.map(|value| Credentials::Value(value.into()));
        Endpoint::new(url, &[], credentials, |_| None).map_err(|error| error.to_string())
    }

    #[test]
    fn credentials_are_not_sent_in_the_clear() {
        for url in [
            "https://metrics.example/api/v1/write",
            "http://127.0.0.1:9090/w",
            "http://[::1]:9090",
            "http://localhost:4318",
        ] {
            assert!(endpoint(url, Some("Bearer x")).is_ok(), "{url}");
        }
        assert!(endpoint("http://metrics.example/w", None).is_ok());
        let refused = endpoint("http://metrics.example/w", Some("Bearer x")).unwrap_err();
        assert_eq!(refused, "http://metrics.example/w: credentials would be sent in the clear: use https://");
        assert!(endpoint("http://127.0.0.1.evil.example/", Some("Bearer x")).is_err());
    }

    #[test]
    fn a_password_in_the_address_is_refused_and_not_repeated() {
        let refused = endpoint("https://user:hunter2@metrics.example/w?token=hunter2", None).unwrap_err();
        assert!(refused.starts_with("https://metrics.example/w: no password"), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in ["", "metrics.example", "ftp://x/", "http://", "https:///x", "unix:/run/x"] {
            assert!(endpoint(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn credentials_are_one_line_and_never_shown() {
        let refused = endpoint("https://x/", Some("Bearer \u{1b}")).unwrap_err();
        assert!(refused.contains("not one line"), "{refused}");
        assert!(endpoint("https://x/", Some("")).is_err());
        let shown = format!("{:?}", endpoint("https://x/", Some("Bearer hunter2")).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
