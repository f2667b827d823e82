//! UDP datagrams.

use super::cpu::compute;
use super::{Endless, Pacer, ready};
use clap::Args;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{SocketAddrV4, UdpSocket};
use std::time::Duration;

/// Receives datagrams slowly
#[derive(Args)]
pub struct UdpSink {
    /// Address to listen on
    #[arg(long)]
    at: SocketAddrV4,
    /// SO_RCVBUF
    #[arg(long)]
    buffer: usize,
    /// Time between two datagrams
    #[arg(long, default_value_t = 0)]
    every_us: u64,
    /// CPU time for each datagram
    #[arg(long, default_value_t = 0)]
    work_us: u64,
}

impl UdpSink {
    pub fn run(self) -> Endless {
        let socket = UdpSocket::bind(self.at)?;
        setsockopt(&socket, sockopt::RcvBuf, &self.buffer)?;
        let (mut pacer, mut buffer) = (Pacer::every(Duration::from_micros(self.every_us)), [0; 2048]);
        ready("")?;
        loop {
            pacer.wait();
            socket.recv(&mut buffer)?;
            compute(Duration::from_micros(self.work_us));
        }
    }
}

/// Sends datagrams
#[derive(Args)]
pub struct UdpSource {
    /// Destination
    #[arg(long)]
    to: SocketAddrV4,
    /// Bytes per datagram
    #[arg(long)]
    size: usize,
    /// Datagrams per second; 0 for as many as possible
    #[arg(long)]
    rate: u64,
}

impl UdpSource {
    pub fn run(self) -> Endless {
        // Sent in bursts of ten: a sleep per datagram would cost more than the datagram.
        const BURST: u64 = 10;
        let (socket, datagram) = (UdpSocket::bind("0.0.0.0:0")?, vec![0; self.size]);
        let mut pacer = Pacer::rate(self.rate, BURST);
        ready("")?;
        loop {
            pacer.wait();
            for _ in 0..BURST {
                socket.send_to(&datagram, self.to)?;
            }
        }
    }
}
