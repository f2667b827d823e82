//! Over UDP.

use super::super::socket::drops;
use super::{Line, moved};
use crate::load::{Action, Tally, Times};
use socket2::Socket;
use std::io;
use std::mem::MaybeUninit;
use std::thread::sleep;
use std::time::Duration;
use whyslow_model::bench::Datagrams;

/// What a datagram of a load begins with; others are not counted.
const MARK: [u8; 4] = *b"wsld";
/// An answer that takes longer is lost.
const LOST: u64 = 1_000_000_000;
/// A sender that was held up makes up for this much: more at once would be lost in the first queue.
const CATCH_UP: u64 = 5_000_000;
/// Nothing is larger.
pub(super) const LARGEST: usize = 65_536;

/// The head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Its number, counted from 0.
    pub(super) number: u64,
    /// When it was sent, nanoseconds by the sender's clock.
    pub(super) sent: u64,
}

impl Head {
    pub(super) const BYTES: usize = 20;

    pub(super) fn put(self, datagram: &mut [u8]) {
        datagram[..4].copy_from_slice(&MARK);
        datagram[4..12].copy_from_slice(&self.number.to_be_bytes());
        datagram[12..Self::BYTES].copy_from_slice(&self.sent.to_be_bytes());
    }

    fn of(datagram: &[u8]) -> Option<Self> {
        let (mark, rest) = datagram.split_first_chunk::<4>()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        let head = Self { number: u64::from_be_bytes(*number), sent: u64::from_be_bytes(*sent) };
        (*mark == MARK).then_some(head)
    }
}

/// Sends until all is over, at the rate asked for.
pub(super) fn send(line: &Line, counts: &mut Datagrams) -> io::Result<()> {
    let mut datagram = vec![0x5a; (line.load.block as usize).max(Head::BYTES)];
    let gap = line.load.rate.map(|rate| f64::from(line.load.streams) * f64::from(line.load.block) / rate * 1e9);
    let mut due = 0.0;
    while !line.is_over() {
        let now = line.now();
        if let Some(gap) = gap {
            let early = due - now as f64;
            if early > 0.0 {
                sleep(Duration::from_nanos(early as u64));
                continue;
            }
            due = due.max(now.saturating_sub(CATCH_UP) as f64) + gap;
        }
        Head { number: counts.sent, sent: now }.put(&mut datagram);
        match moved(line.socket.send(&datagram)) {
            Ok(None) => continue,
            Ok(Some(sent)) => line.meter.add(sent),
            // The queue of the interface is full: it is lost like any other.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(e) => return Err(e),
        }
        counts.sent += 1;
    }
    Ok(())
}

/// Receives until all is over and nothing comes any more.
pub(super) fn receive(line: &Line, counts: &mut Datagrams) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); LARGEST];
    let mut journey = Journey::default();
    loop {
        match receive_one(&line.socket, &mut buffer)? {
            Some((head, bytes)) => {
                line.meter.add(bytes);
                journey.take(head, line.now(), counts);
            }
            None if line.is_over() => break,
            None => {}
        }
    }
    counts.lost_for_buffer = drops(&line.socket);
    Ok(())
}

/// What is known of the datagrams that have come.
#[derive(Default)]
struct Journey {
    /// The number that comes next where none is lost.
    next: u64,
    /// How long the last was on its way, by two clocks that have nothing to do with each other.
    transit: Option<i128>,
}

impl Journey {
    fn take(&mut self, head: Head, now: u64, counts: &mut Datagrams) {
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

/// Sends a request, waits for its answer or until it is lost, and again.
pub(super) fn ask(line: &Line, tally: &mut Tally, counts: &mut Datagrams) -> io::Result<()> {
    let mut request = vec![0x5a; (line.load.block as usize).max(Head::BYTES)];
    let mut buffer = [MaybeUninit::uninit(); LARGEST];
    let pause = Duration::from_secs_f64(line.load.pause);
    while !line.has_asked_enough() {
        let made = line.now();
        Head { number: counts.sent, sent: made }.put(&mut request);
        line.socket.send(&request)?;
        counts.sent += 1;
        while line.now() < made + LOST {
            match receive_one(&line.socket, &mut buffer)? {
                Some((head, bytes)) if Some(head.number) == counts.sent.checked_sub(1) => {
                    counts.received += 1;
                    tally.add(Action::Read, bytes as u32, Times { due: made, made, done: line.now() });
                    break;
                }
                // The answer to one that was given up.
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

/// Answers until all is over.
pub(super) fn answer(line: &Line) -> io::Result<()> {
    let mut answer = vec![0x5a; (line.load.answer as usize).max(Head::BYTES)];
    let mut buffer = [MaybeUninit::uninit(); LARGEST];
    while !line.is_over() {
        if let Some((head, _)) = receive_one(&line.socket, &mut buffer)? {
            head.put(&mut answer);
            line.socket.send(&answer)?;
        }
    }
    Ok(())
}

/// A datagram of a load: its head and size. None where there was none for a while, or another one.
pub(super) fn receive_one(
    socket: &Socket,
    buffer: &mut [MaybeUninit<u8>; LARGEST],
) -> io::Result<Option<(Head, usize)>> {
    let Some(received) = moved(socket.recv(buffer))? else { return Ok(None) };
    let mut start = [0; Head::BYTES];
    for (to, from) in start.iter_mut().zip(&buffer[..received]) {
        // SAFETY: the kernel has written the first `received` bytes.
        *to = unsafe { from.assume_init() };
    }
    Ok(Head::of(&start[..received.min(Head::BYTES)]).map(|head| (head, received)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(heads: &[(u64, u64, u64)]) -> Datagrams {
        let (mut journey, mut counts) = (Journey::default(), Datagrams::default());
        heads.iter().for_each(|&(number, sent, now)| journey.take(Head { number, sent }, now, &mut counts));
        counts
    }

    #[test]
    fn what_comes_after_a_later_one_is_out_of_order() {
        let counts = taken(&[(0, 0, 5), (2, 2, 7), (1, 1, 8), (3, 3, 9)]);
        assert_eq!((counts.received, counts.out_of_order), (4, 1));
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        // Steady: none. One that takes 16 ms longer: 16/16 ms.
        assert_eq!(taken(&[(0, 0, 1_000), (1, 50, 1_050)]).jitter, 0.0);
        assert_eq!(taken(&[(0, 0, 0), (1, 0, 16_000_000)]).jitter, 1e-3);
    }

    proptest! {
        #[test]
        fn no_datagrams_make_it_panic(heads: Vec<(u64, u64, u64)>, bytes: Vec<u8>) {
            taken(&heads);
            let _ = Head::of(&bytes);
        }
    }
}
