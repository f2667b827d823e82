//! `bench net`: what the network between two machines can do.
//!
//! Both ends run the same threads ([`worker_pool`], [`test_stream`]): one per connection, which moves bytes and reads no clock
//! where it can avoid it, and one that samples their byte counters ten times a second. The [`server`] does what the [`client`]
//! asks for, after each has proved to the other that it knows the token.

mod client;
mod handshake;
mod message;
mod message_channel;
mod server;
mod socket;
mod stream_monitor;
mod test_stream;
mod token;
mod worker_pool;

pub use client::{NetOptions, NetPart, ServerKind, measure, stop_server};
pub use server::{PORT, ServerOptions, serve};
pub use token::Token;

const PROGRAM: &str = concat!("whyslow ", env!("CARGO_PKG_VERSION"));

/// The maximum of autotuning, bytes: the third number of net.ipv4.tcp_rmem or tcp_wmem.
fn max_auto_buffer(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}
