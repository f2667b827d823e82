//! A server that is slow to accept, and its clients.

use super::cpu::compute;
use super::tcp::listener;
use super::{Endless, Pacer, ready};
use clap::Args;
use nix::sys::resource::{Resource, setrlimit};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::thread;
use std::time::Duration;

/// Accepts connections slowly
#[derive(Args)]
pub struct Accept {
    /// Address to listen on
    #[arg(long)]
    at: SocketAddrV4,
    /// Length of the accept queue
    #[arg(long)]
    backlog: i32,
    /// Time between two connections
    #[arg(long, default_value_t = 0)]
    every_ms: u64,
    /// CPU time for each connection
    #[arg(long, default_value_t = 0)]
    work_us: u64,
    /// Keeps connections open, and may have this many files open
    #[arg(long)]
    hold: Option<u64>,
}

impl Accept {
    pub fn run(self) -> Endless {
        let listener = listener(self.at, 0, self.backlog)?;
        let mut pacer = Pacer::every(Duration::from_millis(self.every_ms));
        if let Some(limit) = self.hold {
            setrlimit(Resource::RLIMIT_NOFILE, limit, limit)?;
        }
        let mut held = Vec::new();
        ready("")?;
        loop {
            pacer.wait();
            match listener.accept() {
                Ok((client, _)) if self.hold.is_some() => held.push(client),
                Ok(_) => compute(Duration::from_micros(self.work_us)),
                // Like a server that continues with the connections it has.
                Err(e) if e.raw_os_error() == Some(libc::EMFILE) => thread::sleep(Duration::from_millis(10)),
                Err(e) => return Err(e),
            }
        }
    }
}

/// Keeps connecting
#[derive(Args)]
pub struct Connect {
    /// Address to connect to
    #[arg(long)]
    to: SocketAddrV4,
    /// Number of clients
    #[arg(long)]
    clients: u64,
    /// Connection timeout
    #[arg(long)]
    timeout_ms: u64,
}

impl Connect {
    /// Runs the clients. A client that has connected or timed out connects again.
    pub fn run(self) -> Endless {
        let (to, timeout) = (SocketAddr::V4(self.to), Duration::from_millis(self.timeout_ms));
        let client = move || -> Endless {
            loop {
                let stream = TcpStream::connect_timeout(&to, timeout);
                thread::sleep(Duration::from_millis(20));
                drop(stream);
            }
        };
        for _ in 1..self.clients {
            thread::spawn(client);
        }
        ready("")?;
        client()
    }
}
