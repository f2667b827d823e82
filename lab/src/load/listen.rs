//! A server that is slow to accept, and its callers.

use super::tcp::listener;
use super::{Endless, Pace, ready};
use clap::Args;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::thread;
use std::time::Duration;

/// Accepts connections slowly.
#[derive(Args)]
pub struct Accept {
    /// Where it listens.
    #[arg(long)]
    at: SocketAddrV4,
    /// How many connections may wait to be accepted.
    #[arg(long)]
    backlog: i32,
    /// From one connection to the next.
    #[arg(long)]
    every_ms: u64,
}

impl Accept {
    /// Ends on the first error.
    pub fn run(self) -> Endless {
        let listener = listener(self.at, 0, self.backlog)?;
        let mut pace = Pace::every(Duration::from_millis(self.every_ms));
        ready("")?;
        loop {
            pace.wait();
            drop(listener.accept()?);
        }
    }
}

/// Connects again and again.
#[derive(Args)]
pub struct Connect {
    /// Where to.
    #[arg(long)]
    to: SocketAddrV4,
    /// How many callers at a time.
    #[arg(long)]
    callers: u64,
    /// How long a caller waits before it gives up.
    #[arg(long)]
    patience_ms: u64,
}

impl Connect {
    /// Never ends: a caller that got through, or gave up, calls again.
    pub fn run(self) -> Endless {
        let (to, patience) = (SocketAddr::V4(self.to), Duration::from_millis(self.patience_ms));
        let call = move || -> Endless {
            loop {
                let stream = TcpStream::connect_timeout(&to, patience);
                thread::sleep(Duration::from_millis(20));
                drop(stream);
            }
        };
        for _ in 1..self.callers {
            thread::spawn(call);
        }
        ready("")?;
        call()
    }
}
