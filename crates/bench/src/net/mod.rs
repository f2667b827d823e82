//! `bench net`: what the network between two machines can do.
//!
//! Both ends run the same threads ([`crew`], [`line`]): one for each connection, which moves bytes and never asks for the time
//! where it need not, and one that looks at their meters ten times a second. The [`server`] does what the [`client`] asks for,
//! after each has shown that it knows the same token.

mod client;
mod crew;
mod door;
mod line;
mod message;
mod server;
mod socket;
mod token;
mod watch;
mod wire;

pub use client::{Ask, Server, Theme, end_server, measure};
pub use server::{PORT, Serve, serve};
pub use token::Token;

/// What answers.
const PROGRAM: &str = concat!("whyslow ", env!("CARGO_PKG_VERSION"));

/// The most a socket's buffer grows to by itself: the third number of net.ipv4.tcp_rmem or tcp_wmem, bytes.
fn most_buffer(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}
