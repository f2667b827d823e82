//! `bench net`: measures the network between two machines.
//!
//! Both ends run the same threads ([`worker_pool`], [`test_stream`]): one per connection, which moves bytes and avoids
//! reading clocks, and one that samples their byte counters ten times a second. The [`server`] carries out the requests
//! of the [`client`] after each has proved to the other that it knows the token.

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

/// Returns the maximum of autotuning in bytes: the third number of net.ipv4.tcp_rmem or tcp_wmem.
fn max_auto_buffer(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}
