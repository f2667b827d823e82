//! What `serve` and `exporter` share: host names, tokens, and errors about them.

use crate::output::Failure;
use std::net::SocketAddr;
use std::path::Path;
use whyslow_serve::{AccessRules, HostNames, PageFn, Server};

/// The name of this machine.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Listens, and serves pages.
///
/// # Errors
/// The address cannot be listened on.
pub fn start(listen: SocketAddr, access: AccessRules, pages: PageFn) -> Result<Server, Failure> {
    Server::start(listen, access, pages).map_err(|e| Failure::usage(format!("cannot listen on {listen}: {e}")))
}

/// The names by which clients may call this machine: its own, and those that are allowed.
pub fn host_names(allowed: &[String]) -> HostNames {
    allowed.iter().cloned().chain(first_line(HOST_NAME)).collect()
}

/// The name of this machine; empty if it cannot be read.
pub fn host_name() -> String {
    first_line(HOST_NAME).unwrap_or_default()
}

/// The token in a file.
///
/// # Errors
/// It cannot be read, or is not one word.
pub fn read_token(file: &Path) -> Result<String, Failure> {
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
