//! Options for listening: addresses, names, and the token.

use clap::Args;
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::{AccessRules, HostNames};

/// File with the name of this machine.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// Length of a generated token, bytes.
const TOKEN_BYTES: usize = 24;
/// Placeholder for the secret in an address that is printed without it.
const IN_FILE: &str = "TOKEN_OF_THE_FILE";

/// Where to listen, and who is answered. Each command has its own words for what they mean there.
#[derive(Clone, Debug, Default, Args)]
pub struct ListenOptions {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Another name by which clients may call this machine, besides its host name and addresses
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// File with the token that clients must send
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl ListenOptions {
    /// Reads the token in the file, if one is given.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or does not contain a single word.
    pub fn token(&self) -> Result<Option<String>, String> {
        self.token_file.as_deref().map(read_token).transpose()
    }

    /// Returns the token of a page that a person opens: the one in the file, or else a new one.
    ///
    /// # Errors
    /// Fails like [`token`](Self::token), or if the system has no random numbers.
    pub fn page_token(&self) -> Result<PageToken, String> {
        Ok(match self.token()? {
            Some(secret) => PageToken { secret, is_new: false },
            None => PageToken { secret: new_token()?, is_new: true },
        })
    }

    /// Returns the names that clients may use for this machine: its own, and the allowed ones.
    pub fn host_names(&self) -> HostNames {
        let own = Some(host_name()).filter(|name| !name.is_empty());
        self.allow_host.iter().cloned().chain(own).collect()
    }
}

/// The secret in the address of a page; a client that has it may read the page.
#[derive(Clone, Debug)]
pub struct PageToken {
    secret: String,
    is_new: bool,
}

impl PageToken {
    /// Returns the rules for serving a page with this token.
    pub fn access(&self, names: HostNames) -> AccessRules {
        AccessRules { names, token: Some(self.secret.clone()), takes_token_from_address: true }
    }

    /// Returns the address of the page for printing. The output may end up in a log, so it contains the token only if that was
    /// generated: a token in a file need not be printed.
    pub fn address(&self, listening: SocketAddr) -> String {
        let reached = if listening.ip().is_unspecified() {
            format!("{}:{}", host_name(), listening.port())
        } else {
            listening.to_string()
        };
        let token = if self.is_new { &*self.secret } else { IN_FILE };
        format!("http://{reached}/?token={token}")
    }
}

/// Returns a warning for an address that other machines can reach.
pub fn unencrypted(listening: SocketAddr) -> Option<&'static str> {
    let said = "the connection is not encrypted: anyone who can listen in can read everything, including the token";
    (!listening.ip().is_loopback()).then_some(said)
}

/// Returns the name of this machine; empty if it cannot be read.
pub fn host_name() -> String {
    let text = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Generates a random token in hexadecimal digits.
fn new_token() -> Result<String, String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(|e| format!("cannot generate a token: {e}"))?;
    Ok(bytes.iter().fold(String::new(), |mut token, byte| {
        write!(token, "{byte:02x}").expect("a String takes all");
        token
    }))
}

fn read_token(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    let token = text.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if is_token { Ok(token.to_owned()) } else { Err(format!("{}: not a token of one word", file.display())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_never_the_same() {
        let tokens = [new_token().unwrap(), new_token().unwrap()];
        assert_ne!(tokens[0], tokens[1]);
        for token in tokens {
            assert_eq!(token.len(), 48, "192 bits");
            assert!(token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{token}");
        }
    }

    #[test]
    fn only_a_new_token_is_printed() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9790));
        let token = |is_new| PageToken { secret: "s3cret".into(), is_new };
        assert_eq!(token(true).address(address), "http://127.0.0.1:9790/?token=s3cret");
        assert_eq!(token(false).address(address), "http://127.0.0.1:9790/?token=TOKEN_OF_THE_FILE");
        assert!(unencrypted(address).is_none() && unencrypted(SocketAddr::from(([0, 0, 0, 0], 1))).is_some());
    }
}
