//! UDP streams.

use super::super::socket::drops;
use super::{TestStream, moved};
use crate::engine::IoOp;
use crate::load::{RequestTimes, RunStats};
use socket2::Socket;
use std::io;
use std::mem::MaybeUninit;
use std::thread::sleep;
use std::time::Duration;
use whyslow_documents::bench::Datagrams;

/// Magic number of a datagram.
const MARK: [u8; 4] = *b"wsld";
/// Time in nanoseconds after which an answer counts as lost.
const LOST: u64 = 1_000_000_000;
/// Maximum time, in nanoseconds, that a delayed sender catches up on: more would overflow the first queue.
const CATCH_UP: u64 = 5_000_000;
pub(super) const LARGEST: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DatagramHeader {
    /// Sequence number, from 0.
    pub(super) number: u64,
    /// Send time, in nanoseconds of the sender's clock.
    pub(super) sent: u64,
}

impl DatagramHeader {
    pub(super) const BYTES: usize = 20;

    pub(super) fn put(self, datagram: &mut [u8]) {
        datagram[..4].copy_from_slice(&MARK);
        datagram[4..12].copy_from_slice(&self.number.to_be_bytes());
        datagram[12..Self::BYTES].copy_from_slice(&self.sent.to_be_bytes());
    }

    fn parse(datagram: &[u8]) -> Option<Self> {
        let (mark, rest) = datagram.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        let head = Self { number: u64::from_be_bytes(*number), sent: u64::from_be_bytes(*sent) };
        (*mark == MARK).then_some(head)
    }
}

/// Sends at the requested rate, or unpaced.
pub(super) fn send(stream: &TestStream, counts: &mut Datagrams) -> io::Result<()> {
    let mut datagram = vec![0x5a; (stream.load.block as usize).max(DatagramHeader::BYTES)];
    let gap = stream.load.rate.map(|rate| f64::from(stream.load.streams) * f64::from(stream.load.block) / rate * 1e9);
    let mut due = 0.0;
    while !stream.is_over() {
        let now = stream.now();
        if let Some(gap) = gap {
            let early = due - now as f64;
            if early > 0.0 {
                sleep(Duration::from_nanos(early as u64));
                continue;
            }
            due = due.max(now.saturating_sub(CATCH_UP) as f64) + gap;
        }
        DatagramHeader { number: counts.sent, sent: now }.put(&mut datagram);
        match moved(stream.socket.send(&datagram)) {
            Ok(None) => continue,
            Ok(Some(sent)) => stream.counter.add(sent),
            // The interface's queue is full: the datagram is lost.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(e) => return Err(e),
        }
        counts.sent += 1;
    }
    Ok(())
}

/// Receives until the round is over and no more datagrams arrive.
pub(super) fn receive(stream: &TestStream, counts: &mut Datagrams) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); LARGEST];
    let mut journey = ReceiveStats::default();
    loop {
        match receive_one(&stream.socket, &mut buffer)? {
            Some((head, bytes)) => {
                stream.counter.add(bytes);
                journey.take(head, stream.now(), counts);
            }
            None if stream.is_over() => break,
            None => {}
        }
    }
    counts.lost_for_buffer = drops(&stream.socket);
    Ok(())
}

#[derive(Default)]
struct ReceiveStats {
    /// Expected next number, if none is lost.
    next: u64,
    /// Transit time of the last datagram, measured with two unrelated clocks.
    transit: Option<i128>,
}

impl ReceiveStats {
    fn take(&mut self, head: DatagramHeader, now: u64, counts: &mut Datagrams) {
        counts.received += 1;
        if head.number < self.next {
            counts.out_of_order += 1;
        }
        self.next = self.next.max(head.number.saturating_add(1));
        let transit = i128::from(now) - i128::from(head.sent);
        if let Some(before) = self.transit.replace(transit) {
            let differs = (transit - before).unsigned_abs() as f64 / 1e9;
            // RFC 3550, 6.4.1.
            counts.jitter += (differs - counts.jitter) / 16.0;
        }
    }
}

/// Sends requests and waits for each answer until it counts as lost.
pub(super) fn ask(stream: &TestStream, stats: &mut RunStats, counts: &mut Datagrams) -> io::Result<()> {
    let mut request = vec![0x5a; (stream.load.block as usize).max(DatagramHeader::BYTES)];
    let mut buffer = [MaybeUninit::uninit(); LARGEST];
    let pause = Duration::from_secs_f64(stream.load.pause);
    while !stream.has_asked_enough() {
        let issued = stream.now();
        DatagramHeader { number: counts.sent, sent: issued }.put(&mut request);
        stream.socket.send(&request)?;
        counts.sent += 1;
        while stream.now() < issued + LOST {
            match receive_one(&stream.socket, &mut buffer)? {
                Some((head, bytes)) if Some(head.number) == counts.sent.checked_sub(1) => {
                    counts.received += 1;
                    stats.add(IoOp::Read, bytes as u32, RequestTimes { due: issued, issued, done: stream.now() });
                    break;
                }
                // A late answer.
                Some(_) => counts.out_of_order += 1,
                None => {}
            }
        }
        if !pause.is_zero() {
            sleep(pause);
        }
    }
    counts.lost = counts.sent - counts.received;
    Ok(())
}

pub(super) fn answer(stream: &TestStream) -> io::Result<()> {
    let mut answer = vec![0x5a; (stream.load.answer as usize).max(DatagramHeader::BYTES)];
    let mut buffer = [MaybeUninit::uninit(); LARGEST];
    while !stream.is_over() {
        if let Some((head, _)) = receive_one(&stream.socket, &mut buffer)? {
            head.put(&mut answer);
            stream.socket.send(&answer)?;
        }
    }
    Ok(())
}

/// Receives a datagram. Returns its header and size; `None` after a timeout or for another datagram.
pub(super) fn receive_one(
    socket: &Socket,
    buffer: &mut [MaybeUninit<u8>; LARGEST],
) -> io::Result<Option<(DatagramHeader, usize)>> {
    let Some(received) = moved(socket.recv(buffer))? else { return Ok(None) };
    let mut start = [0; DatagramHeader::BYTES];
    for (to, from) in start.iter_mut().zip(&buffer[..received]) {
        // SAFETY: the kernel has written the first `received` bytes.
        *to = unsafe { from.assume_init() };
    }
    Ok(DatagramHeader::parse(&start[..received.min(DatagramHeader::BYTES)]).map(|head| (head, received)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(heads: &[(u64, u64, u64)]) -> Datagrams {
        let (mut journey, mut counts) = (ReceiveStats::default(), Datagrams::default());
        heads.iter().for_each(|&(number, sent, now)| journey.take(DatagramHeader { number, sent }, now, &mut counts));
        counts
    }

    #[test]
    fn a_datagram_after_a_later_one_is_out_of_order() {
        let counts = taken(&[(0, 0, 5), (2, 2, 7), (1, 1, 8), (3, 3, 9)]);
        assert_eq!((counts.received, counts.out_of_order), (4, 1));
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        // A steady stream has no jitter; a delay of 16 ms counts by 1/16.
        assert_eq!(taken(&[(0, 0, 1_000), (1, 50, 1_050)]).jitter, 0.0);
        assert_eq!(taken(&[(0, 0, 0), (1, 0, 16_000_000)]).jitter, 1e-3);
    }

    proptest! {
        #[test]
        fn no_datagrams_panic(heads: Vec<(u64, u64, u64)>, bytes: Vec<u8>) {
            taken(&heads);
            let _ = DatagramHeader::parse(&bytes);
        }
    }
}
