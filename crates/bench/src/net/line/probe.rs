//! The largest packet that passes, found by sending some.

use super::datagrams::{Head, LARGEST, receive_one};
use crate::net::socket::{forbid_fragments, is_v6};
use socket2::Socket;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// What every host takes (RFC 791); IPv6 takes more.
const LEAST: u32 = 576;
/// An IP packet has no room for more.
const MOST: u32 = 65_535;
/// How often a packet is sent before it is taken for one that does not pass.
const TRIES: u32 = 3;

/// Bytes of the largest IP packet that the other end answers, not cut up; none where not even a small one is answered. An
/// answer may take `patience`. Ends early, with nothing, where `stop` says so.
///
/// # Errors
/// Where the socket fails.
pub(in crate::net) fn largest_packet(
    socket: &Socket,
    patience: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> io::Result<Option<u32>> {
    forbid_fragments(socket)?;
    socket.set_read_timeout(Some(patience))?;
    // UDP's header has 8 bytes, IP's 20 or 40.
    let headers = if is_v6(socket) == Some(true) { 48 } else { 28 };
    let mut probe = Probe { socket, patience, sent: 0 };
    if !probe.passes(LEAST - headers)? {
        return Ok(None);
    }
    let (mut passes, mut fails) = (LEAST, MOST + 1);
    while fails - passes > 1 {
        if stop() {
            return Ok(None);
        }
        let middle = passes + (fails - passes) / 2;
        if probe.passes(middle - headers)? { passes = middle } else { fails = middle }
    }
    Ok(Some(passes))
}

struct Probe<'a> {
    socket: &'a Socket,
    patience: Duration,
    sent: u64,
}

impl Probe<'_> {
    /// Whether a datagram of so many bytes is answered.
    fn passes(&mut self, bytes: u32) -> io::Result<bool> {
        for _ in 0..TRIES {
            let mut datagram = vec![0x5a; (bytes as usize).max(Head::BYTES)];
            Head { number: self.sent, sent: 0 }.put(&mut datagram);
            self.sent += 1;
            match self.socket.send(&datagram) {
                // The first link takes no such packet.
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(false),
                sent => sent?,
            };
            if self.is_answered()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_answered(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); LARGEST];
        let due = Instant::now() + self.patience;
        while Instant::now() < due {
            match receive_one(self.socket, &mut buffer) {
                Ok(Some((head, _))) if Some(head.number) == self.sent.checked_sub(1) => return Ok(true),
                // A router that says so reports an error to the socket.
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(false),
                answer => drop(answer?),
            }
        }
        Ok(false)
    }
}
