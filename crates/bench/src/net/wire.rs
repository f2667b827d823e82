//! Messages over a connection: a length, then JSON. What comes in has a limit in size and in time.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::SockRef;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a message may take that is under way, and the writing of one.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection over which messages go.
#[derive(Debug)]
pub(super) struct Channel {
    stream: TcpStream,
}

/// Whether there is something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    Something,
    /// The other end is gone.
    End,
}

impl Channel {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a message.
    ///
    /// # Errors
    /// Where the other end is gone or takes nothing.
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.stream.write_all(&framed(message)?)
    }

    /// Waits for a message of at most so many bytes until `due`.
    ///
    /// # Errors
    /// Where none came in time, it is larger, or is none of this kind.
    pub(super) fn receive<T: DeserializeOwned>(&mut self, most: usize, due: Instant) -> io::Result<T> {
        let mut length = [0; 4];
        self.fill(&mut length, due)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > most {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes")));
        }
        let mut bytes = vec![0; length];
        self.fill(&mut bytes, due)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Fills a buffer, however slowly the bytes come, until `due`.
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

    /// Looks whether there is something to read, waiting no longer than so long.
    pub(super) fn listen(&self, wait: Duration) -> Heard {
        let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
        // Where the wait is cut short by a signal, there is nothing to read yet.
        let _ = poll(&mut [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)], timeout);
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        match SockRef::from(&self.stream).recv_with_flags(&mut [MaybeUninit::uninit()], flags) {
            Ok(0) => Heard::End,
            Ok(_) => Heard::Something,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Heard::Nothing,
            Err(_) => Heard::End,
        }
    }
}

fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).map_err(|_| ErrorKind::InvalidData)?;
    Ok([&length.to_be_bytes(), json.as_slice()].concat())
}
