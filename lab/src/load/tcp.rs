//! TCP streams.

use super::{Endless, Pace, ready};
use clap::Args;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket, sockopt,
};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
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

fn send(mut stream: TcpStream, rate: u64) -> Endless {
    let chunk = vec![7; 64 << 10];
    let mut pace = Pace::rate(rate, chunk.len() as u64);
    loop {
        pace.wait();
        stream.write_all(&chunk)?;
    }
}
