//! Messages over a connection: a length, then JSON. Received messages are limited in size and time.

use nix::poll::{PollFd, PollFlags, PollTimeout};
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Timeout for sending a message, and for receiving one whose transfer has begun.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct MessageChannel {
    stream: TcpStream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Idle,
    Readable,
    Closed,
}

impl MessageChannel {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.stream.write_all(&framed(message)?)
    }

    /// Receives a message of at most `most` bytes.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, most: usize, due: Instant) -> io::Result<T> {
        let mut length = [0; 4];
        self.fill(&mut length, due)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > most {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes is too large")));
        }
        let mut bytes = vec![0; length];
        self.fill(&mut bytes, due)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Fills a buffer before `due`, however slowly the bytes arrive.
    pub(super) fn fill(&mut self, mut buffer: &mut [u8], due: Instant) -> io::Result<()> {
        while !buffer.is_empty() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => buffer = &mut buffer[read..],
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Waits up to `wait` for something to read.
    pub(super) fn poll(&self, wait: Duration) -> Readiness {
        let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        // If a signal interrupts the wait, there is nothing to read yet.
        let _ = nix::poll::poll(&mut [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)], timeout);
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        match SockRef::from(&self.stream).recv_with_flags(&mut [MaybeUninit::uninit()], flags) {
            Ok(0) => Readiness::Closed,
            Ok(_) => Readiness::Readable,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Readiness::Idle,
            Err(_) => Readiness::Closed,
        }
    }
}

fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).map_err(|_| ErrorKind::InvalidData)?;
    Ok([&length.to_be_bytes(), json.as_slice()].concat())
}
