//! Path MTU discovery by probing.

use super::udp::{DatagramHeader, LARGEST, receive_one};
use crate::net::socket::{forbid_fragments, is_v6};
use socket2::Socket;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Minimum packet size that every host accepts (RFC 791; IPv6: more).
const LEAST: u32 = 576;
/// Maximum size of an IP packet.
const MOST: u32 = 65_535;
/// Attempts before a size counts as too large.
const TRIES: u32 = 3;

/// Returns the largest unfragmented IP packet that is answered, in bytes; `None` if none is, or if stopped.
pub(in crate::net) fn largest_packet(
    socket: &Socket,
    patience: Duration,
    stop: &mut dyn FnMut() -> bool,
) -> io::Result<Option<u32>> {
    forbid_fragments(socket)?;
    socket.set_read_timeout(Some(patience))?;
    // Headers of UDP (8 bytes) and IP (20 or 40).
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
    fn passes(&mut self, bytes: u32) -> io::Result<bool> {
        for _ in 0..TRIES {
            let mut datagram = vec![0x5a; (bytes as usize).max(DatagramHeader::BYTES)];
            DatagramHeader { number: self.sent, sent: 0 }.put(&mut datagram);
            self.sent += 1;
            match self.socket.send(&datagram) {
                // Larger than the MTU of the first link.
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
                // ICMP error from a router.
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(false),
                answer => drop(answer?),
            }
        }
        Ok(false)
    }
}
