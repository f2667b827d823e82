//! Access control for requests.

use crate::request::PageRequest;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use std::net::IpAddr;

/// The names that the server answers to, and the token that clients need.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    /// Names accepted in the `Host` header, besides addresses and `localhost`.
    pub names: HostNames,
    /// Token required after `Bearer` in the `Authorization` header, if any.
    pub token: Option<String>,
    /// Whether the token may also be in the URL parameter `token`, for a page that a person opens.
    pub takes_token_from_address: bool,
}

/// Names of this server, compared without regard to case.
#[derive(Clone, Debug, Default)]
pub struct HostNames(Vec<String>);

impl<S: Into<String>> FromIterator<S> for HostNames {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Origin,
    Token,
    TokenOrAddress,
}

impl AccessRules {
    pub(crate) fn check(&self, headers: &HeaderMap, request: &PageRequest) -> Result<(), Refusal> {
        let host = only(headers, HOST).filter(|host| self.names.know(host)).ok_or(Refusal::Host)?;
        if headers.contains_key(ORIGIN) && only(headers, ORIGIN).is_none_or(|origin| !is_own(origin, host)) {
            return Err(Refusal::Origin);
        }
        let Some(token) = &self.token else { return Ok(()) };
        let header = only(headers, AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let address = request.parameter("token").filter(|_| self.takes_token_from_address);
        let is_right = |given: &str| are_equal(given.as_bytes(), token.as_bytes());
        if header.into_iter().chain(address).any(is_right) {
            return Ok(());
        }
        Err(if self.takes_token_from_address { Refusal::TokenOrAddress } else { Refusal::Token })
    }
}

/// Returns the value of a header; `None` if it is missing or occurs twice.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// Whether an `Origin` header is that of this server's own pages, which the client reached as `host`.
fn is_own(origin: &str, host: &str) -> bool {
    origin.strip_prefix("http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

impl HostNames {
    /// Whether a `Host` header names this server. Every address is accepted, because an address cannot be rebound.
    fn know(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_name = |known: &str| known.eq_ignore_ascii_case(name);
        address.parse::<IpAddr>().is_ok() || is_name("localhost") || self.0.iter().any(|known| is_name(known))
    }
}

/// Removes the port of `name:80` or `[::1]:80`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|digit| digit.is_ascii_digit()) && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

/// Compares in constant time for texts of the same length.
fn are_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_known_names_are_hosts() {
        let names: HostNames = ["db1", "db1.example.org"].into_iter().collect();
        for host in [
            "127.0.0.1",
            "127.0.0.1:9787",
            "[::1]:9787",
            "[::1]",
            "::1",
            "localhost:1",
            "LOCALHOST",
            "DB1:9787",
            "db1.example.org",
        ] {
            assert!(names.know(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9787",
            "127.0.0.1.evil.example",
            "db1.evil.example",
            "[::1",
            "db1:x",
            "db1 ",
        ] {
            assert!(!names.know(host), "{host}");
        }
    }

    #[test]
    fn only_the_origin_of_its_own_pages_is_its_own() {
        assert!(is_own("http://127.0.0.1:9790", "127.0.0.1:9790"));
        assert!(is_own("http://LOCALHOST:9790", "localhost:9790"));
        for origin in
            ["null", "https://127.0.0.1:9790", "http://127.0.0.1", "http://127.0.0.1:9791", "http://evil.example"]
        {
            assert!(!is_own(origin, "127.0.0.1:9790"), "{origin}");
        }
    }

    #[test]
    fn a_token_is_compared_in_full() {
        assert!(are_equal(b"secret", b"secret"));
        assert!(!are_equal(b"secret", b"secreT"));
        assert!(!are_equal(b"secret", b"secre"));
        assert!(!are_equal(b"", b"secret"));
    }
}
