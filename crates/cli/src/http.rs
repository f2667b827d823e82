//! Functions shared by `serve` and `exporter`.

use crate::output::Failure;
use std::net::SocketAddr;
use whyslow_serve::{AccessRules, PageFn, PageServer};

pub use whyslow_serve::host_name;

/// Starts a server for pages.
///
/// # Errors
/// Fails if it cannot listen on the address.
pub fn start(listen: SocketAddr, access: AccessRules, pages: PageFn) -> Result<PageServer, Failure> {
    PageServer::start(listen, access, pages).map_err(|e| Failure::usage(format!("cannot listen on {listen}: {e}")))
}

/// Returns the first line of a file.
pub fn first_line(file: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().next().map(str::to_owned)
}
