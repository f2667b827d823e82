//! TCP streams.

use super::{Endless, Pacer, ready};
use clap::Args;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket, sockopt,
};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

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

/// A listening socket. Its buffer must be set before it listens, because the window scale is negotiated in the handshake.
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
}

impl ShortConns {
    pub fn run(self) -> Endless {
        let (to, bytes) = (self.to, self.bytes);
        ready("")?;
        for _ in 1..self.clients {
            thread::spawn(move || connect_repeatedly(to, bytes));
        }
        connect_repeatedly(to, bytes)
    }
}

/// Sends, shuts down, and waits until the other end has closed: only then has everything arrived.
fn connect_repeatedly(to: SocketAddrV4, bytes: usize) -> Endless {
    let request = vec![7; bytes];
    loop {
        let mut stream = TcpStream::connect(to)?;
        stream.write_all(&request)?;
        stream.shutdown(Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new())?;
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
