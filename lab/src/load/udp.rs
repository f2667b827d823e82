//! Loads with UDP datagrams.

use super::cpu::compute;
use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
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
    /// Datagrams sent at once: a sleep for each would cost more than the datagram
    #[arg(long, default_value_t = 10)]
    burst: u64,
    /// Sends each burst from another address: this one, those after it, and so on
    #[arg(long)]
    from: Option<Ipv4Addr>,
}

impl UdpSource {
    pub fn run(self) -> Endless {
        let datagram = vec![0; self.size];
        let mut socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_broadcast(true)?;
        let mut from = self.from.map(u32::from);
        let mut pacer = Pacer::rate(self.rate, self.burst);
        ready("")?;
        loop {
            pacer.wait();
            if let Some(address) = &mut from {
                socket = UdpSocket::bind((Ipv4Addr::from(*address), 0))?;
                *address += 1;
            }
            for _ in 0..self.burst {
                socket.send_to(&datagram, self.to)?;
            }
        }
    }
}

/// Sends one datagram to each of many ports and addresses, then goes on slowly with others
#[derive(Args)]
pub struct UdpFlows {
    /// First address; the others follow it
    #[arg(long)]
    to: Ipv4Addr,
    /// Flows that are opened at once
    #[arg(long)]
    flows: u64,
    /// Flows per second that are opened after that
    #[arg(long)]
    rate: u64,
}

impl UdpFlows {
    /// Runs the load. Ready when the first flows are open.
    pub fn run(self) -> Endless {
        const PORTS: u64 = 60_000;
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let mut pacer = Pacer::rate(self.rate, 1);
        for flow in 0.. {
            if flow == self.flows {
                ready("")?;
            }
            if flow >= self.flows {
                pacer.wait();
            }
            let address = Ipv4Addr::from(u32::from(self.to) + (flow / PORTS) as u32);
            // A packet that is dropped for lack of an entry is an error (EPERM).
            drop(socket.send_to(&[7], (address, (1024 + flow % PORTS) as u16)));
        }
        sleep_forever()
    }
}
