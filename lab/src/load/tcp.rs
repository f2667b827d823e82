//! TCP streams.

use super::{Endless, Pace, ready};
use clap::Args;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket, sockopt,
};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

/// Receives TCP streams, each in a thread, as fast as they come.
#[derive(Args)]
pub struct Sink {
    /// Where it listens.
    #[arg(long)]
    at: SocketAddrV4,
    /// The receive buffer, SO_RCVBUF; 0 leaves it to the kernel.
    #[arg(long, default_value_t = 0)]
    buffer: usize,
}

impl Sink {
    /// Ends on the first error of the listening socket.
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

/// A listening socket. Its buffer must be set before it listens, for the window scale is agreed on at the handshake.
///
/// # Errors
/// The system's own.
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

/// Sends TCP streams.
#[derive(Args)]
pub struct Source {
    /// Where to.
    #[arg(long)]
    to: SocketAddrV4,
    /// How many.
    #[arg(long, default_value_t = 1)]
    streams: u64,
    /// Bytes a second of each; 0 for as many as possible.
    #[arg(long, default_value_t = 0)]
    rate: u64,
    /// Congestion control; the system's own where it is not given.
    #[arg(long)]
    congestion: Option<OsString>,
}

impl Source {
    /// Ends on the first error.
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

/// Makes one short connection after the other.
#[derive(Args)]
pub struct Visits {
    /// Where to.
    #[arg(long)]
    to: SocketAddrV4,
    /// Bytes sent over each.
    #[arg(long)]
    bytes: usize,
    /// How many at a time.
    #[arg(long, default_value_t = 1)]
    visitors: u64,
}

impl Visits {
    /// Ends on the first error.
    pub fn run(self) -> Endless {
        let (to, bytes) = (self.to, self.bytes);
        ready("")?;
        for _ in 1..self.visitors {
            thread::spawn(move || visit(to, bytes));
        }
        visit(to, bytes)
    }
}

/// Sends, says that it is done, and waits until the other end has closed: only then has all arrived.
fn visit(to: SocketAddrV4, bytes: usize) -> Endless {
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
    let mut pace = Pace::rate(rate, chunk.len() as u64);
    loop {
        pace.wait();
        stream.write_all(&chunk)?;
    }
}
