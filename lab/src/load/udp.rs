//! Datagrams.

use super::{Endless, Pace, ready};
use clap::Args;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{SocketAddrV4, UdpSocket};
use std::time::Duration;

/// Receives datagrams slowly.
#[derive(Args)]
pub struct UdpSink {
    /// Where it listens.
    #[arg(long)]
    at: SocketAddrV4,
    /// The receive buffer, SO_RCVBUF.
    #[arg(long)]
    buffer: usize,
    /// From one datagram to the next.
    #[arg(long)]
    every_us: u64,
}

impl UdpSink {
    /// Ends on the first error.
    pub fn run(self) -> Endless {
        let socket = UdpSocket::bind(self.at)?;
        setsockopt(&socket, sockopt::RcvBuf, &self.buffer)?;
        let (mut pace, mut buffer) = (Pace::every(Duration::from_micros(self.every_us)), [0; 2048]);
        ready("")?;
        loop {
            pace.wait();
            socket.recv(&mut buffer)?;
        }
    }
}

/// Sends datagrams.
#[derive(Args)]
pub struct UdpSource {
    /// Where to.
    #[arg(long)]
    to: SocketAddrV4,
    /// Bytes a datagram.
    #[arg(long)]
    size: usize,
    /// Datagrams a second.
    #[arg(long)]
    rate: u64,
}

impl UdpSource {
    /// Ends on the first error.
    pub fn run(self) -> Endless {
        // Sent by tens: a sleep for each would cost more than the datagram.
        const BURST: u64 = 10;
        let (socket, datagram) = (UdpSocket::bind("0.0.0.0:0")?, vec![0; self.size]);
        let mut pace = Pace::rate(self.rate, BURST);
        ready("")?;
        loop {
            pace.wait();
            for _ in 0..BURST {
                socket.send_to(&datagram, self.to)?;
            }
        }
    }
}
