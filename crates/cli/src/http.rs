//! What `serve` and `exporter` share: where they listen, host names, tokens, and errors about them.

use crate::output::Failure;
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use whyslow_serve::{AccessRules, HostNames, PageFn, Server};

/// The name of this machine.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Where to listen, and who is answered. Each command has its own words for what they mean there.
#[derive(Debug, Args)]
pub struct ListenOptions {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Another name by which clients may call this machine, besides its host name and addresses
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// File with the token that clients must send
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl ListenOptions {
    /// The token in the file, if there is one.
    ///
    /// # Errors
    /// It cannot be read, or is not one word.
    pub fn token(&self) -> Result<Option<String>, Failure> {
        self.token_file.as_deref().map(read_token).transpose()
    }

    /// The names by which clients may call this machine: its own, and those that are allowed.
    pub fn host_names(&self) -> HostNames {
        self.allow_host.iter().cloned().chain(first_line(HOST_NAME)).collect()
    }
}

/// Listens, and serves pages.
///
/// # Errors
/// The address cannot be listened on.
pub fn start(listen: SocketAddr, access: AccessRules, pages: PageFn) -> Result<Server, Failure> {
    Server::start(listen, access, pages).map_err(|e| Failure::usage(format!("cannot listen on {listen}: {e}")))
}

/// The name of this machine; empty if it cannot be read.
pub fn host_name() -> String {
    first_line(HOST_NAME).unwrap_or_default()
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|e| Failure::usage(format!("cannot read {}: {e}", file.display())))?;
    let token = text.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if is_token {
        Ok(token.to_owned())
    } else {
        Err(Failure::usage(format!("{}: not a token of one word", file.display())))
    }
}

/// The first line of a file.
pub fn first_line(file: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().next().map(str::to_owned)
}
