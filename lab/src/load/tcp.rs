//! Loads with TCP streams.

use super::{Endless, Pacer, ready, sleep_forever};
use clap::Args;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket, sockopt,
};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

/// Receives TCP streams, each in its own thread, as fast as they arrive
#[derive(Args)]
pub struct Sink {
    /// Address to listen on
    #[arg(long)]
    at: SocketAddrV4,
    /// SO_RCVBUF; 0 leaves it to the kernel
    #[arg(long, default_value_t = 0)]
    buffer: usize,
}

impl Sink {
    pub fn run(self) -> Endless {
        let listener = listener(self.at, self.buffer, 128)?;
        ready("")?;
        loop {
            let (mut stream, _) = listener.accept()?;
            thread::spawn(move || {
                let mut buffer = vec![0; 256 << 10];
                while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
            });
        }
    }
}

/// Returns a listening socket. Its buffer must be set before it listens, because the window scale is negotiated in the
/// handshake.
pub fn listener(at: SocketAddrV4, buffer: usize, backlog: i32) -> io::Result<TcpListener> {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    if buffer > 0 {
        setsockopt(&fd, sockopt::RcvBuf, &buffer)?;
    }
    bind(fd.as_raw_fd(), &SockaddrIn::from(at))?;
    listen(&fd, Backlog::new(backlog)?)?;
    Ok(fd.into())
}

/// Sends TCP streams
#[derive(Args)]
pub struct Source {
    /// Address to connect to
    #[arg(long)]
    to: SocketAddrV4,
    /// Number of streams
    #[arg(long, default_value_t = 1)]
    streams: u64,
    /// Bytes per second of each stream; 0 for as many as possible
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Congestion control [default: the system's]
    #[arg(long)]
    congestion: Option<OsString>,
    /// SO_SNDBUF; 0 leaves it to the kernel
    #[arg(long, default_value_t = 0)]
    buffer: usize,
}

impl Source {
    pub fn run(self) -> Endless {
        let mut streams = (0..self.streams).map(|_| self.connect()).collect::<io::Result<Vec<_>>>()?;
        ready("")?;
        let last = streams.pop().ok_or(io::ErrorKind::InvalidInput)?;
        for stream in streams {
            thread::spawn(move || send(stream, self.rate));
        }
        send(last, self.rate)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(self.to)?;
        if let Some(name) = &self.congestion {
            setsockopt(&stream, sockopt::TcpCongestion, name)?;
        }
        if self.buffer > 0 {
            setsockopt(&stream, sockopt::SndBuf, &self.buffer)?;
        }
        Ok(stream)
    }
}

/// Opens one short connection after another
#[derive(Args)]
pub struct ShortConns {
    /// Address to connect to
    #[arg(long)]
    to: SocketAddrV4,
    /// Bytes sent over each connection
    #[arg(long)]
    bytes: usize,
    /// Connections at a time
    #[arg(long, default_value_t = 1)]
    clients: u64,
    /// Attempts to connect per second of each client; 0 for as many as possible
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Time after which a client gives a connection up; 0 for never
    #[arg(long, default_value_t = 0)]
    timeout_ms: u64,
}

impl ShortConns {
    pub fn run(self) -> Endless {
        ready("")?;
        thread::scope(|scope| {
            for _ in 1..self.clients {
                scope.spawn(|| self.connect_repeatedly());
            }
            self.connect_repeatedly()
        })
    }

    /// Sends, shuts down, and waits until the other end has closed: only then has everything arrived.
    fn connect_repeatedly(&self) -> Endless {
        let request = vec![7; self.bytes];
        let timeout = (self.timeout_ms > 0).then(|| Duration::from_millis(self.timeout_ms));
        let mut pacer = Pacer::rate(self.rate, 1);
        loop {
            pacer.wait();
            let mut stream = match TcpStream::connect(self.to) {
                // No local port is left.
                Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable => continue,
                outcome => outcome?,
            };
            stream.set_read_timeout(timeout)?;
            stream.write_all(&request)?;
            stream.shutdown(Shutdown::Write)?;
            match stream.read_to_end(&mut Vec::new()) {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
        }
    }
}

/// Opens connections, keeps them, and tries to open more
#[derive(Args)]
pub struct HoldConns {
    /// Address to connect to
    #[arg(long)]
    to: SocketAddrV4,
    /// Connections to open; beyond those that it can, it keeps trying
    #[arg(long)]
    connections: usize,
    /// Time between two attempts once one has failed
    #[arg(long, default_value_t = 20)]
    every_ms: u64,
}

impl HoldConns {
    /// Runs the load. Ready when all connections are open or no more are possible.
    pub fn run(self) -> Endless {
        let mut held = Vec::new();
        while held.len() < self.connections
            && let Ok(stream) = TcpStream::connect(self.to)
        {
            held.push(stream);
        }
        ready("")?;
        let mut pacer = Pacer::every(Duration::from_millis(self.every_ms));
        while held.len() < self.connections {
            pacer.wait();
            held.extend(TcpStream::connect(self.to));
        }
        sleep_forever()
    }
}

fn send(mut stream: TcpStream, rate: u64) -> Endless {
    let chunk = vec![7; 64 << 10];
    let mut pacer = Pacer::rate(rate, chunk.len() as u64);
    loop {
        pacer.wait();
        stream.write_all(&chunk)?;
    }
}
