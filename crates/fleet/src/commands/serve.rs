//! `whyslow-fleet serve`: serves a read-only page about a fleet.

mod api;
mod cache;
mod charts;
mod heat;
mod host_page;
mod keys;

#[cfg(test)]
pub(super) use api::documents;

use crate::failure::complain;
use crate::options::QueryOptions;
use crate::{Failure, Span};
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use whyslow_command::print;
use whyslow_serve::{ListenOptions, PageServer, unencrypted};

/// Default listen address.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9791);

/// Where to listen, and who is answered.
#[derive(Debug, Args)]
#[command(
    mut_arg("listen", |arg| arg.help("Address to listen on; only this machine can reach the default [default: 127.0.0.1:9791]")),
    mut_arg("allow_host", |arg| arg.help("Another name by which browsers may call this machine, besides its host name and addresses")),
    mut_arg("token_file", |arg| arg.help("File with the token that the address of the page ends in [default: a new one each time]"))
)]
pub struct FleetServeArgs {
    #[command(flatten)]
    store: QueryOptions,
    #[command(flatten)]
    listening: ListenOptions,
}

/// Serves the page until SIGTERM or Ctrl-C.
///
/// # Errors
/// Fails if the store cannot be opened or the server cannot listen on the address.
pub fn run(args: &FleetServeArgs) -> Result<ExitCode, Failure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|e| Failure::usage(format!("cannot handle signals: {e}")))?;
    let token = args.listening.page_token().map_err(Failure::usage)?;
    // Each question has a span of its own.
    let fleet = args.store.open_span(Span { from_ms: 0, to_ms: 0 })?;
    let listen = args.listening.listen.unwrap_or(LISTEN);
    let access = token.access(args.listening.host_names());
    let server = PageServer::start(listen, access, api::pages(fleet))
        .map_err(|e| Failure::usage(format!("cannot listen on {listen}: {e}")))?;
    if let Some(warning) = unencrypted(server.address()) {
        complain(warning);
    }
    complain("serving the fleet (Ctrl-C: end)");
    print(format!("{}\n", token.address(server.address())))?;
    signals.forever().next();
    drop(server);
    Ok(ExitCode::SUCCESS)
}
