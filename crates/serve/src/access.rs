//! Who is answered.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST};
use std::net::IpAddr;

/// By which names the server may be called, and what a client must know.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    /// Names that the `Host` header may have, besides addresses and `localhost`.
    pub names: HostNames,
    /// What follows `Bearer` in the `Authorization` header, if that is needed.
    pub token: Option<String>,
}

/// Names of this server, in any case.
#[derive(Clone, Debug, Default)]
pub struct HostNames(Vec<String>);

impl<S: Into<String>> FromIterator<S> for HostNames {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Token,
}

impl AccessRules {
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        if hosts.next().is_some() || !host.is_some_and(|host| self.names.know(host)) {
            return Err(Refusal::Host);
        }
        let Some(token) = &self.token else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer "));
        if given.is_some_and(|given| are_equal(given.as_bytes(), token.as_bytes())) {
            Ok(())
        } else {
            Err(Refusal::Token)
        }
    }
}

impl HostNames {
    /// Whether a `Host` header names this server. An address cannot be rebound, so any address does.
    fn know(&self, host: &str) -> bool {
        let name = without_port(host);
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_name = |known: &str| known.eq_ignore_ascii_case(name);
        address.parse::<IpAddr>().is_ok() || is_name("localhost") || self.0.iter().any(|known| is_name(known))
    }
}

/// `name:80` or `[::1]:80` without the port.
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

/// Takes as long for any two texts of the same length.
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
    fn a_token_is_compared_in_full() {
        assert!(are_equal(b"secret", b"secret"));
        assert!(!are_equal(b"secret", b"secreT"));
        assert!(!are_equal(b"secret", b"secre"));
        assert!(!are_equal(b"", b"secret"));
    }
}
