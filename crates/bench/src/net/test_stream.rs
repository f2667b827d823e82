//! One thread's part in a load: sends, receives, requests or answers over one connection.

mod low_water;
mod path_mtu;
mod tcp;
mod udp;

pub(super) use path_mtu::largest_packet;

use crate::load::{MeasuredSpan, RunStats};
use crate::round::{ThreadUsage, UsageSnapshot};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use whyslow_documents::bench::{Datagrams, Direction, NetLoad, Transport, Work};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamSide {
    Client,
    Server,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamRole {
    Send,
    Receive,
    Ask,
    Answer,
}

impl StreamRole {
    pub(super) fn new(work: Work, side: StreamSide) -> Self {
        match (work, side) {
            (Work::Stream(Direction::Up), StreamSide::Client) | (Work::Stream(Direction::Down), StreamSide::Server) => {
                Self::Send
            }
            (Work::Stream(_), _) => Self::Receive,
            (Work::Exchange, StreamSide::Client) => Self::Ask,
            (Work::Exchange, StreamSide::Server) => Self::Answer,
        }
    }
}

/// Bytes moved so far, read by the sampling thread. Has its own cache lines: CPUs prefetch them in pairs of 64 bytes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ByteCounter {
    bytes: AtomicU64,
}

impl ByteCounter {
    fn add(&self, bytes: usize) {
        // Only one thread writes, so no atomic addition is needed.
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

pub(super) struct TestStream {
    pub(super) socket: Arc<Socket>,
    pub(super) load: Arc<NetLoad>,
    pub(super) role: StreamRole,
    pub(super) counter: Arc<ByteCounter>,
    /// Set when nothing more needs to be sent.
    pub(super) over: Arc<AtomicBool>,
    pub(super) epoch: Instant,
}

/// Handle for other threads to sample a stream and to close it.
#[derive(Clone)]
pub(super) struct StreamHandle {
    pub(super) role: StreamRole,
    pub(super) socket: Arc<Socket>,
    pub(super) counter: Arc<ByteCounter>,
}

pub(super) struct WorkerResult {
    /// Statistics of answers, at the requesting end.
    pub(super) stats: Option<RunStats>,
    pub(super) datagrams: Option<Datagrams>,
    pub(super) usage: ThreadUsage,
    /// Time of the end, and the error that caused it, if any.
    pub(super) ended: (Instant, Option<String>),
}

impl TestStream {
    pub(super) fn handle(&self) -> StreamHandle {
        StreamHandle { role: self.role, socket: self.socket.clone(), counter: self.counter.clone() }
    }

    /// Runs until the round is over or the other end is gone.
    pub(super) fn run(self) -> WorkerResult {
        // By default the kernel may wake a sleeping thread 50 µs late (prctl(2), PR_SET_TIMERSLACK).
        let _ = nix::sys::prctl::set_timerslack(1);
        let before = UsageSnapshot::take();
        let mut stats = (self.role == StreamRole::Ask).then(|| RunStats::new(self.span()));
        let counts_datagrams = self.load.transport == Transport::Udp && self.role != StreamRole::Answer;
        let mut datagrams = counts_datagrams.then(Datagrams::default);
        let outcome = match (self.load.transport, self.role, &mut stats, &mut datagrams) {
            (Transport::Tcp, StreamRole::Send, ..) => tcp::send(&self),
            (Transport::Tcp, StreamRole::Receive, ..) => tcp::receive(&self),
            (Transport::Tcp, StreamRole::Ask, Some(stats), _) => tcp::ask(&self, stats),
            (Transport::Udp, StreamRole::Send, _, Some(counts)) => udp::send(&self, counts),
            (Transport::Udp, StreamRole::Receive, _, Some(counts)) => udp::receive(&self, counts),
            (Transport::Udp, StreamRole::Ask, Some(stats), Some(counts)) => udp::ask(&self, stats, counts),
            (Transport::Tcp, ..) => tcp::answer(&self),
            (Transport::Udp, ..) => udp::answer(&self),
        };
        let ended = (Instant::now(), outcome.err().map(|e| e.to_string()));
        WorkerResult { stats, datagrams, usage: before.since(), ended }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn span(&self) -> MeasuredSpan {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let begin = ns(self.load.ramp_seconds);
        MeasuredSpan { begin, end: begin + ns(self.load.seconds) }
    }

    /// Returns the time in nanoseconds after the epoch.
    fn now(&self) -> u64 {
        crate::load::since(self.epoch)
    }

    fn has_asked_enough(&self) -> bool {
        self.is_over() || self.now() >= self.span().end
    }
}

/// Returns the number of bytes that a call moved; `None` after a signal or a timeout.
fn moved(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(moved) => Ok(Some(moved)),
        Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(None),
        Err(e) => Err(e),
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the other end closed the connection")
}
