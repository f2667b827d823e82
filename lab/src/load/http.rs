//! HTTP clients.

use super::{Endless, Pacer, ready};
use clap::Args;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddrV4, TcpStream};
use std::thread;

/// Requests `/` at a steady rate, each client over one connection
#[derive(Args)]
pub struct HttpGet {
    /// Address of the server
    #[arg(long)]
    to: SocketAddrV4,
    /// Number of clients
    #[arg(long)]
    clients: u64,
    /// Requests per second of each client
    #[arg(long)]
    rate: u64,
}

impl HttpGet {
    pub fn run(self) -> Endless {
        let (to, rate) = (self.to, self.rate);
        for _ in 1..self.clients {
            thread::spawn(move || request(to, rate));
        }
        ready("")?;
        request(to, rate)
    }
}

/// Sends requests at a rate. Reconnects whenever the server closes the connection.
fn request(to: SocketAddrV4, rate: u64) -> Endless {
    let (mut pacer, mut answer) = (Pacer::rate(rate, 1), vec![0; 64 << 10]);
    loop {
        let mut server = TcpStream::connect(to)?;
        loop {
            pacer.wait();
            let sent = server.write_all(b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n");
            // The answer is small and arrives in one piece.
            if sent.is_err() || server.read(&mut answer).is_ok_and(|bytes| bytes == 0) {
                break;
            }
        }
    }
}
