//! One thread's part in a load: it sends, receives, asks or answers over one connection.

mod datagrams;
mod low_water;
mod probe;
mod stream;

pub(super) use probe::largest_packet;

use crate::load::{Span, Tally};
use crate::round::{Reading, Usage};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use whyslow_model::bench::{Datagrams, Direction, NetLoad, Transport, Work};

/// Which end of a load this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// What a line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Send,
    Receive,
    Ask,
    Answer,
}

impl Role {
    pub(super) fn of(work: Work, side: Side) -> Self {
        match (work, side) {
            (Work::Stream(Direction::Up), Side::Client) | (Work::Stream(Direction::Down), Side::Server) => Self::Send,
            (Work::Stream(_), _) => Self::Receive,
            (Work::Exchange, Side::Client) => Self::Ask,
            (Work::Exchange, Side::Server) => Self::Answer,
        }
    }
}

/// What has moved over a line so far: read by another thread, so that the one that works asks for the time only where it
/// has to. On a cache line of its own: 128 bytes, as processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Meter {
    bytes: AtomicU64,
}

impl Meter {
    fn add(&self, bytes: usize) {
        // One thread writes: no need to lock the bus.
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A line and what is done over it.
pub(super) struct Line {
    pub(super) socket: Arc<Socket>,
    pub(super) load: Arc<NetLoad>,
    pub(super) role: Role,
    pub(super) meter: Arc<Meter>,
    /// Raised when nothing more is to be sent.
    pub(super) over: Arc<AtomicBool>,
    pub(super) epoch: Instant,
}

/// What others hold of a line while it works: to look at it, and to end it.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) role: Role,
    pub(super) socket: Arc<Socket>,
    pub(super) meter: Arc<Meter>,
}

/// What came of it.
pub(super) struct Deed {
    /// Answers, at the end that asks.
    pub(super) tally: Option<Tally>,
    pub(super) datagrams: Option<Datagrams>,
    pub(super) usage: Usage,
    /// When it ended, and why where that was not its own doing.
    pub(super) ended: (Instant, Option<String>),
}

/// What a line has to tell besides its meter.
#[derive(Default)]
struct Counts {
    tally: Option<Tally>,
    datagrams: Option<Datagrams>,
}

impl Line {
    pub(super) fn handle(&self) -> Handle {
        Handle { role: self.role, socket: self.socket.clone(), meter: self.meter.clone() }
    }

    /// Works until all is over, or the other end is gone.
    pub(super) fn work(self) -> Deed {
        // See `round::thread`: the kernel may wake a sleeper late to save power.
        let _ = nix::sys::prctl::set_timerslack(1);
        let before = Reading::take();
        let mut counts = Counts::default();
        let worked = match (self.load.transport, self.role) {
            (Transport::Tcp, Role::Send) => stream::send(&self),
            (Transport::Tcp, Role::Receive) => stream::receive(&self),
            (Transport::Tcp, Role::Ask) => stream::ask(&self, counts.tally.insert(self.tally())),
            (Transport::Tcp, Role::Answer) => stream::answer(&self),
            (Transport::Udp, Role::Send) => datagrams::send(&self, counts.datagrams.insert(Datagrams::default())),
            (Transport::Udp, Role::Receive) => datagrams::receive(&self, counts.datagrams.insert(Datagrams::default())),
            (Transport::Udp, Role::Ask) => {
                let tally = counts.tally.insert(self.tally());
                datagrams::ask(&self, tally, counts.datagrams.insert(Datagrams::default()))
            }
            (Transport::Udp, Role::Answer) => datagrams::answer(&self),
        };
        let ended = (Instant::now(), worked.err().map(|e| e.to_string()));
        Deed { tally: counts.tally, datagrams: counts.datagrams, usage: before.since(), ended }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn tally(&self) -> Tally {
        Tally::new(self.span())
    }

    /// The time measured, nanoseconds after the epoch.
    fn span(&self) -> Span {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let begin = ns(self.load.ramp_seconds);
        Span { begin, end: begin + ns(self.load.seconds) }
    }

    fn now(&self) -> u64 {
        crate::load::since(self.epoch)
    }

    /// Whether there is nothing more to ask: the time is up, or all is over.
    fn has_asked_enough(&self) -> bool {
        self.is_over() || self.now() >= self.span().end
    }
}

/// What a call moved; nothing where a signal came in between, or a time-out.
fn moved(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(moved) => Ok(Some(moved)),
        Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The other end has closed.
fn gone() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the other end closed the connection")
}
